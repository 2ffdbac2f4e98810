//! Detects the test command of a repository from its files.

use std::collections::BTreeSet;

use camino::Utf8Path;
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

/// The inverse of `literal`. Commands that use variables of the host have to be resolved by a suite.
pub(crate) fn unescaped(text: &str) -> String {
    text.replace("$${", "${")
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
const NEXTEST: &str = "NEXTEST_EXPERIMENTAL_LIBTEST_JSON=1 cargo nextest run --offline --no-fail-fast --message-format libtest-json";
const MAVEN: &str = "mvn --batch-mode --offline -Dmaven.test.failure.ignore=true test";
const MAVEN_CACHE: &str = " -Dmaven.repo.local=\"${HOME}/.m2/repository\"";
const GRADLE: &str = "gradle --offline --no-daemon --continue test";
const GRADLE_CACHE: &str = "GRADLE_USER_HOME=\"${HOME}/.gradle\" ";
const PHPUNIT: &str = "phpunit --log-junit \"$PROCTOR_REPORT\"";
const COMPOSER: &str = "composer install --no-interaction --no-progress";
const CTEST: &str = "cmake -S . -B build-tests && cmake --build build-tests && ctest --test-dir build-tests --output-junit \"$PROCTOR_REPORT\"";
/// Commands run with a private HOME, where the toolchains of rustup and the downloaded crates are
/// not found.
const CARGO_OF_RUSTUP: &str =
    "export RUSTUP_HOME=\"${HOME}/.rustup\" CARGO_HOME=\"${HOME}/.cargo\"; ";
const NPM_CACHE: &str = "npm_config_cache=\"${HOME}/.npm\" ";
const NPM_CI: &str = "npm ci --prefer-offline --no-audit --no-fund";

const UNITTEST: &str = concat!(
    "PYTHONDONTWRITEBYTECODE=1 python3 -c '\n",
    include_str!("runners/unittest.py"),
    "' \"$PROCTOR_REPORT\""
);

const MINITEST: &str = concat!(
    "ruby -Ilib -Itest -e '\n",
    include_str!("runners/minitest.rb"),
    "' \"$PROCTOR_REPORT\""
);

const RSPEC: &str = concat!(
    "ruby -e '\n",
    include_str!("runners/rspec.rb"),
    "' \"$PROCTOR_REPORT\""
);

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

impl RepositoryFiles<'_> {
    fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// A cache of the user, which the private HOME of the commands hides.
    fn cache(&self, text: &'static str) -> &'static str {
        if self.is_local { text } else { "" }
    }

    /// Whether a folder has files with this extension.
    fn has_below(&self, folder: &str, extension: &str) -> bool {
        let mut paths = self.names.iter().map(Utf8Path::new);
        paths.any(|path| path.starts_with(folder) && path.extension() == Some(extension))
    }
}

/// The test command of a repository; `None` if no known runner is recognized.
pub(crate) fn detect(files: &RepositoryFiles<'_>) -> Option<TestCommand> {
    let known = [rust, go, node, python, java, ruby, php, ctest];
    known.iter().find_map(|runner| runner(files))
}

fn only(line: String) -> TestCommand {
    TestCommand {
        test_cmd: line,
        install_cmd: None,
    }
}

fn rust(files: &RepositoryFiles<'_>) -> Option<TestCommand> {
    let before = if files.has_rustup {
        files.cache(CARGO_OF_RUSTUP)
    } else {
        ""
    };
    let is_nextest = files.has(".config/nextest.toml");
    let line = if is_nextest { NEXTEST } else { CARGO };
    let found = files.has("Cargo.toml");
    found.then(|| only(format!("{before}{line}")))
}

fn go(files: &RepositoryFiles<'_>) -> Option<TestCommand> {
    let needs_cache = files.is_local && files.has("go.sum");
    let line = if needs_cache { GO_WITH_MODULES } else { GO };
    files.has("go.mod").then(|| only(line.to_owned()))
}

fn node(files: &RepositoryFiles<'_>) -> Option<TestCommand> {
    let line = of_package(files.package_json?, files.names)?;
    let cache = files.cache(NPM_CACHE);
    let is_locked = files.has("package-lock.json");
    Some(TestCommand {
        install_cmd: is_locked.then(|| format!("{cache}{NPM_CI}")),
        ..only(line.to_owned())
    })
}

fn python(files: &RepositoryFiles<'_>) -> Option<TestCommand> {
    // An installed copy of the package, such as an editable one, is not the code to test.
    let path = if files.has_below("src", "py") {
        "PYTHONPATH=\"$PWD/src\" "
    } else {
        ""
    };
    let line = if files.uses_pytest { PYTEST } else { UNITTEST };
    let found = files.names.iter().any(|name| is_python_test(name));
    found.then(|| only(format!("{path}{line}")))
}

/// Whether a file of Python holds tests by its name.
fn is_python_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.strip_suffix(".py");
    stem.is_some_and(|stem| stem.starts_with("test") || stem.ends_with("_test"))
}

fn java(files: &RepositoryFiles<'_>) -> Option<TestCommand> {
    if files.has("pom.xml") {
        let line = format!("{MAVEN}{}", files.cache(MAVEN_CACHE));
        return Some(only(merged(&line, "target/surefire-reports")));
    }
    let is_gradle = files.has("build.gradle") || files.has("build.gradle.kts");
    let wrapper = if files.has("gradlew") {
        "./gradlew"
    } else {
        "gradle"
    };
    let line = GRADLE.replacen("gradle", wrapper, 1);
    let line = format!("{}{line}", files.cache(GRADLE_CACHE));
    is_gradle.then(|| only(merged(&line, "build/test-results/test")))
}

/// A command whose modules write reports as `JUnit` XML into their own folders.
fn merged(line: &str, folder: &str) -> String {
    let files = format!("find . -path '*/{folder}/*.xml'");
    format!(
        "{files} -delete; {line}; code=$?; {{ echo '<testsuites>'; {files} -exec sed 's/<?xml[^>]*>//' {{}} +; echo '</testsuites>'; }} > \"$PROCTOR_REPORT\"; exit $code"
    )
}

fn ruby(files: &RepositoryFiles<'_>) -> Option<TestCommand> {
    let line = if files.has_below("spec", "rb") {
        RSPEC
    } else if files.has_below("test", "rb") {
        MINITEST
    } else {
        return None;
    };
    let bundle = if files.has("Gemfile.lock") {
        "bundle exec "
    } else {
        ""
    };
    Some(only(format!("{bundle}{line}")))
}

fn php(files: &RepositoryFiles<'_>) -> Option<TestCommand> {
    let settings = ["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"];
    let is_locked = files.has("composer.lock");
    let folder = if is_locked { "vendor/bin/" } else { "" };
    let found = settings.iter().any(|name| files.has(name));
    found.then(|| TestCommand {
        install_cmd: is_locked.then(|| COMPOSER.to_owned()),
        ..only(format!("{folder}{PHPUNIT}"))
    })
}

fn ctest(files: &RepositoryFiles<'_>) -> Option<TestCommand> {
    files.has("CMakeLists.txt").then(|| only(CTEST.to_owned()))
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
            (&["Cargo.toml", ".config/nextest.toml"], None, NEXTEST),
            (&["tests/test_a.py", "conftest.py"], None, PYTEST),
            (&["a.py", "test_a.py"], None, UNITTEST),
            (&["test_a.py", "package.json"], Some("{}"), UNITTEST),
            (&["spec/a_spec.rb", "test/b.rb"], None, RSPEC),
            (&["test/a_test.rb", "lib/a.rb"], None, MINITEST),
            (&["phpunit.xml.dist", "src/A.php"], None, PHPUNIT),
            (&["CMakeLists.txt", "a.c"], None, CTEST),
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
    fn source_folder_of_python_is_preferred_to_an_installed_package() {
        let found = detected(&["src/a/b.py", "test_b.py"], None).unwrap();
        let expected = format!("PYTHONPATH=\"$PWD/src\" {UNITTEST}");
        assert_eq!(found.test_cmd, expected);
    }

    #[test]
    fn reports_of_all_modules_are_merged() {
        for (names, command) in [
            (&["pom.xml"][..], "mvn "),
            (&["build.gradle"], " gradle "),
            (&["build.gradle.kts", "gradlew"], " ./gradlew "),
        ] {
            let found = detected(names, None).unwrap().test_cmd;
            assert!(found.contains(command), "{found}");
            assert!(
                found.ends_with("> \"$PROCTOR_REPORT\"; exit $code"),
                "{found}"
            );
        }
    }

    #[test]
    fn lock_files_need_an_installation() {
        let names = ["phpunit.xml", "composer.lock"];
        let found = detected(&names, None).unwrap();
        assert_eq!(found.install_cmd.as_deref(), Some(COMPOSER));
        assert_eq!(found.test_cmd, format!("vendor/bin/{PHPUNIT}"));
        let names = ["package-lock.json", "a.test.js"];
        let found = detected(&names, Some("{}")).unwrap();
        assert_eq!(found.install_cmd, Some(format!("{NPM_CACHE}{NPM_CI}")));
    }
}
