// What must not stand in some places of a query.

import { isAggregate } from './aggregates.js';
import { walk } from './ast.js';
import { QueryError } from './errors.js';

/** Whether a part of an expression aggregates a group: with OVER it does not. */
export function isAggregateCall(node) {
  return node.type === 'Call' && !node.over && isAggregate(node.name);
}

/** Whether a part of an expression is a window function. */
export function isWindowCall(node) {
  return node.type === 'Call' && node.over !== null;
}

/** Refuses aggregates of groups. */
export function refuseAggregates(expr, clause) {
  for (const node of walk(expr)) {
    if (isAggregateCall(node)) throw new QueryError(`${node.name}() is not allowed in ${clause}`, node.position);
  }
}

/** Refuses window functions. */
export function refuseWindows(expr, clause) {
  for (const node of walk(expr)) {
    if (isWindowCall(node)) throw new QueryError(`${node.name}() OVER is not allowed in ${clause}`, node.position);
  }
}
