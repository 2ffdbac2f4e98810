// Tokens to a query.

import { QueryError } from './errors.js';
import { tokenize } from './lexer.js';

const COMPARISONS = ['=', '<>', '<', '>', '<=', '>='];
const TYPES = { text: 'text', varchar: 'text', number: 'number', float: 'number', integer: 'integer', int: 'integer',
  boolean: 'boolean', bool: 'boolean', date: 'date' };

/** Reads one query; a semicolon may end it. */
export function parse(text) {
  const parser = new Parser(tokenize(text));
  const query = parser.query();
  parser.takeOp(';');
  parser.expectEnd();
  return query;
}

class Parser {
  constructor(tokens) {
    this.tokens = tokens;
    this.index = 0;
  }

  // Tokens.

  get token() {
    return this.tokens[this.index];
  }

  peek(offset = 1) {
    return this.tokens[Math.min(this.index + offset, this.tokens.length - 1)];
  }

  advance() {
    return this.tokens[this.index++];
  }

  isKeyword(...words) {
    return this.token.kind === 'keyword' && words.includes(this.token.value);
  }

  isOp(...operators) {
    return this.token.kind === 'op' && operators.includes(this.token.value);
  }

  takeKeyword(...words) {
    return this.isKeyword(...words) ? this.advance().value : null;
  }

  takeOp(...operators) {
    return this.isOp(...operators) ? this.advance().value : null;
  }

  expectKeyword(word) {
    if (this.takeKeyword(word) === null) this.fail(`expected ${word.toUpperCase()}`);
  }

  expectOp(operator) {
    if (this.takeOp(operator) === null) this.fail(`expected '${operator}'`);
  }

  expectName(what) {
    if (this.token.kind !== 'name') this.fail(`expected ${what}`);
    return this.advance().value;
  }

  expectEnd() {
    if (this.token.kind !== 'end') this.fail('expected the end of the query');
  }

  fail(message) {
    const found = this.token.kind === 'end' ? 'the end' : `'${this.token.value}'`;
    throw new QueryError(`${message}, found ${found}`, this.token.position);
  }

  // Queries.

  query() {
    const ctes = this.takeKeyword('with') ? this.list(() => this.cte()) : [];
    const body = this.setOperation();
    const orderBy = this.orderBy();
    const limit = this.takeKeyword('limit') ? this.wholeNumber('LIMIT') : null;
    const offset = this.takeKeyword('offset') ? this.wholeNumber('OFFSET') : 0;
    return { type: 'Query', ctes, body, orderBy, limit, offset };
  }

  cte() {
    const name = this.expectName('the name of a WITH query');
    this.expectKeyword('as');
    this.expectOp('(');
    const query = this.query();
    this.expectOp(')');
    return { name, query };
  }

  setOperation() {
    let left = this.intersection();
    for (;;) {
      const op = this.takeKeyword('union', 'except');
      if (op === null) return left;
      const all = this.takeKeyword('all') !== null;
      left = { type: 'SetOperation', op, all, left, right: this.intersection() };
    }
  }

  intersection() {
    let left = this.select();
    while (this.takeKeyword('intersect')) {
      const all = this.takeKeyword('all') !== null;
      left = { type: 'SetOperation', op: 'intersect', all, left, right: this.select() };
    }
    return left;
  }

  select() {
    if (this.isOp('(')) {
      this.advance();
      const query = this.query();
      this.expectOp(')');
      return query;
    }
    this.expectKeyword('select');
    const distinct = this.takeKeyword('distinct') !== null;
    const items = this.list(() => this.selectItem());
    const from = this.takeKeyword('from') ? this.from() : null;
    const where = this.takeKeyword('where') ? this.expression() : null;
    const groupBy = this.groupBy();
    const having = this.takeKeyword('having') ? this.expression() : null;
    return { type: 'Select', distinct, items, from, where, groupBy, having };
  }

  selectItem() {
    if (this.takeOp('*')) return { star: true, table: null };
    if (this.token.kind === 'name' && this.peek().value === '.' && this.peek(2).value === '*') {
      const table = this.advance().value;
      this.advance();
      this.advance();
      return { star: true, table };
    }
    const expr = this.expression();
    return { expr, alias: this.alias() };
  }

  alias() {
    if (this.takeKeyword('as')) return this.expectName('a name');
    return this.token.kind === 'name' ? this.advance().value : null;
  }

  groupBy() {
    if (!this.takeKeyword('group')) return [];
    this.expectKeyword('by');
    return this.list(() => this.expression());
  }

  orderBy() {
    if (!this.takeKeyword('order')) return [];
    this.expectKeyword('by');
    return this.list(() => this.sortKey());
  }

  sortKey() {
    const expr = this.expression();
    const descending = this.takeKeyword('asc', 'desc') === 'desc';
    return { expr, descending, nullsFirst: this.nullsFirst(descending) };
  }

  /** Null is above every value, so it comes last, or first in descending order, unless the query says otherwise. */
  nullsFirst(descending) {
    if (!this.takeKeyword('nulls')) return descending;
    const word = this.expectName('FIRST or LAST').toLowerCase();
    if (word !== 'first' && word !== 'last') {
      throw new QueryError(`expected FIRST or LAST, found '${word}'`, this.tokens[this.index - 1].position);
    }
    return word === 'first';
  }

  wholeNumber(what) {
    const { kind, value } = this.token;
    if (kind !== 'number' || !Number.isInteger(value)) this.fail(`expected a whole number after ${what}`);
    return this.advance().value;
  }

  list(item) {
    const items = [item()];
    while (this.takeOp(',')) items.push(item());
    return items;
  }

  // FROM.

  from() {
    let left = this.tableFactor();
    for (;;) {
      if (this.takeOp(',')) {
        left = { type: 'Join', kind: 'cross', left, right: this.tableFactor(), on: null };
        continue;
      }
      const kind = this.joinKind();
      if (kind === null) return left;
      left = this.join(kind, left);
    }
  }

  joinKind() {
    const word = this.takeKeyword('join', 'inner', 'left', 'cross');
    if (word === null) return null;
    if (word !== 'join') {
      if (word === 'left' && this.token.kind === 'name' && this.token.value.toLowerCase() === 'outer') this.advance();
      this.expectKeyword('join');
    }
    return word === 'join' ? 'inner' : word;
  }

  join(kind, left) {
    const right = this.tableFactor();
    if (kind === 'cross') return { type: 'Join', kind, left, right, on: null };
    if (this.takeKeyword('using')) {
      this.expectOp('(');
      const using = this.list(() => this.expectName('a column'));
      this.expectOp(')');
      return { type: 'Join', kind, left, right, using };
    }
    this.expectKeyword('on');
    return { type: 'Join', kind, left, right, on: this.expression() };
  }

  tableFactor() {
    if (this.takeOp('(')) {
      const query = this.query();
      this.expectOp(')');
      const alias = this.alias();
      if (alias === null) this.fail('expected a name for the query in FROM');
      return { type: 'Derived', query, alias };
    }
    const { position } = this.token;
    const name = this.expectName('a table');
    return { type: 'Table', name, alias: this.alias(), position };
  }

  // Expressions, from the loosest binding to the tightest.

  expression() {
    let left = this.conjunction();
    while (this.takeKeyword('or')) left = { type: 'Binary', op: 'or', left, right: this.conjunction() };
    return left;
  }

  conjunction() {
    let left = this.negation();
    while (this.takeKeyword('and')) left = { type: 'Binary', op: 'and', left, right: this.negation() };
    return left;
  }

  negation() {
    if (this.takeKeyword('not')) return { type: 'Unary', op: 'not', operand: this.negation() };
    return this.predicate();
  }

  predicate() {
    let left = this.sum();
    for (;;) {
      const comparison = this.takeOp(...COMPARISONS);
      if (comparison !== null) {
        left = { type: 'Binary', op: comparison, left, right: this.sum() };
        continue;
      }
      const next = this.wordPredicate(left);
      if (next === null) return left;
      left = next;
    }
  }

  wordPredicate(operand) {
    if (this.takeKeyword('is')) {
      const negated = this.takeKeyword('not') !== null;
      this.expectKeyword('null');
      return { type: 'IsNull', operand, negated };
    }
    const negated = this.isKeyword('not') && ['in', 'like', 'between'].includes(this.peek().value);
    if (negated) this.advance();
    if (this.takeKeyword('in')) return this.inList(operand, negated);
    if (this.takeKeyword('like')) return { type: 'Like', operand, pattern: this.sum(), negated };
    if (this.takeKeyword('between')) {
      const low = this.sum();
      this.expectKeyword('and');
      return { type: 'Between', operand, low, high: this.sum(), negated };
    }
    return null;
  }

  inList(operand, negated) {
    this.expectOp('(');
    const inner = this.isKeyword('select', 'with')
      ? { query: this.query() }
      : { items: this.list(() => this.expression()) };
    this.expectOp(')');
    return { type: 'In', operand, ...inner, negated };
  }

  sum() {
    let left = this.product();
    for (;;) {
      const op = this.takeOp('+', '-', '||');
      if (op === null) return left;
      left = { type: 'Binary', op, left, right: this.product() };
    }
  }

  product() {
    let left = this.signed();
    for (;;) {
      const op = this.takeOp('*', '/', '%');
      if (op === null) return left;
      left = { type: 'Binary', op, left, right: this.signed() };
    }
  }

  signed() {
    const op = this.takeOp('-', '+');
    if (op !== null) return { type: 'Unary', op, operand: this.signed() };
    return this.atom();
  }

  atom() {
    const { kind, value } = this.token;
    if (kind === 'number' || kind === 'text') {
      this.advance();
      return { type: 'Literal', value };
    }
    if (kind === 'name') return this.nameOrCall();
    if (kind === 'keyword') return this.keywordAtom();
    if (this.isOp('(')) return this.parenthesised();
    return this.fail('expected an expression');
  }

  keywordAtom() {
    const constants = { null: null, true: true, false: false };
    if (this.token.value in constants) return { type: 'Literal', value: constants[this.advance().value] };
    if (this.takeKeyword('case')) return this.caseExpression();
    if (this.takeKeyword('cast')) return this.cast();
    if (this.takeKeyword('exists')) {
      this.expectOp('(');
      const query = this.query();
      this.expectOp(')');
      return { type: 'Exists', query };
    }
    // LEFT is a function, too.
    if (this.isKeyword('left') && this.peek().value === '(') return this.call();
    return this.fail('expected an expression');
  }

  parenthesised() {
    this.expectOp('(');
    if (this.isKeyword('select', 'with')) {
      const query = this.query();
      this.expectOp(')');
      return { type: 'Subquery', query };
    }
    const inner = this.expression();
    this.expectOp(')');
    return inner;
  }

  nameOrCall() {
    if (this.peek().kind === 'op' && this.peek().value === '(' && !this.token.quoted) return this.call();
    const { value, position } = this.advance();
    if (!this.takeOp('.')) return { type: 'Column', table: null, name: value, position };
    return { type: 'Column', table: value, name: this.expectName('a column'), position };
  }

  call() {
    const { value, position } = this.advance();
    const call = { type: 'Call', name: value.toLowerCase(), args: [], star: false, distinct: false, over: null, position };
    this.expectOp('(');
    if (this.takeOp('*')) {
      call.star = true;
    } else if (!this.isOp(')')) {
      call.distinct = this.takeKeyword('distinct') !== null;
      call.args = this.list(() => this.expression());
    }
    this.expectOp(')');
    if (this.isWord('over') && this.peek().kind === 'op' && this.peek().value === '(') call.over = this.over();
    return call;
  }

  /** OVER and PARTITION are words only where they stand here; elsewhere they are names like any other. */
  isWord(word) {
    return this.token.kind === 'name' && !this.token.quoted && this.token.value.toLowerCase() === word;
  }

  over() {
    this.advance();
    this.expectOp('(');
    let partitionBy = [];
    if (this.isWord('partition')) {
      this.advance();
      this.expectKeyword('by');
      partitionBy = this.list(() => this.expression());
    }
    const orderBy = this.orderBy();
    this.expectOp(')');
    return { partitionBy, orderBy };
  }

  caseExpression() {
    const operand = this.isKeyword('when') ? null : this.expression();
    const branches = [];
    while (this.takeKeyword('when')) {
      const when = this.expression();
      this.expectKeyword('then');
      branches.push({ when, then: this.expression() });
    }
    if (branches.length === 0) this.fail('expected WHEN');
    const otherwise = this.takeKeyword('else') ? this.expression() : null;
    this.expectKeyword('end');
    return { type: 'Case', operand, branches, otherwise };
  }

  cast() {
    this.expectOp('(');
    const operand = this.expression();
    this.expectKeyword('as');
    const { position } = this.token;
    const name = this.expectName('a type').toLowerCase();
    const to = TYPES[name];
    if (to === undefined) throw new QueryError(`there is no type '${name}'`, position);
    this.expectOp(')');
    return { type: 'Cast', operand, to };
  }
}
