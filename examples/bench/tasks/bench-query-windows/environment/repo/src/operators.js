// The steps of a plan. Each has `rows()`, which gives its rows one by one, `inputs`, and `describe()` for EXPLAIN.

import { accumulator } from './aggregates.js';
import { compareForSort, rowKey } from './values.js';

/** The rows of a table. */
export class Scan {
  constructor(name, table) {
    this.name = name;
    this.table = table;
    this.inputs = [];
  }

  rows() {
    return this.table.rows;
  }

  describe() {
    return `scan ${this.name} (${this.table.rows.length} rows)`;
  }
}

/** One row without columns: SELECT without FROM. */
export class SingleRow {
  inputs = [];

  rows() {
    return [[]];
  }

  describe() {
    return 'single row';
  }
}

/** The rows for which a condition is true. */
export class Filter {
  constructor(input, condition, label) {
    this.inputs = [input];
    this.condition = condition;
    this.label = label;
  }

  *rows() {
    for (const row of this.inputs[0].rows()) {
      const kept = this.condition(row);
      if (kept === true || (typeof kept === 'number' && kept !== 0)) yield row;
    }
  }

  describe() {
    return `filter ${this.label}`;
  }
}

/** Every row of the left with every matching row of the right, found by trying. */
export class LoopJoin {
  constructor(left, right, { kind, condition, rightWidth, label }) {
    this.inputs = [left, right];
    this.kind = kind;
    this.condition = condition;
    this.rightWidth = rightWidth;
    this.label = label;
  }

  *rows() {
    const right = [...this.inputs[1].rows()];
    const missing = new Array(this.rightWidth).fill(null);
    for (const row of this.inputs[0].rows()) {
      let matched = false;
      for (const other of right) {
        const joined = [...row, ...other];
        if (this.condition !== null && this.condition(joined) !== true) continue;
        matched = true;
        yield joined;
      }
      if (!matched && this.kind === 'left') yield [...row, ...missing];
    }
  }

  describe() {
    return `${this.kind} join (loop)${this.label ? ` on ${this.label}` : ''}`;
  }
}

/** The same, found by equal keys. A key with a null in it matches nothing. */
export class HashJoin {
  constructor(left, right, { kind, leftKeys, rightKeys, rest, rightWidth, label }) {
    this.inputs = [left, right];
    this.kind = kind;
    this.leftKeys = leftKeys;
    this.rightKeys = rightKeys;
    this.rest = rest;
    this.rightWidth = rightWidth;
    this.label = label;
  }

  *rows() {
    const buckets = this.buckets();
    const missing = new Array(this.rightWidth).fill(null);
    for (const row of this.inputs[0].rows()) {
      const key = this.leftKeys.map((part) => part(row));
      const candidates = key.includes(null) ? [] : buckets.get(rowKey(key)) ?? [];
      let matched = false;
      for (const other of candidates) {
        const joined = [...row, ...other];
        if (this.rest !== null && this.rest(joined) !== true) continue;
        matched = true;
        yield joined;
      }
      if (!matched && this.kind === 'left') yield [...row, ...missing];
    }
  }

  buckets() {
    const buckets = new Map();
    for (const row of this.inputs[1].rows()) {
      const key = rowKey(this.rightKeys.map((part) => part(row)));
      if (!buckets.has(key)) buckets.set(key, []);
      buckets.get(key).push(row);
    }
    return buckets;
  }

  describe() {
    return `${this.kind} join (hash) on ${this.label}`;
  }
}

/** A row per group: its keys, then its aggregates. Without keys there is one group, even of no rows. */
export class Group {
  constructor(input, { keys, aggregates, label }) {
    this.inputs = [input];
    this.keys = keys;
    this.aggregates = aggregates;
    this.label = label;
  }

  *rows() {
    const groups = new Map();
    if (this.keys.length === 0) groups.set(rowKey([]), this.newGroup([]));
    for (const row of this.inputs[0].rows()) {
      const values = this.keys.map((key) => key(row));
      const key = rowKey(values);
      if (!groups.has(key)) groups.set(key, this.newGroup(values));
      const group = groups.get(key);
      this.aggregates.forEach(({ args }, index) => {
        group.accumulators[index].add(...args.map((arg) => arg(row)));
      });
    }
    for (const { values, accumulators } of groups.values()) {
      yield [...values, ...accumulators.map((one) => one.result())];
    }
  }

  newGroup(values) {
    return { values, accumulators: this.aggregates.map(({ call }) => accumulator(call)) };
  }

  describe() {
    return `group ${this.label}`;
  }
}

/** Other columns, worked out from each row. */
export class Project {
  constructor(input, expressions, label) {
    this.inputs = [input];
    this.expressions = expressions;
    this.label = label;
  }

  *rows() {
    for (const row of this.inputs[0].rows()) yield this.expressions.map((expression) => expression(row));
  }

  describe() {
    return `project ${this.label}`;
  }
}

/** Each row once, by its first `width` columns. */
export class Distinct {
  constructor(input, width) {
    this.inputs = [input];
    this.width = width;
  }

  *rows() {
    const seen = new Set();
    for (const row of this.inputs[0].rows()) {
      const key = rowKey(row.slice(0, this.width));
      if (seen.has(key)) continue;
      seen.add(key);
      yield row;
    }
  }

  describe() {
    return 'distinct';
  }
}

/** Rows in order. Rows that are equal stay in the order in which they came. */
export class Sort {
  constructor(input, keys, label) {
    this.inputs = [input];
    this.keys = keys;
    this.label = label;
  }

  rows() {
    return [...this.inputs[0].rows()].sort((left, right) => {
      for (const { index, ...direction } of this.keys) {
        const order = compareForSort(left[index], right[index], direction);
        if (order !== 0) return order;
      }
      return 0;
    });
  }

  describe() {
    return `sort ${this.label}`;
  }
}

/** Some of the rows. */
export class Limit {
  constructor(input, limit, offset) {
    this.inputs = [input];
    this.limit = limit;
    this.offset = offset;
  }

  *rows() {
    if (this.limit === 0) return;
    let index = 0;
    for (const row of this.inputs[0].rows()) {
      if (index++ < this.offset) continue;
      yield row;
      if (this.limit !== null && index >= this.offset + this.limit) return;
    }
  }

  describe() {
    const limit = this.limit === null ? '' : ` ${this.limit}`;
    return `limit${limit}${this.offset > 0 ? ` offset ${this.offset}` : ''}`;
  }
}

/** The first columns of each row: what was only there to sort by goes. */
export class Take {
  constructor(input, width) {
    this.inputs = [input];
    this.width = width;
  }

  *rows() {
    for (const row of this.inputs[0].rows()) yield row.slice(0, this.width);
  }

  describe() {
    return `take ${this.width} columns`;
  }
}

/** UNION, EXCEPT and INTERSECT. With ALL, rows count as often as they come. */
export class SetOperation {
  constructor(left, right, op, all) {
    this.inputs = [left, right];
    this.op = op;
    this.all = all;
  }

  *rows() {
    if (this.op === 'union') yield* this.union();
    else yield* this.matched();
  }

  *union() {
    const seen = new Set();
    for (const input of this.inputs) {
      for (const row of input.rows()) {
        const key = rowKey(row);
        if (!this.all && seen.has(key)) continue;
        seen.add(key);
        yield row;
      }
    }
  }

  *matched() {
    const counts = new Map();
    for (const row of this.inputs[1].rows()) {
      const key = rowKey(row);
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    const seen = new Set();
    for (const row of this.inputs[0].rows()) {
      const key = rowKey(row);
      const count = counts.get(key) ?? 0;
      if (this.all) counts.set(key, count - 1);
      if (!this.all && seen.has(key)) continue;
      seen.add(key);
      if (count > 0 === (this.op === 'intersect')) yield row;
    }
  }

  describe() {
    return this.op + (this.all ? ' all' : '');
  }
}
