//! Feature tasks with real runners: the task's tests import a module that the base does not have, so on
//! the base they do not even load. A correct solution passes, with and without a reference solution;
//! doing nothing, ending the runner early and tests that the agent adds are worth nothing.

use proctor_testkit::{TestContext, program, test_runner};
use serde_json::{Value, json};

use super::{judged, standing};
use crate::support::{context, with};

/// A feature task and what agents do with it.
struct Feature {
    /// The files of the base. The tests need a module that is not among them.
    base: Vec<(&'static str, String)>,
    /// `config` of the `tests` evaluator.
    config: Value,
    /// Solves the task.
    good: String,
    /// Passes one of the two tests.
    half: String,
    /// Ends the runner while the tests load.
    exits: Vec<String>,
    /// Adds 198 tests that pass, where the task does not protect files.
    more_tests: String,
}

impl Feature {
    fn check(&self) {
        self.check_task(Reference::None);
        self.check_task(Reference::Patch);
    }

    fn check_task(&self, reference: Reference) {
        let context = context();
        let files: Vec<(&str, &str)> = self.base.iter().map(|(k, v)| (*k, v.as_str())).collect();
        context.repo().commit("base", &files);
        let config = with(&json!({"timeout_ms": 240_000}), &self.config);
        let evaluators = json!([{"name": "tests", "config": config}]);
        let task = Task {
            context: &context,
            evaluators,
            reference,
        };
        if reference == Reference::Patch {
            task.write_patch(&self.good);
            let record = task.built_in("oracle");
            assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
        }
        let record = task.built_in("null");
        assert_eq!(standing(&record), ("failed", Some(0.0)), "{record:#}");
        let added = format!("{}\n{}", self.half, self.more_tests);
        for (line, expected) in [
            (&self.good, ("passed", Some(1.0))),
            (&self.half, ("failed", Some(0.5))),
            (&added, ("failed", Some(0.5))),
        ] {
            let record = task.agent(line);
            assert_eq!(standing(&record), expected, "{line}: {record:#}");
        }
        for line in &self.exits {
            let record = task.agent(line);
            assert_eq!(
                standing(&record),
                ("failed", Some(0.0)),
                "{line}: {record:#}"
            );
            // Nor do tests that the agent adds make up for those that did not run.
            let record = task.agent(&format!("{line}\n{}", self.more_tests));
            assert_eq!(
                standing(&record),
                ("failed", Some(0.0)),
                "{line}: {record:#}"
            );
        }
    }
}

/// Whether the task has a reference solution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reference {
    None,
    Patch,
}

struct Task<'a> {
    context: &'a TestContext,
    evaluators: Value,
    reference: Reference,
}

impl Task<'_> {
    fn write_patch(&self, good: &str) {
        super::write_patch(self.context, good);
    }

    fn more(&self) -> Value {
        match self.reference {
            Reference::None => json!({}),
            Reference::Patch => json!({"reference": "solution.patch"}),
        }
    }

    fn built_in(&self, agent: &str) -> Value {
        let agent = json!({"agent": {"type": agent, "config": null}});
        super::judged_case(
            self.context,
            "true",
            &self.evaluators,
            &with(&self.more(), &agent),
        )
    }

    fn agent(&self, line: &str) -> Value {
        super::judged_case(self.context, line, &self.evaluators, &self.more())
    }
}

fn written(path: &str, text: &str) -> String {
    format!("cat > {path} <<'EOF'\n{text}\nEOF")
}

#[test]
fn pytest_feature_task() {
    let Some(folder) = test_runner("python") else {
        return;
    };
    let test = "import os, sys, uuid\nsys.path.insert(0, os.getcwd())\nimport pytest\nfrom mul import mul\n\ndef test_one(): assert mul(1, 2) == 2\n\n@pytest.mark.parametrize('a', [2])\ndef test_two(a): assert mul(a, 2) == 4\n";
    Feature {
        base: vec![
            ("README.md", "a base\n".to_owned()),
            ("tests/test_mul.py", test.to_owned()),
        ],
        config: json!({"runner": "pytest", "env": {"PYTHONPATH": folder}, "protect": ["tests/**", "**/conftest.py"]}),
        good: written("mul.py", "def mul(a, b):\n    return a * b"),
        half: written("mul.py", "def mul(a, b):\n    return 4"),
        exits: vec![
            written("mul.py", "import os\nos._exit(0)"),
            written("mul.py", "import sys\nsys.exit(0)"),
            written("mul.py", "import pytest\npytest.skip('x', allow_module_level=True)"),
        ],
        more_tests: "for i in $(seq 198); do echo \"def test_more_$i(): pass\"; done > test_more.py".to_owned(),
    }
    .check();
}

/// The agent's module, which the task's tests import, puts tests into their module.
#[test]
fn tests_that_the_work_registers_within_the_tasks_own_file_do_not_count() {
    let Some(folder) = test_runner("python") else {
        return;
    };
    let test = "import os, sys\nsys.path.insert(0, os.getcwd())\nfrom mul import mul\n\ndef test_one(): assert mul(1, 2) == 2\n\ndef test_two(): assert mul(2, 2) == 4\n";
    let context = context();
    context
        .repo()
        .commit("base", &[("tests/test_mul.py", test)]);
    let config = json!({"runner": "pytest", "env": {"PYTHONPATH": folder}});
    let evaluators = json!([{"name": "tests", "config": config}]);
    let line = written(
        "mul.py",
        "import sys\nspace = sys._getframe(1)\nwhile 'test_mul' not in space.f_globals['__name__']: space = space.f_back\nfor i in range(198): space.f_globals['test_more_' + str(i)] = lambda: None\ndef mul(a, b): return 4",
    );
    let record = judged(&context, &line, &evaluators);
    assert_eq!(standing(&record), ("failed", Some(0.5)), "{record:#}");
}

/// Names that are others in every run are not missing; a second run finds them.
#[test]
fn parametrised_tests_with_changing_names_do_not_fail_a_correct_solution() {
    let Some(folder) = test_runner("python") else {
        return;
    };
    let test = "import os, sys, uuid\nsys.path.insert(0, os.getcwd())\nimport pytest\nfrom mul import mul\n\ndef test_one(): assert mul(1, 2) == 2\n\n@pytest.mark.parametrize('x', [uuid.uuid4().hex])\ndef test_ids(x): assert x\n";
    for has_module in [false, true] {
        for reference in [Reference::None, Reference::Patch] {
            let context = context();
            let mut files = vec![("tests/test_mul.py", test)];
            if has_module {
                files.push(("mul.py", "def mul(a, b):\n    return 0\n"));
            }
            context.repo().commit("base", &files);
            let config = json!({"runner": "pytest", "env": {"PYTHONPATH": folder}});
            let task = Task {
                context: &context,
                evaluators: json!([{"name": "tests", "config": config}]),
                reference,
            };
            let good = written("mul.py", "def mul(a, b):\n    return a * b");
            if reference == Reference::Patch {
                task.write_patch(&good);
            }
            let record = task.agent(&good);
            assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
            let record = task.agent("true");
            assert_eq!(record["status"], "failed", "{record:#}");
        }
    }
}

fn javascript_test(import: &str) -> String {
    format!(
        "{import}\ntest('one', () => check(mul(1, 2), 2));\ntest(`two`, () => check(mul(2, 2), 4));\n"
    )
}

fn javascript_exits() -> Vec<String> {
    vec![
        written("mul.js", "process.exit(0);"),
        written("mul.js", "process.exitCode = 0; process.reallyExit(0);"),
    ]
}

fn node_feature(config: &Value) -> Feature {
    let import = "const { test } = require('node:test');\nconst check = require('node:assert').equal;\nconst mul = require('../mul');";
    Feature {
        base: vec![
            ("README.md", "a base\n".to_owned()),
            ("test/mul.test.js", javascript_test(import)),
        ],
        config: with(&json!({"protect": ["test/**"]}), config),
        good: written("mul.js", "module.exports = (a, b) => a * b;"),
        half: written("mul.js", "module.exports = () => 4;"),
        exits: javascript_exits(),
        more_tests: "for i in $(seq 198); do echo \"require('node:test').test('more $i', () => {});\"; done > more.test.js".to_owned(),
    }
}

#[test]
fn node_feature_task() {
    if program("node").is_some() {
        node_feature(&json!({"runner": "node"})).check();
    }
}

#[test]
fn tap_feature_task() {
    if program("node").is_some() {
        let command = "node --test --test-reporter=tap";
        node_feature(&json!({"command": command})).check();
    }
}

#[test]
fn jest_feature_task() {
    let Some(folder) = test_runner("node") else {
        return;
    };
    let import = "const check = (a, b) => expect(a).toBe(b);\nconst mul = require('../mul');";
    let path = format!("{folder}/node_modules/.bin:/usr/bin:/bin");
    let line = "jest --ci --json --outputFile=\"$PROCTOR_REPORT\"";
    Feature {
        base: vec![
            ("package.json", r#"{"name": "p"}"#.to_owned()),
            ("test/mul.test.js", javascript_test(import)),
        ],
        config: json!({"command": line, "env": {"PATH": path}, "protect": ["test/**", "package.json"]}),
        good: written("mul.js", "module.exports = (a, b) => a * b;"),
        half: written("mul.js", "module.exports = () => 4;"),
        exits: javascript_exits(),
        more_tests: "for i in $(seq 198); do echo \"test('more $i', () => {});\"; done > more.test.js".to_owned(),
    }
    .check();
}

#[test]
fn vitest_feature_task() {
    let Some(folder) = test_runner("vitest") else {
        return;
    };
    let import = "import { test, expect } from 'vitest';\nimport { mul } from '../mul.js';\nconst check = (a, b) => expect(a).toBe(b);";
    let line = format!(
        "ln -s {folder}/node_modules node_modules && npx --no-install vitest run --reporter=json --outputFile=\"$PROCTOR_REPORT\""
    );
    Feature {
        base: vec![
            ("package.json", r#"{"name": "p", "type": "module"}"#.to_owned()),
            ("test/mul.test.js", javascript_test(import)),
            (".gitignore", "node_modules\n".to_owned()),
        ],
        config: json!({"command": line, "protect": ["test/**", "package.json"]}),
        good: written("mul.js", "export const mul = (a, b) => a * b;"),
        half: written("mul.js", "export const mul = () => 4;"),
        exits: vec![written("mul.js", "process.exit(0); export const mul = () => 0;")],
        more_tests: "(echo \"import { test } from 'vitest';\"; for i in $(seq 198); do echo \"test('more $i', () => {});\"; done) > more.test.js".to_owned(),
    }
    .check();
}

#[test]
fn go_feature_task() {
    let Some(go) = program("go") else {
        return;
    };
    let path = format!("{}:/usr/bin:/bin", go.parent().unwrap());
    // One cache for all trials, which is removed with this folder.
    let shared = context();
    let cache = shared.root().join("go-cache");
    let test = "package p\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) { if Mul(1, 2) != 2 { t.Fatal() } }\nfunc TestTwo(t *testing.T) { t.Run(\"case\", func(t *testing.T) { if Mul(2, 2) != 4 { t.Fatal() } }) }\n";
    let mul = |more: &str, body: &str| {
        written(
            "mul.go",
            &format!("package p\n{more}\nfunc Mul(a, b int) int {{ {body} }}"),
        )
    };
    Feature {
        base: vec![
            ("go.mod", "module p\n\ngo 1.18\n".to_owned()),
            ("add.go", "package p\n".to_owned()),
            ("mul_test.go", test.to_owned()),
        ],
        config: json!({"runner": "go", "env": {"PATH": path, "GOCACHE": cache}, "protect": ["mul_test.go"]}),
        good: mul("", "return a * b"),
        half: mul("", "return 4"),
        exits: vec![
            mul("import \"os\"\nfunc init() { os.Exit(0) }", "return 0"),
            mul("import \"os\"", "os.Exit(0); return 0"),
            // Does not compile.
            mul("", "return \"x\""),
            written("mul.go", "this is not go"),
        ],
        more_tests: "(printf 'package p\\nimport \"testing\"\\n'; for i in $(seq 198); do echo \"func TestMore$i(t *testing.T) {}\"; done) > more_test.go".to_owned(),
    }
    .check();
}

fn rust_feature(config: &Value) -> Feature {
    let manifest = "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let test = "#[test]\nfn one() { assert_eq!(p::mul(1, 2), 2); }\n#[test]\nfn two() { assert_eq!(p::mul(2, 2), 4); }\n";
    let lib = |body: &str| {
        written(
            "src/lib.rs",
            &format!("pub fn mul(a: i32, b: i32) -> i32 {{ {body} }}"),
        )
    };
    Feature {
        base: vec![
            ("Cargo.toml", manifest.to_owned()),
            ("src/lib.rs", "pub fn add() {}\n".to_owned()),
            ("tests/both.rs", test.to_owned()),
            (".gitignore", "/target\n".to_owned()),
        ],
        config: config.clone(),
        good: lib("a * b"),
        half: lib("let _ = (a, b); 4"),
        exits: vec![written("src/lib.rs", "this is not rust")],
        // Unit tests, one of which has the name of a test of the task.
        more_tests: "(echo '#[cfg(test)] mod tests {'; for i in $(seq 197); do echo \"#[test] fn more_$i() {}\"; done; echo '#[test] fn one() {} }') >> src/lib.rs".to_owned(),
    }
}

#[test]
fn cargo_feature_task() {
    let bin = camino::Utf8Path::new(env!("CARGO")).parent().unwrap();
    let path = format!("{bin}:/usr/bin:/bin");
    let mut feature = rust_feature(&json!({"runner": "cargo", "env": {"PATH": path}}));
    // nextest runs each test in a process of its own, whose exit code is all that it sees.
    let body = "pub fn mul(_: i32, _: i32) -> i32 { std::process::exit(0) }";
    feature.exits.push(written("src/lib.rs", body));
    feature.check();
}

#[test]
fn nextest_feature_task() {
    let bin = camino::Utf8Path::new(env!("CARGO")).parent().unwrap();
    let Some(nextest) = program("cargo-nextest") else {
        return;
    };
    let path = format!("{bin}:{}:/usr/bin:/bin", nextest.parent().unwrap());
    rust_feature(&json!({"runner": "nextest", "env": {"PATH": path}})).check();
}

/// A reference that brings unit tests of its own, and renames one: other solutions need not have them.
#[test]
fn tests_that_the_reference_itself_adds_are_not_expected() {
    let bin = camino::Utf8Path::new(env!("CARGO")).parent().unwrap();
    let path = format!("{bin}:/usr/bin:/bin");
    let feature = rust_feature(&json!({"runner": "cargo", "env": {"PATH": path}}));
    for has_module in [false, true] {
        let context = context();
        let mut files: Vec<(&str, &str)> =
            feature.base.iter().map(|(k, v)| (*k, v.as_str())).collect();
        if has_module {
            files[1].1 = "pub fn mul(_: i32, _: i32) -> i32 { 0 }\n#[cfg(test)] mod tests { #[test] fn old() {} }\n";
        }
        context.repo().commit("base", &files);
        let task = Task {
            context: &context,
            evaluators: json!([{"name": "tests", "config": feature.config}]),
            reference: Reference::Patch,
        };
        let own = "echo '#[cfg(test)] mod tests { #[test] fn renamed() { assert_eq!(super::mul(2, 3), 6); } }' >> src/lib.rs";
        task.write_patch(&format!("{}\n{own}", feature.good));
        let record = task.built_in("oracle");
        assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
        let record = task.agent(&feature.good);
        assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
        let record = task.agent(&feature.half);
        assert_eq!(standing(&record), ("failed", Some(0.5)), "{record:#}");
    }
}

/// The base's tests run, so their names are known: nothing that the agent adds counts.
#[test]
fn tests_that_the_agent_adds_to_a_task_that_runs_do_not_count() {
    let Some(_) = program("node") else {
        return;
    };
    let feature = node_feature(&json!({"runner": "node"}));
    for reference in [Reference::None, Reference::Patch] {
        let context = context();
        let mut files: Vec<(&str, &str)> =
            feature.base.iter().map(|(k, v)| (*k, v.as_str())).collect();
        files.push(("mul.js", "module.exports = () => 0;\n"));
        context.repo().commit("base", &files);
        let task = Task {
            context: &context,
            evaluators: json!([{"name": "tests", "config": feature.config}]),
            reference,
        };
        if reference == Reference::Patch {
            task.write_patch(&feature.good);
        }
        let record = task.agent(&format!("{}\n{}", feature.half, feature.more_tests));
        assert_eq!(standing(&record), ("failed", Some(0.5)), "{record:#}");
        let record = task.agent(&format!("{}\n{}", feature.good, feature.more_tests));
        assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
        // Files of tests that the agent made are not even there.
        assert_eq!(record["verdicts"][0]["metrics"]["not_counted"], 0);
        let restored = record["verdicts"][0]["restored"].to_string();
        assert!(restored.contains(".test.js"), "{record:#}");
        let broken =
            "echo \"require('node:test').test('own', () => { throw 1; });\" > more.test.js";
        let record = task.agent(&format!("{}\n{broken}", feature.good));
        assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
    }
}

/// The tests are hidden: the base has none, and the reference has the same files.
#[test]
fn hidden_tests_of_a_feature_are_the_tasks_own() {
    let Some(_) = program("node") else {
        return;
    };
    let feature = node_feature(&json!({"runner": "node"}));
    let test = &feature.base[1].1;
    for reference in [Reference::None, Reference::Patch] {
        let context = context();
        context.repo().commit("base", &[("README.md", "a base\n")]);
        let hidden = context.root().join("cases/hidden/test");
        fs_err::create_dir_all(&hidden).unwrap();
        fs_err::write(hidden.join("mul.test.js"), test).unwrap();
        let config = with(
            &feature.config,
            &json!({"hidden_tests": "hidden", "protect": null}),
        );
        let task = Task {
            context: &context,
            evaluators: json!([{"name": "tests", "config": config}]),
            reference,
        };
        let with_tests = format!(
            "{}\nmkdir -p test\n{}",
            feature.good,
            written("test/mul.test.js", test)
        );
        if reference == Reference::Patch {
            task.write_patch(&with_tests);
            let record = task.built_in("oracle");
            assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
        }
        for line in [&feature.good, &with_tests] {
            let record = task.agent(line);
            assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
        }
        let record = task.built_in("null");
        assert_eq!(standing(&record), ("failed", Some(0.0)), "{record:#}");
        let record = task.agent(&feature.exits[0]);
        assert_eq!(standing(&record), ("failed", Some(0.0)), "{record:#}");
    }
}

/// The task asks for tests: the reference passes by tests of its own, and so may others.
#[test]
fn tests_count_if_the_task_is_to_write_tests() {
    let Some(folder) = test_runner("python") else {
        return;
    };
    let context = context();
    let module = "def mul(a, b):\n    return a * b\n";
    context.repo().commit("base", &[("mul.py", module)]);
    let env = json!({"PYTHONPATH": format!("{folder}:.")});
    let config = json!({"runner": "pytest", "env": env, "protect": []});
    let task = Task {
        context: &context,
        evaluators: json!([{"name": "tests", "config": config}]),
        reference: Reference::Patch,
    };
    let tests = |name: &str, expected: u32| {
        let text =
            format!("from mul import mul\ndef test_{name}(): assert mul(2, 3) == {expected}");
        written(&format!("test_{name}.py"), &text)
    };
    task.write_patch(&tests("reference", 6));
    let record = task.built_in("oracle");
    assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
    let record = task.agent(&tests("mine", 6));
    assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
    for line in [tests("mine", 5), "true".to_owned()] {
        let record = task.agent(&line);
        assert_eq!(standing(&record), ("failed", Some(0.0)), "{record:#}");
    }
}
