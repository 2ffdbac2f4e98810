// Files as tables: `{ columns, rows }`, rows as arrays in the order of the columns.

import fs from 'node:fs';
import path from 'node:path';

import { parseCsv } from './csv.js';
import { DataError } from './errors.js';
import { isNumeric } from './values.js';

const READERS = {
  '.csv': (text, name) => delimited(text, ',', name),
  '.tsv': (text, name) => delimited(text, '\t', name),
  '.json': (text, name) => fromObjects(parseJson(text, name), name),
  '.ndjson': (text, name) => fromObjects(parseLines(text, name), name),
};

/** The endings that files of tables have. */
export const EXTENSIONS = Object.keys(READERS);

/** Reads a file as a table. */
export function readTable(file) {
  const reader = READERS[path.extname(file).toLowerCase()];
  if (reader === undefined) throw new DataError(`${file}: not one of ${EXTENSIONS.join(', ')}`);
  let text;
  try {
    text = fs.readFileSync(file, 'utf8');
  } catch (error) {
    throw new DataError(`cannot read ${file}: ${error.code}`);
  }
  return reader(text, file);
}

function delimited(text, separator, name) {
  const [header, ...records] = parseCsv(text, separator, name);
  if (header === undefined) throw new DataError(`${name}: there is no header`);
  const columns = header.map((column) => column.trim());
  checkColumns(columns, name);
  records.forEach((record, index) => {
    if (record.length !== columns.length) {
      throw new DataError(`${name}: record ${index + 1} has ${record.length} fields, not ${columns.length}`);
    }
  });
  const readers = columns.map((_, index) => columnReader(records.map((record) => record[index])));
  return { columns, rows: records.map((record) => record.map((field, index) => readers[index](field))) };
}

/** How the fields of a column are read: as what all of them are. An empty field is null. */
function columnReader(fields) {
  const filled = fields.filter((field) => field !== '');
  let read = (field) => field;
  if (filled.length > 0 && filled.every(isNumeric)) {
    read = Number;
    // Numbers that would not come out as they went in, such as 007, are names for something.
    if (filled.some((field) => /^[+-]?0\d/.test(field.trim()))) read = (field) => field;
  } else if (filled.length > 0 && filled.every((field) => /^(true|false)$/i.test(field))) {
    read = (field) => field.toLowerCase() === 'true';
  }
  return (field) => (field === '' ? null : read(field));
}

function parseJson(text, name) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new DataError(`${name}: not JSON`);
  }
  if (!Array.isArray(value)) throw new DataError(`${name}: not a list of objects`);
  return value;
}

function parseLines(text, name) {
  const lines = text.split('\n').map((line, index) => [line.trim(), index + 1]).filter(([line]) => line !== '');
  return lines.map(([line, number]) => {
    try {
      return JSON.parse(line);
    } catch {
      throw new DataError(`${name}, line ${number}: not JSON`);
    }
  });
}

function fromObjects(objects, name) {
  const columns = [];
  for (const object of objects) {
    if (object === null || typeof object !== 'object' || Array.isArray(object)) {
      throw new DataError(`${name}: not a list of objects`);
    }
    for (const key of Object.keys(object)) if (!columns.includes(key)) columns.push(key);
  }
  checkColumns(columns, name);
  const rows = objects.map((object) => columns.map((column) => jsonValue(object[column])));
  return { columns, rows };
}

/** Lists and objects inside a row are kept as their JSON text. */
function jsonValue(value) {
  if (value === undefined || value === null) return null;
  return typeof value === 'object' ? JSON.stringify(value) : value;
}

function checkColumns(columns, name) {
  const seen = new Set();
  for (const column of columns) {
    const key = column.toLowerCase();
    if (key === '') throw new DataError(`${name}: a column has no name`);
    if (seen.has(key)) throw new DataError(`${name}: two columns are called '${column}'`);
    seen.add(key);
  }
}
