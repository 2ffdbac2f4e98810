//! Starting the agent more than once in one trial: after something that went wrong, and until a
//! command succeeds. Each iteration goes on in the workspace as it is, with a fresh HOME and context;
//! the time and the budget of the trial are one for all of them.

use std::{
    io::{Read as _, Seek as _, SeekFrom},
    sync::Arc,
    time::{Duration, Instant},
};

use camino::Utf8Path;
use fs_err as fs;
use tempfile::NamedTempFile;

use super::{
    AgentRun, Contestant, Prepared, Trial, chain, logs_folder, millis, prepare::NotRun, settled,
};
use crate::{
    config::CheckLoop,
    fs::dir,
    model_access::CALLS_FILE,
    outcome::Outcome,
    record::{
        self, CheckRecord, IterationReason, IterationRecord, RetryOn, StoreError,
        run_event::RunEvent,
    },
    sandbox::shell::{self, ShellCommand},
    transcript::LogWriter,
    trial::{
        export::{CONTEXT_FILE, PROMPT_FILE},
        provider_limits::pause,
        sidecar,
    },
};

/// The folder of earlier iterations, below the artifacts.
const ITERATIONS: &str = "iterations";
/// The folder of what the command of the loop printed.
const CHECK: &str = "check";
/// The maximum number of bytes at the end of the output that are added to the prompt.
const TOLD: u64 = 20_000;

/// How far a trial has come.
#[derive(Default)]
pub(super) struct Iterations {
    /// When the agent's time is over.
    ends_at: Option<Instant>,
    /// How often it was started again after something that went wrong.
    retried: u32,
    /// How often the command of the loop has failed.
    failed_checks: u32,
}

impl Iterations {
    /// The time that is left of so much; it begins to run at the first call.
    pub(super) fn left(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let now = Instant::now();
        let ends_at = *self.ends_at.get_or_insert(now + timeout?);
        // A limit of nothing would be none.
        Some(ends_at.duration_since(now).max(Duration::from_millis(1)))
    }

    fn is_over(&self) -> bool {
        self.ends_at
            .is_some_and(|ends_at| ends_at <= Instant::now())
    }
}

/// An iteration that is to come.
struct Next {
    reason: IterationReason,
    /// Whether the fallback takes over.
    takes_over: bool,
}

impl Trial<'_> {
    /// Run the agent to its end, and once more as often as its policy says.
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
            let told = self.failure(check.as_ref());
            self.note_iteration(&ran, reason, check);
            // Files are moved by their paths next, which are another's if the trial is.
            let next = next.filter(|_| !self.context.cause.is_lost());
            let Some(next) = next else {
                self.dismiss();
                return ran;
            };
            reason = next.reason;
            match self.again(&ran, &next, told.as_deref()).await {
                Ok(fresh) => ready = fresh,
                Err(why) => {
                    let ran = self.not_started(why);
                    self.note_iteration(&ran, reason, None);
                    return ran;
                }
            }
        }
    }

    /// Whether the agent is to be started again because something went wrong.
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
        // The same agent would be refused again.
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

    /// Run the command of the loop, when there is one and there is work to look at.
    async fn check(&mut self, ran: &AgentRun) -> Option<CheckRecord> {
        let check = self.plan.policy.check.as_ref()?;
        let outcome = ran.conclusion.outcome;
        if self.is_over(outcome) || outcome.is_infrastructure() {
            return None;
        }
        let area = Arc::clone(self.area.as_ref()?);
        let left = self.iterations.left(self.plan.task.limits.timeout);
        let timeout = left.map_or(check.timeout, |left| left.min(check.timeout));
        let began = Instant::now();
        let command = ShellCommand {
            argv: &shell::line(&check.check),
            env: self.room.env(self.context.host, &area.home),
            cwd: &self.workdir(),
            timeout: Some(timeout),
            logs: self.artifacts.join(CHECK),
        };
        let ended = command
            .run(&self.room, self.context.host, self.context.cancel)
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

    /// The next step after the result of the loop's command.
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

    /// The text about a failed check that is added to the prompt.
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
            "\n\nWork on this has begun already: the workspace is as the iteration before this one left it ({done} of {of}). After it {how}. The end of what it printed:\n\n{said}\n"
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

    /// Prepares another iteration and its agent. `told` is added to the prompt.
    async fn again(
        &mut self,
        ran: &AgentRun,
        next: &Next,
        told: Option<&str>,
    ) -> Result<Prepared, NotRun> {
        self.keep_iteration(ran).map_err(|error| kept(&error))?;
        if next.takes_over {
            self.contestant = Contestant::Fallback;
        }
        let number = self.record.iterations.len() + 1;
        (self.context.listener)(&RunEvent::Iteration {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            agent: self.current().adapter.name(),
            reason: next.reason,
        });
        self.make_folders().map_err(|error| kept(&error))?;
        let log = NamedTempFile::new_in(&self.private)?;
        self.log = Some(LogWriter::new(log));
        let area = Arc::clone(self.area.as_ref().expect("an agent has run in it"));
        area.empty()?;
        self.room
            .empty(&[&area.home, &area.scratch])
            .await
            .map_err(super::container::failed)?;
        let image = self.image.clone();
        let equipment = self.equip(&area, image.as_ref()).await?;
        let mut prompt = self.asked.clone();
        prompt.push_str(told.unwrap_or_default());
        fs::write(self.artifacts.join(PROMPT_FILE), &prompt)?;
        self.launch(&area, equipment, &prompt).await
    }

    /// Put the files of the iteration that has ended into a folder of its own.
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
        // Should Proctor be killed, it is known how far the trial had come.
        self.write_record()
    }

    /// The agent's part of an iteration that could not be started.
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
        file.seek(SeekFrom::Start(length.saturating_sub(TOLD)))?;
        file.read_to_end(&mut bytes)
    };
    // Whether it can be read changes nothing about that it failed.
    let _ = { read }();
    let text = String::from_utf8_lossy(&bytes);
    text.trim().to_owned()
}
