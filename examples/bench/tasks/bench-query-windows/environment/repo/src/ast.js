// The parts of a query, and how to walk over expressions.
//
// Expressions are plain objects with a `type`:
//   Literal { value }                         Column { table, name, position }
//   Unary { op, operand }                     Binary { op, left, right }
//   Between { operand, low, high, negated }   In { operand, items | query, negated }
//   Like { operand, pattern, negated }        IsNull { operand, negated }
//   Case { operand, branches, otherwise }     Cast { operand, to }
//   Call { name, args, star, distinct, position }
//   Subquery { query }                        Exists { query }
//   Slot { index, label }: a value that an earlier step of the plan has put into the row

/** The expressions directly below one. Queries inside it are worlds of their own and not entered. */
export function children(node) {
  switch (node.type) {
    case 'Unary':
    case 'Cast':
    case 'IsNull':
      return [node.operand];
    case 'Binary':
      return [node.left, node.right];
    case 'Between':
      return [node.operand, node.low, node.high];
    case 'In':
      return node.items ? [node.operand, ...node.items] : [node.operand];
    case 'Like':
      return [node.operand, node.pattern];
    case 'Case':
      return [
        ...(node.operand ? [node.operand] : []),
        ...node.branches.flatMap((branch) => [branch.when, branch.then]),
        ...(node.otherwise ? [node.otherwise] : []),
      ];
    case 'Call':
      return node.args;
    default:
      return [];
  }
}

/** A copy of an expression with everything directly below it replaced. */
export function mapChildren(node, change) {
  switch (node.type) {
    case 'Unary':
    case 'Cast':
    case 'IsNull':
      return { ...node, operand: change(node.operand) };
    case 'Binary':
      return { ...node, left: change(node.left), right: change(node.right) };
    case 'Between':
      return { ...node, operand: change(node.operand), low: change(node.low), high: change(node.high) };
    case 'In':
      return { ...node, operand: change(node.operand), ...(node.items && { items: node.items.map(change) }) };
    case 'Like':
      return { ...node, operand: change(node.operand), pattern: change(node.pattern) };
    case 'Case':
      return {
        ...node,
        operand: node.operand && change(node.operand),
        branches: node.branches.map(({ when, then }) => ({ when: change(when), then: change(then) })),
        otherwise: node.otherwise && change(node.otherwise),
      };
    case 'Call':
      return { ...node, args: node.args.map(change) };
    default:
      return node;
  }
}

/** An expression and all below it, the outer before the inner. */
export function* walk(node) {
  yield node;
  for (const child of children(node)) yield* walk(child);
}

/** Replaces the outermost expressions for which `replace` gives something. */
export function rewrite(node, replace) {
  const replaced = replace(node);
  return replaced ?? mapChildren(node, (child) => rewrite(child, replace));
}
