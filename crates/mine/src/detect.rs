//! Detects the test command of a repository from its files.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The commands that prepare and test a tree. `${NAME}` stands for a variable of the host, as in a
/// suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCommand {
    /// The test command.
    pub test_cmd: String,
    /// The command that prepares a workspace before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_cmd: Option<String>,
}

impl TestCommand {
    /// A shell command, as given by the user.
    pub fn of_line(line: &str) -> TestCommand {
        TestCommand {
            test_cmd: literal(line),
            install_cmd: None,
        }
    }
}

/// A text as a value of a suite, where variables are replaced.
pub(crate) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

const PYTEST: &str = "PYTHONDONTWRITEBYTECODE=1 python3 -m pytest -p no:cacheprovider --junitxml \"$PROCTOR_REPORT\"";
const NODE: &str =
    "node --test --test-reporter=junit --test-reporter-destination=\"$PROCTOR_REPORT\"";
const JEST: &str = "npx --no-install jest --ci --json --outputFile=\"$PROCTOR_REPORT\"";
const VITEST: &str = "npx --no-install vitest run --reporter=json --outputFile=\"$PROCTOR_REPORT\"";
const MOCHA: &str =
    "npx --no-install mocha --reporter xunit --reporter-option output=\"$PROCTOR_REPORT\"";
const GO: &str = "go test -json ./...";
const GO_WITH_MODULES: &str = "GOPROXY=off GOMODCACHE=\"${HOME}/go/pkg/mod\" go test -json ./...";
const CARGO: &str =
    "RUSTC_BOOTSTRAP=1 cargo test --offline --no-fail-fast -- -Zunstable-options --format=json";
/// Commands run with a private HOME, where the toolchains of rustup and the downloaded crates are
/// not found.
const CARGO_OF_RUSTUP: &str =
    "export RUSTUP_HOME=\"${HOME}/.rustup\" CARGO_HOME=\"${HOME}/.cargo\"; ";
const NPM_CACHE: &str = "npm_config_cache=\"${HOME}/.npm\" ";
const NPM_CI: &str = "npm ci --prefer-offline --no-audit --no-fund";

/// A runner of unittest that writes its results in the Test Anything Protocol.
const UNITTEST: &str = r#"PYTHONDONTWRITEBYTECODE=1 python3 -c '
import sys, unittest
lines = []
class Result(unittest.TextTestResult):
    def note(self, test, word, more=""):
        lines.append("%s %d - %s%s" % (word, len(lines) + 1, test.id(), more))
    def addSuccess(self, test):
        super().addSuccess(test); self.note(test, "ok")
    def addFailure(self, test, err):
        super().addFailure(test, err); self.note(test, "not ok")
    def addError(self, test, err):
        super().addError(test, err); self.note(test, "not ok")
    def addSkip(self, test, reason):
        super().addSkip(test, reason); self.note(test, "ok", " # SKIP")
    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err); self.note(test, "ok")
    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test); self.note(test, "not ok")
    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(subtest, "not ok")
tests = unittest.defaultTestLoader.discover(".")
result = unittest.TextTestRunner(resultclass=Result).run(tests)
with open(sys.argv[1], "w") as report:
    report.write("TAP version 13\n1..%d\n" % len(lines) + "\n".join(lines) + "\n")
sys.exit(not result.wasSuccessful())
' "$PROCTOR_REPORT""#;

/// The files of a repository that the detection reads.
pub(crate) struct RepositoryFiles<'a> {
    /// The paths of all files.
    pub(crate) names: &'a BTreeSet<String>,
    /// The content of `package.json`.
    pub(crate) package_json: Option<&'a str>,
    /// Whether the tests run on this machine, where the user's caches can be read.
    pub(crate) is_local: bool,
    /// Whether the user's toolchains of Rust come from rustup.
    pub(crate) has_rustup: bool,
    /// Whether a test of Python imports pytest, or the project has settings of it.
    pub(crate) uses_pytest: bool,
}

/// The test command of a repository; `None` if no known runner is recognized.
pub(crate) fn detect(files: &RepositoryFiles<'_>) -> Option<TestCommand> {
    let has = |name: &str| files.names.contains(name);
    let only = |line: &str| TestCommand {
        test_cmd: line.to_owned(),
        install_cmd: None,
    };
    if has("Cargo.toml") {
        let is_rustup = files.is_local && files.has_rustup;
        let before = if is_rustup { CARGO_OF_RUSTUP } else { "" };
        return Some(only(&format!("{before}{CARGO}")));
    }
    if has("go.mod") {
        let needs_cache = files.is_local && has("go.sum");
        return Some(only(if needs_cache { GO_WITH_MODULES } else { GO }));
    }
    if let Some(text) = files.package_json {
        let line = of_package(text, files.names);
        let cache = if files.is_local { NPM_CACHE } else { "" };
        let install = has("package-lock.json").then(|| format!("{cache}{NPM_CI}"));
        return line.map(|line| TestCommand {
            install_cmd: install,
            ..only(line)
        });
    }
    let is_python = |name: &String| is_python_test(name);
    files
        .names
        .iter()
        .any(is_python)
        .then(|| only(if files.uses_pytest { PYTEST } else { UNITTEST }))
}

/// Whether a file of Python holds tests by its name.
fn is_python_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.strip_suffix(".py");
    stem.is_some_and(|stem| stem.starts_with("test") || stem.ends_with("_test"))
}

/// The runner of a package of Node: a dependency, or the one that its `test` script starts.
fn of_package(text: &str, names: &BTreeSet<String>) -> Option<&'static str> {
    let package: Value = serde_json::from_str(text).ok()?;
    let script = package["scripts"]["test"].as_str().unwrap_or_default();
    let depends = |name: &str| {
        let lists = ["dependencies", "devDependencies"];
        lists.iter().any(|list| package[list].get(name).is_some())
    };
    let runners = [("vitest", VITEST), ("jest", JEST), ("mocha", MOCHA)];
    let by_script = runners.iter().find(|(name, _)| script.contains(name));
    let found = by_script.or_else(|| runners.iter().find(|(name, _)| depends(name)));
    if let Some((_, line)) = found {
        return Some(line);
    }
    let is_test = |name: &String| {
        let is_code = [".js", ".mjs", ".cjs"]
            .iter()
            .any(|end| name.ends_with(end));
        is_code && proctor_harness::evaluate::is_test_file(name)
    };
    (script.contains("node --test") || names.iter().any(is_test)).then_some(NODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(names: &[&str], package_json: Option<&str>) -> Option<TestCommand> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        detect(&RepositoryFiles {
            names: &names,
            package_json,
            is_local: true,
            has_rustup: false,
            uses_pytest: names.contains("conftest.py"),
        })
    }

    #[test]
    fn runner_is_detected_by_files() {
        let line = |names: &[&str], package| detected(names, package).map(|it| it.test_cmd);
        for (names, package, expected) in [
            (&["Cargo.toml", "src/lib.rs"][..], None, CARGO),
            (&["go.mod", "a_test.go"], None, GO),
            (&["go.mod", "go.sum"], None, GO_WITH_MODULES),
            (&["tests/test_a.py", "conftest.py"], None, PYTEST),
            (&["a.py", "test_a.py"], None, UNITTEST),
            (&["a.test.js"], Some("{}"), NODE),
            (
                &["a.js"],
                Some(r#"{"scripts": {"test": "node --test"}}"#),
                NODE,
            ),
            (
                &["a.ts"],
                Some(r#"{"devDependencies": {"vitest": "3"}}"#),
                VITEST,
            ),
            (&["a.js"], Some(r#"{"scripts": {"test": "jest"}}"#), JEST),
            (
                &["a.js"],
                Some(r#"{"devDependencies": {"mocha": "1"}}"#),
                MOCHA,
            ),
        ] {
            assert_eq!(line(names, package).as_deref(), Some(expected), "{names:?}");
        }
        assert_eq!(line(&["a.py", "README.md"], None), None);
        assert_eq!(line(&["a.js"], Some("{}")), None);
    }

    #[test]
    fn lock_file_of_npm_needs_an_installation() {
        let names = ["package-lock.json", "a.test.js"];
        let found = detected(&names, Some("{}")).unwrap();
        assert_eq!(found.install_cmd, Some(format!("{NPM_CACHE}{NPM_CI}")));
    }
}
