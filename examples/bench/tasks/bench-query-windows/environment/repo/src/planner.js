// A query to a plan: `{ root, columns }`, where `columns` are the headings.

import { findAggregate, isAggregate } from './aggregates.js';
import { rewrite, walk } from './ast.js';
import { compile } from './compile.js';
import { QueryError } from './errors.js';
import { planFrom } from './joins.js';
import * as operators from './operators.js';
import { printExpression, printSortKeys } from './printer.js';
import { Scope, checkHeadings } from './scope.js';

/** Plans queries over the tables of a catalog. */
export class Planner {
  constructor(catalog, ctes = new Map()) {
    this.catalog = catalog;
    this.ctes = ctes;
    this.runQuery = (query) => this.run(query);
  }

  /** All rows of a query. */
  run(query) {
    const { root, columns } = this.plan(query);
    return { columns, rows: [...root.rows()] };
  }

  plan(query) {
    const planner = query.ctes.length === 0 ? this : this.withCtes(query.ctes);
    if (query.body.type === 'Select') return planner.planSelect(query.body, query);
    return planner.planCombined(query.body, query);
  }

  /** A planner that also knows the queries of a WITH. Each knows those before it, and is run once. */
  withCtes(ctes) {
    let planner = this;
    for (const { name, query } of ctes) {
      const { columns, rows } = planner.run(query);
      checkHeadings(columns, name);
      planner = new Planner(this.catalog, new Map(planner.ctes).set(name.toLowerCase(), { columns, rows }));
    }
    return planner;
  }

  compile(expr, scope) {
    return compile(expr, scope, this.runQuery);
  }

  // UNION and its like.

  planCombined(body, query) {
    const { root, columns } = this.planBody(body);
    const scope = new Scope(columns.map((name) => ({ table: null, name })));
    const keys = query.orderBy.map((key) => ({ ...key, index: outputIndex(key.expr, columns, scope) }));
    return { root: this.ordered(root, keys, query), columns };
  }

  planBody(body) {
    if (body.type === 'Query') return this.plan(body);
    if (body.type === 'Select') return this.planSelect(body, { orderBy: [], limit: null, offset: 0 });
    const left = this.planBody(body.left);
    const right = this.planBody(body.right);
    if (left.columns.length !== right.columns.length) {
      throw new QueryError(`both sides of ${body.op.toUpperCase()} must have the same number of columns`);
    }
    return { root: new operators.SetOperation(left.root, right.root, body.op, body.all), columns: left.columns };
  }

  ordered(root, keys, { orderBy, limit, offset }) {
    let step = root;
    if (keys.length > 0) step = new operators.Sort(step, keys, printSortKeys(orderBy));
    if (limit !== null || offset > 0) step = new operators.Limit(step, limit, offset);
    return step;
  }

  // SELECT.

  planSelect(select, query) {
    let { root, scope } = planFrom(this, select.from);
    if (select.where) {
      refuseAggregates(select.where, 'WHERE');
      root = new operators.Filter(root, this.compile(select.where, scope), printExpression(select.where));
    }
    const items = select.items.flatMap((item) => (item.star ? scope.expand(item.table) : [item]));
    const sortKeys = query.orderBy.map((key) => ({ ...key, expr: sortExpression(key.expr, items) }));
    let shown = { items, sortKeys, having: select.having };
    if (needsGroups(select, shown)) {
      ({ root, scope, shown } = this.planGroups(root, scope, select, shown));
    } else if (select.having) {
      throw new QueryError('HAVING needs GROUP BY or an aggregate');
    }
    return this.planOutput(root, scope, { select, query, items, shown });
  }

  /** Groups the rows, and lets the rest of the query refer to the keys and aggregates. */
  planGroups(root, scope, select, shown) {
    const keys = select.groupBy.map((expr) => groupExpression(expr, shown.items, scope));
    keys.forEach((key) => refuseAggregates(key, 'GROUP BY'));
    const calls = collectAggregates(shown);
    const group = new operators.Group(root, {
      keys: keys.map((key) => this.compile(key, scope)),
      aggregates: calls.map((call) => ({ call, args: call.args.map((arg) => this.compile(arg, scope)) })),
      label: groupLabel(keys, calls),
    });
    const labels = [...keys, ...calls].map((node) => identity(node, scope));
    const replace = (node) => {
      const index = labels.indexOf(identity(node, scope));
      return index < 0 ? null : { type: 'Slot', index, label: printExpression(node) };
    };
    const replaced = (expr) => ungroupedRefused(rewrite(expr, replace));
    let step = group;
    if (shown.having) {
      const condition = this.compile(replaced(shown.having), new Scope([]));
      step = new operators.Filter(step, condition, printExpression(shown.having));
    }
    const items = shown.items.map((item) => ({ ...item, expr: replaced(item.expr) }));
    const sortKeys = shown.sortKeys.map((key) => ({ ...key, expr: replaced(key.expr) }));
    return { root: step, scope: new Scope([]), shown: { items, sortKeys } };
  }

  /** The columns of the result, DISTINCT, the order, and LIMIT. */
  planOutput(root, scope, { select, query, items, shown }) {
    const columns = items.map(({ alias, expr }) => alias ?? heading(expr));
    const width = columns.length;
    const texts = shown.items.map(({ expr }) => identity(expr, scope));
    const expressions = shown.items.map(({ expr }) => expr);
    const keys = shown.sortKeys.map((key) => {
      let index = texts.indexOf(identity(key.expr, scope));
      if (index < 0) {
        if (select.distinct) throw new QueryError('with DISTINCT, ORDER BY must name columns that are selected');
        index = expressions.push(key.expr) - 1;
      }
      return { ...key, index };
    });
    const label = items.map(({ expr }) => printExpression(expr)).join(', ');
    let step = new operators.Project(root, expressions.map((expr) => this.compile(expr, scope)), label);
    if (select.distinct) step = new operators.Distinct(step, width);
    step = this.ordered(step, keys, query);
    if (expressions.length > width) step = new operators.Take(step, width);
    return { root: step, columns };
  }
}

/** The heading of a column that was given no name. */
function heading(expr) {
  return expr.type === 'Column' ? expr.name : printExpression(expr);
}

/** Tells equal expressions: by their text, with columns by their place. */
function identity(node, scope) {
  const place = (index) => ({ type: 'Slot', index, label: `#${index}` });
  return printExpression(rewrite(node, (part) => {
    if (part.type === 'Slot') return place(part.index);
    return part.type === 'Column' ? place(scope.resolve(part)) : null;
  }));
}

/** ORDER BY may give a position, a name from SELECT, or any expression. */
function sortExpression(expr, items) {
  if (expr.type === 'Literal' && typeof expr.value === 'number') return itemAt(expr.value, items, 'ORDER BY');
  return named(expr, items) ?? expr;
}

/** GROUP BY likewise, but a column of the tables goes before a name from SELECT. */
function groupExpression(expr, items, scope) {
  if (expr.type === 'Literal' && typeof expr.value === 'number') return itemAt(expr.value, items, 'GROUP BY');
  if (expr.type === 'Column' && expr.table === null && scope.has(expr.name)) return expr;
  return named(expr, items) ?? expr;
}

function itemAt(position, items, clause) {
  const item = items[position - 1];
  if (item === undefined) throw new QueryError(`${clause} ${position}: there are ${items.length} columns`);
  return item.expr;
}

function named(expr, items) {
  if (expr.type !== 'Column' || expr.table !== null) return null;
  const found = items.find(({ alias }) => alias && alias.toLowerCase() === expr.name.toLowerCase());
  return found ? found.expr : null;
}

function outputIndex(expr, columns, scope) {
  if (expr.type === 'Literal' && typeof expr.value === 'number') {
    if (columns[expr.value - 1] === undefined) {
      throw new QueryError(`ORDER BY ${expr.value}: there are ${columns.length} columns`);
    }
    return expr.value - 1;
  }
  if (expr.type === 'Column' && expr.table === null) return scope.resolve(expr);
  throw new QueryError('after UNION and its like, ORDER BY must name columns of the result');
}

function needsGroups(select, { items, sortKeys, having }) {
  if (select.groupBy.length > 0) return true;
  const all = [...items, ...sortKeys].map(({ expr }) => expr);
  return [...all, ...(having ? [having] : [])].some(hasAggregate);
}

function hasAggregate(expr) {
  return [...walk(expr)].some((node) => node.type === 'Call' && isAggregate(node.name));
}

function refuseAggregates(expr, clause) {
  for (const node of walk(expr)) {
    if (node.type === 'Call' && isAggregate(node.name)) {
      throw new QueryError(`${node.name}() is not allowed in ${clause}`, node.position);
    }
  }
}

/** The different aggregate calls of a query. */
function collectAggregates({ items, sortKeys, having }) {
  const found = new Map();
  const all = [...items, ...sortKeys].map(({ expr }) => expr);
  for (const expr of having ? [...all, having] : all) {
    for (const node of walk(expr)) {
      if (node.type !== 'Call' || !isAggregate(node.name)) continue;
      findAggregate(node);
      node.args.forEach((arg) => refuseAggregates(arg, `${node.name}()`));
      found.set(printExpression(node), node);
    }
  }
  return [...found.values()];
}

/** After grouping only keys and aggregates are left to refer to. */
function ungroupedRefused(expr) {
  for (const node of walk(expr)) {
    if (node.type === 'Column') {
      const shown = printExpression(node);
      throw new QueryError(`'${shown}' must be in GROUP BY or inside an aggregate`, node.position);
    }
  }
  return expr;
}

function groupLabel(keys, calls) {
  const by = keys.length > 0 ? `by ${keys.map(printExpression).join(', ')}` : 'all';
  return calls.length > 0 ? `${by}: ${calls.map(printExpression).join(', ')}` : by;
}
