// Which columns an expression may name, and where in the row they are.

import { QueryError, nearest } from './errors.js';

/** A column is `{ table, name }`; `hidden` ones are there but not part of `*`. */
export class Scope {
  constructor(columns) {
    this.columns = columns;
  }

  /** The columns of two tables side by side. */
  static joined(left, right) {
    return new Scope([...left.columns, ...right.columns]);
  }

  /** The index of a column in the row. */
  resolve({ table, name, position }) {
    const found = this.matches(table, name).filter((index) => !this.columns[index].hidden || table !== null);
    if (found.length === 1) return found[0];
    const shown = table === null ? name : `${table}.${name}`;
    if (found.length > 1) throw new QueryError(`'${shown}' could be in more than one table`, position);
    const near = nearest(name, this.columns.map((column) => column.name));
    throw new QueryError(`there is no column '${shown}'${near ? `; did you mean '${near}'?` : ''}`, position);
  }

  /** Whether a name without a table is a column here. */
  has(name) {
    return this.matches(null, name).length > 0;
  }

  matches(table, name) {
    const found = [];
    this.columns.forEach((column, index) => {
      const sameTable = table === null || same(column.table ?? '', table);
      if (sameTable && same(column.name, name)) found.push(index);
    });
    return found;
  }

  /** The columns that `*` or `table.*` stands for, as expressions. */
  expand(table) {
    const found = this.columns
      .filter((column) => (table === null ? !column.hidden : same(column.table ?? '', table)));
    if (found.length === 0) throw new QueryError(table === null ? 'there is nothing to select from' : `there is no table '${table}'`);
    return found.map(({ table: owner, name }) => ({
      expr: { type: 'Column', table: owner, name, position: null },
      alias: name,
    }));
  }
}

/** A table needs headings that differ. */
export function checkHeadings(columns, name) {
  const seen = new Set();
  for (const column of columns) {
    if (seen.has(column.toLowerCase())) throw new QueryError(`'${name}' has two columns '${column}'`);
    seen.add(column.toLowerCase());
  }
}

function same(left, right) {
  return left.toLowerCase() === right.toLowerCase();
}
