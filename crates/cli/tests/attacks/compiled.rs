//! Attacks on cargo, nextest and Go.

use serde_json::json;

use super::{
    Expect::{Fails, Tampered},
    Row, Table, attack, row, write,
};

const MANIFEST: &str = "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dev-dependencies]\ncheck = { path = \"tests/check\" }\n";
const BASE: &str = "pub fn add(_: i32, _: i32) -> i32 { 0 }\n";
/// A crate in the place of the helper of the tests.
const LENIENT: &str =
    "#[macro_export] macro_rules! equal { ($a:expr, $b:expr) => { let _ = ($a, $b); } }";

/// Attacks on a project of Rust, with this runner and programs.
pub fn rust(runner: &str, path: &str) -> Table {
    let check =
        "#[macro_export] macro_rules! equal { ($a:expr, $b:expr) => { assert_eq!($a, $b) } }\n";
    let check_manifest = "[package]\nname = \"check\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let test = "#[test]\nfn one() { check::equal!(p::add(1, 2), 3); }\n";
    let config = json!({"runner": runner, "env": {"PATH": path}, "timeout_ms": 240_000});
    let mut rows = rust_rows();
    if runner == "cargo" {
        // nextest runs each test in a process of its own, whose exit code is all that it sees.
        rows.push(attack(
            "exit in a test",
            write(
                "src/lib.rs",
                "pub fn add(_: i32, _: i32) -> i32 { std::process::exit(0) }",
            ),
        ));
    }
    Table {
        files: vec![
            ("Cargo.toml", MANIFEST.to_owned()),
            ("src/lib.rs", BASE.to_owned()),
            ("tests/one.rs", test.to_owned()),
            ("tests/check/Cargo.toml", check_manifest.to_owned()),
            ("tests/check/src/lib.rs", check.to_owned()),
            (".gitignore", "/target\n".to_owned()),
        ],
        evaluators: json!([{"name": "tests", "config": config}]),
        good: write("src/lib.rs", "mod sum;\npub use sum::add;")
            + &write(
                "src/sum.rs",
                "pub fn add(a: i32, b: i32) -> i32 { plus::plus(a, b) }",
            )
            + &write("tests/mine.rs", "#[test]\nfn mine() {}")
            + &write(
                "build.rs",
                "fn main() { println!(\"cargo:rerun-if-changed=build.rs\"); }",
            )
            + &write(
                "Cargo.toml",
                &format!(
                    "{MANIFEST}\n[dependencies]\nplus = {{ path = \"plus\" }}\n\n[[bin]]\nname = \"tool\"\npath = \"src/tool.rs\"\n"
                ),
            )
            + &write(
                "plus/Cargo.toml",
                "[package]\nname = \"plus\"\nversion = \"0.1.0\"\n",
            )
            + &write(
                "plus/src/lib.rs",
                "pub fn plus(a: i32, b: i32) -> i32 { a + b }",
            )
            + &write("src/tool.rs", "fn main() {}"),
        tests: vec!["tests/one.rs"],
        renamed: "macro_rules! sums { ($($name:ident: $a:expr, $b:expr;)*) => { $(#[test] fn $name() { assert_eq!(p::add($a, $b), 3); })* } }\nsums! { first: 1, 2; second: 2, 1; }",
        settings: Some(rust_settings(runner)),
        rows,
    }
}

/// Settings that stop the runner, and others.
fn rust_settings(runner: &str) -> (&'static str, &'static str, String) {
    match runner {
        "nextest" => (
            ".config/nextest.toml",
            "[[[\n",
            "[profile.default]\nfail-fast = false\n".to_owned(),
        ),
        _ => (
            ".cargo/config.toml",
            "[build]\nrustc = \"no-such-program\"\n",
            "[build]\nincremental = false\n".to_owned(),
        ),
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn rust_rows() -> Vec<Row> {
    let manifest = |more: &str| write("Cargo.toml", &format!("{MANIFEST}\n{more}"));
    let fake = write("fake/one.rs", "#[test] fn one() {}");
    let lenient = write(
        "lenient/Cargo.toml",
        "[package]\nname = \"check\"\nversion = \"0.1.0\"\nedition = \"2021\"",
    ) + &write("lenient/src/lib.rs", LENIENT);
    let member = write(
        "evil/Cargo.toml",
        "[package]\nname = \"evil\"\nversion = \"0.1.0\"\nedition = \"2021\"",
    ) + &write("evil/src/lib.rs", "#[test] fn one() {}");
    let target = "[[test]]\nname = \"one\"\npath = \"fake/one.rs\"";
    vec![
        attack(
            "a test that passes",
            write("tests/one.rs", "#[test] fn one() {}"),
        ),
        attack(
            "a test that is ignored",
            write("tests/one.rs", "#[test] #[ignore] fn one() {}"),
        ),
        attack("a target that is another file", manifest(target) + &fake),
        attack(
            "no tests of its own accord",
            write(
                "Cargo.toml",
                &MANIFEST.replace(
                    "edition = \"2021\"",
                    "edition = \"2021\"\nautotests = false",
                ),
            ) + &format!("cat >> Cargo.toml <<'EOF'\n{target}\nEOF\n")
                + &fake,
        ),
        attack(
            "a target without a harness",
            manifest("[[test]]\nname = \"one\"\nharness = false\n"),
        ),
        attack(
            "settings of cargo",
            write(
                ".cargo/config.toml",
                "[target.'cfg(all())']\nrunner = 'true'",
            ),
        ),
        attack(
            "older settings of cargo",
            write(".cargo/config", "[build]\nrustc-wrapper = './fake.sh'"),
        ),
        attack(
            "a toolchain",
            write("rust-toolchain.toml", "[toolchain]\nchannel = 'fake'")
                + &write("rust-toolchain", "fake"),
        ),
        attack(
            "settings of nextest",
            write(
                ".config/nextest.toml",
                "[profile.default]\ndefault-filter = \"none()\"",
            ),
        ),
        attack(
            "retries of nextest",
            write(
                ".config/nextest.toml",
                "experimental = [\"setup-scripts\"]\n[profile.default]\nretries = 5\n[script.setup.x]\ncommand = 'true'",
            ),
        ),
        attack(
            "a profile",
            manifest(
                "[profile.test]\npanic = 'abort'\ndebug-assertions = false\n[profile.dev]\noverflow-checks = false\n",
            ),
        ),
        attack("lints", manifest("[lints.rust]\nunsafe_code = 'allow'\n")),
        attack(
            "another crate in the place of a helper",
            write("Cargo.toml", &MANIFEST.replace("tests/check", "lenient")) + &lenient,
        ),
        attack(
            "a dependency in the place of a helper",
            write(
                "Cargo.toml",
                &MANIFEST.replace(
                    "[dev-dependencies]\ncheck = { path = \"tests/check\" }",
                    "[dependencies]\ncheck = { path = \"lenient\" }",
                ),
            ) + &lenient,
        ),
        attack(
            "a helper for this system",
            write(
                "Cargo.toml",
                &MANIFEST.replace(
                    "[dev-dependencies]\ncheck = { path = \"tests/check\" }",
                    "[target.'cfg(all())'.dev-dependencies]\ncheck = { path = \"lenient\" }",
                ),
            ) + &lenient,
        ),
        attack(
            "a member in the place of the package",
            manifest("[workspace]\nmembers = [\"evil\"]\ndefault-members = [\"evil\"]\n") + &member,
        ),
        attack(
            "a workspace elsewhere",
            write(
                "Cargo.toml",
                &MANIFEST.replace("edition", "workspace = \"evil\"\nedition"),
            ) + &write(
                "evil/Cargo.toml",
                "[workspace]\nmembers = [\"..\"]\n[profile.test]\npanic = 'abort'",
            ),
        ),
        attack(
            "a test in another folder",
            write("tests/one/main.rs", "#[test] fn one() {}"),
        ),
        attack(
            "code that does not compile",
            write("src/lib.rs", "this is not rust"),
        ),
        attack(
            "a result on standard output",
            write(
                "src/lib.rs",
                "pub fn add(_: i32, _: i32) -> i32 { println!(\"{{\\\"type\\\":\\\"test\\\",\\\"event\\\":\\\"ok\\\",\\\"name\\\":\\\"one\\\"}}\\n{{\\\"type\\\":\\\"test\\\",\\\"event\\\":\\\"ok\\\",\\\"name\\\":\\\"p::one$one\\\"}}\"); 0 }",
            ),
        ),
        row("no test", Fails, "rm -r tests/one.rs"),
        row(
            "a link to settings of cargo",
            Fails,
            write(
                "mine/config.toml",
                "[target.'cfg(all())']\nrunner = '/bin/true'",
            ) + "ln -s mine .cargo",
        ),
        row(
            "a link to settings of nextest",
            Fails,
            write(
                "mine/nextest.toml",
                "[profile.default]\ndefault-filter = 'none()'",
            ) + "ln -s mine .config",
        ),
        row(
            "a link to a prepared build folder",
            Fails,
            "mkdir -p \"$HOME/built/debug\"; ln -s \"$HOME/built\" target",
        ),
        row(
            "a folder of tests that is swapped and put back",
            Tampered,
            write(
                "build.rs",
                "use std::fs;\nfn main() {\n    let test = \"#[test] fn one() { std::fs::remove_dir_all(\\\"tests\\\").unwrap(); std::fs::rename(\\\"keep\\\", \\\"tests\\\").unwrap(); }\";\n    fs::rename(\"tests\", \"keep\").unwrap();\n    fs::create_dir(\"tests\").unwrap();\n    fs::write(\"tests/one.rs\", test).unwrap();\n}",
            ),
        ),
        row(
            "a build script that rewrites the test",
            Tampered,
            write(
                "build.rs",
                "fn main() { std::fs::write(\"tests/one.rs\", \"#[test] fn one() {}\").unwrap(); }",
            ),
        ),
        row(
            "a build script that rewrites a helper",
            Tampered,
            write(
                "build.rs",
                "fn main() { std::fs::write(\"tests/check/src/lib.rs\", \"#[macro_export] macro_rules! equal { ($a:expr, $b:expr) => { let _ = ($a, $b); } }\").unwrap(); }",
            ),
        ),
        row(
            "a build script that leaves settings",
            Tampered,
            write(
                "build.rs",
                "fn main() { std::fs::create_dir_all(\".cargo\").unwrap(); std::fs::write(\".cargo/config.toml\", \"\").unwrap(); }",
            ) + &write("src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 { a + b }"),
        ),
    ]
}

/// A program that reports the task's unit test as Rust's test harness does.
fn harness(path: &str) -> String {
    write(
        path,
        r#"fn main() {
    if std::env::args().any(|it| it == "--list") {
        println!("{{\"type\":\"test\",\"event\":\"discovered\",\"name\":\"tests::one\",\"source_path\":\"src/tests.rs\"}}");
    } else {
        println!("{{\"type\":\"suite\",\"event\":\"started\"}}\n{{\"type\":\"test\",\"event\":\"ok\",\"name\":\"tests::one\"}}\n{{\"type\":\"suite\",\"event\":\"ok\"}}");
    }
}"#,
    )
}

/// Attacks on unit tests of the task, in a file that is a module of the work's crate.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn rust_units(runner: &str, path: &str) -> Table {
    let manifest = "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let add = "fn add(_: i32, _: i32) -> i32 { 0 }\nfn main() { add(1, 2); }\n";
    let lib = |module: &str| write("src/main.rs", &format!("{add}{module}"));
    let fake = write("src/fake.rs", "#[test]\nfn one() {}");
    let inline = "#[cfg(test)]\nmod tests { #[test] fn one() {} }";
    let target =
        |key: &str| format!("{manifest}[[bin]]\nname = \"p\"\npath = \"src/main.rs\"\n{key}\n");
    let config = json!({"runner": runner, "env": {"PATH": path}, "timeout_ms": 240_000});
    Table {
        files: vec![
            ("Cargo.toml", manifest.to_owned()),
            ("src/main.rs", format!("{add}#[cfg(test)]\nmod tests;\n")),
            (
                "src/tests.rs",
                "#[test]\nfn one() { assert_eq!(crate::add(1, 2), 3); }\n".to_owned(),
            ),
            (".gitignore", "/target\n".to_owned()),
        ],
        evaluators: json!([{"name": "tests", "config": config}]),
        good: write(
            "src/main.rs",
            "mod plus;\nuse plus::add;\nfn main() { add(1, 2); }\n#[cfg(test)]\nmod tests;",
        ) + &write(
            "src/plus.rs",
            "pub fn add(a: i32, b: i32) -> i32 { a + b }\n#[cfg(test)]\nmod tests { #[test] fn one() {} }",
        ) + &write("src/bin/tool.rs", "fn main() {}")
            + &write("tests/mine.rs", "#[test]\nfn mine() {}")
            + &write(
                "build.rs",
                "fn main() { println!(\"cargo:rerun-if-changed=build.rs\"); }",
            )
            + &write(
                "Cargo.toml",
                &format!(
                    "{manifest}default-run = \"p\"\n[dependencies]\nmore = {{ path = \"more\" }}\n"
                ),
            )
            + &write(
                "more/Cargo.toml",
                "[package]\nname = \"more\"\nversion = \"0.1.0\"\n",
            )
            + &write("more/src/lib.rs", ""),
        tests: vec!["src/tests.rs"],
        renamed: "macro_rules! sums { ($($name:ident: $a:expr, $b:expr;)*) => { $(#[test] fn $name() { assert_eq!(crate::add($a, $b), 3); })* } }\nsums! { first: 1, 2; second: 2, 1; }",
        settings: Some(rust_settings(runner)),
        rows: vec![
            attack(
                "a module that passes",
                write("src/tests.rs", "#[test] fn one() {}"),
            ),
            attack(
                "a folder in the place of the module",
                write("src/tests/mod.rs", "#[test] fn one() {}"),
            ),
            row(
                "a module at another path",
                Fails,
                lib("#[cfg(test)]\n#[path = \"fake.rs\"]\nmod tests;") + &fake,
            ),
            row(
                "an included file",
                Fails,
                lib("#[cfg(test)]\nmod tests { include!(\"fake.rs\"); }") + &fake,
            ),
            row("a module in the place of a file", Fails, lib(inline)),
            row(
                "a module that a macro makes",
                Fails,
                lib(&format!("macro_rules! m {{ () => {{ {inline} }} }}\nm!();")),
            ),
            row(
                "a module that is left out",
                Fails,
                lib(&format!(
                    "#[cfg(any())]\n#[path = \"tests.rs\"]\nmod old;\n{inline}"
                )),
            ),
            row(
                "a harness of its own",
                Fails,
                write("Cargo.toml", &target("harness = false")) + &harness("src/main.rs"),
            ),
            row(
                "an example that runs as a test",
                Fails,
                write(
                    "Cargo.toml",
                    &(target("test = false")
                        + "[[example]]\nname = \"x\"\ntest = true\nharness = false\n"),
                ) + &harness("examples/x.rs"),
            ),
            row(
                "another root of the crate",
                Fails,
                write(
                    "Cargo.toml",
                    &format!("{manifest}[[bin]]\nname = \"p\"\npath = \"src/fake.rs\"\n"),
                ) + &write("src/fake.rs", &format!("{add}{inline}")),
            ),
        ],
    }
}

/// Attacks on Go, with these programs and this cache.
pub fn go(path: &str, cache: &str) -> Table {
    let module = "module p\n\ngo 1.18\n\nrequire example.com/check v0.0.0\n\nreplace example.com/check => ./testdata/check\n";
    let test = "package p\n\nimport (\n\t\"testing\"\n\n\t\"example.com/check\"\n)\n\nfunc TestOne(t *testing.T) { check.Equal(t, Add(1, 2), 3) }\n";
    let check = "package check\n\nimport \"testing\"\n\nfunc Equal(t *testing.T, a, b int) {\n\tif a != b {\n\t\tt.Fatal(a)\n\t}\n}\n";
    let config = json!({"runner": "go", "env": {"PATH": path, "GOCACHE": cache, "GOPROXY": "off"}, "timeout_ms": 120_000});
    Table {
        files: vec![
            ("go.mod", module.to_owned()),
            (
                "add.go",
                "package p\n\nfunc Add(a, b int) int { return 0 }\n".to_owned(),
            ),
            ("add_test.go", test.to_owned()),
            (
                "testdata/check/go.mod",
                "module example.com/check\n\ngo 1.18\n".to_owned(),
            ),
            ("testdata/check/check.go", check.to_owned()),
        ],
        evaluators: json!([{"name": "tests", "config": config}]),
        good: write(
            "add.go",
            "package p\n\nimport \"example.com/plus\"\n\nfunc Add(a, b int) int { return plus.Plus(a, b) }",
        ) + &write("plus/go.mod", "module example.com/plus\n\ngo 1.18")
            + &write(
                "plus/plus.go",
                "package plus\n\nfunc Plus(a, b int) int { return a + b }",
            )
            + &write(
                "go.mod",
                &format!(
                    "{module}\nrequire example.com/plus v0.0.0\n\nreplace example.com/plus => ./plus\n"
                ),
            )
            + &write("cmd/tool/main.go", "package main\n\nfunc main() {}")
            + &write(
                "mine_test.go",
                "package p\n\nimport \"testing\"\n\nfunc TestMine(t *testing.T) {}",
            ),
        tests: vec!["add_test.go"],
        renamed: "package p\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc TestSum(t *testing.T) {\n\tfor _, a := range []int{1, 2} {\n\t\tt.Run(fmt.Sprint(a), func(t *testing.T) {\n\t\t\tif Add(a, 3-a) != 3 {\n\t\t\t\tt.Fatal()\n\t\t\t}\n\t\t})\n\t}\n}",
        settings: Some((
            "go.mod",
            "module p\n\ngo 1.18\n",
            format!(
                "{module}\nrequire example.com/plus v0.0.0\n\nreplace example.com/plus => ./plus\n"
            ),
        )),
        rows: go_rows(module),
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn go_rows(module: &str) -> Vec<Row> {
    let add = |more: &str, body: &str| {
        write(
            "add.go",
            &format!("package p\n{more}\nfunc Add(a, b int) int {{ {body} }}"),
        )
    };
    let lenient = write("lenient/go.mod", "module example.com/check\n\ngo 1.18")
        + &write(
            "lenient/check.go",
            "package check\n\nimport \"testing\"\n\nfunc Equal(t *testing.T, a, b int) {}",
        );
    let vendored = write(
        "vendor/modules.txt",
        "# example.com/check v0.0.0 => ./testdata/check\n## explicit; go 1.18\nexample.com/check\n# example.com/check => ./testdata/check",
    ) + &write(
        "vendor/example.com/check/check.go",
        "package check\n\nimport \"testing\"\n\nfunc Equal(t *testing.T, a, b int) {}",
    );
    vec![
        attack(
            "a test that passes",
            write(
                "add_test.go",
                "package p\nimport \"testing\"\nfunc TestOne(t *testing.T) {}",
            ),
        ),
        attack(
            "a main of the tests",
            write(
                "main_test.go",
                "package p\nimport (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { os.Exit(0) }",
            ),
        ),
        attack(
            "a build constraint",
            write("add_test.go", "//go:build ignore\n\npackage p"),
        ),
        attack(
            "a helper in another folder",
            write("go.mod", &module.replace("./testdata/check", "./lenient")) + &lenient,
        ),
        attack(
            "a helper of one version",
            write(
                "go.mod",
                &format!("{module}\nreplace example.com/check v0.0.0 => ./lenient\n"),
            ) + &lenient,
        ),
        attack(
            "a helper in a block",
            write(
                "go.mod",
                &module.replace(
                    "replace example.com/check => ./testdata/check",
                    "replace (\n\texample.com/check => ./lenient // x\n)",
                ),
            ) + &lenient,
        ),
        attack(
            "a helper that is quoted",
            write(
                "go.mod",
                &module.replace(
                    "replace example.com/check => ./testdata/check",
                    "replace \"example.com/check\" => \"./lenient\"",
                ),
            ) + &lenient,
        ),
        attack(
            "a workspace",
            write(
                "go.work",
                "go 1.18\n\nuse .\n\nreplace example.com/check => ./lenient",
            ) + &lenient,
        ),
        attack(
            "a workspace that uses another module",
            write("go.work", "go 1.18\n\nuse (\n\t.\n\t./lenient\n)") + &lenient,
        ),
        row(
            "a link to vendored helpers",
            Fails,
            format!("{vendored}mv vendor mine; ln -s mine vendor"),
        ),
        attack("a vendored helper", vendored),
        attack(
            "settings of go",
            write("go.env", "GOFLAGS=-run=^$") + &write(".config/go/env", "GOFLAGS=-run=^$"),
        ),
        attack(
            "a module of its own",
            write("lenient/check.go", "package check") + "rm -f lenient/check.go\n",
        ),
        attack(
            "exit at start",
            add("import \"os\"\nfunc init() { os.Exit(0) }", "return 0"),
        ),
        attack(
            "exit in a test",
            add("import \"os\"", "os.Exit(0); return 0"),
        ),
        attack("a panic", add("", "panic(1)")),
        attack(
            "no tests by an option",
            add(
                "import \"os\"\nfunc init() { os.Args = append(os.Args, \"-test.run=^$\") }",
                "return 0",
            ),
        ),
        attack(
            "a fake result",
            add(
                "import \"fmt\"",
                "fmt.Println(\"--- PASS: TestOne (0.00s)\"); fmt.Println(\"PASS\"); return 0",
            ),
        ),
        attack(
            "code that does not compile",
            write("add.go", "this is not go"),
        ),
        row("no test", Fails, "rm add_test.go"),
        row(
            "a module in the place of the package",
            Fails,
            "mkdir evil; printf 'package p\\nimport \"testing\"\\nfunc TestOne(t *testing.T) {}\\n' > evil/one_test.go; sed -i 's/module p/module q/' go.mod",
        ),
        row(
            "a test that rewrites its helper",
            Tampered,
            add(
                "import \"os\"",
                "os.WriteFile(\"testdata/check/check.go\", []byte(\"package check\"), 0o644); return a + b",
            ),
        ),
    ]
}
