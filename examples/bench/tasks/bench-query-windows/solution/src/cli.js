// The command line.

import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { aggregateNames } from './aggregates.js';
import { Catalog } from './catalog.js';
import { QueryError, TabqError, UsageError } from './errors.js';
import { explain } from './explain.js';
import { FORMAT_NAMES, format } from './formats.js';
import { functionNames } from './functions.js';
import { parse } from './parser.js';
import { Planner } from './planner.js';
import { printQuery } from './printer.js';
import { windowNames } from './windows.js';

const HELP = `Usage: tabq [OPTIONS] QUERY        run a query
       tabq explain [OPTIONS] QUERY show the steps that it takes
       tabq fmt QUERY               show it neatly written
       tabq tables [OPTIONS]        list tables and their columns
       tabq functions               list functions

A query of the form @FILE is read from a file, and - from standard input.

Options:
  -d, --data FOLDER      tables are the files of this folder (default: .)
  -t, --table NAME=FILE  one more table; may be given more than once
  -f, --format FORMAT    ${FORMAT_NAMES.join(', ')} (default: table)
  -o, --output FILE      write the result there
  -h, --help
`;

const OPTIONS = {
  data: { type: 'string', short: 'd' },
  table: { type: 'string', short: 't', multiple: true },
  format: { type: 'string', short: 'f' },
  output: { type: 'string', short: 'o' },
  help: { type: 'boolean', short: 'h' },
};

const COMMANDS = {
  explain: (args, options) => withQuery(args, (query) => {
    const { root } = new Planner(catalogOf(options)).plan(query);
    return `${explain(root)}\n`;
  }),
  fmt: (args) => withQuery(args, (query) => `${printQuery(query)}\n`),
  tables: (args, options) => {
    expectNone(args);
    const catalog = catalogOf(options);
    return catalog.names().map((name) => `${name}: ${catalog.table(name).columns.join(', ')}\n`).join('');
  },
  functions: (args) => {
    expectNone(args);
    const lists = { functions: functionNames(), aggregates: aggregateNames(), windows: windowNames() };
    return Object.entries(lists).map(([kind, names]) => `${kind}: ${names.join(' ')}\n`).join('');
  },
};

/** Runs the program; gives the exit code: 0, 1 for a query or file that is wrong, 2 for the command line. */
export function main(argv) {
  try {
    const { values: options, positionals } = readArguments(argv);
    if (options.help || positionals.length === 0) {
      process.stdout.write(HELP);
      return options.help ? 0 : 2;
    }
    const command = Object.hasOwn(COMMANDS, positionals[0]) ? COMMANDS[positionals[0]] : null;
    const output = command ? command(positionals.slice(1), options) : runQuery(positionals, options);
    write(output, options.output);
    return 0;
  } catch (error) {
    if (!(error instanceof TabqError)) throw error;
    process.stderr.write(`tabq: ${error.message}\n`);
    return error instanceof UsageError ? 2 : 1;
  }
}

function readArguments(argv) {
  try {
    return parseArgs({ args: argv, options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error.message.split('.')[0]);
  }
}

function runQuery(args, options) {
  const name = options.format ?? 'table';
  if (!FORMAT_NAMES.includes(name)) throw new UsageError(`there is no format '${name}'`);
  return withQuery(args, (query) => format(name, new Planner(catalogOf(options)).run(query)));
}

/** Reads the query; errors that know their place show it. */
function withQuery(args, action) {
  if (args.length !== 1) throw new UsageError(args.length === 0 ? 'a query is missing' : 'give the query as one argument');
  const text = queryText(args[0]);
  try {
    return action(parse(text));
  } catch (error) {
    if (!(error instanceof QueryError)) throw error;
    throw new TabqError(error.explain(text));
  }
}

function queryText(argument) {
  const file = argument === '-' ? 0 : argument.startsWith('@') ? argument.slice(1) : null;
  if (file === null) return argument;
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`cannot read the query: ${error.code}`);
  }
}

function catalogOf(options) {
  const catalog = new Catalog();
  catalog.addFolder(options.data ?? '.');
  for (const definition of options.table ?? []) {
    const split = definition.indexOf('=');
    if (split < 1) throw new UsageError(`--table ${definition}: expected NAME=FILE`);
    catalog.addFile(definition.slice(0, split), path.resolve(definition.slice(split + 1)));
  }
  return catalog;
}

function expectNone(args) {
  if (args.length > 0) throw new UsageError(`unexpected '${args[0]}'`);
}

function write(text, file) {
  if (file === undefined) {
    process.stdout.write(text);
    return;
  }
  try {
    fs.writeFileSync(file, text);
  } catch (error) {
    throw new UsageError(`cannot write ${file}: ${error.code}`);
  }
}
