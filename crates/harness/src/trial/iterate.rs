//! Starts the agent several times in one trial: after failures, and until a command succeeds. Each
//! iteration continues in the same workspace, with a fresh HOME and context. All iterations share
//! the time and the budget of the trial.

use std::{
    io::{Read as _, Seek as _, SeekFrom},
    time::{Duration, Instant},
};

use camino::Utf8Path;
use fs_err as fs;
use proctor_record::{
    fs::dir,
    outcome::Outcome,
    record::{
        self, CheckRecord, Event, IterationReason, IterationRecord, PROMPT_FILE, RetryOn,
        StoreError,
    },
};
use proctor_sandbox::shell::{self, ShellCommand};

use super::{
    AgentEnd, AgentRun, AgentStart, Agents, Contestant, Prepared, Site, Stage, Trial, chain,
    equip::Equipment, logs_folder, millis, prepare::NotRun, settled, steps::SETUP,
};
use crate::{
    config::CheckLoop,
    evaluate::{COLLECTED, EVIDENCE},
    model_access::CALLS_FILE,
    trial::{export::CONTEXT_FILE, metrics_file, provider_limits::pause},
};

/// The directory of earlier iterations, below the artifacts.
const ITERATIONS: &str = "iterations";
/// The directory of the check command's output.
const CHECK: &str = "check";
/// The maximum number of bytes at the end of the output that are added to the prompt.
const MAX_QUOTED_BYTES: u64 = 20_000;

/// The iterations of a trial.
struct Iterations<'t, 'a> {
    trial: &'t mut Trial<'a>,
    agents: Agents,
    site: Site,
    /// The prompt of the first iteration.
    prompt: String,
    /// The agent's deadline; `None` without a timeout.
    ends_at: Option<Instant>,
    /// The number of restarts after failures.
    retried: u32,
    /// The number of failures of the check command.
    failed_checks: u32,
}

/// The next iteration.
struct Next {
    reason: IterationReason,
    /// Whether the fallback is started.
    takes_over: bool,
}

impl Trial<'_> {
    /// Runs the agent, and restarts it according to its policy.
    pub(super) async fn iterate(&mut self, prepared: Prepared) -> AgentRun {
        let Prepared {
            agents,
            site,
            prompt,
            start,
        } = prepared;
        let timeout = self.plan.task.limits.timeout;
        let mut iterations = Iterations {
            trial: self,
            agents,
            site,
            prompt,
            ends_at: timeout.map(|timeout| Instant::now() + timeout),
            retried: 0,
            failed_checks: 0,
        };
        let end = iterations.run(start).await;
        let Iterations { agents, site, .. } = iterations;
        AgentRun {
            end,
            stage: Some(Stage { agents, site }),
        }
    }
}

impl Iterations<'_, '_> {
    async fn run(&mut self, mut start: AgentStart) -> AgentEnd {
        let mut reason = self.trial.first_reason();
        loop {
            let wall = self.left();
            let driven = self.trial.drive(&self.agents, &self.site, start, wall);
            let end = driven.await;
            let mut next = self.retry(&end).await;
            let mut check = None;
            if next.is_none() {
                check = self.check(&end).await;
                next = check.as_ref().and_then(|check| self.after(check));
            }
            let failure = self.failure(check.as_ref());
            self.note_iteration(&end, reason, check);
            // Files are moved by their paths next, which belong to another process if the trial is lost.
            let next = next.filter(|_| !self.trial.context.cause.is_lost());
            let Some(next) = next else {
                self.trial.dismiss(&self.site.exec_env);
                return end;
            };
            reason = next.reason;
            match self.again(end, &next, failure.as_deref()).await {
                Ok(fresh) => start = fresh,
                Err(why) => {
                    let end = self.not_started(why);
                    self.note_iteration(&end, reason, None);
                    return end;
                }
            }
        }
    }

    /// The remaining time of the agent.
    fn left(&self) -> Option<Duration> {
        // A limit of 0 would mean no limit.
        let left = |ends_at: Instant| ends_at.duration_since(Instant::now());
        self.ends_at
            .map(|ends_at| left(ends_at).max(Duration::from_millis(1)))
    }

    /// Whether the agent is restarted after a failure.
    async fn retry(&mut self, end: &AgentEnd) -> Option<Next> {
        let policy = self.trial.plan.policy.retry.as_ref()?;
        let outcome = end.conclusion.outcome;
        if self.is_over(outcome) || self.retried >= policy.times {
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
        let can_take_over =
            policy.fallback.is_some() && self.agents.contestant == Contestant::Primary;
        if is_hopeless && !can_take_over {
            return None;
        }
        let before = self.retried;
        self.retried = if is_hopeless {
            policy.times
        } else {
            before + 1
        };
        if on == RetryOn::Infrastructure && !is_hopeless {
            self.rest(pause(before)).await;
        }
        Some(Next {
            reason: on.into(),
            takes_over: can_take_over && self.retried == policy.times,
        })
    }

    /// Whether the trial has ended, regardless of the policy.
    fn is_over(&self, outcome: Outcome) -> bool {
        self.trial.context.cancel.is_cancelled()
            || self.is_timed_out()
            || matches!(outcome, Outcome::Interrupted | Outcome::BudgetExceeded)
    }

    fn is_timed_out(&self) -> bool {
        self.ends_at
            .is_some_and(|ends_at| ends_at <= Instant::now())
    }

    async fn rest(&self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.trial.context.cancel.cancelled() => {}
        }
    }

    /// Whether the agent left the workspace unchanged. If that is unknown, it counts as changed.
    async fn is_unchanged(&self) -> bool {
        let workspace = &self.site.workspace;
        let change = workspace
            .change(&self.trial.private.join("look.patch"))
            .await;
        change.is_ok_and(|change| change.files.is_empty())
    }

    /// Runs the check command of the loop, if there is one and there is work to check.
    async fn check(&mut self, end: &AgentEnd) -> Option<CheckRecord> {
        let check = self.trial.plan.policy.check.as_ref()?;
        let outcome = end.conclusion.outcome;
        if self.is_over(outcome) || outcome.is_infrastructure() {
            return None;
        }
        let Site {
            exec_env,
            trial_dir,
            ..
        } = &self.site;
        let timeout = self
            .left()
            .map_or(check.timeout, |left| left.min(check.timeout));
        let began = Instant::now();
        let command = ShellCommand {
            argv: &shell::line(&check.check),
            env: exec_env.env(self.trial.context.host, &trial_dir.home),
            cwd: &self.trial.workdir(&self.site),
            timeout: Some(timeout),
            logs: self.trial.artifacts.join(CHECK),
            background: self.trial.background(),
        };
        let ended = command
            .run(exec_env, self.trial.context.host, self.trial.context.cancel)
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
        let policy = self.trial.plan.policy.check.as_ref()?;
        if check.passed {
            return None;
        }
        self.failed_checks += 1;
        if self.failed_checks >= policy.iterations {
            let note = format!("`{}` did not succeed in any iteration", policy.check);
            self.trial.record.notes.push(note);
            return None;
        }
        (!self.trial.context.cancel.is_cancelled() && !self.is_timed_out()).then_some(Next {
            reason: IterationReason::CheckFailed,
            takes_over: false,
        })
    }

    /// The description of a failed check for the prompt.
    fn failure(&self, check: Option<&CheckRecord>) -> Option<String> {
        let policy: &CheckLoop = self.trial.plan.policy.check.as_ref()?;
        let check = check.filter(|check| !check.passed)?;
        let how = match (check.exit_code, &check.problem) {
            (Some(code), _) => format!("`{}` exited with code {code}", check.command),
            (None, problem) => problem.clone().unwrap_or_default(),
        };
        let said = tail(&self.trial.artifacts.join(CHECK).join("output.log"));
        let (done, of) = (self.failed_checks, policy.iterations);
        Some(format!(
            "\n\nWork on this task has already started: the workspace contains the result of the previous iteration ({done} of {of}). After it {how}. The end of what it printed:\n\n{said}\n"
        ))
    }

    fn note_iteration(
        &mut self,
        end: &AgentEnd,
        reason: IterationReason,
        check: Option<CheckRecord>,
    ) {
        let step = self.trial.step().map(|step| step.name.clone());
        if self.trial.plan.policy.is_empty() && step.is_none() {
            return;
        }
        let plan = self.trial.plan_of(self.agents.contestant);
        let conclusion = &end.conclusion;
        let (usage, agent_usage) = settled(conclusion, self.trial.record.gateway.as_ref());
        let number = u32::try_from(self.trial.record.iterations.len()).unwrap_or(u32::MAX);
        self.trial.record.iterations.push(IterationRecord {
            number: number.saturating_add(1),
            reason,
            step,
            kind: plan.adapter.name().to_owned(),
            model_requested: plan.agent.model().map(str::to_owned),
            model: conclusion.model.clone(),
            folder: None,
            outcome: conclusion.outcome,
            process: self.trial.record.process.clone(),
            usage,
            agent_usage,
            gateway: self.trial.record.gateway.clone(),
            session_id: conclusion.session_id.clone(),
            turns: conclusion.turns,
            counts: conclusion.counts,
            errors: conclusion.errors.clone(),
            check,
            verdicts: Vec::new(),
            diff: None,
        });
    }

    /// Prepares another iteration and its agent. `failure` is added to the prompt.
    async fn again(
        &mut self,
        end: AgentEnd,
        next: &Next,
        failure: Option<&str>,
    ) -> Result<AgentStart, NotRun> {
        self.keep_iteration(end).map_err(|error| kept(&error))?;
        if next.takes_over {
            self.agents.contestant = Contestant::Fallback;
        }
        let equipment = self
            .trial
            .begin_iteration(&self.agents, &self.site, next.reason)
            .await?;
        let mut prompt = self.prompt.clone();
        prompt.push_str(failure.unwrap_or_default());
        fs::write(self.trial.artifacts.join(PROMPT_FILE), &prompt)?;
        self.trial
            .launch(&self.agents, &self.site, equipment, &prompt)
            .await
    }

    /// Moves the files of the finished iteration to its own directory.
    fn keep_iteration(&mut self, end: AgentEnd) -> Result<(), StoreError> {
        let contestant = end.contestant;
        self.trial.take_over_identity(&end);
        let account = self.trial.account(&end, Some(&self.site));
        self.trial.write_log(end.log, &account)?;
        self.trial.file_iteration(contestant)
    }

    /// The result of an iteration that could not be started.
    fn not_started(&self, why: NotRun) -> AgentEnd {
        self.trial.not_started(why).of(&self.agents)
    }
}

impl Trial<'_> {
    /// Announces another start of the agent and prepares its fresh HOME and its access to models.
    pub(super) async fn begin_iteration(
        &mut self,
        agents: &Agents,
        site: &Site,
        reason: IterationReason,
    ) -> Result<Equipment, NotRun> {
        let adapter = self.plan_of(agents.contestant).adapter;
        let number = self.record.iterations.len() + 1;
        (self.context.listener)(&Event::Iteration {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            agent: adapter.name().to_owned(),
            reason,
        });
        self.make_folders(adapter).map_err(|error| kept(&error))?;
        let trial_dir = &site.trial_dir;
        trial_dir.empty()?;
        site.exec_env
            .empty(&[&trial_dir.home, &trial_dir.scratch])
            .await
            .map_err(super::container::failed)?;
        self.equip(agents, trial_dir).await
    }

    /// Moves the files of the finished iteration to its own directory.
    pub(super) fn file_iteration(&mut self, contestant: Contestant) -> Result<(), StoreError> {
        let adapter = self.plan_of(contestant).adapter;
        let name = format!("{ITERATIONS}/{}", self.record.iterations.len());
        let folder = self.artifacts.join(&name);
        let failed = |path: &Utf8Path| {
            let path = path.to_owned();
            move |source| StoreError { path, source }
        };
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let logs = logs_folder("".into(), adapter);
        let files = [
            "raw",
            logs.as_str(),
            record::LOG_FILE,
            PROMPT_FILE,
            CALLS_FILE,
            CONTEXT_FILE,
            CHECK,
            metrics_file::KEPT,
            record::PATCH_FILE,
            SETUP,
            EVIDENCE,
            COLLECTED,
        ];
        for file in files {
            let from = self.artifacts.join(file);
            if from.exists() {
                dir::rename(&from, folder.join(file)).map_err(failed(&from))?;
            }
        }
        if let Some(last) = self.record.iterations.last_mut() {
            for artifact in last.verdicts.iter_mut().flat_map(|it| &mut it.artifacts) {
                artifact.path = format!("{name}/{}", artifact.path);
            }
            last.folder = Some(name);
        }
        self.record.process = None;
        self.record.gateway = None;
        self.record.sidecar = None;
        // The record shows the trial's progress if Proctor is killed.
        self.write_record()
    }

    /// The end of an agent that could not be started again.
    pub(super) fn not_started(&self, why: NotRun) -> AgentEnd {
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

pub(super) fn kept(error: &StoreError) -> NotRun {
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
