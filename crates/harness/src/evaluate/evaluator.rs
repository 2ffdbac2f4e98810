//! One evaluator: read from its settings, and called to judge.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use camino::Utf8Path;
use proctor_document::Fault;
use proctor_record::record::{
    Artifact, DEFAULT_WEIGHT, VERIFIER, Verdict, VerdictError, VerdictStatus,
};
use serde_json::{Map, Value};

use super::{
    Judging, Protect, Verifier, clean_copy, command, content, coverage, definition, expected_diff,
    git_diff, judge, static_check, tests, trajectory, verifier,
};
use crate::{config::EvaluatorSpec, workspace::Install};

/// A configured evaluator.
#[derive(Clone, Debug)]
pub struct Evaluator {
    /// The name in the test case.
    pub name: String,
    /// Its weight in the trial's score.
    pub(super) weight: f64,
    /// Whether it can fail the trial without a part in its score.
    is_gate: bool,
    /// Its settings as written, for its definition.
    pub(super) config: Value,
    pub(super) kind: Kind,
}

/// All kinds of evaluators.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    GitDiff(git_diff::GitDiffSettings),
    Command(Box<command::CommandEvaluatorSettings>),
    ExpectedDiff(expected_diff::ExpectedDiffSettings),
    Tests(Box<tests::TestsSettings>),
    StaticCheck(Box<static_check::StaticCheckSettings>),
    Coverage(Box<coverage::CoverageSettings>),
    Content(content::ContentSettings),
    Trajectory(trajectory::TrajectorySettings),
    Verifier(Arc<Verifier>),
    Judge(Box<judge::JudgeSettings>),
}

/// The names of all evaluators, with descriptions.
pub const EVALUATORS: [(&str, &str); 13] = [
    (
        "tests",
        "runs the tests in a clean copy and reads the runner's report, test by test",
    ),
    (
        "lint",
        "runs a linter; only findings that the base does not have count",
    ),
    ("build", "runs a build; only new findings count"),
    ("typecheck", "runs a type checker; only new findings count"),
    ("coverage", "measures the code coverage of the tests"),
    ("file", "checks a file of the result"),
    ("output", "checks the agent's last message"),
    (
        "trajectory",
        "checks turns, tokens, cost, time, tools and commands",
    ),
    (
        "git-diff",
        "measures the change and checks its size and distribution",
    ),
    (
        "command",
        "runs a command in a clean copy of the result; its exit code decides",
    ),
    (
        "expected-diff",
        "compares the change with that of the reference solution",
    ),
    (
        "agentic-judge",
        "an agent or a model judges by criteria that must all hold",
    ),
    (
        "rubric",
        "an agent or a model judges by weighted criteria with anchors",
    ),
];

/// A verdict without a name and duration.
pub(super) struct Finding {
    pub(super) status: VerdictStatus,
    pub(super) score: Option<f64>,
    pub(super) message: String,
    pub(super) metrics: Map<String, Value>,
    pub(super) assertions: Option<Map<String, Value>>,
    pub(super) artifacts: Vec<Artifact>,
    /// Files of the agent that were replaced or removed.
    pub(super) restored: Vec<String>,
    /// Protected files that changed during judging.
    pub(super) tampered: Vec<String>,
}

impl Evaluator {
    /// Reads one entry of `evaluators`.
    pub fn configure(spec: &EvaluatorSpec, folder: &Utf8Path) -> Result<Evaluator, Fault> {
        let kind = match spec.name.as_str() {
            "git-diff" => Kind::GitDiff(git_diff::GitDiffSettings::read(&spec.config)?),
            "command" => Kind::Command(Box::new(command::CommandEvaluatorSettings::read(
                spec, folder,
            )?)),
            "expected-diff" => Kind::ExpectedDiff(expected_diff::ExpectedDiffSettings::read(spec)?),
            "tests" => Kind::Tests(Box::new(tests::TestsSettings::read(spec, folder)?)),
            "lint" | "build" | "typecheck" => Kind::StaticCheck(Box::new(
                static_check::StaticCheckSettings::read(spec, folder)?,
            )),
            "coverage" => Kind::Coverage(Box::new(coverage::CoverageSettings::read(spec, folder)?)),
            "file" => Kind::Content(content::ContentSettings::read_file(spec)?),
            "output" => Kind::Content(content::ContentSettings::read_output(spec)?),
            "trajectory" => Kind::Trajectory(trajectory::TrajectorySettings::read(spec)?),
            name if judge::rule_of(name).is_some() => {
                let rule = judge::rule_of(name).unwrap_or(judge::Rule::Every);
                Kind::Judge(Box::new(judge::JudgeSettings::read(spec, folder, rule)?))
            }
            _ => return Err(spec.unknown(&EVALUATORS.map(|(name, _)| name))),
        };
        let is_measure = matches!(&kind, Kind::GitDiff(settings) if !settings.decides());
        // Limits on the change or on the session say nothing about the result.
        let is_limit = matches!(&kind, Kind::GitDiff(_) | Kind::Trajectory(_));
        let weight = match spec.weight {
            Some((_, span)) if is_measure => {
                let message = "`weight` has no effect without `assertions`";
                return Err(Fault::new(span, message));
            }
            Some((weight, _)) => weight,
            None if is_limit => 0.0,
            None => DEFAULT_WEIGHT,
        };
        Ok(Evaluator {
            name: spec.name.clone(),
            weight,
            is_gate: weight == 0.0 && !is_measure,
            config: spec.config.read().unwrap_or_default(),
            kind,
        })
    }

    /// The evaluator of a Harbor task's tests.
    pub fn of_verifier(verifier: Verifier) -> Evaluator {
        Evaluator {
            name: VERIFIER.to_owned(),
            weight: DEFAULT_WEIGHT,
            is_gate: false,
            config: Value::Null,
            kind: Kind::Verifier(Arc::new(verifier)),
        }
    }

    /// The evaluator of a repo task's command, with its key as name.
    pub(crate) fn of_repo_command(name: &str, command: &RepoCommand<'_>) -> Evaluator {
        let kind = match &command.judges_by {
            JudgesBy::ExitCode => {
                let mut settings =
                    command::CommandEvaluatorSettings::of_line(command.line, command.timeout);
                command.set_up(&mut settings.setup);
                Kind::Command(Box::new(settings))
            }
            JudgesBy::NewFindings => {
                let mut settings =
                    static_check::StaticCheckSettings::of_line(command.line, command.timeout);
                command.set_up(&mut settings.setup);
                Kind::StaticCheck(Box::new(settings))
            }
            JudgesBy::Tests(protect) => {
                let unread = tests::Unread::ExitCode;
                let mut settings =
                    tests::TestsSettings::of_line(command.line, command.timeout, unread);
                command.set_up(&mut settings.setup);
                settings.setup.protect = protect.clone();
                settings.count_only(command.counted_tests);
                Kind::Tests(Box::new(settings))
            }
            JudgesBy::AllTests(protect) => {
                let unread = tests::Unread::Nothing;
                let mut settings =
                    tests::TestsSettings::of_line(command.line, command.timeout, unread);
                command.set_up(&mut settings.setup);
                settings.setup.protect = protect.clone();
                settings.count_only(command.counted_tests);
                settings.require_all();
                Kind::Tests(Box::new(settings))
            }
            JudgesBy::OwnTests => {
                let unread = tests::Unread::ExitCodeOfOwnTests;
                let mut settings =
                    tests::TestsSettings::of_line(command.line, command.timeout, unread);
                command.set_up(&mut settings.setup);
                Kind::Tests(Box::new(settings))
            }
        };
        Evaluator {
            name: name.to_owned(),
            weight: command.weight,
            is_gate: false,
            config: definition::of_repo_command(command),
            kind,
        }
    }

    /// The evaluator's own judging image.
    pub(crate) fn image(&self) -> Option<&str> {
        self.setup()?.image.as_deref()
    }

    /// The tests of a Harbor task, if this evaluator runs them.
    pub fn verifier(&self) -> Option<&Verifier> {
        match &self.kind {
            Kind::Verifier(verifier) => Some(verifier),
            _ => None,
        }
    }

    /// Whether it calls a model itself, which requires a gateway.
    pub fn asks_models(&self) -> bool {
        matches!(&self.kind, Kind::Judge(settings) if settings.asks_models())
    }

    /// Judges the work. An error becomes a verdict, too.
    pub async fn judge(&self, judging: &Judging<'_>, number: usize) -> Verdict {
        let started = Instant::now();
        let evidence = EvidenceDir {
            folder: format!(
                "{}/{}-{number}",
                judging.evidence,
                self.name.replace([':', '/'], "-")
            ),
            number,
        };
        let found = match &self.kind {
            Kind::GitDiff(settings) => git_diff::judge(settings, judging).await,
            Kind::Command(settings) => command::judge(settings, judging, &evidence).await,
            Kind::ExpectedDiff(settings) => {
                expected_diff::judge(settings, judging, &evidence).await
            }
            Kind::Tests(settings) => tests::judge(settings, judging, &evidence).await,
            Kind::StaticCheck(settings) => static_check::judge(settings, judging, &evidence).await,
            Kind::Coverage(settings) => coverage::judge(settings, judging, &evidence).await,
            Kind::Content(settings) => content::judge(settings, judging).await,
            Kind::Trajectory(settings) => trajectory::judge(settings, judging),
            Kind::Verifier(verifier) => verifier::judge(verifier, judging, &evidence).await,
            Kind::Judge(settings) => judge::judge(settings, judging, &evidence).await,
        };
        let mut verdict = match found {
            Ok(finding) => self.verdict(finding.held_against_tampering()),
            Err(message) => self.broken(&message),
        };
        let unprotected = self.unprotected(judging).await;
        if !unprotected.is_empty() {
            verdict
                .metrics
                .insert("unprotected".to_owned(), unprotected.into());
        }
        verdict.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        verdict
    }

    /// The verdict if there is nothing to judge.
    pub fn skipped(&self, why: &str) -> Verdict {
        self.without_finding(VerdictStatus::Skipped, why)
    }

    /// The verdict if judging failed.
    pub fn broken(&self, why: &str) -> Verdict {
        self.without_finding(VerdictStatus::Error, why)
    }

    fn verdict(&self, finding: Finding) -> Verdict {
        Verdict {
            evaluator: self.name.clone(),
            status: finding.status,
            score: finding.score,
            weight: self.weight,
            gate: self.is_gate,
            metrics: finding.metrics,
            message: finding.message,
            duration_ms: 0,
            timestamp: jiff::Timestamp::now().to_string(),
            assertions: finding.assertions,
            artifacts: finding.artifacts,
            restored: finding.restored,
            error: None,
        }
    }

    fn without_finding(&self, status: VerdictStatus, message: &str) -> Verdict {
        let mut verdict = self.verdict(Finding {
            status,
            score: None,
            message: message.to_owned(),
            metrics: Map::new(),
            assertions: None,
            artifacts: Vec::new(),
            restored: Vec::new(),
            tampered: Vec::new(),
        });
        verdict.error = (status == VerdictStatus::Error).then(|| VerdictError {
            message: message.to_owned(),
        });
        verdict
    }
}

/// The directory for the files of one evaluator.
pub(super) struct EvidenceDir {
    /// The path below the artifacts directory.
    pub(super) folder: String,
    /// The number of the evaluator in the task, from 1.
    pub(super) number: usize,
}

/// A command that judges a repo task in a clean copy.
pub(crate) struct RepoCommand<'a> {
    /// The shell command.
    pub(crate) line: &'a str,
    /// How long it may take.
    pub(crate) timeout: Duration,
    /// The install command. If it fails there is no verdict.
    pub(crate) install: Option<&'a Install>,
    /// The build command. If it fails the work fails.
    pub(crate) build: Option<&'a str>,
    /// The hidden tests, whose files are copied over the work.
    pub(crate) hidden_tests: HiddenTests<'a>,
    /// The Rust files of which only the `#[cfg(test)]` items are hidden tests.
    pub(crate) inline_tests: &'a [String],
    /// The only tests that count; all tests of the task if empty.
    pub(crate) counted_tests: &'a [String],
    /// The image for judging, instead of the trial's.
    pub(crate) image: Option<&'a str>,
    /// The weight in the trial's score.
    pub(crate) weight: f64,
    /// How the result is judged.
    pub(crate) judges_by: JudgesBy,
}

/// Tests of a repo task that agents do not see.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HiddenTests<'a> {
    None,
    /// The files in which this revision differs from the task's.
    Revision(&'a str),
    /// The files of this patch.
    Patch(&'a Arc<str>),
}

/// How the result of a command is judged.
#[derive(Clone, Debug)]
pub(crate) enum JudgesBy {
    /// By its exit code.
    ExitCode,
    /// By findings that the base does not have.
    NewFindings,
    /// By test results, with these files taken from the task; by the exit code for an unknown
    /// runner.
    Tests(Protect),
    /// By the results of the named tests, with these files taken from the task: the score is 1 if
    /// all pass, else 0.
    AllTests(Protect),
    /// By the results of tests that are part of the work.
    OwnTests,
}

impl RepoCommand<'_> {
    fn set_up(&self, setup: &mut clean_copy::Setup) {
        let install = self.install.map(|install| clean_copy::Before {
            line: install.command.clone(),
            timeout: Some(install.timeout),
            failure: clean_copy::Failure::Inconclusive,
        });
        let build = self.build.map(|line| clean_copy::Before {
            line: line.to_owned(),
            timeout: Some(self.timeout),
            failure: clean_copy::Failure::IsTheAgents,
        });
        setup.before = install.into_iter().chain(build).collect();
        setup.image = self.image.map(str::to_owned);
        setup.hidden = match self.hidden_tests {
            HiddenTests::None => return,
            HiddenTests::Revision(revision) => clean_copy::Hidden::Revision(revision.to_owned()),
            HiddenTests::Patch(patch) => clean_copy::Hidden::Patch(Arc::clone(patch)),
        };
        setup.inline_tests = self.inline_tests.to_vec();
    }
}
