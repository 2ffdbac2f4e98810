// CSV as RFC 4180 has it, with any separator.

import { DataError } from './errors.js';

/** All records of a text. Blank lines are skipped. */
export function parseCsv(text, separator, name) {
  const reader = new Reader(text.startsWith('\uFEFF') ? text.slice(1) : text, separator, name);
  const records = [];
  while (!reader.atEnd) {
    const record = reader.record();
    if (record.length > 1 || record[0] !== '') records.push(record);
  }
  return records;
}

class Reader {
  constructor(text, separator, name) {
    this.text = text;
    this.separator = separator;
    this.name = name;
    this.position = 0;
    this.line = 1;
  }

  get atEnd() {
    return this.position >= this.text.length;
  }

  record() {
    const fields = [this.field()];
    while (this.text[this.position] === this.separator) {
      this.position += 1;
      fields.push(this.field());
    }
    this.endOfLine();
    return fields;
  }

  field() {
    if (this.text[this.position] === '"') return this.quotedField();
    const start = this.position;
    while (!this.atEnd && !this.isBreak(this.text[this.position])) this.position += 1;
    return this.text.slice(start, this.position);
  }

  isBreak(char) {
    return char === this.separator || char === '\n' || char === '\r';
  }

  quotedField() {
    const { line } = this;
    let value = '';
    this.position += 1;
    for (;;) {
      const end = this.text.indexOf('"', this.position);
      if (end < 0) throw new DataError(`${this.name}, line ${line}: a quote is never closed`);
      const piece = this.text.slice(this.position, end);
      this.line += piece.split('\n').length - 1;
      value += piece;
      this.position = end + 1;
      if (this.text[this.position] !== '"') break;
      value += '"';
      this.position += 1;
    }
    if (!this.atEnd && !this.isBreak(this.text[this.position])) {
      throw new DataError(`${this.name}, line ${this.line}: text after a closing quote`);
    }
    return value;
  }

  endOfLine() {
    if (this.text[this.position] === '\r') this.position += 1;
    if (this.text[this.position] === '\n') this.position += 1;
    this.line += 1;
  }
}

/** A field as CSV writes it. */
export function csvField(value, separator) {
  const text = value === null ? '' : String(value);
  const special = text.includes(separator) || /["\r\n]/.test(text) || text !== text.trim();
  return special ? `"${text.replaceAll('"', '""')}"` : text;
}
