//! Evaluators: the ways of judging what an agent did. Each gives a verdict; a verdict that
//! could not be reached is an `error`, never a number.

mod above;
mod answer_cache;
mod case_files;
mod clean_copy;
mod command;
mod command_line;
mod content;
mod control;
mod coverage;
mod expected_diff;
mod fill;
mod git_diff;
mod judge;
mod ownership;
mod protect;
pub mod reports;
pub mod reward;
mod seal;
mod static_check;
mod tests;
mod trajectory;
mod verifier;

pub(crate) use above::place;
pub(crate) use git_diff::diff_record;
pub(crate) use protect::Protect;
pub(crate) use verifier::{copy_without_ignored, make_executable};

use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::Fault;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::PromptSource,
    config::EvaluatorSpec,
    fs::dir,
    host::Host,
    model_access::Models,
    plan::TrialPlan,
    record::{Artifact, DEFAULT_WEIGHT, Record, Verdict, VerdictError, VerdictStatus},
    sandbox::{Access, Rights, Room, RoomSpec, Sandbox, View, docker::Network},
    task::{Environment, Files, Install, Reference, Task, Verifier},
    usage::Usage,
    workspace::{Change, Workspace},
};

/// The user that judges in containers.
const JUDGE: u32 = 1001;

/// One way of judging, ready to judge.
#[derive(Clone, Debug)]
pub struct Evaluator {
    /// The name in the test case.
    pub name: String,
    /// How much it counts in the trial's score.
    weight: f64,
    kind: Kind,
}

/// The closed set of ways to judge.
#[derive(Clone, Debug)]
enum Kind {
    GitDiff(git_diff::Settings),
    Command(Box<command::Settings>),
    ExpectedDiff(expected_diff::Settings),
    Tests(Box<tests::Settings>),
    StaticCheck(Box<static_check::Settings>),
    Coverage(Box<coverage::Settings>),
    Content(content::Settings),
    Trajectory(trajectory::Settings),
    Verifier(Arc<Verifier>),
    Judge(Box<judge::Settings>),
}

/// The names of all evaluators and what each is for.
pub const EVALUATORS: [(&str, &str); 13] = [
    (
        "tests",
        "runs the tests in a clean copy and reads the runner's report, test by test",
    ),
    (
        "lint",
        "runs a linter; only findings that the base does not have count",
    ),
    ("build", "the same for a build"),
    ("typecheck", "the same for a type checker"),
    ("coverage", "measures how much of the code the tests reach"),
    ("file", "checks a file that the agent left"),
    ("output", "checks the last thing that the agent said"),
    (
        "trajectory",
        "checks turns, tokens, cost, time, tools and commands",
    ),
    (
        "git-diff",
        "measures the change and checks its size and spread",
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
        "an agent or a model judges by criteria, each of which has to hold",
    ),
    (
        "rubric",
        "an agent or a model judges by weighted criteria with anchors",
    ),
];

/// Where evaluators leave files, below a trial's artifacts.
pub const EVIDENCE: &str = "evaluators";

/// The input of evaluators.
pub struct Judging<'a> {
    /// The workspace and its baseline.
    pub workspace: &'a Workspace,
    /// The change of the agent.
    pub change: &'a Change,
    /// The task's reference solution.
    pub reference: Option<&'a Reference>,
    /// The usage of the agent, by the account that counts; `None` if unknown.
    pub usage: Option<&'a Usage>,
    /// The trial's artifacts.
    pub artifacts: &'a Utf8Path,
    /// The folder below them in which evaluators leave files.
    pub evidence: &'a str,
    /// Where clean copies are made.
    pub scratch: &'a Utf8Path,
    /// Where the trial executed.
    pub sandbox: &'a Sandbox,
    /// Where the agent worked.
    pub room: &'a Room,
    /// Its working directory there.
    pub workdir: &'a Utf8Path,
    /// The task's own environment.
    pub environment: Option<&'a Environment>,
    /// The machine.
    pub host: &'a Host,
    /// The input of judges.
    pub desk: Desk<'a>,
    /// Cancelled when the run is.
    pub cancel: &'a CancellationToken,
}

/// The input of judges that are agents or models.
pub struct Desk<'a> {
    /// The description of the task.
    pub about: About,
    /// How agents reach models, which judges that are agents do as well.
    pub models: Option<&'a Models>,
    /// The gateway that judges ask models through.
    pub judges: Option<&'a Models>,
    /// Where answers are kept from run to run.
    pub cache: &'a Utf8Path,
    /// Older answers are not used; all are if this is `None`.
    pub kept_since: Option<SystemTime>,
    /// The id of the run.
    pub run_id: &'a str,
    /// The trial's place among all, as a path: judges' calls are recorded below it.
    pub label: Utf8PathBuf,
    /// Runs a judge that is an agent.
    pub run_trial: RunTrial,
}

/// Runs a judge as a trial of its own. Trials call evaluators, so evaluators get this as a callback.
pub type RunTrial = for<'a> fn(JudgeTrial<'a>) -> JudgeFuture<'a>;

/// The record of a judge's trial, or the reason that the trial could not be started.
pub type JudgeFuture<'a> = Pin<Box<dyn Future<Output = Result<Record, Box<dyn Error>>> + 'a>>;

/// A judge that is an agent, as a trial.
#[derive(Clone, Copy)]
pub struct JudgeTrial<'a> {
    /// The plan of the trial.
    pub plan: &'a TrialPlan,
    /// The judging that it is part of.
    pub judging: &'a Judging<'a>,
    /// The gateway of the judge.
    pub models: Option<&'a Models>,
    /// The folder of the judge's results.
    pub folder: &'a Utf8Path,
}

/// The description of a task, for a judge.
#[derive(Clone, Debug)]
pub struct About {
    /// Its description.
    pub description: String,
    /// The prompt of agents; `None` if there is none.
    pub prompt: Option<PromptSource>,
}

impl About {
    /// Of a task.
    pub fn of(task: &Task) -> About {
        About {
            description: task.description.clone(),
            prompt: match task.files {
                // There was no agent, and its description is all that there is.
                Files::Existing { .. } => None,
                _ => task.prompt().ok(),
            },
        }
    }
}

impl Judging<'_> {
    /// A fresh place of the same kind as the agent's that sees these folders, which `filled` fills
    /// meanwhile; in another image if one is named. The user that judges is
    /// never the user of the agent.
    async fn fresh_room(
        &self,
        view: Vec<View>,
        image: Option<&str>,
        network: Network,
        filled: impl Future<Output = Result<(), String>>,
    ) -> Result<Room, String> {
        let (Sandbox::Docker(docker), Room::Docker(agents)) = (self.sandbox, self.room) else {
            filled.await?;
            return Ok(Room::Local);
        };
        let (uid, gid) = if self.host.is_root {
            (JUDGE, JUDGE)
        } else {
            self.host.ids
        };
        let written = view.iter().filter(|view| view.access == Access::Write);
        let written: Vec<_> = written.map(|view| view.host.clone()).collect();
        let filled = Box::pin(async {
            filled.await?;
            self.hand_over(&written)
        });
        let image = match image {
            Some(name) => docker
                .image(name)
                .await
                .map_err(|error| error.to_string())?,
            None => agents.image.clone(),
        };
        let room = docker.room(RoomSpec {
            image,
            view,
            rights: Rights::Hardened {
                user: format!("{uid}:{gid}"),
            },
            network,
            limits: docker.settings.limits,
            readiness: None,
            sockets: None,
        });
        let room = Box::pin(async { room.await.map_err(|error| error.to_string()) });
        let room = if docker.engine.is_local() {
            tokio::try_join!(filled, room)?.1
        } else {
            // It is sent a copy of the folders when it is made.
            filled.await?;
            room.await?
        };
        Ok(Room::Docker(Box::new(room)))
    }

    /// Give folders to the user that judges.
    fn hand_over(&self, folders: &[Utf8PathBuf]) -> Result<(), String> {
        for folder in folders.iter().filter(|_| self.host.is_root) {
            dir::give(folder.as_std_path(), JUDGE)
                .map_err(|error| format!("could not hand over {folder}: {error}"))?;
        }
        Ok(())
    }
}

/// A verdict before it has a name and a time.
struct Finding {
    status: VerdictStatus,
    score: Option<f64>,
    message: String,
    metrics: Map<String, Value>,
    assertions: Option<Map<String, Value>>,
    artifacts: Vec<Artifact>,
    /// Files of the agent that were replaced or removed.
    restored: Vec<String>,
    /// Protected files that the work changed while it was judged.
    tampered: Vec<String>,
}

impl Evaluator {
    /// Read one entry of `evaluators`.
    pub fn configure(spec: &EvaluatorSpec, folder: &Utf8Path) -> Result<Evaluator, Fault> {
        let kind = match spec.name.as_str() {
            "git-diff" => Kind::GitDiff(spec.config.read()?),
            "command" => Kind::Command(Box::new(command::Settings::read(spec, folder)?)),
            "expected-diff" => Kind::ExpectedDiff(expected_diff::Settings::read(spec)?),
            "tests" => Kind::Tests(Box::new(tests::Settings::read(spec, folder)?)),
            "lint" | "build" | "typecheck" => {
                Kind::StaticCheck(Box::new(static_check::Settings::read(spec, folder)?))
            }
            "coverage" => Kind::Coverage(Box::new(coverage::Settings::read(spec, folder)?)),
            "file" => Kind::Content(content::Settings::read_file(spec)?),
            "output" => Kind::Content(content::Settings::read_output(spec)?),
            "trajectory" => Kind::Trajectory(trajectory::Settings::read(spec)?),
            name if judge::rule_of(name).is_some() => {
                let rule = judge::rule_of(name).unwrap_or(judge::Rule::Every);
                Kind::Judge(Box::new(judge::Settings::read(spec, folder, rule)?))
            }
            _ => return Err(spec.unknown(&EVALUATORS.map(|(name, _)| name))),
        };
        let is_measure = matches!(&kind, Kind::GitDiff(settings) if !settings.decides());
        let weight = match (spec.weight, is_measure) {
            (Some((_, span)), true) => {
                let message = "`weight` has no effect: without `assertions` nothing is decided";
                return Err(Fault::new(span, message));
            }
            (Some((weight, _)), false) => weight,
            (None, true) => 0.0,
            (None, false) => DEFAULT_WEIGHT,
        };
        Ok(Evaluator {
            name: spec.name.clone(),
            weight,
            kind,
        })
    }

    /// The tests of a Harbor task.
    pub fn of_verifier(verifier: Verifier) -> Evaluator {
        Evaluator {
            name: "verifier".to_owned(),
            weight: DEFAULT_WEIGHT,
            kind: Kind::Verifier(Arc::new(verifier)),
        }
    }

    /// A command of a repo's task, under the key that it is written under.
    pub(crate) fn of_repo_command(name: &str, command: &RepoCommand<'_>) -> Evaluator {
        let kind = match &command.judges_by {
            JudgesBy::ExitCode => {
                let mut settings = command::Settings::of_line(command.line, command.timeout);
                command.set_up(&mut settings.setup);
                Kind::Command(Box::new(settings))
            }
            JudgesBy::NewFindings => {
                let mut settings = static_check::Settings::of_line(command.line, command.timeout);
                command.set_up(&mut settings.setup);
                Kind::StaticCheck(Box::new(settings))
            }
            JudgesBy::Tests(protect) => {
                let unread = tests::Unread::ExitCode;
                let mut settings = tests::Settings::of_line(command.line, command.timeout, unread);
                command.set_up(&mut settings.setup);
                settings.setup.protect = protect.clone();
                Kind::Tests(Box::new(settings))
            }
            JudgesBy::OwnTests => {
                let unread = tests::Unread::ExitCodeOfOwnTests;
                let mut settings = tests::Settings::of_line(command.line, command.timeout, unread);
                command.set_up(&mut settings.setup);
                Kind::Tests(Box::new(settings))
            }
        };
        Evaluator {
            name: name.to_owned(),
            weight: command.weight,
            kind,
        }
    }

    /// The image that it judges in, when it has one of its own.
    pub(crate) fn image(&self) -> Option<&str> {
        self.setup()?.image.as_deref()
    }

    /// The tests of a Harbor task, when that is what this is.
    pub fn verifier(&self) -> Option<&Verifier> {
        match &self.kind {
            Kind::Verifier(verifier) => Some(verifier),
            _ => None,
        }
    }

    /// Whether it asks a model itself, for which there has to be a gateway.
    pub fn asks_models(&self) -> bool {
        matches!(&self.kind, Kind::Judge(settings) if settings.asks_models())
    }

    /// Judge. An error on the way is a verdict too.
    pub async fn judge(&self, judging: &Judging<'_>, number: usize) -> Verdict {
        let started = Instant::now();
        let place = Place {
            folder: format!(
                "{}/{}-{number}",
                judging.evidence,
                self.name.replace([':', '/'], "-")
            ),
            number,
        };
        let found = match &self.kind {
            Kind::GitDiff(settings) => git_diff::judge(settings, judging).await,
            Kind::Command(settings) => command::judge(settings, judging, &place).await,
            Kind::ExpectedDiff(settings) => expected_diff::judge(settings, judging, &place).await,
            Kind::Tests(settings) => tests::judge(settings, judging, &place).await,
            Kind::StaticCheck(settings) => static_check::judge(settings, judging, &place).await,
            Kind::Coverage(settings) => coverage::judge(settings, judging, &place).await,
            Kind::Content(settings) => content::judge(settings, judging).await,
            Kind::Trajectory(settings) => trajectory::judge(settings, judging),
            Kind::Verifier(verifier) => verifier::judge(verifier, judging, &place).await,
            Kind::Judge(settings) => judge::judge(settings, judging, &place).await,
        };
        let mut verdict = match found {
            Ok(finding) => self.verdict(finding.held_against_tampering()),
            Err(message) => self.broken(&message),
        };
        let unprotected = self.unprotected(judging.change);
        if !unprotected.is_empty() {
            verdict
                .metrics
                .insert("unprotected".to_owned(), unprotected.into());
        }
        verdict.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        verdict
    }

    /// The verdict of an evaluator that had nothing to judge.
    pub fn skipped(&self, why: &str) -> Verdict {
        self.without_finding(VerdictStatus::Skipped, why)
    }

    /// The verdict of an evaluator that could not judge.
    pub fn broken(&self, why: &str) -> Verdict {
        self.without_finding(VerdictStatus::Error, why)
    }

    fn verdict(&self, finding: Finding) -> Verdict {
        Verdict {
            evaluator: self.name.clone(),
            status: finding.status,
            score: finding.score,
            weight: self.weight,
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

/// Where an evaluator leaves files.
struct Place {
    /// Below the artifacts folder.
    folder: String,
    /// Which evaluator of the task, from 1.
    number: usize,
}

/// A command that judges a repo's task in a clean copy.
pub(crate) struct RepoCommand<'a> {
    /// A line for the shell.
    pub(crate) line: &'a str,
    /// How long it may take.
    pub(crate) timeout: Duration,
    /// Run before it; when it fails there is no verdict.
    pub(crate) install: Option<&'a Install>,
    /// Run before it; when it fails so does the work.
    pub(crate) build: Option<&'a str>,
    /// The revision whose files are laid over the copy.
    pub(crate) hidden_tests: Option<&'a str>,
    /// The image that it runs in, instead of the trial's.
    pub(crate) image: Option<&'a str>,
    /// How much it counts in the trial's score.
    pub(crate) weight: f64,
    /// The part of the result that decides.
    pub(crate) judges_by: JudgesBy,
}

/// The part of a result that decides.
#[derive(Clone, Debug)]
pub(crate) enum JudgesBy {
    /// Its exit code.
    ExitCode,
    /// Findings that the base does not have.
    NewFindings,
    /// Test results, with these files as the task has them; the exit code of an unknown runner.
    Tests(Protect),
    /// The same of tests that the work brings itself.
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
        if let Some(revision) = self.hidden_tests {
            setup.hidden = clean_copy::Hidden::Revision(revision.to_owned());
        }
    }
}
