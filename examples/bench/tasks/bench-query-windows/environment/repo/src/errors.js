// What can go wrong. Everything that is the user's to mend is a TabqError; anything else is a bug.

export class TabqError extends Error {}

/** A query that cannot be read or makes no sense. `position` is an offset into its text, when known. */
export class QueryError extends TabqError {
  constructor(message, position = null) {
    super(message);
    this.position = position;
  }

  /** The message with the line of the query and a caret under the place. */
  explain(text) {
    if (this.position === null) return this.message;
    const start = text.lastIndexOf('\n', this.position - 1) + 1;
    const end = text.indexOf('\n', start);
    const line = text.slice(start, end < 0 ? text.length : end);
    return `${this.message}\n  ${line}\n  ${' '.repeat(this.position - start)}^`;
  }
}

/** A file that cannot be read as a table. */
export class DataError extends TabqError {}

/** A command line that makes no sense. */
export class UsageError extends TabqError {}

/** The candidate nearest to a misspelt word, or null when none is near. */
export function nearest(word, candidates) {
  let best = null;
  let least = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

function editDistance(from, to) {
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const current = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = previous[j - 1] + (from[i - 1] === to[j - 1] ? 0 : 1);
      current.push(Math.min(replaced, previous[j] + 1, current[j - 1] + 1));
    }
    previous = current;
  }
  return previous[to.length];
}
