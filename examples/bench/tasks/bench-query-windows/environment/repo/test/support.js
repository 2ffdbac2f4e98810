// Runs queries on the tables in test/data.

import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { Catalog } from '../src/catalog.js';
import { parse } from '../src/parser.js';
import { Planner } from '../src/planner.js';

export const DATA = path.join(path.dirname(fileURLToPath(import.meta.url)), 'data');

export function run(text) {
  const catalog = new Catalog();
  catalog.addFolder(DATA);
  return new Planner(catalog).run(parse(text));
}

export const rows = (text) => run(text).rows;
