//! Mining with the test runners of languages.

use proctor_testkit::{TestContext, program, test_runner};
use serde_json::Value;

use super::{assert_sound, ledger, mine, only_task, out, results};
use crate::support::{context, install_claude, session, shell};

/// Commits a function with its test in files of a language, and mines them. Mining checks the task.
/// A further commit, whose test fails, is rejected.
fn language(
    context: &TestContext,
    before: &[(&str, &str)],
    after: &[(&'static str, &str)],
    args: &[&str],
) -> Value {
    context.repo().commit("Start", before);
    context.repo().commit("Multiply numbers", after);
    let all = [&["--from-commit", "HEAD", "--times", "1"], args].concat();
    let output = mine(context, &all);
    output.assert_code(0);
    let ledger = ledger(context);
    assert_eq!(results(&ledger)[0].1, "accepted", "{output}");
    let red = |(path, text): &(&'static str, &str)| {
        (*path, text.replace("a * b", "b * a").replace('6', "7"))
    };
    let red: Vec<(&str, String)> = after.iter().map(red).collect();
    let red: Vec<(&str, &str)> = red
        .iter()
        .map(|(path, text)| (*path, text.as_str()))
        .collect();
    context.repo().commit("Expect too much", &red);
    let output = mine(context, &all);
    output.assert_code(0);
    let ledger = self::ledger(context);
    let rejected = &results(&ledger)[0];
    assert_eq!(rejected.0, "Expect too much", "{output}");
    assert_eq!(rejected.1, "NOT_GREEN", "{output}");
    ledger
}

#[test]
fn python_with_unittest_is_mined() {
    let context = context();
    let test = |name: &str, body: &str| {
        format!(
            "import unittest, calc\n\nclass T(unittest.TestCase):\n    def test_{name}(self):\n        {body}\n"
        )
    };
    let add = test("add", "self.assertEqual(calc.add(1, 2), 3)");
    let mul = test("mul", "self.assertEqual(calc.mul(3, 2), 6)");
    let ledger = language(
        &context,
        &[
            ("calc.py", "def add(a, b):\n    return a + b\n"),
            ("test_add.py", &add),
        ],
        &[
            (
                "calc.py",
                "def add(a, b):\n    return a + b\n\ndef mul(a, b):\n    return a * b\n",
            ),
            ("test_mul.py", &mul),
        ],
        &[],
    );
    assert_sound(&context);
    let task = only_task(&ledger);
    assert_eq!(task["fail_to_pass"][0], "test_mul.T.test_mul");
    assert_eq!(task["pass_to_pass"][0], "test_add.T.test_add");
}

#[test]
fn python_with_pytest_is_mined() {
    let Some(folder) = test_runner("python") else {
        return;
    };
    let context = context();
    let line = format!(
        "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={folder}:. python3 -m pytest -p no:cacheprovider --junitxml \"$PROCTOR_REPORT\""
    );
    let ledger = language(
        &context,
        &[
            ("calc.py", "def add(a, b):\n    return a + b\n"),
            (
                "tests/test_calc.py",
                "import calc\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n",
            ),
        ],
        &[
            (
                "calc.py",
                "def add(a, b):\n    return a + b\n\ndef mul(a, b):\n    return a * b\n",
            ),
            (
                "tests/test_calc.py",
                "import calc\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n\ndef test_mul():\n    assert calc.mul(3, 2) == 6\n",
            ),
        ],
        &["--test-cmd", &line],
    );
    assert_eq!(
        only_task(&ledger)["fail_to_pass"][0],
        "tests.test_calc::test_mul"
    );
}

#[test]
fn node_is_mined() {
    if program("node").is_none() {
        return;
    }
    let context = context();
    let test = |name: &str, body: &str| {
        format!(
            "const test = require('node:test');\nconst assert = require('node:assert');\nconst calc = require('./calc.js');\ntest('{name}', () => {{ {body} }});\n"
        )
    };
    let add = test("adds", "assert.equal(calc.add(1, 2), 3);");
    let mul = test("multiplies", "assert.equal(calc.mul(3, 2), 6);");
    let ledger = language(
        &context,
        &[
            ("package.json", "{\"name\": \"calc\"}\n"),
            ("calc.js", "exports.add = (a, b) => a + b;\n"),
            ("add.test.js", &add),
        ],
        &[
            (
                "calc.js",
                "exports.add = (a, b) => a + b;\nexports.mul = (a, b) => a * b;\n",
            ),
            ("mul.test.js", &mul),
        ],
        &[],
    );
    assert_sound(&context);
    let task = only_task(&ledger);
    let names = task["fail_to_pass"].as_array().unwrap();
    assert_eq!(names.len(), 1, "{task:#}");
    assert!(
        names[0].as_str().unwrap().contains("multiplies"),
        "{task:#}"
    );
}

/// The files of a JavaScript project before and after a function `mul` was added. `modules` is a
/// folder of installed packages.
fn javascript(modules: &str, import: &str, line: &str) -> Value {
    let context = context();
    let test = |name: &str, sum: &str| {
        format!("{import}\ntest('{name}', () => expect(calc.{sum}).toBe(6));\n")
    };
    let (add, mul) = (test("adds", "add(4, 2)"), test("multiplies", "mul(3, 2)"));
    let line = format!("ln -s {modules} node_modules && {line}");
    language(
        &context,
        &[
            ("package.json", "{\"name\": \"calc\"}\n"),
            (".gitignore", "node_modules\n"),
            ("calc.js", "exports.add = (a, b) => a + b;\n"),
            ("test/add.test.js", &add),
        ],
        &[
            (
                "calc.js",
                "exports.add = (a, b) => a + b;\nexports.mul = (a, b) => a * b;\n",
            ),
            ("test/mul.test.js", &mul),
        ],
        &["--test-cmd", &line],
    )
}

#[test]
fn jest_is_mined() {
    let Some(folder) = test_runner("node") else {
        return;
    };
    let ledger = javascript(
        &format!("{folder}/node_modules"),
        "const calc = require('../calc.js');",
        "npx --no-install jest --ci --json --outputFile=\"$PROCTOR_REPORT\"",
    );
    let task = only_task(&ledger);
    assert_eq!(task["fail_to_pass"].as_array().unwrap().len(), 1);
    assert_eq!(task["pass_to_pass"].as_array().unwrap().len(), 1);
}

#[test]
fn vitest_is_mined() {
    let Some(folder) = test_runner("vitest") else {
        return;
    };
    let ledger = javascript(
        &format!("{folder}/node_modules"),
        "import { test, expect } from 'vitest';\nimport calc from '../calc.js';",
        "npx --no-install vitest run --reporter=json --outputFile=\"$PROCTOR_REPORT\"",
    );
    let task = only_task(&ledger);
    assert_eq!(task["fail_to_pass"].as_array().unwrap().len(), 1);
    assert_eq!(task["pass_to_pass"].as_array().unwrap().len(), 1);
}

#[test]
fn go_is_mined() {
    let Some(go) = program("go") else {
        return;
    };
    let context = context();
    let cache = context.root().join("go-cache");
    let line = format!("GOCACHE={cache} {go} test -json ./...");
    let test = |name: &str, body: &str| {
        format!(
            "package p\n\nimport \"testing\"\n\nfunc Test{name}(t *testing.T) {{\n\tif {body} {{\n\t\tt.Fatal()\n\t}}\n}}\n"
        )
    };
    let (add, mul) = (test("Add", "Add(1, 2) != 3"), test("Mul", "Mul(3, 2) != 6"));
    let ledger = language(
        &context,
        &[
            ("go.mod", "module p\n\ngo 1.18\n"),
            (
                "add.go",
                "package p\n\nfunc Add(a, b int) int { return a + b }\n",
            ),
            ("add_test.go", &add),
        ],
        &[
            (
                "mul.go",
                "package p\n\nfunc Mul(a, b int) int { return a * b }\n",
            ),
            ("mul_test.go", &mul),
        ],
        &["--test-cmd", &line],
    );
    assert_sound(&context);
    let task = only_task(&ledger);
    assert_eq!(task["by_build"], 1, "{task:#}");
    assert!(
        task["fail_to_pass"][0]
            .as_str()
            .unwrap()
            .contains("TestMul"),
        "{task:#}"
    );
    assert!(
        task["pass_to_pass"][0]
            .as_str()
            .unwrap()
            .contains("TestAdd"),
        "{task:#}"
    );
}

/// A crate with unit tests in the file of its code, before and after a function was added.
fn rust(context: &TestContext, line: &str) -> Value {
    let bin = camino::Utf8Path::new(env!("CARGO")).parent().unwrap();
    let line = format!("PATH={bin}:$PATH {line}");
    let source = |code: &str, tests: &str| {
        format!(
            "pub fn add(a: i32, b: i32) -> i32 {{ a + b }}\n{code}\n#[cfg(test)]\nmod tests {{\n    #[test]\n    fn adds() {{ assert_eq!(super::add(1, 2), 3); }}\n{tests}}}\n"
        )
    };
    let after = source(
        "pub fn mul(a: i32, b: i32) -> i32 { a * b }\n",
        "    #[test]\n    fn multiplies() { assert_eq!(super::mul(3, 2), 6); }\n",
    );
    language(
        context,
        &[
            (
                "Cargo.toml",
                "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
            ),
            (
                "Cargo.lock",
                "version = 3\n\n[[package]]\nname = \"p\"\nversion = \"0.1.0\"\n",
            ),
            (".gitignore", "/target\n"),
            ("src/lib.rs", &source("", "")),
        ],
        &[("src/lib.rs", &after)],
        &["--test-cmd", &line],
    )
}

#[test]
fn rust_with_nextest_is_mined() {
    let Some(nextest) = program("cargo-nextest") else {
        return;
    };
    let folder = nextest.parent().unwrap();
    let line = format!(
        "PATH=$PATH:{folder} NEXTEST_EXPERIMENTAL_LIBTEST_JSON=1 cargo nextest run --offline --no-fail-fast --message-format libtest-json"
    );
    let ledger = rust(&context(), &line);
    let task = only_task(&ledger);
    assert_eq!(task["fail_to_pass"].as_array().unwrap().len(), 1);
    assert_eq!(task["pass_to_pass"].as_array().unwrap().len(), 1);
}

/// Unit tests in the file of the code are hidden, and the code around them is the agent's.
#[test]
fn rust_with_unit_tests_is_mined() {
    let context = context();
    let line =
        "RUSTC_BOOTSTRAP=1 cargo test --offline --no-fail-fast -- -Zunstable-options --format=json";
    let ledger = rust(&context, line);
    assert_sound(&context);
    let task = only_task(&ledger);
    assert_eq!(task["inline_tests"][0], "src/lib.rs");
    assert_eq!(task["by_build"], 1, "{task:#}");
    let solution =
        "sed -i 's/^#.cfg(test).$/pub fn mul(a: i32, b: i32) -> i32 { b * a }\\n&/' src/lib.rs";
    for (work, expected) in [
        (solution.to_owned(), 0),
        (solution.replace("b * a", "b + a"), 1),
    ] {
        install_claude(&context, &session(&[shell(&work)]));
        let suite = out(&context).join("proctor.yaml");
        let run = context.proctor(["run", suite.as_str()]);
        run.env("ANTHROPIC_API_KEY", "sk-ant-fake")
            .run()
            .assert_code(expected);
    }
}
