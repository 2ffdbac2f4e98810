// Starts the program under test: in a process group, an environment and on tables that the tests choose.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const DEADLINE_MS = 20_000;
const DATA = fs.mkdtempSync(path.join(os.tmpdir(), 'tables-'));
let work = null;

/** Says where the work is. */
export function useWork(folder) {
  work = folder;
}

/** Makes a table. */
export function table(name, text) {
  fs.writeFileSync(path.join(DATA, name), text);
}

export function cleanUp() {
  fs.rmSync(DATA, { recursive: true });
}

/** Runs tabq; whatever it left running is ended. */
export function tabq(...args) {
  const { pid, status, stdout, stderr, error } = spawnSync(process.execPath, [path.join(work, 'bin/tabq.js'), ...args], {
    cwd: DATA, env: { PATH: process.env.PATH }, detached: true, encoding: 'utf8', timeout: DEADLINE_MS, killSignal: 'SIGKILL',
  });
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Nothing was left.
  }
  assert.equal(error, undefined, 'the program did not end by itself');
  return { status, stdout, stderr };
}

/** The output of a command that must work. */
export function output(...args) {
  const { status, stdout, stderr } = tabq(...args);
  assert.equal(status, 0, stderr);
  return stdout;
}

/** The rows of a query, as lists of values. */
export function rows(query) {
  return JSON.parse(output('-f', 'json', query)).map((row) => Object.values(row));
}

/** The headings of a query. */
export function headings(query) {
  return Object.keys(JSON.parse(output('-f', 'json', query))[0]);
}

/** The query must be refused, as other wrong queries are, with a message in which `expected` is found. */
export function refused(query, expected = /./) {
  const { status, stdout, stderr } = tabq(query);
  assert.equal(status, 1, `exit code ${status} for ${query}\n${stderr}`);
  assert.equal(stdout, '');
  assert.match(stderr, /^tabq: /);
  assert.match(stderr, expected);
}
