//! The settings of `tests`: which runner or command, where its report is, which tests count and how
//! much.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use globset::{Glob, GlobMatcher, GlobSet};
use proctor_document::Fault;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    config::{EvaluatorSpec, globs},
    evaluate::{
        clean_copy::{CleanCopy, Hidden, ReportFile, Setup},
        command,
        command_line::CommandLine,
        protect::Protect,
    },
    sandbox::{docker::Network, shell},
};

/// `config` of `tests`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// A runner that is known: it is run so that it writes its report where the work has no hand.
    runner: Option<Runner>,
    /// More arguments for the runner.
    #[serde(default)]
    args: Vec<String>,
    /// Any other command: words, or a line for the shell. `PROCTOR_REPORT` names the file that its
    /// report goes to; what it prints is read when it writes none.
    command: Option<CommandLine>,
    /// A report that the command writes elsewhere, below the clean copy.
    report: Option<String>,
    /// Only these tests count: they fail before the work and must pass after it.
    #[serde(default)]
    fail_to_pass: Vec<String>,
    /// Only these tests count: they pass before the work and must still pass.
    #[serde(default)]
    pass_to_pass: Vec<String>,
    /// How much tests count, by patterns of their names; 1 for all others.
    #[serde(default)]
    weights: BTreeMap<String, f64>,
    /// Tests that may be skipped, as patterns of their names: they do not count then.
    #[serde(default)]
    may_skip: Vec<String>,
    /// The number of reruns if not all tests passed. Tests that pass then count, and are listed as
    /// flaky.
    #[serde(default)]
    #[schemars(range(max = 10))]
    reruns: u32,
    /// The score that is enough, from 0 to 1. Default 1: every test that counts.
    #[schemars(range(min = 0.0, max = 1.0))]
    threshold: Option<f64>,
    /// A folder beside the test case whose files are laid over the clean copy.
    hidden_tests: Option<String>,
    /// Whether copies of the task's tests check that results are not forged. Default: where there are hidden
    /// tests. Needs a reference solution.
    sentinels: Option<bool>,
    /// Files that are the task's besides tests and the settings of runners: patterns, as for `command`.
    protect: Option<Vec<String>>,
    /// Whether the tests may use the network. Default no; needs containers to hold.
    #[serde(default)]
    network: bool,
    /// More environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The folder to run in, below the clean copy.
    working_dir: Option<String>,
    /// The time limit; 0 means none.
    timeout_ms: Option<u64>,
}

/// A runner that is known.
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

    /// Variables without which it gives no report, or leaves files behind.
    fn env(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Runner::Pytest => &[("PYTHONDONTWRITEBYTECODE", "1"), ("PYTEST_ADDOPTS", "")],
            Runner::Cargo => &[("RUSTC_BOOTSTRAP", "1")],
            Runner::Nextest => &[("NEXTEST_EXPERIMENTAL_LIBTEST_JSON", "1")],
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

/// Where results come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A file that a known runner writes.
    Runner,
    /// The machine-readable output of a known runner.
    Output,
    /// The file that was passed to the command, else its output.
    Any,
    /// A file below the clean copy.
    File(Utf8PathBuf),
}

impl Origin {
    /// The file that the report is looked for in.
    pub(super) fn file(&self, copy: &CleanCopy<'_>) -> Option<ReportFile> {
        match self {
            Origin::Runner | Origin::Any => Some(copy.report_file(None)),
            Origin::Output => None,
            Origin::File(path) => Some(copy.report_file(Some(path))),
        }
    }
}

/// Settings that cannot be wrong any more.
#[derive(Clone, Debug)]
pub(in crate::evaluate) struct Settings {
    what: What,
    pub(super) origin: Origin,
    pub(super) wanted: Vec<String>,
    pub(super) weights: Vec<(GlobMatcher, f64)>,
    pub(super) may_skip: GlobSet,
    pub(super) reruns: u32,
    pub(super) threshold: f64,
    pub(super) timeout: Option<Duration>,
    sentinels: Option<bool>,
    pub(super) unread: Unread,
    pub(in crate::evaluate) setup: Setup,
}

/// The remaining evidence if no results can be read and the task itself gives none either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::evaluate) enum Unread {
    /// Nothing: there is no verdict.
    Nothing,
    /// The exit code, of a command that looks like no runner.
    ExitCode,
    /// The same; and a runner that ran no test says that the work has none, which it should.
    ExitCodeOfOwnTests,
}

#[derive(Clone, Debug)]
enum What {
    Runner(Runner, Vec<String>),
    Command(Vec<String>),
}

impl Settings {
    pub(in crate::evaluate) fn read(
        spec: &EvaluatorSpec,
        folder: &Utf8Path,
    ) -> Result<Settings, Fault> {
        let written: Written = spec.config.read()?;
        let config = &spec.config;
        let threshold = written.threshold.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&threshold) {
            return Err(config.fault("threshold", "`threshold` is a number from 0 to 1"));
        }
        if written.reruns > 10 {
            return Err(config.fault("reruns", "`reruns` is a number from 0 to 10"));
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
            hidden: hidden(spec, folder, written.hidden_tests.as_deref())?,
            protect: Protect::read(config, written.protect.as_deref(), usual)?,
            network: if written.network {
                Network::Open
            } else {
                Network::None
            },
            ..Setup::default()
        };
        let (what, origin) = what(spec, &written)?;
        let setup = setup.of_command(&what.argv());
        Ok(Settings {
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
            setup,
        })
    }

    /// A line for the shell of a repo's task.
    pub(in crate::evaluate) fn of_line(line: &str, timeout: Duration, unread: Unread) -> Settings {
        let what = What::Command(shell::line(line));
        let setup = Setup::default().of_command(&what.argv());
        Settings {
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
            setup,
        }
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

    /// Whether the settings ask for sentinels, which need a reference solution.
    pub(in crate::evaluate) fn asks_for_sentinels(&self) -> bool {
        self.sentinels == Some(true)
    }

    /// The command, for messages.
    pub(super) fn line(&self) -> String {
        match &self.what {
            // A shell gets the line verbatim.
            What::Command(argv) if argv.starts_with(&shell::line("")[..2]) => argv[2..].join(" "),
            What::Command(_) | What::Runner(..) => self.argv().join(" "),
        }
    }

    /// The command.
    pub(super) fn argv(&self) -> Vec<String> {
        self.what.argv()
    }

    /// The command in a copy. If the task has no settings of pytest, the search for others is
    /// disabled: pytest would continue in the directories above the copy.
    pub(super) fn argv_in(&self, copy: &CleanCopy<'_>) -> Vec<String> {
        let mut argv = self.argv();
        let is_pytest = matches!(self.what, What::Runner(Runner::Pytest, _));
        if is_pytest && !cfg!(windows) && !has_pytest_settings(copy) {
            let own = ["-c", "/dev/null", "--rootdir=."].map(str::to_owned);
            argv.splice(PYTEST_WORDS..PYTEST_WORDS, own);
        }
        argv
    }
}

/// Larger files are not settings.
const MAX_SETTINGS: u64 = 1 << 20;

/// How many words of the command line start pytest.
const PYTEST_WORDS: usize = 3;

/// Whether the copy has settings of pytest, or a `setup.py` by which it finds its root.
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

impl What {
    fn argv(&self) -> Vec<String> {
        match self {
            What::Command(argv) => argv.clone(),
            What::Runner(runner, args) => {
                let (mut words, after) = runner.words("$PROCTOR_REPORT");
                words.extend(args.iter().cloned());
                words.extend(after);
                words
            }
        }
    }
}

fn what(spec: &EvaluatorSpec, written: &Written) -> Result<(What, Origin), Fault> {
    let config = &spec.config;
    match (written.runner, written.command.clone()) {
        (Some(_), Some(_)) => Err(config.fault("command", "both `runner` and `command` are given")),
        (None, None) => Err(
            Fault::new(spec.span, "neither `runner` nor `command` is given")
                .with_hint("name one, such as `runner: pytest`"),
        ),
        (Some(_), None) if written.report.is_some() => {
            Err(config.fault("report", "`report` has no effect beside `runner`"))
        }
        (Some(runner), None) => {
            let what = What::Runner(runner, written.args.clone());
            Ok((what, runner.origin()))
        }
        (None, Some(_)) if !written.args.is_empty() => {
            Err(config.fault("args", "`args` has no effect beside `command`"))
        }
        (None, Some(words)) => {
            let origin = match &written.report {
                None => Origin::Any,
                Some(path) => {
                    let path = Utf8PathBuf::from(path);
                    let leaves = path.components().any(|part| part.as_str() == "..");
                    if crate::platform::is_rooted(path.as_str()) || leaves {
                        let message = format!("`{path}` leaves the clean copy");
                        return Err(config.fault("report", message));
                    }
                    Origin::File(path)
                }
            };
            Ok((What::Command(command::program(spec, words)?), origin))
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
            let message = format!("the weight of `{pattern}` is a number from 0 on");
            return Err(spec.config.fault("weights", message));
        }
        let glob = Glob::new(pattern).map_err(|error| {
            let message = format!("`{pattern}` is not a pattern: {}", error.kind());
            spec.config.fault("weights", message)
        })?;
        weights.push((glob.compile_matcher(), *weight));
    }
    Ok(weights)
}

/// A folder of hidden tests, which must be there.
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
        let message = format!("there is no folder {path}");
        return Err(spec.config.fault("hidden_tests", message));
    }
    Ok(Hidden::Folder(path))
}
