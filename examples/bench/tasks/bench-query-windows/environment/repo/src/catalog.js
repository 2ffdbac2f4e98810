// Which tables there are: files named on the command line, and the files of a folder.

import fs from 'node:fs';
import path from 'node:path';

import { QueryError, UsageError, nearest } from './errors.js';
import { EXTENSIONS, readTable } from './sources.js';

export class Catalog {
  constructor() {
    this.files = new Map();
    this.loaded = new Map();
  }

  /** Adds every table of a folder; `sales.csv` is the table `sales`. */
  addFolder(folder) {
    let names;
    try {
      names = fs.readdirSync(folder).sort();
    } catch (error) {
      throw new UsageError(`cannot read the folder ${folder}: ${error.code}`);
    }
    for (const name of names) {
      const extension = path.extname(name).toLowerCase();
      if (EXTENSIONS.includes(extension)) this.addFile(path.basename(name, path.extname(name)), path.join(folder, name));
    }
  }

  /** Adds a table by name. A later one of the same name takes its place. */
  addFile(name, file) {
    this.files.set(name.toLowerCase(), { name, file });
  }

  /** The names of all tables. */
  names() {
    return [...this.files.values()].map(({ name }) => name).sort();
  }

  /** The content of a table, which is read once. */
  table(name, position) {
    const key = name.toLowerCase();
    if (!this.files.has(key)) {
      const near = nearest(name, this.names());
      throw new QueryError(`there is no table '${name}'${near ? `; did you mean '${near}'?` : ''}`, position);
    }
    if (!this.loaded.has(key)) this.loaded.set(key, readTable(this.files.get(key).file));
    return this.loaded.get(key);
  }
}
