// A plan as text, the last step first.

/** The steps of a plan, indented by depth. */
export function explain(root) {
  const lines = [];
  const add = (step, depth) => {
    lines.push(`${'  '.repeat(depth)}${step.describe()}`);
    step.inputs.forEach((input) => add(input, depth + 1));
  };
  add(root, 0);
  return lines.join('\n');
}
