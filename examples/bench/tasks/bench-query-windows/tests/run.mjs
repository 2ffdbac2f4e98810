// Runs the hidden tests on the work in a folder and writes the verdict: `run.mjs WORK LOGS`.

import fs from 'node:fs';
import path from 'node:path';

import { tests } from './hidden.mjs';
import { cleanUp, useWork } from './program.mjs';

const [work, logs] = process.argv.slice(2);
useWork(work);

let passed = 0;
for (const [name, body] of tests) {
  try {
    body();
    passed += 1;
    console.log(`ok      ${name}`);
  } catch (error) {
    console.log(`FAILED  ${name}\n${String(error.message).replace(/^/gm, '        ')}`);
  }
}
cleanUp();

const verdict = JSON.stringify({ reward: Number(passed === tests.length), tests_passed: passed, tests_total: tests.length });
const file = path.join(logs, 'reward.json');
fs.writeFileSync(`${file}.new`, verdict);
fs.renameSync(`${file}.new`, file);
console.log(verdict);
