//! The settings of `tests`: the runner or command, its report, and the tests that count with their
//! weights.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8Path;
use globset::{Glob, GlobMatcher, GlobSet};
use proctor_document::Fault;
use proctor_sandbox::{docker::ContainerNetwork, shell};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    config::{EvaluatorSpec, globs},
    evaluate::{
        clean_copy::{CleanCopy, Hidden, Setup},
        command,
        command_line::CommandLine,
        protect::Protect,
        report_file::ReportFile,
    },
};

/// `config` of `tests`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TestsAsWritten {
    /// A known runner. Its report is written to a location that the work does not control.
    runner: Option<Runner>,
    /// Additional arguments of the runner.
    #[serde(default)]
    args: Vec<String>,
    /// Any other command: words or a shell command. It writes its report to the file in
    /// `PROCTOR_REPORT`; otherwise its output is read.
    command: Option<CommandLine>,
    /// The report that the command writes, relative to the clean copy.
    report: Option<String>,
    /// Only these tests count: they fail before the work and must pass after it.
    #[serde(default)]
    fail_to_pass: Vec<String>,
    /// Only these tests count: they pass before the work and must still pass.
    #[serde(default)]
    pass_to_pass: Vec<String>,
    /// The weights of tests, by patterns of their names. Default 1.
    #[serde(default)]
    weights: BTreeMap<String, f64>,
    /// Patterns of tests that may be skipped: skipped ones do not count.
    #[serde(default)]
    may_skip: Vec<String>,
    /// The number of reruns if not all tests passed. Tests that pass then count, and are listed as
    /// flaky.
    #[serde(default)]
    #[schemars(range(max = 10))]
    reruns: u32,
    /// The minimum score, from 0 to 1. Default 1: all tests that count.
    #[schemars(range(min = 0.0, max = 1.0))]
    threshold: Option<f64>,
    /// A folder next to the test case whose files are copied over the work.
    hidden_tests: Option<String>,
    /// Whether copies of the task's tests check for forged results. Default: true with hidden
    /// tests. Requires a reference solution.
    sentinels: Option<bool>,
    /// Patterns of files that are taken from the task in addition to tests and runner settings, as
    /// for `command`.
    protect: Option<Vec<String>>,
    /// Whether the tests may use the network. Default: false. Enforced in containers only.
    #[serde(default)]
    network: bool,
    /// Additional environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The folder to run in, below the clean copy.
    working_dir: Option<String>,
    /// The time limit; 0 means none.
    timeout_ms: Option<u64>,
}

/// A known runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Runner {
    Pytest,
    Jest,
    Vitest,
    /// Node's own, `node --test`.
    Node,
    /// `cargo test`.
    Cargo,
    /// `cargo nextest run`.
    Nextest,
    /// `go test`.
    Go,
}

impl Runner {
    /// The command: the words before and after additional arguments.
    fn words(self, report: &str) -> (Vec<String>, Vec<String>) {
        let (before, after): (Vec<&str>, Vec<&str>) = match self {
            Runner::Pytest => (
                vec![
                    "python3",
                    "-m",
                    "pytest",
                    "-p",
                    "no:cacheprovider",
                    "--confcutdir=$PROCTOR_COPY",
                ],
                vec!["--junitxml", report],
            ),
            Runner::Jest => (
                vec!["npx", "--no-install", "jest", "--ci", "--json"],
                vec!["--outputFile", report],
            ),
            Runner::Vitest => (
                vec!["npx", "--no-install", "vitest", "run", "--reporter=json"],
                vec!["--outputFile", report],
            ),
            Runner::Node => (
                vec!["node", "--test", "--test-reporter=junit"],
                vec!["--test-reporter-destination", report],
            ),
            Runner::Cargo => (
                vec!["cargo", "test", "--offline", "--no-fail-fast"],
                vec!["--", "-Zunstable-options", "--format=json"],
            ),
            Runner::Nextest => (
                vec!["cargo", "nextest", "run", "--offline", "--no-fail-fast"],
                vec!["--message-format", "libtest-json"],
            ),
            Runner::Go => (vec!["go", "test", "-json"], vec!["./..."]),
        };
        let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
        (owned(before), owned(after))
    }

    /// Variables that the runner needs to write a report and to leave no files behind.
    fn env(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Runner::Pytest => &[("PYTHONDONTWRITEBYTECODE", "1"), ("PYTEST_ADDOPTS", "")],
            Runner::Cargo => &[("RUSTC_BOOTSTRAP", "1")],
            Runner::Nextest => &[
                ("NEXTEST_EXPERIMENTAL_LIBTEST_JSON", "1"),
                // For the list of tests with their files.
                ("RUSTC_BOOTSTRAP", "1"),
            ],
            Runner::Jest | Runner::Vitest | Runner::Node | Runner::Go => &[],
        }
    }

    fn origin(self) -> Origin {
        match self {
            Runner::Cargo | Runner::Nextest | Runner::Go => Origin::Output,
            Runner::Pytest | Runner::Jest | Runner::Vitest | Runner::Node => Origin::Runner,
        }
    }
}

/// The source of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A file that a known runner writes.
    Runner,
    /// The machine-readable output of a known runner.
    Output,
    /// The file in `PROCTOR_REPORT`, else the output.
    Any,
    /// A file below the clean copy.
    File,
}

impl Origin {
    /// The report file.
    pub(super) fn file(self, copy: &CleanCopy<'_>) -> Option<ReportFile> {
        match self {
            Origin::Runner | Origin::Any | Origin::File => Some(copy.report_file()),
            Origin::Output => None,
        }
    }
}

/// Validated settings.
#[derive(Clone, Debug)]
pub(in crate::evaluate) struct TestsSettings {
    what: TestCommand,
    pub(super) origin: Origin,
    pub(super) wanted: Vec<String>,
    pub(super) weights: Vec<(GlobMatcher, f64)>,
    pub(super) may_skip: GlobSet,
    pub(super) reruns: u32,
    pub(super) threshold: f64,
    pub(super) timeout: Option<Duration>,
    sentinels: Option<bool>,
    pub(super) unread: Unread,
    pub(super) scoring: Scoring,
    pub(in crate::evaluate) setup: Setup,
}

/// The score of tests of which some pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scoring {
    /// The share that passed.
    Share,
    /// 0.
    AllOrNothing,
}

/// The fallback if no results can be read and the task itself has none either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::evaluate) enum Unread {
    /// No fallback: there is no verdict.
    Nothing,
    /// The exit code of an unknown runner.
    ExitCode,
    /// The exit code. A known runner without a test means that the work has no tests, which it
    /// should.
    ExitCodeOfOwnTests,
}

#[derive(Clone, Debug)]
enum TestCommand {
    Runner(Runner, Vec<String>),
    Command(Vec<String>),
}

impl TestsSettings {
    pub(in crate::evaluate) fn read(
        spec: &EvaluatorSpec,
        folder: &Utf8Path,
    ) -> Result<TestsSettings, Fault> {
        let written: TestsAsWritten = spec.config.read()?;
        let config = &spec.config;
        let threshold = written.threshold.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&threshold) {
            return Err(config.fault("threshold", "`threshold` must be from 0 to 1"));
        }
        if written.reruns > 10 {
            return Err(config.fault("reruns", "`reruns` must be from 0 to 10"));
        }
        let mut wanted = written.fail_to_pass.clone();
        wanted.extend(written.pass_to_pass.iter().cloned());
        let mut env: BTreeMap<String, String> = BTreeMap::new();
        let runner = written.runner.map_or(&[] as &[_], Runner::env);
        env.extend(
            runner
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
        );
        env.extend(written.env.clone());
        let usual = Protect::tests();
        let setup = Setup {
            env,
            working_dir: command::working_dir(spec, written.working_dir.clone())?,
            report: command::below_copy(spec, "report", written.report.clone())?,
            hidden: hidden(spec, folder, written.hidden_tests.as_deref())?,
            protect: Protect::read(config, written.protect.as_deref(), usual)?,
            network: if written.network {
                ContainerNetwork::Open
            } else {
                ContainerNetwork::None
            },
            ..Setup::default()
        };
        let (what, origin) = what(spec, &written)?;
        let setup = setup.of_command(&what.argv());
        Ok(TestsSettings {
            what,
            origin,
            wanted,
            weights: weights(spec, &written.weights)?,
            may_skip: globs(config, "may_skip", &written.may_skip)?,
            reruns: written.reruns,
            threshold,
            timeout: command::timeout(written.timeout_ms),
            sentinels: written.sentinels,
            unread: Unread::Nothing,
            scoring: Scoring::Share,
            setup,
        })
    }

    /// The settings for a shell command of a repo task.
    pub(in crate::evaluate) fn of_line(
        line: &str,
        timeout: Duration,
        unread: Unread,
    ) -> TestsSettings {
        let what = TestCommand::Command(shell::line(line));
        let setup = Setup::default().of_command(&what.argv());
        TestsSettings {
            what,
            origin: Origin::Any,
            wanted: Vec::new(),
            weights: Vec::new(),
            may_skip: GlobSet::empty(),
            reruns: 0,
            threshold: 1.0,
            timeout: Some(timeout),
            sentinels: None,
            unread,
            scoring: Scoring::Share,
            setup,
        }
    }

    /// Counts only the tests with these names, if there are any.
    pub(in crate::evaluate) fn count_only(&mut self, names: &[String]) {
        self.wanted = names.to_vec();
    }

    /// Scores 1 only if all tests pass, and 0 otherwise.
    pub(in crate::evaluate) fn require_all(&mut self) {
        self.scoring = Scoring::AllOrNothing;
    }

    /// Whether the tests are part of the work.
    pub(in crate::evaluate) fn judges_own_tests(&self) -> bool {
        self.unread == Unread::ExitCodeOfOwnTests
    }

    /// Whether results are checked with sentinels.
    pub(super) fn has_sentinels(&self) -> bool {
        let has_hidden = !matches!(self.setup.hidden, Hidden::None);
        self.sentinels.unwrap_or(has_hidden) && !self.judges_own_tests()
    }

    /// Whether the settings enable sentinels, which require a reference solution.
    pub(in crate::evaluate) fn asks_for_sentinels(&self) -> bool {
        self.sentinels == Some(true)
    }

    /// The command, for messages.
    pub(super) fn line(&self) -> String {
        match &self.what {
            // The shell gets the line unchanged.
            TestCommand::Command(argv) if argv.starts_with(&shell::line("")[..2]) => {
                argv[2..].join(" ")
            }
            TestCommand::Command(_) | TestCommand::Runner(..) => self.argv().join(" "),
        }
    }

    /// The command.
    pub(super) fn argv(&self) -> Vec<String> {
        self.what.argv()
    }

    /// A command that lists the tests of Rust with the files that define them, and whether it takes the arguments of
    /// the runner.
    pub(super) fn listing(&self) -> Option<(Vec<String>, bool)> {
        let TestCommand::Runner(runner @ (Runner::Cargo | Runner::Nextest), args) = &self.what
        else {
            return None;
        };
        let (mut words, after) = Runner::Cargo.words("");
        words.extend(args.iter().cloned());
        words.extend(after);
        words.push("--list".to_owned());
        Some((words, *runner == Runner::Cargo || args.is_empty()))
    }

    /// The command in a copy. Without pytest settings in the task, the search for settings is
    /// disabled: pytest would continue in the directories above the copy.
    pub(super) fn argv_in(&self, copy: &CleanCopy<'_>) -> Vec<String> {
        let mut argv = self.argv();
        let is_pytest = matches!(self.what, TestCommand::Runner(Runner::Pytest, _));
        if is_pytest && !cfg!(windows) && !has_pytest_settings(copy) {
            let own = ["-c", "/dev/null", "--rootdir=."].map(str::to_owned);
            argv.splice(PYTEST_WORDS..PYTEST_WORDS, own);
        }
        argv
    }
}

/// The maximum size of a settings file.
const MAX_SETTINGS: u64 = 1 << 20;

/// The number of words that start pytest.
const PYTEST_WORDS: usize = 3;

/// Whether the copy has pytest settings, or a `setup.py`, which defines the root.
fn has_pytest_settings(copy: &CleanCopy<'_>) -> bool {
    let own = [
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "setup.py",
    ];
    let shared = ["pyproject.toml", "tox.ini", "setup.cfg"];
    copy.setup().working_dir.ancestors().any(|folder| {
        let says = |name: &&str| {
            let text = copy.files.read(folder.join(name), MAX_SETTINGS);
            text.is_ok_and(|text| memchr::memmem::find(&text, b"pytest").is_some())
        };
        let is_there = |name: &&str| copy.files.metadata(folder.join(name)).is_ok();
        own.iter().any(is_there) || shared.iter().any(says)
    })
}

impl TestCommand {
    fn argv(&self) -> Vec<String> {
        match self {
            TestCommand::Command(argv) => argv.clone(),
            TestCommand::Runner(runner, args) => {
                let (mut words, after) = runner.words("$PROCTOR_REPORT");
                words.extend(args.iter().cloned());
                words.extend(after);
                words
            }
        }
    }
}

fn what(spec: &EvaluatorSpec, written: &TestsAsWritten) -> Result<(TestCommand, Origin), Fault> {
    let config = &spec.config;
    match (written.runner, written.command.clone()) {
        (Some(_), Some(_)) => {
            Err(config.fault("command", "`runner` and `command` cannot be combined"))
        }
        (None, None) => Err(Fault::new(spec.span, "missing key `runner` or `command`")
            .with_hint("add one, such as `runner: pytest`")),
        (Some(_), None) if written.report.is_some() => {
            Err(config.fault("report", "`report` has no effect with `runner`"))
        }
        (Some(runner), None) => {
            let what = TestCommand::Runner(runner, written.args.clone());
            Ok((what, runner.origin()))
        }
        (None, Some(_)) if !written.args.is_empty() => {
            Err(config.fault("args", "`args` has no effect with `command`"))
        }
        (None, Some(words)) => {
            let origin = match &written.report {
                None => Origin::Any,
                Some(_) => Origin::File,
            };
            Ok((TestCommand::Command(command::program(spec, words)?), origin))
        }
    }
}

fn weights(
    spec: &EvaluatorSpec,
    written: &BTreeMap<String, f64>,
) -> Result<Vec<(GlobMatcher, f64)>, Fault> {
    let mut weights = Vec::new();
    for (pattern, weight) in written {
        if !(weight.is_finite() && *weight >= 0.0) {
            let message = format!("the weight of `{pattern}` must be at least 0");
            return Err(spec.config.fault("weights", message));
        }
        let glob = Glob::new(pattern).map_err(|error| {
            let message = format!("invalid pattern `{pattern}`: {}", error.kind());
            spec.config.fault("weights", message)
        })?;
        weights.push((glob.compile_matcher(), *weight));
    }
    Ok(weights)
}

/// Checks a folder of hidden tests.
pub(in crate::evaluate) fn hidden(
    spec: &EvaluatorSpec,
    folder: &Utf8Path,
    written: Option<&str>,
) -> Result<Hidden, Fault> {
    let Some(written) = written else {
        return Ok(Hidden::None);
    };
    let path = folder.join(written);
    if !path.is_dir() {
        let message = format!("folder not found: {path}");
        return Err(spec.config.fault("hidden_tests", message));
    }
    Ok(Hidden::Folder(path))
}
