// The functions of a group of rows.
//
// An aggregate makes an accumulator: `add(value, ...more)` for every row whose first argument is not null, and
// `result()`, which may be asked at any time.

import { QueryError } from './errors.js';
import { compare, rowKey, tidy, toBoolean, toNumber, toText } from './values.js';

const registry = new Map();

function define(name, least, most, create) {
  registry.set(name, { name, least, most, create });
}

/** Whether there is an aggregate of that name. */
export function isAggregate(name) {
  return registry.has(name);
}

/** All names, sorted. */
export function aggregateNames() {
  return [...registry.keys()].sort();
}

/** The aggregate of a call; an error when it takes other arguments. */
export function findAggregate({ name, args, star, position }) {
  const found = registry.get(name);
  if (star) {
    if (name !== 'count') throw new QueryError(`${name}(*) makes no sense`, position);
  } else if (args.length < found.least || args.length > found.most) {
    throw new QueryError(`${name}() takes ${found.least} argument${found.least === 1 ? '' : 's'}`, position);
  }
  return found;
}

/** An accumulator for a call: COUNT(*) counts rows, DISTINCT takes every value once, nulls are left out. */
export function accumulator(call) {
  const inner = findAggregate(call).create();
  if (call.star) return { add: () => inner.add(true), result: () => inner.result() };
  const seen = call.distinct ? new Set() : null;
  return {
    add(value, ...more) {
      if (value === null) return;
      if (seen !== null) {
        const key = rowKey([value]);
        if (seen.has(key)) return;
        seen.add(key);
      }
      inner.add(value, ...more);
    },
    result: () => inner.result(),
  };
}

define('count', 1, 1, () => {
  let count = 0;
  return { add: () => { count += 1; }, result: () => count };
});

define('sum', 1, 1, () => {
  let sum = null;
  return { add: (value) => { sum = (sum ?? 0) + toNumber(value, 'sum()'); }, result: () => (sum === null ? null : tidy(sum)) };
});

define('avg', 1, 1, () => {
  let sum = 0;
  let count = 0;
  return {
    add(value) {
      sum += toNumber(value, 'avg()');
      count += 1;
    },
    result: () => (count === 0 ? null : tidy(sum / count)),
  };
});

define('min', 1, 1, () => extreme((order) => order < 0));
define('max', 1, 1, () => extreme((order) => order > 0));

function extreme(better) {
  let best = null;
  return {
    add(value) {
      if (best === null || better(compare(value, best))) best = value;
    },
    result: () => best,
  };
}

define('median', 1, 1, () => {
  const values = [];
  return {
    add: (value) => { values.push(toNumber(value, 'median()')); },
    result() {
      if (values.length === 0) return null;
      const sorted = [...values].sort((a, b) => a - b);
      const middle = sorted.length >> 1;
      return sorted.length % 2 ? sorted[middle] : tidy((sorted[middle - 1] + sorted[middle]) / 2);
    },
  };
});

define('stddev', 1, 1, () => {
  // Welford's way: stable also when the values are large and close together.
  let count = 0;
  let mean = 0;
  let squares = 0;
  return {
    add(value) {
      const x = toNumber(value, 'stddev()');
      count += 1;
      const delta = x - mean;
      mean += delta / count;
      squares += delta * (x - mean);
    },
    result: () => (count < 2 ? null : tidy(Math.sqrt(squares / (count - 1)))),
  };
});

define('string_agg', 2, 2, () => {
  let text = null;
  return {
    add(value, separator) {
      text = text === null ? toText(value) : text + (toText(separator) ?? '') + toText(value);
    },
    result: () => text,
  };
});

define('every', 1, 1, () => {
  let all = null;
  return { add: (value) => { all = (all ?? true) && toBoolean(value, 'every()'); }, result: () => all };
});
