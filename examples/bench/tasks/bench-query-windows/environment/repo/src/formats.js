// Results as text.

import { csvField } from './csv.js';

const FORMATS = {
  table: formatTable,
  csv: (columns, rows) => formatDelimited(columns, rows, ','),
  tsv: (columns, rows) => formatDelimited(columns, rows, '\t'),
  json: formatJson,
  ndjson: formatLines,
  markdown: formatMarkdown,
};

/** The names of all formats. */
export const FORMAT_NAMES = Object.keys(FORMATS);

/** A result in a format, with its last line ended. */
export function format(name, { columns, rows }) {
  return FORMATS[name](columns, rows);
}

function formatTable(columns, rows) {
  const cells = rows.map((row) => row.map(shown));
  const widths = columns.map((column, index) => Math.max(size(column), ...cells.map((row) => size(row[index]))));
  const right = columns.map((_, index) => isNumeric(rows, index));
  const line = (values) => values.map((value, index) => pad(value, widths[index], right[index])).join(' | ').trimEnd();
  const rule = widths.map((width) => '-'.repeat(width)).join('-+-');
  const count = `(${rows.length} row${rows.length === 1 ? '' : 's'})`;
  return `${[line(columns), rule, ...cells.map(line), count].join('\n')}\n`;
}

const shown = (value) => (value === null ? '' : String(value).replace(/\s*\n\s*/g, ' '));
const size = (text) => [...text].length;

function pad(text, width, right) {
  const fill = ' '.repeat(width - size(text));
  return right ? fill + text : text + fill;
}

/** A column of numbers goes to the right. */
function isNumeric(rows, index) {
  const values = rows.map((row) => row[index]).filter((value) => value !== null);
  return values.length > 0 && values.every((value) => typeof value === 'number');
}

function formatDelimited(columns, rows, separator) {
  return [columns, ...rows].map((row) => `${row.map((value) => csvField(value, separator)).join(separator)}\n`).join('');
}

function toObject(columns, row) {
  return Object.fromEntries(columns.map((column, index) => [column, row[index]]));
}

function formatJson(columns, rows) {
  if (rows.length === 0) return '[]\n';
  return `[\n${rows.map((row) => `  ${JSON.stringify(toObject(columns, row))}`).join(',\n')}\n]\n`;
}

function formatLines(columns, rows) {
  return rows.map((row) => `${JSON.stringify(toObject(columns, row))}\n`).join('');
}

function formatMarkdown(columns, rows) {
  const escape = (text) => text.replaceAll('|', '\\|');
  const line = (values) => `| ${values.map(escape).join(' | ')} |\n`;
  const rule = `|${columns.map((_, index) => (isNumeric(rows, index) ? '---:|' : '---|')).join('')}\n`;
  return line(columns) + rule + rows.map((row) => line(row.map(shown))).join('');
}
