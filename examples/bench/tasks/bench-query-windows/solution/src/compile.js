// Expressions to functions of a row.

import { QueryError } from './errors.js';
import { findFunction } from './functions.js';
import { cast, compare, rowKey, tidy, toBoolean, toNumber, toText } from './values.js';

/**
 * Compiles an expression. `scope` tells where columns are; `runQuery` gives the rows of a query inside it, which is
 * run once and only when it is needed.
 */
export function compile(node, scope, runQuery) {
  const inner = (child) => compile(child, scope, runQuery);
  switch (node.type) {
    case 'Literal':
      return () => node.value;
    case 'Slot':
      return (row) => row[node.index];
    case 'Column': {
      const index = scope.resolve(node);
      return (row) => row[index];
    }
    case 'Unary':
      return compileUnary(node, inner);
    case 'Binary':
      return compileBinary(node, inner);
    case 'Between':
      return compileBetween(node, inner);
    case 'In':
      return compileIn(node, inner, runQuery);
    case 'Like':
      return compileLike(node, inner);
    case 'IsNull': {
      const operand = inner(node.operand);
      return (row) => (operand(row) === null) !== node.negated;
    }
    case 'Case':
      return compileCase(node, inner);
    case 'Cast': {
      const operand = inner(node.operand);
      return (row) => cast(operand(row), node.to);
    }
    case 'Call':
      return compileCall(node, inner);
    case 'Subquery':
      return compileSubquery(node, runQuery);
    case 'Exists': {
      const rows = once(() => runQuery(node.query).rows);
      return () => rows().length > 0;
    }
    default:
      throw new Error(`cannot compile a ${node.type}`);
  }
}

function once(compute) {
  let result = null;
  return () => (result ??= compute());
}

function compileUnary({ op, operand }, inner) {
  const value = inner(operand);
  if (op === 'not') {
    return (row) => {
      const condition = toBoolean(value(row), 'NOT');
      return condition === null ? null : !condition;
    };
  }
  return (row) => {
    const number = toNumber(value(row), op);
    return number === null || op === '+' ? number : -number;
  };
}

const ARITHMETIC = {
  '+': (x, y) => x + y,
  '-': (x, y) => x - y,
  '*': (x, y) => x * y,
  '/': (x, y) => (y === 0 ? null : x / y),
  '%': (x, y) => (y === 0 ? null : x % y),
};

const COMPARISON = {
  '=': (order) => order === 0,
  '<>': (order) => order !== 0,
  '<': (order) => order < 0,
  '>': (order) => order > 0,
  '<=': (order) => order <= 0,
  '>=': (order) => order >= 0,
};

function compileBinary({ op, left, right }, inner) {
  const first = inner(left);
  const second = inner(right);
  if (op === 'and' || op === 'or') return compileLogic(op, first, second);
  if (op === '||') {
    return (row) => {
      const [x, y] = [toText(first(row)), toText(second(row))];
      return x === null || y === null ? null : x + y;
    };
  }
  if (op in COMPARISON) {
    return (row) => {
      const [x, y] = [first(row), second(row)];
      return x === null || y === null ? null : COMPARISON[op](compare(x, y));
    };
  }
  return (row) => {
    const [x, y] = [toNumber(first(row), op), toNumber(second(row), op)];
    if (x === null || y === null) return null;
    const result = ARITHMETIC[op](x, y);
    return result === null ? null : tidy(result);
  };
}

/** AND and OR with three values: what is unknown stays so unless the other side decides. */
function compileLogic(op, first, second) {
  const deciding = op === 'or';
  return (row) => {
    const left = toBoolean(first(row), op.toUpperCase());
    if (left === deciding) return deciding;
    const right = toBoolean(second(row), op.toUpperCase());
    if (right === deciding) return deciding;
    return left === null || right === null ? null : !deciding;
  };
}

function compileBetween(node, inner) {
  const [operand, low, high] = [inner(node.operand), inner(node.low), inner(node.high)];
  return (row) => {
    const [value, least, most] = [operand(row), low(row), high(row)];
    if (value === null || least === null || most === null) return null;
    return (compare(value, least) >= 0 && compare(value, most) <= 0) !== node.negated;
  };
}

function compileIn(node, inner, runQuery) {
  const operand = inner(node.operand);
  const decide = (value, found, hasNull) => {
    if (found) return !node.negated;
    return value === null || hasNull ? null : node.negated;
  };
  if (node.items) {
    const items = node.items.map(inner);
    return (row) => {
      const value = operand(row);
      const values = items.map((item) => item(row));
      const found = value !== null && values.some((other) => other !== null && compare(value, other) === 0);
      return decide(value, found, values.includes(null));
    };
  }
  const known = once(() => {
    const { columns, rows } = runQuery(node.query);
    if (columns.length !== 1) throw new QueryError('the query after IN must have one column');
    return { keys: new Set(rows.map(rowKey)), hasNull: rows.some(([value]) => value === null) };
  });
  return (row) => {
    const value = operand(row);
    const { keys, hasNull } = known();
    if (keys.size === 0) return node.negated;
    return decide(value, value !== null && keys.has(rowKey([value])), hasNull);
  };
}

function compileLike(node, inner) {
  const [operand, pattern] = [inner(node.operand), inner(node.pattern)];
  const expressions = new Map();
  return (row) => {
    const [text, wanted] = [toText(operand(row)), toText(pattern(row))];
    if (text === null || wanted === null) return null;
    if (!expressions.has(wanted)) expressions.set(wanted, likeExpression(wanted));
    return expressions.get(wanted).test(text) !== node.negated;
  };
}

/** `%` is any text and `_` any character; case does not count. */
function likeExpression(pattern) {
  const source = pattern
    .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replaceAll('%', '.*')
    .replaceAll('_', '.');
  return new RegExp(`^${source}$`, 'isu');
}

function compileCase(node, inner) {
  const operand = node.operand && inner(node.operand);
  const branches = node.branches.map(({ when, then }) => ({ when: inner(when), then: inner(then) }));
  const otherwise = node.otherwise ? inner(node.otherwise) : () => null;
  return (row) => {
    const subject = operand && operand(row);
    for (const { when, then } of branches) {
      const value = when(row);
      const chosen = operand
        ? subject !== null && value !== null && compare(subject, value) === 0
        : toBoolean(value, 'WHEN') === true;
      if (chosen) return then(row);
    }
    return otherwise(row);
  };
}

function compileCall(node, inner) {
  if (node.over) throw new QueryError(`${node.name}() OVER is not allowed here`, node.position);
  const { body, strict } = findFunction(node);
  const args = node.args.map(inner);
  return (row) => {
    const values = args.map((arg) => arg(row));
    return strict && values.includes(null) ? null : body(...values);
  };
}

function compileSubquery(node, runQuery) {
  const value = once(() => {
    const { columns, rows } = runQuery(node.query);
    if (columns.length !== 1) throw new QueryError('a query used as a value must have one column');
    if (rows.length > 1) throw new QueryError('a query used as a value gave more than one row');
    return { value: rows.length === 0 ? null : rows[0][0] };
  });
  return () => value().value;
}
