//! Starts the agent several times in one trial: after failures, and until a command succeeds. Each
//! iteration continues in the same workspace, with a fresh HOME and context. All iterations share
//! the time and the budget of the trial.

use std::{
    io::{Read as _, Seek as _, SeekFrom},
    sync::Arc,
    time::{Duration, Instant},
};

use camino::Utf8Path;
use fs_err as fs;
use proctor_record::{
    fs::dir,
    outcome::Outcome,
    record::{self, CheckRecord, Event, IterationReason, IterationRecord, RetryOn, StoreError},
    transcript::LogWriter,
};
use proctor_sandbox::shell::{self, ShellCommand};
use tempfile::NamedTempFile;

use super::{
    AgentRun, Contestant, Prepared, Trial, chain, logs_folder, millis, prepare::NotRun, settled,
};
use crate::{
    config::CheckLoop,
    model_access::CALLS_FILE,
    trial::{
        export::{CONTEXT_FILE, PROMPT_FILE},
        provider_limits::pause,
        sidecar,
    },
};

/// The directory of earlier iterations, below the artifacts.
const ITERATIONS: &str = "iterations";
/// The directory of the check command's output.
const CHECK: &str = "check";
/// The maximum number of bytes at the end of the output that are added to the prompt.
const MAX_QUOTED_BYTES: u64 = 20_000;

/// The progress of a trial's iterations.
#[derive(Default)]
pub(super) struct Iterations {
    /// The agent's deadline.
    ends_at: Option<Instant>,
    /// The number of restarts after failures.
    retried: u32,
    /// The number of failures of the check command.
    failed_checks: u32,
}

impl Iterations {
    /// The remaining time of `timeout`, which starts at the first call.
    pub(super) fn left(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let now = Instant::now();
        let ends_at = *self.ends_at.get_or_insert(now + timeout?);
        // A limit of 0 would mean no limit.
        Some(ends_at.duration_since(now).max(Duration::from_millis(1)))
    }

    fn is_over(&self) -> bool {
        self.ends_at
            .is_some_and(|ends_at| ends_at <= Instant::now())
    }
}

/// The next iteration.
struct Next {
    reason: IterationReason,
    /// Whether the fallback is started.
    takes_over: bool,
}

impl Trial<'_> {
    /// Runs the agent, and restarts it according to its policy.
    pub(super) async fn iterate(&mut self, mut ready: Prepared) -> AgentRun {
        let mut reason = IterationReason::First;
        loop {
            let ran = self.drive(ready).await;
            let mut next = self.retry(&ran).await;
            let mut check = None;
            if next.is_none() {
                check = self.check(&ran).await;
                next = check.as_ref().and_then(|check| self.after(check));
            }
            let failure = self.failure(check.as_ref());
            self.note_iteration(&ran, reason, check);
            // Files are moved by their paths next, which belong to another process if the trial is lost.
            let next = next.filter(|_| !self.context.cause.is_lost());
            let Some(next) = next else {
                self.dismiss();
                return ran;
            };
            reason = next.reason;
            match self.again(&ran, &next, failure.as_deref()).await {
                Ok(fresh) => ready = fresh,
                Err(why) => {
                    let ran = self.not_started(why);
                    self.note_iteration(&ran, reason, None);
                    return ran;
                }
            }
        }
    }

    /// Whether the agent is restarted after a failure.
    async fn retry(&mut self, ran: &AgentRun) -> Option<Next> {
        let policy = self.plan.policy.retry.as_ref()?;
        let outcome = ran.conclusion.outcome;
        if self.is_over(outcome) || self.iterations.retried >= policy.times {
            return None;
        }
        let on = match outcome {
            outcome if outcome.is_infrastructure() => RetryOn::Infrastructure,
            Outcome::Completed if policy.on.contains(&RetryOn::NoChange) => {
                self.is_unchanged().await.then_some(RetryOn::NoChange)?
            }
            Outcome::Completed => return None,
            _ => RetryOn::Error,
        };
        if !policy.on.contains(&on) {
            return None;
        }
        // The same agent would fail again.
        let is_hopeless = outcome.is_hopeless();
        let can_take_over = policy.fallback.is_some() && self.contestant == Contestant::Primary;
        if is_hopeless && !can_take_over {
            return None;
        }
        let before = self.iterations.retried;
        self.iterations.retried = if is_hopeless {
            policy.times
        } else {
            before + 1
        };
        if on == RetryOn::Infrastructure && !is_hopeless {
            self.rest(pause(before)).await;
        }
        Some(Next {
            reason: on.into(),
            takes_over: can_take_over && self.iterations.retried == policy.times,
        })
    }

    /// Whether the trial has ended, regardless of the policy.
    fn is_over(&self, outcome: Outcome) -> bool {
        self.context.cancel.is_cancelled()
            || self.iterations.is_over()
            || matches!(outcome, Outcome::Interrupted | Outcome::BudgetExceeded)
    }

    async fn rest(&self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.context.cancel.cancelled() => {}
        }
    }

    /// Whether the agent left the workspace unchanged. If that is unknown, it counts as changed.
    async fn is_unchanged(&self) -> bool {
        let Some(workspace) = &self.workspace else {
            return false;
        };
        let change = workspace.change(&self.private.join("look.patch")).await;
        change.is_ok_and(|change| change.files.is_empty())
    }

    /// Runs the check command of the loop, if there is one and there is work to check.
    async fn check(&mut self, ran: &AgentRun) -> Option<CheckRecord> {
        let check = self.plan.policy.check.as_ref()?;
        let outcome = ran.conclusion.outcome;
        if self.is_over(outcome) || outcome.is_infrastructure() {
            return None;
        }
        let trial_dir = Arc::clone(self.trial_dir.as_ref()?);
        let left = self.iterations.left(self.plan.task.limits.timeout);
        let timeout = left.map_or(check.timeout, |left| left.min(check.timeout));
        let began = Instant::now();
        let command = ShellCommand {
            argv: &shell::line(&check.check),
            env: self.exec_env.env(self.context.host, &trial_dir.home),
            cwd: &self.workdir(),
            timeout: Some(timeout),
            logs: self.artifacts.join(CHECK),
        };
        let ended = command
            .run(&self.exec_env, self.context.host, self.context.cancel)
            .await
            .and_then(|ran| ran.code(&check.check));
        Some(CheckRecord {
            command: check.check.clone(),
            passed: ended == Ok(0),
            exit_code: ended.as_ref().ok().copied(),
            problem: ended.err(),
            duration_ms: millis(began.elapsed()),
        })
    }

    /// The next step after the result of the check command.
    fn after(&mut self, check: &CheckRecord) -> Option<Next> {
        let policy = self.plan.policy.check.as_ref()?;
        if check.passed {
            return None;
        }
        self.iterations.failed_checks += 1;
        if self.iterations.failed_checks >= policy.iterations {
            let note = format!("`{}` did not succeed in any iteration", policy.check);
            self.record.notes.push(note);
            return None;
        }
        (!self.context.cancel.is_cancelled() && !self.iterations.is_over()).then_some(Next {
            reason: IterationReason::CheckFailed,
            takes_over: false,
        })
    }

    /// The description of a failed check for the prompt.
    fn failure(&self, check: Option<&CheckRecord>) -> Option<String> {
        let policy: &CheckLoop = self.plan.policy.check.as_ref()?;
        let check = check.filter(|check| !check.passed)?;
        let how = match (check.exit_code, &check.problem) {
            (Some(code), _) => format!("`{}` exited with code {code}", check.command),
            (None, problem) => problem.clone().unwrap_or_default(),
        };
        let said = tail(&self.artifacts.join(CHECK).join("output.log"));
        let (done, of) = (self.iterations.failed_checks, policy.iterations);
        Some(format!(
            "\n\nWork on this task has already started: the workspace contains the result of the previous iteration ({done} of {of}). After it {how}. The end of what it printed:\n\n{said}\n"
        ))
    }

    fn note_iteration(
        &mut self,
        ran: &AgentRun,
        reason: IterationReason,
        check: Option<CheckRecord>,
    ) {
        if self.plan.policy.is_empty() {
            return;
        }
        let plan = self.current();
        let conclusion = &ran.conclusion;
        let (usage, agent_usage) = settled(conclusion, self.record.gateway.as_ref());
        let number = u32::try_from(self.record.iterations.len()).unwrap_or(u32::MAX);
        self.record.iterations.push(IterationRecord {
            number: number.saturating_add(1),
            reason,
            kind: plan.adapter.name().to_owned(),
            model_requested: plan.agent.model().map(str::to_owned),
            model: conclusion.model.clone(),
            folder: None,
            outcome: conclusion.outcome,
            process: self.record.process.clone(),
            usage,
            agent_usage,
            gateway: self.record.gateway.clone(),
            session_id: conclusion.session_id.clone(),
            turns: conclusion.turns,
            counts: conclusion.counts,
            errors: conclusion.errors.clone(),
            check,
        });
    }

    /// Prepares another iteration and its agent. `failure` is added to the prompt.
    async fn again(
        &mut self,
        ran: &AgentRun,
        next: &Next,
        failure: Option<&str>,
    ) -> Result<Prepared, NotRun> {
        self.keep_iteration(ran).map_err(|error| kept(&error))?;
        if next.takes_over {
            self.contestant = Contestant::Fallback;
        }
        let number = self.record.iterations.len() + 1;
        (self.context.listener)(&Event::Iteration {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            agent: self.current().adapter.name().to_owned(),
            reason: next.reason,
        });
        self.make_folders().map_err(|error| kept(&error))?;
        let log = NamedTempFile::new_in(&self.private)?;
        self.log = Some(LogWriter::new(log));
        let trial_dir = Arc::clone(
            self.trial_dir
                .as_ref()
                .expect("an agent has run in the trial directory"),
        );
        trial_dir.empty()?;
        self.exec_env
            .empty(&[&trial_dir.home, &trial_dir.scratch])
            .await
            .map_err(super::container::failed)?;
        let image = self.image.clone();
        let equipment = self.equip(&trial_dir, image.as_ref()).await?;
        let mut prompt = self.asked.clone();
        prompt.push_str(failure.unwrap_or_default());
        fs::write(self.artifacts.join(PROMPT_FILE), &prompt)?;
        self.launch(&trial_dir, equipment, &prompt).await
    }

    /// Moves the files of the finished iteration to its own directory.
    fn keep_iteration(&mut self, ran: &AgentRun) -> Result<(), StoreError> {
        self.take_over_identity(ran);
        let account = self.account(ran);
        self.write_log(&account)?;
        let name = format!("{ITERATIONS}/{}", self.record.iterations.len());
        let folder = self.artifacts.join(&name);
        let failed = |path: &Utf8Path| {
            let path = path.to_owned();
            move |source| StoreError { path, source }
        };
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let logs = logs_folder("".into(), self.current().adapter);
        let files = [
            "raw",
            logs.as_str(),
            record::LOG_FILE,
            PROMPT_FILE,
            CALLS_FILE,
            CONTEXT_FILE,
            CHECK,
            sidecar::KEPT,
        ];
        for file in files {
            let from = self.artifacts.join(file);
            if from.exists() {
                dir::rename(&from, folder.join(file)).map_err(failed(&from))?;
            }
        }
        if let Some(last) = self.record.iterations.last_mut() {
            last.folder = Some(name);
        }
        self.record.process = None;
        self.record.gateway = None;
        self.record.sidecar = None;
        // The record shows the trial's progress if Proctor is killed.
        self.write_record()
    }

    /// The result of an iteration that could not be started.
    fn not_started(&self, why: NotRun) -> AgentRun {
        match why {
            NotRun::Usage(error) => {
                self.not_run(Outcome::Sandbox, "ITERATION_FAILED", chain(&error))
            }
            NotRun::Infrastructure {
                outcome,
                code,
                message,
            } => self.not_run(outcome, code, message),
        }
    }
}

fn kept(error: &StoreError) -> NotRun {
    NotRun::Infrastructure {
        outcome: Outcome::Sandbox,
        code: "NOT_KEPT",
        message: chain(error),
    }
}

/// The end of a file, as text.
fn tail(path: &Utf8Path) -> String {
    let mut bytes = Vec::new();
    let read = || {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_QUOTED_BYTES)))?;
        file.read_to_end(&mut bytes)
    };
    // The check failed even if its output is not readable.
    let _ = { read }();
    let text = String::from_utf8_lossy(&bytes);
    text.trim().to_owned()
}
