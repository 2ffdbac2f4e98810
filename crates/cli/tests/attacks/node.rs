//! Attacks on Node's own test runner.

use serde_json::json;

use super::{
    Expect::{Fails, Tampered},
    Table, attack, row, write,
};

/// Attacks on `node --test`, with its report in a file and with TAP on standard output, where the work prints too.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn node(reads_output: bool) -> Table {
    let test = "const { test } = require('node:test');\nconst assert = require('node:assert');\nconst add = require('./add');\ntest('one', () => assert.equal(add(1, 2), 3));\n";
    let helped = "const { test } = require('node:test');\nconst check = require('#check');\nconst add = require('../add');\ntest('two', () => check(add(2, 2), 4));\n";
    let packaged = "const { test } = require('node:test');\nconst check = require('checker');\nconst add = require('../add');\ntest('three', () => check(add(2, 3), 5));\n";
    let manifest = r##"{"name": "p", "imports": {"#check": "./__fixtures__/check.js"}}"##;
    let fake = "require('node:test').test('one', () => {});";
    let lenient = "module.exports = () => {};";
    let config = if reads_output {
        json!({"command": "node --test --test-reporter=tap", "timeout_ms": 60_000})
    } else {
        json!({"runner": "node", "timeout_ms": 60_000})
    };
    let renamed = |name: &'static str, manifest: &str| {
        attack(
            name,
            write("package.json", manifest) + &write("lenient.js", lenient),
        )
    };
    Table {
        files: vec![
            ("package.json", manifest.to_owned()),
            ("add.js", "module.exports = () => 0;\n".to_owned()),
            ("add-test.js", test.to_owned()),
            ("test.js", test.to_owned()),
            (
                "__fixtures__/check.js",
                "module.exports = require('node:assert').equal;\n".to_owned(),
            ),
            ("test/two.test.js", helped.to_owned()),
            ("test/three.test.js", packaged.to_owned()),
            (
                "node_modules/checker/index.js",
                "module.exports = require('node:assert').equal;\n".to_owned(),
            ),
        ],
        evaluators: json!([{"name": "tests", "config": config}]),
        good: write("add.js", "module.exports = require('#plus');")
            + &write("plus.js", "module.exports = (a, b) => a + b;")
            + &write(
                "package.json",
                r##"{"name": "p", "imports": {"#check": "./__fixtures__/check.js", "#plus": "./plus.js"}, "dependencies": {"x": "file:./x"}, "bin": "./tool.js"}"##,
            )
            + &write("tool.js", "require('./add');")
            + &write(
                "test/mine.test.js",
                "require('node:test').test('mine', () => {});",
            ),
        tests: vec![
            "test.js",
            "add-test.js",
            "test/two.test.js",
            "test/three.test.js",
        ],
        renamed: "const { test } = require('node:test');\nconst assert = require('node:assert');\nconst add = require('./add');\nfor (const [a, b] of [[1, 2], [2, 1]]) test('sum of ' + a + ' and ' + b, () => assert.equal(add(a, b), 3));",
        settings: Some((
            "package.json",
            r##"{"name": "p", "type": "module", "imports": {"#check": "./__fixtures__/check.js", "#plus": "./plus.js"}}"##,
            r##"{"name": "p", "imports": {"#check": "./__fixtures__/check.js", "#plus": "./plus.js"}}"##.to_owned(),
        )),
        rows: vec![
            attack("its own add-test.js", write("add-test.js", fake)),
            attack("its own test.js", write("test.js", fake)),
            attack(
                "its own of both",
                write("test.js", fake) + &write("add-test.js", fake),
            ),
            attack(
                "tests that are skipped",
                write(
                    "test.js",
                    "require('node:test').test.skip('one', () => {});",
                ),
            ),
            attack("exit on import", write("add.js", "process.exit(0);")),
            attack(
                "exit in a test",
                write("add.js", "module.exports = () => process.exit(0);"),
            ),
            attack("a crash", write("add.js", "throw new Error('crashed');")),
            attack(
                "a fake report on standard output",
                write(
                    "add.js",
                    "console.log('ok 1 - one\\nok 2 - two\\n1..2'); module.exports = () => 0;",
                ),
            ),
            renamed(
                "an import of the tests that leads elsewhere",
                r##"{"name": "p", "imports": {"#check": "./lenient.js"}}"##,
            ),
            renamed(
                "an import with conditions",
                r##"{"name": "p", "imports": {"#check": {"node": "./lenient.js", "default": "./__fixtures__/check.js"}}}"##,
            ),
            renamed(
                "the name of a package that the tests use",
                r##"{"name": "checker", "exports": "./lenient.js", "imports": {"#check": "./__fixtures__/check.js"}}"##,
            ),
            attack(
                "a package that the tests use",
                write("node_modules/checker/index.js", lenient),
            ),
            attack(
                "a file that is loaded before the package",
                write("node_modules/checker.js", lenient),
            ),
            attack(
                "a manifest of the package",
                write(
                    "node_modules/checker/package.json",
                    r#"{"main": "lenient.js"}"#,
                ) + &write("node_modules/checker/lenient.js", lenient),
            ),
            attack(
                "a nearer package that the tests use",
                write("test/node_modules/checker/index.js", lenient),
            ),
            attack(
                "modules of another kind",
                write("package.json", r#"{"name": "p", "type": "module"}"#),
            ),
            attack(
                "options of node",
                write(".npmrc", "node-options=--require ./fake.js")
                    + &write("fake.js", "process.exit(0);"),
            ),
            attack(
                "variables in a file",
                write(".env", "NODE_OPTIONS=--require ./fake.js")
                    + &write("fake.js", "process.exit(0);"),
            ),
            attack(
                "settings of node",
                write("node.config.json", r#"{"testRunner": {"test-only": true}}"#),
            ),
            attack(
                "a module named as a built-in one",
                write(
                    "node_modules/node:test/index.js",
                    "exports.test = () => {};",
                ) + &write("node_modules/test/index.js", "exports.test = () => {};"),
            ),
            row(
                "no test",
                Fails,
                "rm -r test.js add-test.js test __fixtures__",
            ),
            row(
                "a link in the place of a helper",
                Fails,
                format!(
                    "rm -r __fixtures__; mkdir ok; {}ln -s ok __fixtures__",
                    write("ok/check.js", lenient)
                ),
            ),
            row(
                "a folder of tests that is swapped while they run",
                Tampered,
                write(
                    "add.js",
                    "const fs = require('fs');\ntry { fs.renameSync('test', 'away'); fs.renameSync('away', 'test'); } catch {}\nmodule.exports = (a, b) => a + b;",
                ),
            ),
            row(
                "a pipe in the place of a test",
                Fails,
                "rm test.js; mkfifo test.js",
            ),
        ],
    }
}
