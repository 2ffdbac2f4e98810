// Values: null, booleans, numbers and texts. Dates are texts of the form 2024-05-31.

import { QueryError } from './errors.js';

const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
const RANK = { boolean: 0, number: 1, string: 2 };

/** Whether a text stands for a number. */
export function isNumeric(text) {
  return NUMBER.test(text.trim());
}

/** The order of two values that are not null: booleans, then numbers, then texts. */
export function compare(left, right) {
  if (typeof left !== typeof right) return RANK[typeof left] - RANK[typeof right];
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

/** The order of two values, null included, for a sort key. */
export function compareForSort(left, right, { descending, nullsFirst }) {
  if (left === null || right === null) {
    if (left === right) return 0;
    return (left === null) === nullsFirst ? -1 : 1;
  }
  const order = compare(left, right);
  return descending ? -order : order;
}

/** A text that is equal for equal rows and different for different ones. */
export function rowKey(values) {
  return JSON.stringify(values);
}

/** A value as a number; null stays null. */
export function toNumber(value, what) {
  if (value === null || typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  if (isNumeric(value)) return Number(value);
  throw new QueryError(`${what}: '${value}' is not a number`);
}

/** A value as text; null stays null. */
export function toText(value) {
  return value === null ? null : String(value);
}

/** A value as a condition; null stays null. */
export function toBoolean(value, what) {
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number') return value !== 0;
  throw new QueryError(`${what}: '${value}' is not a condition`);
}

/** CAST. A text that does not stand for the type is an error, not null. */
export function cast(value, to) {
  if (value === null) return null;
  switch (to) {
    case 'text':
      return String(value);
    case 'number':
      return toNumber(value, 'CAST');
    case 'integer':
      return Math.trunc(toNumber(value, 'CAST'));
    case 'boolean':
      if (typeof value === 'string' && /^(true|false)$/i.test(value)) return value.toLowerCase() === 'true';
      return toBoolean(value, 'CAST');
    case 'date':
      return toDate(value);
    default:
      throw new Error(`no such type: ${to}`);
  }
}

/** A text that must begin with a real date; the date without what follows it. */
export function toDate(value) {
  if (value === null) return null;
  const found = /^(\d{4})-(\d{2})-(\d{2})(?:$|[T ])/.exec(String(value));
  if (found) {
    const [year, month, day] = found.slice(1).map(Number);
    const date = new Date(Date.UTC(year, month - 1, day));
    if (date.getUTCMonth() === month - 1 && date.getUTCDate() === day) return found[0].slice(0, 10);
  }
  throw new QueryError(`'${value}' is not a date`);
}

/** A sum that does not drift: 0.1 + 0.2 is shown as 0.3. */
export function tidy(number) {
  return Number.isInteger(number) ? number : Number(number.toPrecision(15));
}
