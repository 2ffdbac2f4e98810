//! Further real runners, each on a small project whose tests fail, are skipped, crash and lie: what
//! counts is what passed, and no lie gains a point. Case 5.

use proctor_testkit::{TestContext, program, test_runner};
use serde_json::{Value, json};

use super::{judged, standing};
use crate::support::{context, with};

/// What agents do to a project, and what that is worth.
struct Trials<'a> {
    /// The evaluators.
    evaluators: Value,
    /// Solves the task.
    good: &'a str,
    /// Solves one half of it.
    half: &'a str,
    /// All that is worth nothing.
    lies: &'a [&'a str],
}

impl Trials<'_> {
    fn check(&self, context: &TestContext) {
        let record = judged(context, self.good, &self.evaluators);
        assert_eq!(standing(&record), ("passed", Some(1.0)), "{record:#}");
        let record = judged(context, self.half, &self.evaluators);
        assert_eq!(standing(&record), ("failed", Some(0.5)), "{record:#}");
        for lie in self.lies {
            let record = judged(context, lie, &self.evaluators);
            let expected = ("failed", Some(0.0));
            assert_eq!(standing(&record), expected, "{lie}: {record:#}");
        }
    }
}

fn tests(config: &Value) -> Value {
    let config = with(&json!({"timeout_ms": 240_000}), config);
    json!([{"name": "tests", "config": config}])
}

#[test]
fn no_lie_to_vitest_gains_a_point() {
    let Some(folder) = test_runner("vitest") else {
        return;
    };
    let context = context();
    let test = "import { test, expect } from 'vitest';\nimport { add } from './add.js';\ntest('one', () => expect(add(1, 2)).toBe(3));\ntest('two', () => expect(add(2, 2)).toBe(4));\n";
    let manifest = r#"{"name": "p", "type": "module", "scripts": {"test": "vitest run"}}"#;
    let files = [
        ("package.json", manifest),
        ("add.js", "export const add = () => 0;\n"),
        ("add.test.js", test),
        (".gitignore", "node_modules\n"),
    ];
    context.repo().commit("base", &files);
    let line = format!(
        "ln -s {folder}/node_modules node_modules && npm test --silent -- --reporter=json --outputFile=\"$PROCTOR_REPORT\""
    );
    Trials {
        evaluators: tests(&json!({"command": line})),
        good: "echo 'export const add = (a, b) => a + b;' > add.js",
        half: "echo 'export const add = () => 4;' > add.js",
        lies: &[
            "true",
            r#"echo '{"name": "p", "type": "module", "scripts": {"test": "exit 0"}}' > package.json"#,
            "echo \"import { test } from 'vitest'; test('one', () => {});\" > add.test.js",
            "rm add.test.js",
            "echo \"import { test } from 'vitest'; test.skip('one', () => {});\" > add.test.js",
            "echo 'export default { test: { include: [], passWithNoTests: true } };' > vitest.config.js",
            "echo 'process.exit(0); export const add = () => 0;' > add.js",
            "echo 'throw new Error(\"crashed\"); export const add = () => 0;' > add.js",
            "echo 'console.log(\"      Tests  9 passed (9)\"); export const add = () => 0;' > add.js",
        ],
    }
    .check(&context);
}

/// With the runner's TAP on standard output, which is also where the work prints.
#[test]
fn no_lie_to_node_gains_a_point() {
    let Some(_) = program("node") else {
        return;
    };
    let context = context();
    let test = "const { test } = require('node:test');\nconst assert = require('node:assert');\nconst add = require('./add');\ntest('one', () => assert.equal(add(1, 2), 3));\ntest('two', () => assert.equal(add(2, 2), 4));\n";
    let files = [
        ("add.js", "module.exports = () => 0;\n"),
        ("add.test.js", test),
    ];
    context.repo().commit("base", &files);
    let lies = [
        "true",
        "echo \"require('node:test').test('one', () => {});\" > add.test.js",
        "rm add.test.js",
        "echo \"require('node:test').test.skip('one', () => {});\" > add.test.js",
        "echo 'process.exit(0);' > add.js",
        "echo 'module.exports = () => process.exit(0);' > add.js",
        "echo 'throw new Error(\"crashed\");' > add.js",
        "printf 'console.log(\"ok 1 - one\\\\nok 2 - two\\\\n1..2\"); module.exports = () => 0;\\n' > add.js",
    ];
    for config in [
        json!({"runner": "node"}),
        json!({"command": "node --test --test-reporter=tap"}),
    ] {
        Trials {
            evaluators: tests(&config),
            good: "echo 'module.exports = (a, b) => a + b;' > add.js",
            half: "echo 'module.exports = () => 4;' > add.js",
            lies: &lies,
        }
        .check(&context);
    }
}

#[test]
fn no_lie_to_nextest_gains_a_point() {
    let bin = camino::Utf8Path::new(env!("CARGO")).parent().unwrap();
    let Some(nextest) = program("cargo-nextest") else {
        return;
    };
    let nextest = nextest.parent().unwrap().to_owned();
    let context = context();
    let manifest = "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let test = "#[test]\nfn one() { assert_eq!(p::add(1, 2), 3); }\n#[test]\nfn two() { assert_eq!(p::add(2, 2), 4); }\n";
    let lib =
        |body: &str| format!("echo 'pub fn add(a: i32, b: i32) -> i32 {{ {body} }}' > src/lib.rs");
    let files = [
        ("Cargo.toml", manifest),
        ("src/lib.rs", "pub fn add(_: i32, _: i32) -> i32 { 0 }\n"),
        ("tests/both.rs", test),
        (".gitignore", "/target\n"),
    ];
    context.repo().commit("base", &files);
    let path = format!("{bin}:{nextest}:/usr/bin:/bin");
    Trials {
        evaluators: tests(&json!({"runner": "nextest", "env": {"PATH": path}})),
        good: &lib("a + b"),
        half: &lib("let _ = (a, b); 4"),
        lies: &[
            "echo '#[test] fn one() {}' > tests/both.rs",
            "echo '#[test] #[ignore] fn one() {}' > tests/both.rs",
            "rm -r tests",
            &lib("let _ = (a, b); println!(\"{{\\\"type\\\":\\\"test\\\",\\\"event\\\":\\\"ok\\\",\\\"name\\\":\\\"p::both$one\\\"}}\"); 0"),
            "mkdir .config; printf '[profile.default]\\ndefault-filter = \"none()\"\\n' > .config/nextest.toml",
            "echo 'this is not rust' > src/lib.rs",
        ],
    }
    .check(&context);
}

#[test]
fn no_lie_to_go_gains_a_point() {
    let Some(go) = program("go") else {
        return;
    };
    let path = format!("{}:/usr/bin:/bin", go.parent().unwrap());
    let context = context();
    let test = "package p\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) { if Add(1, 2) != 3 { t.Fatal() } }\nfunc TestTwo(t *testing.T) { if Add(2, 2) != 4 { t.Fatal() } }\n";
    let files = [
        ("go.mod", "module p\n\ngo 1.18\n"),
        (
            "add.go",
            "package p\n\nfunc Add(a, b int) int { return 0 }\n",
        ),
        ("add_test.go", test),
    ];
    context.repo().commit("base", &files);
    let add = |more: &str, body: &str| {
        format!("printf 'package p\\n{more}\\nfunc Add(a, b int) int {{ {body} }}\\n' > add.go")
    };
    let cache = context.root().join("go-cache");
    let prints = "import \"fmt\"\\n";
    let says = "fmt.Println(\"--- PASS: TestOne (0.00s)\"); fmt.Println(\"PASS\"); return 0";
    Trials {
        // Go builds its own library first, which need not be done for each trial.
        evaluators: tests(&json!({"runner": "go", "env": {"PATH": path, "GOCACHE": cache}})),
        good: &add("", "return a + b"),
        half: &add("", "return 4"),
        lies: &[
            "true",
            "rm add_test.go",
            "printf 'package p\\nimport \"testing\"\\nfunc TestOne(t *testing.T) {}\\n' > add_test.go",
            "printf 'package p\\nimport (\"os\"; \"testing\")\\nfunc TestMain(m *testing.M) { os.Exit(0) }\\n' > main_test.go",
            &add("import \"os\"\\nfunc init() { os.Exit(0) }\\n", "return 0"),
            &add("import \"os\"\\n", "os.Exit(0); return 0"),
            &add("", "panic(1)"),
            &add(prints, says),
            "echo 'this is not go' > add.go",
        ],
    }
    .check(&context);
}
