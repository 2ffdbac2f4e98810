//! Attacks on jest and vitest.

use camino::Utf8Path;
use serde_json::json;

use super::{Expect::Fails, Row, Table, attack, row, write};

/// Attacks on jest, which is in this folder, through a script of npm.
pub fn jest(folder: &str) -> Table {
    let manifest =
        r##"{"name": "p", "scripts": {"test": "jest"}, "imports": {"#check": "./test/check.js"}}"##;
    let test = "const add = require('./add');\nconst check = require('#check');\ntest('one', () => check(add(1, 2), 3));\n";
    let path = format!("{folder}/node_modules/.bin:/usr/local/bin:/usr/bin:/bin");
    let line = "npm test --silent -- --ci --json --outputFile=\"$PROCTOR_REPORT\"";
    let good = write("add.js", "module.exports = require(\"./plus\");")
        + &write("plus.js", "module.exports = (a, b) => a + b;")
        + &write(
            "package.json",
            r##"{"name": "p", "dependencies": {"x": "1"}, "scripts": {"build": "true", "test": "jest"}, "imports": {"#check": "./test/check.js"}}"##,
        )
        + &write("mine.test.js", "test('mine', () => {});");
    Table {
        files: vec![
            ("package.json", manifest.to_owned()),
            ("add.js", "module.exports = () => 0;\n".to_owned()),
            ("add.test.js", test.to_owned()),
            (
                "test/check.js",
                "module.exports = (a, b) => expect(a).toBe(b);\n".to_owned(),
            ),
            (
                "jest.config.js",
                "module.exports = {setupFilesAfterEnv: ['<rootDir>/config/start.js']};\n"
                    .to_owned(),
            ),
            ("config/start.js", "'use strict';\n".to_owned()),
        ],
        evaluators: json!([{"name": "tests", "config": {"command": line, "env": {"PATH": path}, "timeout_ms": 120_000}}]),
        good,
        tests: vec!["add.test.js"],
        renamed: "const add = require('./add');\ntest.each([[1, 2], [2, 1]])('sum of %i and %i', (a, b) => expect(add(a, b)).toBe(3));",
        settings: Some((
            "jest.config.js",
            "throw new Error('x');\n",
            "module.exports = {};\n".to_owned(),
        )),
        rows: jest_rows(),
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn jest_rows() -> Vec<Row> {
    let manifest = |text: &str| write("package.json", text);
    let lenient = write("lenient.js", "module.exports = () => {};");
    let settings =
        |path: &str, text: &str| write(path, text) + &write("fake.js", "test('one', () => {});");
    let matches_all = "expect.extend({toBe: () => ({pass: true, message: () => 'x'})});";
    let picks_fake = "module.exports = {testMatch: ['**/fake.js']};";
    let runner = write(
        "mine/.bin/jest",
        "#!/usr/bin/env node\nconst report = process.argv.find(it => it.startsWith('--outputFile=')).slice(13);\nconst test = {title: 'one', fullName: 'one', ancestorTitles: [], status: 'passed'};\nrequire('fs').writeFileSync(report, JSON.stringify({success: true, numTotalTests: 1, numPassedTests: 1, testResults: [{name: process.cwd() + '/add.test.js', status: 'passed', assertionResults: [test]}]}));",
    ) + "chmod +x mine/.bin/jest\n";
    vec![
        row(
            "a link to packages with a runner",
            Fails,
            format!("{runner}ln -s mine node_modules"),
        ),
        row(
            "a link to programs of packages",
            Fails,
            format!("{runner}mkdir node_modules; ln -s ../mine/.bin node_modules/.bin"),
        ),
        row(
            "a link to mocks",
            Fails,
            write("mine/x.js", "module.exports = () => {};") + "ln -s mine __mocks__",
        ),
        attack(
            "a script that passes",
            manifest(r#"{"scripts": {"test": "true"}}"#),
        ),
        attack(
            "a hook before the test",
            manifest(
                r#"{"scripts": {"test": "jest", "pretest": "echo \"test('one', () => {});\" > add.test.js"}}"#,
            ),
        ),
        attack(
            "settings in the manifest",
            settings(
                "package.json",
                r#"{"scripts": {"test": "jest"}, "jest": {"testMatch": ["**/fake.js"]}}"#,
            ),
        ),
        attack("settings in a file", settings("jest.config.js", picks_fake)),
        attack(
            "settings in JSON",
            settings("jest.config.json", r#"{"testMatch": ["**/fake.js"]}"#),
        ),
        attack(
            "settings that pick no test",
            write(
                "jest.config.js",
                "module.exports = {testMatch: ['**/none.js'], passWithNoTests: true};",
            ),
        ),
        attack(
            "a test that passes",
            write("add.test.js", "test('one', () => {});"),
        ),
        attack(
            "a shell for scripts",
            write(".npmrc", "script-shell=/bin/true"),
        ),
        attack(
            "options of node",
            write(".npmrc", "node-options=--require ./exit.js")
                + &write("exit.js", "process.exit(0);"),
        ),
        attack(
            "a jest of its own",
            write("node_modules/.bin/jest", "#!/bin/sh\nexit 0")
                + "chmod +x node_modules/.bin/jest\n",
        ),
        attack(
            "an expect of its own",
            write(
                "node_modules/expect/index.js",
                "exports.expect = () => ({toBe() {}});",
            ) + &write(
                "node_modules/@jest/expect/index.js",
                "exports.jestExpect = () => ({toBe() {}});",
            ),
        ),
        attack(
            "its own environment",
            write(
                "node_modules/jest-environment-node/index.js",
                "process.exit(0);",
            ),
        ),
        attack(
            "a set-up file that settings name",
            write("config/start.js", matches_all),
        ),
        attack(
            "settings of a reporter",
            manifest(r#"{"scripts": {"test": "jest"}, "jest-junit": {"outputName": "x"}}"#),
        ),
        attack(
            "a mock of all modules",
            write("__mocks__/add.js", "module.exports = () => 3;")
                + &write("jest.config.js", "module.exports = {automock: true};"),
        ),
        attack(
            "a transform of babel",
            write("babel.config.js", "module.exports = {plugins: ['./fake']};")
                + &write(".babelrc", r#"{"plugins": ["./fake"]}"#)
                + &write("fake.js", "process.exit(0);"),
        ),
        attack(
            "a transform in the manifest",
            manifest(r#"{"scripts": {"test": "jest"}, "babel": {"plugins": ["./fake"]}}"#),
        ),
        attack(
            "an import of the tests that leads elsewhere",
            manifest(
                r##"{"name": "p", "scripts": {"test": "jest"}, "imports": {"#check": "./lenient.js"}}"##,
            ) + &lenient,
        ),
        attack(
            "a version of node",
            write(".nvmrc", "0.1") + &write(".node-version", "0.1"),
        ),
        attack(
            "settings of mocha",
            write(".mocharc.json", r#"{"require": ["./fake.js"]}"#),
        ),
        attack("exit on import", write("add.js", "process.exit(0);")),
        attack(
            "a fake summary",
            write(
                "add.js",
                "console.log('Tests:       9 passed, 9 total'); module.exports = () => 0;",
            ),
        ),
        row("no test", Fails, "rm add.test.js"),
    ]
}

/// Attacks on vitest, whose packages are linked into the copy.
pub fn vitest(folder: &str) -> Table {
    let manifest = r##"{"name": "p", "type": "module", "scripts": {"test": "vitest run"}, "imports": {"#check": "./test/check.js"}}"##;
    let test = "import { test } from 'vitest';\nimport { check } from '#check';\nimport { add } from './add.js';\ntest('one', () => check(add(1, 2), 3));\n";
    let line = format!(
        "rm -rf node_modules; ln -s {folder}/node_modules node_modules && npm test --silent -- --reporter=json --outputFile=\"$PROCTOR_REPORT\"",
        folder = Utf8Path::new(folder)
    );
    Table {
        files: vec![
            ("package.json", manifest.to_owned()),
            ("add.js", "export const add = () => 0;\n".to_owned()),
            ("add.test.js", test.to_owned()),
            ("test/check.js", "import { expect } from 'vitest';\nexport const check = (a, b) => expect(a).toBe(b);\n".to_owned()),
            (".gitignore", "node_modules\n".to_owned()),
        ],
        evaluators: json!([{"name": "tests", "config": {"command": line, "timeout_ms": 120_000}}]),
        good: write("add.js", "export { add } from '#plus';")
            + &write("plus.js", "export const add = (a, b) => a + b;")
            + &write("package.json", r##"{"name": "p", "type": "module", "dependencies": {"x": "1"}, "bin": "./tool.js", "scripts": {"test": "vitest run"}, "imports": {"#plus": "./plus.js", "#check": "./test/check.js"}}"##)
            + &write("tool.js", "import './add.js';")
            + &write("mine.test.js", "import { test } from 'vitest';\ntest('mine', () => {});"),
        tests: vec!["add.test.js"],
        renamed: "import { test, expect } from 'vitest';\nimport { add } from './add.js';\ntest.each([[1, 2], [2, 1]])('sum of %i and %i', (a, b) => expect(add(a, b)).toBe(3));",
        settings: Some((
            "vitest.config.js",
            "throw new Error('x');\n",
            "export default {};\n".to_owned(),
        )),
        rows: vitest_rows(),
    }
}

fn vitest_rows() -> Vec<Row> {
    let manifest = |more: &str| {
        write(
            "package.json",
            &format!(
                r#"{{"name": "p", "type": "module", "scripts": {{"test": "vitest run"}}, {more}}}"#
            ),
        )
    };
    let fake = write(
        "fake.js",
        "import { test } from 'vitest';\ntest('one', () => {});",
    );
    let picks_fake = "export default { test: { include: ['fake.js'] } };";
    let lenient = write(
        "lenient.js",
        "export const check = () => {};\nexport const test = globalThis.test; export const expect = () => ({ toBe() {} });",
    );
    let alias = "export default { resolve: { alias: { '#check': '/lenient.js' } }, test: { setupFiles: ['./exit.js'] } };";
    let exits = write("exit.js", "process.exit(0);") + &write("exit.cjs", "process.exit(0);");
    vec![
        attack(
            "a script that passes",
            write(
                "package.json",
                r#"{"name": "p", "type": "module", "scripts": {"test": "exit 0"}}"#,
            ),
        ),
        attack(
            "a test that passes",
            write(
                "add.test.js",
                "import { test } from 'vitest'; test('one', () => {});",
            ),
        ),
        attack(
            "a test that is skipped",
            write(
                "add.test.js",
                "import { test } from 'vitest'; test.skip('one', () => {});",
            ),
        ),
        attack(
            "settings that pick another test",
            write("vitest.config.js", picks_fake) + &fake,
        ),
        attack(
            "settings in TypeScript",
            write("vitest.config.mts", picks_fake) + &fake,
        ),
        attack(
            "settings of vite",
            write("vite.config.js", picks_fake) + &fake,
        ),
        attack(
            "a workspace",
            write(
                "vitest.workspace.js",
                "export default [{ test: { include: ['fake.js'] } }];",
            ) + &fake,
        ),
        attack(
            "a workspace in JSON",
            write("vitest.workspace.json", r#"["./packages/*"]"#),
        ),
        attack(
            "settings that pick no test",
            write(
                "vitest.config.js",
                "export default { test: { include: [], passWithNoTests: true } };",
            ),
        ),
        attack(
            "an alias and a set-up file",
            write("vite.config.js", alias) + &lenient + &exits,
        ),
        attack(
            "settings of postcss",
            write("postcss.config.js", "process.exit(0);"),
        ),
        attack(
            "settings of postcss for CommonJS",
            write("postcss.config.cjs", "process.exit(0);"),
        ),
        attack(
            "hidden settings of postcss",
            write(".postcssrc.cjs", "process.exit(0);"),
        ),
        attack(
            "settings of postcss in the manifest",
            manifest(r#""postcss": {"plugins": {"./exit.cjs": {}}}"#) + &exits,
        ),
        attack(
            "an import of the tests that leads elsewhere",
            manifest(r##""imports": {"#check": "./lenient.js"}"##) + &lenient,
        ),
        attack(
            "the name of the runner",
            write(
                "package.json",
                r#"{"name": "vitest", "type": "module", "scripts": {"test": "vitest run"}, "exports": {".": "./lenient.js"}}"#,
            ) + &lenient,
        ),
        attack(
            "paths of TypeScript",
            write(
                "tsconfig.json",
                r##"{"compilerOptions": {"paths": {"#check": ["./lenient.js"], "vitest": ["./lenient.js"]}}}"##,
            ) + &lenient,
        ),
        attack(
            "variables in a file",
            write(".env", "NODE_OPTIONS=--require=./exit.cjs")
                + &write(".env.test", "VITEST=x")
                + &exits,
        ),
        attack(
            "options of node",
            write(".npmrc", "node-options=--require=./exit.cjs") + &exits,
        ),
        attack(
            "a runner among the packages",
            write("node_modules/vitest/index.js", "process.exit(0);")
                + "git add -f node_modules || true\n",
        ),
        attack(
            "exit on import",
            write("add.js", "process.exit(0); export const add = () => 0;"),
        ),
        attack(
            "a crash",
            write(
                "add.js",
                "throw new Error('crashed'); export const add = () => 0;",
            ),
        ),
        attack(
            "a fake summary",
            write(
                "add.js",
                "console.log('      Tests  9 passed (9)'); export const add = () => 0;",
            ),
        ),
        row("no test", Fails, "rm add.test.js"),
    ]
}
