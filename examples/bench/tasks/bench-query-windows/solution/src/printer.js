// Queries and expressions as text: for `tabq fmt`, for headings, and to tell equal expressions.

import { RESERVED } from './lexer.js';

const LEVELS = { or: 1, and: 2, not: 3, '=': 4, '<>': 4, '<': 4, '>': 4, '<=': 4, '>=': 4,
  '+': 5, '-': 5, '||': 5, '*': 6, '/': 6, '%': 6 };
const PREDICATE = 4;
const SIGN = 7;
const ATOM = 9;
const INDENT = '  ';

/** An expression on one line. */
export function printExpression(node) {
  return print(node).text;
}

/** A name as a query writes it. */
export function printName(name) {
  const plain = /^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) && !RESERVED.has(name.toLowerCase());
  return plain ? name : `"${name.replaceAll('"', '""')}"`;
}

function print(node) {
  switch (node.type) {
    case 'Literal':
      return atom(printLiteral(node.value));
    case 'Column':
      return atom((node.table ? `${printName(node.table)}.` : '') + printName(node.name));
    case 'Slot':
      return atom(node.label);
    case 'Unary':
      return printUnary(node);
    case 'Binary':
      return printBinary(node);
    case 'Between':
      return predicate(`${inside(node.operand, 5)}${not(node)} BETWEEN ${inside(node.low, 5)} AND ${inside(node.high, 5)}`);
    case 'In':
      return predicate(`${inside(node.operand, 5)}${not(node)} IN (${inList(node)})`);
    case 'Like':
      return predicate(`${inside(node.operand, 5)}${not(node)} LIKE ${inside(node.pattern, 5)}`);
    case 'IsNull':
      return predicate(`${inside(node.operand, 5)} IS${not(node)} NULL`);
    case 'Case':
      return atom(printCase(node));
    case 'Cast':
      return atom(`CAST(${printExpression(node.operand)} AS ${node.to.toUpperCase()})`);
    case 'Call':
      return atom(printCall(node));
    case 'Subquery':
      return atom(`(${printInline(node.query)})`);
    case 'Exists':
      return atom(`EXISTS (${printInline(node.query)})`);
    default:
      throw new Error(`cannot print a ${node.type}`);
  }
}

const atom = (text) => ({ text, level: ATOM });
const predicate = (text) => ({ text, level: PREDICATE });
const not = (node) => (node.negated ? ' NOT' : '');

function inside(node, least) {
  const { text, level } = print(node);
  return level < least ? `(${text})` : text;
}

function printLiteral(value) {
  if (value === null) return 'NULL';
  if (typeof value === 'string') return `'${value.replaceAll("'", "''")}'`;
  return String(value).toUpperCase();
}

function printUnary({ op, operand }) {
  if (op === 'not') return { text: `NOT ${inside(operand, LEVELS.not)}`, level: LEVELS.not };
  const text = inside(operand, SIGN);
  return { text: text.startsWith(op) ? `${op}(${text})` : op + text, level: SIGN };
}

function printBinary({ op, left, right }) {
  const level = LEVELS[op];
  return { text: `${inside(left, level)} ${op.toUpperCase()} ${inside(right, level + 1)}`, level };
}

function printCase({ operand, branches, otherwise }) {
  const parts = ['CASE'];
  if (operand) parts.push(printExpression(operand));
  for (const { when, then } of branches) {
    parts.push(`WHEN ${printExpression(when)} THEN ${printExpression(then)}`);
  }
  if (otherwise) parts.push(`ELSE ${printExpression(otherwise)}`);
  return [...parts, 'END'].join(' ');
}

function printCall({ name, args, star, distinct, over }) {
  const inner = star ? '*' : args.map(printExpression).join(', ');
  const call = `${name}(${distinct ? 'DISTINCT ' : ''}${inner})`;
  return over ? `${call} OVER (${printOver(over)})` : call;
}

function printOver({ partitionBy, orderBy }) {
  const parts = [];
  if (partitionBy.length > 0) parts.push(`PARTITION BY ${partitionBy.map(printExpression).join(', ')}`);
  if (orderBy.length > 0) parts.push(`ORDER BY ${printSortKeys(orderBy)}`);
  return parts.join(' ');
}

function inList(node) {
  return node.query ? printInline(node.query) : node.items.map(printExpression).join(', ');
}

const printInline = (query) => printQuery(query).replace(/\n\s*/g, ' ');

/** A list of sort keys. What is the default anyway is left out. */
export function printSortKeys(keys) {
  return keys.map(({ expr, descending, nullsFirst }) => {
    const order = descending ? ' DESC' : '';
    const nulls = nullsFirst === descending ? '' : ` NULLS ${nullsFirst ? 'FIRST' : 'LAST'}`;
    return printExpression(expr) + order + nulls;
  }).join(', ');
}

/** A whole query, a clause per line. */
export function printQuery(query) {
  return queryLines(query).join('\n');
}

function queryLines(query) {
  const lines = [];
  query.ctes.forEach(({ name, query: inner }, index) => {
    const last = index === query.ctes.length - 1;
    lines.push(`${index === 0 ? 'WITH ' : ''}${printName(name)} AS (`);
    lines.push(...indented(queryLines(inner)), last ? ')' : '),');
  });
  lines.push(...bodyLines(query.body));
  if (query.orderBy.length > 0) lines.push(`ORDER BY ${printSortKeys(query.orderBy)}`);
  if (query.limit !== null) lines.push(`LIMIT ${query.limit}`);
  if (query.offset > 0) lines.push(`OFFSET ${query.offset}`);
  return lines;
}

const indented = (lines) => lines.map((line) => INDENT + line);

function bodyLines(body) {
  if (body.type === 'Query') return ['(', ...indented(queryLines(body)), ')'];
  if (body.type === 'SetOperation') {
    const word = body.op.toUpperCase() + (body.all ? ' ALL' : '');
    return [...bodyLines(body.left), word, ...bodyLines(body.right)];
  }
  return selectLines(body);
}

function selectLines(select) {
  const lines = [`SELECT ${select.distinct ? 'DISTINCT ' : ''}${select.items.map(printItem).join(', ')}`];
  if (select.from) lines.push(...fromLines(select.from));
  if (select.where) lines.push(`WHERE ${printExpression(select.where)}`);
  if (select.groupBy.length > 0) lines.push(`GROUP BY ${select.groupBy.map(printExpression).join(', ')}`);
  if (select.having) lines.push(`HAVING ${printExpression(select.having)}`);
  return lines;
}

function printItem(item) {
  if (item.star) return item.table ? `${printName(item.table)}.*` : '*';
  return printExpression(item.expr) + (item.alias ? ` AS ${printName(item.alias)}` : '');
}

function fromLines(from) {
  if (from.type !== 'Join') return [`FROM ${printFactor(from)}`];
  const word = { inner: 'JOIN', left: 'LEFT JOIN', cross: 'CROSS JOIN' }[from.kind];
  let condition = '';
  if (from.using) condition = ` USING (${from.using.map(printName).join(', ')})`;
  else if (from.on) condition = ` ON ${printExpression(from.on)}`;
  return [...fromLines(from.left), `${word} ${printFactor(from.right)}${condition}`];
}

function printFactor(factor) {
  if (factor.type === 'Derived') return `(${printInline(factor.query)}) AS ${printName(factor.alias)}`;
  return printName(factor.name) + (factor.alias ? ` AS ${printName(factor.alias)}` : '');
}
