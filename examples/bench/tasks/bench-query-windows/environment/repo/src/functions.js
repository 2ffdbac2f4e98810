// The functions of a single row.

import { QueryError, nearest } from './errors.js';
import { isAggregate, aggregateNames } from './aggregates.js';
import { compare, tidy, toDate, toNumber, toText } from './values.js';

const DAY = 86_400_000;
const registry = new Map();

/** Registers a function; `strict` ones give null as soon as an argument is null. */
function define(name, least, most, body, { strict = true } = {}) {
  registry.set(name, { name, least, most, body, strict });
}

/** The function of a call; an error when there is none or it takes other arguments. */
export function findFunction({ name, args, star, distinct, position }) {
  const found = registry.get(name);
  if (found === undefined) {
    if (isAggregate(name)) throw new QueryError(`${name}() is not allowed here`, position);
    const near = nearest(name, [...registry.keys(), ...aggregateNames()]);
    throw new QueryError(`there is no function ${name}()${near ? `; did you mean ${near}()?` : ''}`, position);
  }
  if (star || distinct) throw new QueryError(`${name}() is not an aggregate`, position);
  if (args.length < found.least || args.length > found.most) {
    const most = found.most === Infinity ? 'or more' : `to ${found.most}`;
    const count = found.least === found.most ? found.least : `${found.least} ${most}`;
    throw new QueryError(`${name}() takes ${count} argument${count === 1 ? '' : 's'}`, position);
  }
  return found;
}

/** All names, sorted. */
export function functionNames() {
  return [...registry.keys()].sort();
}

const number = (value, name) => toNumber(value, `${name}()`);

function whole(value, name) {
  const result = number(value, name);
  if (!Number.isInteger(result)) throw new QueryError(`${name}(): ${result} is not a whole number`);
  return result;
}

// Numbers.

define('abs', 1, 1, (x) => Math.abs(number(x, 'abs')));
define('ceil', 1, 1, (x) => Math.ceil(number(x, 'ceil')));
define('floor', 1, 1, (x) => Math.floor(number(x, 'floor')));
define('sign', 1, 1, (x) => Math.sign(number(x, 'sign')));
define('power', 2, 2, (x, y) => tidy(number(x, 'power') ** number(y, 'power')));
define('mod', 2, 2, (x, y) => {
  const divisor = number(y, 'mod');
  return divisor === 0 ? null : tidy(number(x, 'mod') % divisor);
});
define('sqrt', 1, 1, (x) => {
  const value = number(x, 'sqrt');
  if (value < 0) throw new QueryError(`sqrt(): ${value} has no root`);
  return Math.sqrt(value);
});
define('round', 1, 2, (x, digits = 0) => {
  const value = number(x, 'round');
  const places = whole(digits, 'round');
  // By way of the decimal text: 1.005 is meant to be 1.005. Halves go away from zero.
  const shifted = Number(`${Math.abs(value)}e${places}`);
  return Math.sign(value) * Number(`${Math.round(shifted)}e${-places}`) || 0;
});

// Texts.

define('lower', 1, 1, (x) => toText(x).toLowerCase());
define('upper', 1, 1, (x) => toText(x).toUpperCase());
define('length', 1, 1, (x) => [...toText(x)].length);
define('trim', 1, 1, (x) => toText(x).trim());
define('reverse', 1, 1, (x) => [...toText(x)].reverse().join(''));
define('replace', 3, 3, (x, from, to) => (from === '' ? toText(x) : toText(x).replaceAll(toText(from), toText(to))));
define('left', 2, 2, (x, count) => [...toText(x)].slice(0, Math.max(0, whole(count, 'left'))).join(''));
define('right', 2, 2, (x, count) => {
  const size = Math.max(0, whole(count, 'right'));
  return size === 0 ? '' : [...toText(x)].slice(-size).join('');
});
define('substr', 2, 3, (x, start, count = Infinity) => {
  const first = whole(start, 'substr') - 1;
  const size = count === Infinity ? Infinity : whole(count, 'substr');
  return [...toText(x)].slice(Math.max(0, first), Math.max(0, first + size)).join('');
});
define('instr', 2, 2, (x, wanted) => toText(x).indexOf(toText(wanted)) + 1);
define('lpad', 2, 3, (x, size, fill = ' ') => toText(x).padStart(whole(size, 'lpad'), toText(fill)));
define('rpad', 2, 3, (x, size, fill = ' ') => toText(x).padEnd(whole(size, 'rpad'), toText(fill)));
define('split_part', 3, 3, (x, separator, index) => {
  const parts = toText(x).split(toText(separator));
  return parts[whole(index, 'split_part') - 1] ?? '';
});
define('concat', 1, Infinity, (...parts) => parts.map((part) => toText(part) ?? '').join(''), { strict: false });

// Dates.

define('year', 1, 1, (x) => Number(toDate(x).slice(0, 4)));
define('month', 1, 1, (x) => Number(toDate(x).slice(5, 7)));
define('day', 1, 1, (x) => Number(toDate(x).slice(8, 10)));
define('weekday', 1, 1, (x) => new Date(toDate(x)).getUTCDay() || 7);
define('date_add', 2, 2, (x, days) => isoDate(Date.parse(toDate(x)) + whole(days, 'date_add') * DAY));
define('date_diff', 2, 2, (x, y) => (Date.parse(toDate(x)) - Date.parse(toDate(y))) / DAY);
define('date_trunc', 2, 2, (unit, x) => {
  const date = toDate(x);
  switch (toText(unit).toLowerCase()) {
    case 'year':
      return `${date.slice(0, 4)}-01-01`;
    case 'quarter':
      return `${date.slice(0, 5)}${String(Math.floor((Number(date.slice(5, 7)) - 1) / 3) * 3 + 1).padStart(2, '0')}-01`;
    case 'month':
      return `${date.slice(0, 7)}-01`;
    case 'week':
      return isoDate(Date.parse(date) - ((new Date(date).getUTCDay() || 7) - 1) * DAY);
    default:
      throw new QueryError(`date_trunc(): there is no unit '${unit}'`);
  }
});

function isoDate(milliseconds) {
  return new Date(milliseconds).toISOString().slice(0, 10);
}

// Choices.

define('coalesce', 1, Infinity, (...values) => values.find((value) => value !== null) ?? null, { strict: false });
define('nullif', 2, 2, (x, y) => (x !== null && y !== null && compare(x, y) === 0 ? null : x), { strict: false });
define('iif', 3, 3, (condition, then, otherwise) => (condition === true ? then : otherwise), { strict: false });
define('greatest', 1, Infinity, (...values) => values.reduce((a, b) => (compare(a, b) >= 0 ? a : b)));
define('least', 1, Infinity, (...values) => values.reduce((a, b) => (compare(a, b) <= 0 ? a : b)));
define('typeof', 1, 1, (x) => (x === null ? 'null' : { string: 'text' }[typeof x] ?? typeof x), { strict: false });
