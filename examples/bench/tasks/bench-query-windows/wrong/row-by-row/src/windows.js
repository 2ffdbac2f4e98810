// The functions of a row among others: `rank() OVER (PARTITION BY … ORDER BY …)`.
//
// A window function is given its partition, sorted, and gives a value for each of its rows. `ends[i]` is the index
// after the last peer of row i: the row that comes after all that are equal to it in order.

import { accumulator, findAggregate, isAggregate } from './aggregates.js';
import { QueryError } from './errors.js';
import { toNumber, compareForSort, rowKey } from './values.js';

const registry = new Map();

function define(name, least, most, body) {
  registry.set(name, { name, least, most, body });
}

/** Whether the function makes sense with OVER only. */
export function isWindowFunction(name) {
  return registry.has(name);
}

/** All names, sorted. */
export function windowNames() {
  return [...registry.keys()].sort();
}

/** Checks a call with OVER. */
export function checkWindow(call) {
  const { name, args, star, distinct, position } = call;
  if (isAggregate(name)) {
    if (distinct) throw new QueryError(`${name}(DISTINCT …) is not allowed with OVER`, position);
    findAggregate(call);
    return;
  }
  const found = registry.get(name);
  if (found === undefined) throw new QueryError(`${name}() does not go with OVER`, position);
  if (star || distinct) throw new QueryError(`${name}() is not an aggregate`, position);
  if (args.length < found.least || args.length > found.most) {
    const count = found.least === found.most ? found.least : `${found.least} to ${found.most}`;
    throw new QueryError(`${name}() takes ${count} argument${count === 1 ? '' : 's'}`, position);
  }
}

/** Adds a column per window function to every row. The rows stay in their order. */
export class Window {
  constructor(input, functions, label) {
    this.inputs = [input];
    this.functions = functions;
    this.label = label;
  }

  rows() {
    const rows = [...this.inputs[0].rows()];
    const columns = this.functions.map((one) => evaluate(one, rows));
    return rows.map((row, index) => [...row, ...columns.map((column) => column[index])]);
  }

  describe() {
    return `window ${this.label}`;
  }
}

/** The values of one window function, in the order of the rows. */
function evaluate({ call, args, partitionBy, orderBy }, rows) {
  const result = new Array(rows.length);
  for (const indexes of partitions(rows, partitionBy)) {
    const keys = new Map(indexes.map((index) => [index, orderBy.map(({ value }) => value(rows[index]))]));
    const order = (left, right) => compareKeys(keys.get(left), keys.get(right), orderBy);
    indexes.sort(order);
    const ends = peerEnds(indexes, order);
    const values = indexes.map((index) => args.map((arg) => arg(rows[index])));
    const body = isAggregate(call.name) ? running(call) : registry.get(call.name).body;
    body(values, ends).forEach((value, place) => {
      result[indexes[place]] = value;
    });
  }
  return result;
}

function partitions(rows, partitionBy) {
  const found = new Map();
  rows.forEach((row, index) => {
    const key = rowKey(partitionBy.map((part) => part(row)));
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(index);
  });
  return found.values();
}

function compareKeys(left, right, orderBy) {
  for (let i = 0; i < orderBy.length; i++) {
    const order = compareForSort(left[i], right[i], orderBy[i]);
    if (order !== 0) return order;
  }
  return 0;
}

function peerEnds(indexes, order) {
  const ends = new Array(indexes.length);
  for (let place = indexes.length - 1; place >= 0; place--) {
    const last = place === indexes.length - 1 || order(indexes[place], indexes[place + 1]) !== 0;
    ends[place] = last ? place + 1 : ends[place + 1];
  }
  return ends;
}

/** An aggregate of all rows up to each row; of the whole partition when there is no order. */
function running(call) {
  return (values) => {
    const one = accumulator(call);
    if (call.over.orderBy.length === 0) {
      values.forEach((value) => one.add(...value));
      return values.map(() => one.result());
    }
    return values.map((value) => {
      one.add(...value);
      return one.result();
    });
  };
}

define('row_number', 0, 0, (values) => values.map((_, place) => place + 1));

define('rank', 0, 0, (_, ends) => {
  let rank = 1;
  return ends.map((end, place) => {
    if (place > 0 && end !== ends[place - 1]) rank = place + 1;
    return rank;
  });
});

define('dense_rank', 0, 0, (_, ends) => {
  let rank = 1;
  return ends.map((end, place) => {
    if (place > 0 && end !== ends[place - 1]) rank += 1;
    return rank;
  });
});

define('ntile', 1, 1, (values) => {
  return values.map(([count], place) => {
    const tiles = toNumber(count, 'ntile()');
    if (!Number.isInteger(tiles) || tiles < 1) throw new QueryError('ntile(): the count must be a whole number above 0');
    const small = Math.floor(values.length / tiles);
    const large = values.length % tiles;
    const inLarge = large * (small + 1);
    return place < inLarge ? Math.floor(place / (small + 1)) + 1 : large + Math.floor((place - inLarge) / small) + 1;
  });
});

define('lag', 1, 3, (values) => shifted(values, 'lag', -1));
define('lead', 1, 3, (values) => shifted(values, 'lead', 1));

function shifted(values, name, direction) {
  return values.map(([, distance = 1, otherwise = null], place) => {
    const count = toNumber(distance, `${name}()`);
    if (!Number.isInteger(count) || count < 0) throw new QueryError(`${name}(): the distance must be a whole number, 0 or more`);
    const other = values[place + direction * count];
    return other === undefined ? otherwise : other[0];
  });
}

define('first_value', 1, 1, (values) => values.map(() => values[0][0]));
define('last_value', 1, 1, (values, ends) => ends.map((end) => values[end - 1][0]));
