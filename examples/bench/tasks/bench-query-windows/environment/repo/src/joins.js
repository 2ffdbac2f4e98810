// FROM: tables, queries as tables, and joins.

import { walk } from './ast.js';
import { QueryError } from './errors.js';
import * as operators from './operators.js';
import { printExpression } from './printer.js';
import { Scope, checkHeadings } from './scope.js';

/** The plan of a FROM clause: `{ root, scope }`. */
export function planFrom(planner, from) {
  if (from === null) return { root: new operators.SingleRow(), scope: new Scope([]) };
  if (from.type === 'Table') return planTable(planner, from);
  if (from.type === 'Derived') return planDerived(planner, from);
  return planJoin(planner, from);
}

function planTable(planner, { name, alias, position }) {
  const table = planner.ctes.get(name.toLowerCase()) ?? planner.catalog.table(name, position);
  const columns = table.columns.map((column) => ({ table: alias ?? name, name: column }));
  return { root: new operators.Scan(name, table), scope: new Scope(columns) };
}

function planDerived(planner, { query, alias }) {
  const { root, columns } = planner.plan(query);
  checkHeadings(columns, alias);
  return { root, scope: new Scope(columns.map((name) => ({ table: alias, name }))) };
}

function planJoin(planner, join) {
  const left = planFrom(planner, join.left);
  const right = planFrom(planner, join.right);
  refuseSameNames(left.scope, right.scope);
  const scope = Scope.joined(left.scope, right.scope);
  const rightWidth = right.scope.columns.length;
  if (join.using) return joinUsing(join, { left, right, scope, rightWidth });
  if (!join.on) {
    return { root: new operators.LoopJoin(left.root, right.root, { kind: join.kind, condition: null, rightWidth }), scope };
  }
  const { pairs, rest } = splitCondition(join.on, left.scope, right.scope);
  const label = printExpression(join.on);
  if (pairs.length === 0) {
    const condition = planner.compile(join.on, scope);
    const root = new operators.LoopJoin(left.root, right.root, { kind: join.kind, condition, rightWidth, label });
    return { root, scope };
  }
  const root = new operators.HashJoin(left.root, right.root, {
    kind: join.kind,
    leftKeys: pairs.map(([expr]) => planner.compile(expr, left.scope)),
    rightKeys: pairs.map(([, expr]) => planner.compile(expr, right.scope)),
    rest: rest === null ? null : planner.compile(rest, scope),
    rightWidth,
    label,
  });
  return { root, scope };
}

function refuseSameNames(left, right) {
  const names = (scope) => new Set(scope.columns.map(({ table }) => table.toLowerCase()));
  const taken = names(left);
  for (const name of names(right)) {
    if (taken.has(name)) throw new QueryError(`two tables are called '${name}'; give one of them another name with AS`);
  }
}

/** USING: the right side's columns are still there by their table, but not part of `*`. */
function joinUsing(join, { left, right, scope, rightWidth }) {
  const at = (side, name) => side.scope.resolve({ table: null, name, position: null });
  const pairs = join.using.map((name) => [at(left, name), at(right, name)]);
  const hidden = new Set(pairs.map(([, index]) => index + left.scope.columns.length));
  const columns = scope.columns.map((column, index) => (hidden.has(index) ? { ...column, hidden: true } : column));
  const root = new operators.HashJoin(left.root, right.root, {
    kind: join.kind,
    leftKeys: pairs.map(([index]) => (row) => row[index]),
    rightKeys: pairs.map(([, index]) => (row) => row[index]),
    rest: null,
    rightWidth,
    label: `(${join.using.join(', ')})`,
  });
  return { root, scope: new Scope(columns) };
}

/** The parts of a condition that say `left = right`, and what is left of it. */
function splitCondition(on, left, right) {
  const pairs = [];
  let rest = null;
  for (const part of conjuncts(on)) {
    const pair = equalSides(part, left, right);
    if (pair) pairs.push(pair);
    else rest = rest === null ? part : { type: 'Binary', op: 'and', left: rest, right: part };
  }
  return { pairs, rest };
}

function conjuncts(expr) {
  if (expr.type === 'Binary' && expr.op === 'and') return [...conjuncts(expr.left), ...conjuncts(expr.right)];
  return [expr];
}

function equalSides(expr, left, right) {
  if (expr.type !== 'Binary' || expr.op !== '=') return null;
  if (belongs(expr.left, left, right) && belongs(expr.right, right, left)) return [expr.left, expr.right];
  if (belongs(expr.left, right, left) && belongs(expr.right, left, right)) return [expr.right, expr.left];
  return null;
}

/** Whether all columns of an expression, and at least one, are on one side only. */
function belongs(expr, side, other) {
  const columns = [...walk(expr)].filter((node) => node.type === 'Column');
  return columns.length > 0 && columns.every(
    ({ table, name }) => side.matches(table, name).length === 1 && other.matches(table, name).length === 0,
  );
}
