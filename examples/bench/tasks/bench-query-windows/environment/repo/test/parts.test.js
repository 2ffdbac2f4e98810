import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { parseCsv } from '../src/csv.js';
import { parse } from '../src/parser.js';
import { printQuery } from '../src/printer.js';
import { DATA, rows } from './support.js';

const TABQ = path.join(path.dirname(fileURLToPath(import.meta.url)), '../bin/tabq.js');
const tabq = (...args) => execFileSync(process.execPath, [TABQ, ...args], { encoding: 'utf8' });

test('a printed query reads as the same query', () => {
  const queries = [
    'SELECT a + b * (c - 1), -x, NOT (p OR q) AND r\nFROM t AS u\nLEFT JOIN "my table" ON u.id = "my table".id',
    "SELECT DISTINCT CASE a WHEN 1 THEN 'it''s' ELSE NULL END AS kind\nFROM t\nWHERE a NOT BETWEEN 1 AND 2 AND b LIKE 'x%'",
    'SELECT count(*), sum(DISTINCT a)\nFROM t\nGROUP BY b\nHAVING count(*) > 1\nORDER BY 1 DESC NULLS LAST, b\nLIMIT 5\nOFFSET 2',
    'WITH x AS (\n  SELECT 1 AS one\n)\nSELECT one\nFROM x\nUNION ALL\nSELECT 2',
  ];
  for (const text of queries) assert.equal(printQuery(parse(text)), text);
});

test('functions', () => {
  const cases = {
    "substr('window', 2, 3)": 'ind',
    "split_part('a-b-c', '-', 2)": 'b',
    'round(2.675, 2)': 2.68,
    'round(-1.5)': -2,
    "date_trunc('week', '2024-05-31')": '2024-05-27',
    "date_add('2024-02-28', 2)": '2024-03-01',
    'coalesce(null, 3)': 3,
    '1 / 0': null,
    '0.1 + 0.2': 0.3,
    "cast('12' as integer) + 1": 13,
    "'a' || 1": 'a1',
  };
  for (const [expression, expected] of Object.entries(cases)) {
    assert.deepEqual(rows(`select ${expression}`), [[expected]], expression);
  }
});

test('CSV with quotes, breaks and a mark at its beginning', () => {
  assert.deepEqual(parseCsv('\uFEFFa,b\r\n"x, ""y""","1\n2"\n\n3,\n', ',', 'test'),
    [['a', 'b'], ['x, "y"', '1\n2'], ['3', '']]);
  assert.throws(() => parseCsv('a\n"x', ',', 'test'), /line 2: a quote is never closed/);
});

test('results in all formats', () => {
  const query = 'select id, seller, amount from sales where id in (4, 5)';
  const as = (format) => tabq('-d', DATA, '-f', format, query);
  assert.equal(as('csv'), 'id,seller,amount\n4,Ana,50\n5,Dan,\n');
  assert.equal(as('ndjson'), '{"id":4,"seller":"Ana","amount":50}\n{"id":5,"seller":"Dan","amount":null}\n');
  assert.equal(as('markdown'), '| id | seller | amount |\n|---:|---|---:|\n| 4 | Ana | 50 |\n| 5 | Dan |  |\n');
  assert.equal(as('table'), 'id | seller | amount\n---+--------+-------\n 4 | Ana    |     50\n 5 | Dan    |\n(2 rows)\n');
});

test('EXPLAIN shows the steps, the last first', () => {
  const text = tabq('explain', '-d', DATA, 'select region from sales where id > 1 group by region order by count(*) limit 1');
  assert.deepEqual(text.trimEnd().split('\n').map((line) => line.trim().split(' ')[0]),
    ['take', 'limit', 'sort', 'project', 'group', 'filter', 'scan']);
});

test('errors have an exit code and show the place', () => {
  const { status, stderr } = spawnSync(process.execPath, [TABQ, '-d', DATA, 'select id from sales wher id = 1 group'], { encoding: 'utf8' });
  assert.equal(status, 1);
  assert.match(stderr, /expected the end of the query, found 'id'\n.*\n {28}\^/);
  assert.equal(spawnSync(process.execPath, [TABQ, '--nonsense']).status, 2);
});
