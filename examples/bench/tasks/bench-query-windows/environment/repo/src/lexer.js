// Query text to tokens.

import { QueryError } from './errors.js';

/** Words that cannot be names unless they are quoted. */
export const RESERVED = new Set(
  `select distinct from where group by having order limit offset as on using join inner left cross and or not in is
   null true false between like case when then else end cast union all except intersect exists with asc desc nulls`
    .split(/\s+/),
);

const OPERATORS = ['<=', '>=', '<>', '!=', '||', '+', '-', '*', '/', '%', '=', '<', '>', '(', ')', ',', '.', ';'];
const SPACE = /(?:\s+|--[^\n]*|\/\*[\s\S]*?\*\/)+/y;
const NUMBER = /(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?/y;
const WORD = /[\p{L}_][\p{L}\p{N}_]*/uy;

/** A token is `{ kind, value, position }`; kinds are keyword, name, number, text, op and end. */
export function tokenize(text) {
  const tokens = [];
  let position = skipSpace(text, 0);
  while (position < text.length) {
    const [token, after] = nextToken(text, position);
    tokens.push(token);
    position = skipSpace(text, after);
  }
  tokens.push({ kind: 'end', value: '', position: text.length });
  return tokens;
}

function skipSpace(text, position) {
  SPACE.lastIndex = position;
  return SPACE.test(text) ? SPACE.lastIndex : position;
}

function nextToken(text, position) {
  const char = text[position];
  if (char === "'") {
    const [value, after] = quoted(text, position, "'", 'a text without its closing quote');
    return [{ kind: 'text', value, position }, after];
  }
  if (char === '"') {
    const [value, after] = quoted(text, position, '"', 'a name without its closing quote');
    return [{ kind: 'name', value, position, quoted: true }, after];
  }
  const number = match(NUMBER, text, position);
  if (number !== null) {
    return [{ kind: 'number', value: Number(number), position }, position + number.length];
  }
  const word = match(WORD, text, position);
  if (word !== null) {
    const lower = word.toLowerCase();
    const token = RESERVED.has(lower)
      ? { kind: 'keyword', value: lower, position }
      : { kind: 'name', value: word, position };
    return [token, position + word.length];
  }
  for (const operator of OPERATORS) {
    if (text.startsWith(operator, position)) {
      const value = operator === '!=' ? '<>' : operator;
      return [{ kind: 'op', value, position }, position + operator.length];
    }
  }
  throw new QueryError(`unexpected '${char}'`, position);
}

function match(expression, text, position) {
  expression.lastIndex = position;
  const found = expression.exec(text);
  return found === null ? null : found[0];
}

/** A quoted piece in which a doubled quote stands for one. */
function quoted(text, position, quote, complaint) {
  let value = '';
  let index = position + 1;
  while (index < text.length) {
    if (text[index] !== quote) {
      value += text[index++];
    } else if (text[index + 1] === quote) {
      value += quote;
      index += 2;
    } else {
      return [value, index + 1];
    }
  }
  throw new QueryError(complaint, position);
}
