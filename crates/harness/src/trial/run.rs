//! Running a trial's agent, and adding what only the harness knows to what its session concluded.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use proctor_process::{CaptureLimits, CapturePaths, Limits, Report};
use tokio_util::sync::CancellationToken;

use super::{Ran, Ready, SHELLS_SIGNAL, Trial, chain, logs_folder, millis};
use crate::{
    model_access::{self, KeyAccount, Models},
    outcome::{EndedBy, Ending, Outcome},
    platform,
    record::{self, GatewayRecord, cli::Cli, run_event::Phase},
    sandbox::docker::Facts,
    session::{Conclusion, LogError},
    trial::{
        drive::{Drive, Driven},
        export::CONTEXT_FILE,
    },
    usage::UsageSource,
};

/// The signal by which the kernel ends processes.
const KILLED: i32 = 9;

/// What the kernel did meanwhile among the processes that it counts with ours, those of a job. They may be of another
/// trial: only an agent that was killed is taken for its victim.
fn killed_since(before: u64, ending: &Ending) -> Option<Facts> {
    let kills = platform::oom_kills()?.saturating_sub(before);
    let was_killed = ending.signal == Some(KILLED) || ending.code == Some(SHELLS_SIGNAL + KILLED);
    (kills > 0 && was_killed).then(|| Facts {
        oom_kills: Some(kills),
        ..Facts::default()
    })
}

impl Trial<'_> {
    /// Run the agent to its end.
    pub(super) async fn drive(&mut self, ready: Ready) -> Ran {
        self.phase(Phase::Running);
        let limits = &self.plan.task.limits;
        let wall = self.iterations.left(limits.timeout);
        let started = Timestamp::now();
        let argv = ready.launch.argv.clone();
        let stamp = started.strftime("%Y-%m-%dT%H-%M-%S-%3fZ");
        let unknown_key = self.unknown_key();
        let area = Arc::clone(self.area.as_ref().expect("agents start in one"));
        let drive = Drive {
            cwd: &ready.workdir,
            room: &self.room,
            area: &area.path,
            limits: Limits {
                wall,
                idle: limits.idle_timeout,
                output: limits.output.max_bytes,
                ..Limits::default()
            },
            progress: limits.progress,
            paths: CapturePaths {
                stdout: self.artifacts.join("raw/stdout").into(),
                stderr: self.artifacts.join("raw/stderr").into(),
                transcript: logs_folder(&self.artifacts, self.contender().adapter)
                    .join(format!("terminal-output-{stamp}.log"))
                    .into(),
            },
            capture: CaptureLimits {
                raw: limits.output.raw_bytes,
                transcript: limits.output.transcript_bytes,
            },
            socket: ready.socket,
            host: self.context.host,
            log: self.log.as_mut().expect("the log is open until the end"),
            listener: self.context.listener,
            cancel: self.context.cancel,
            unknown_key,
        };
        let kills = platform::oom_kills();
        match drive.run(ready.launch).await {
            Ok(mut driven) => {
                driven.facts = driven
                    .facts
                    .or_else(|| killed_since(kills?, &driven.ending));
                self.ran(driven, argv).await
            }
            Err(error) => {
                let message = chain(&error);
                self.not_run(Outcome::Sandbox, "SANDBOX_FAILED", message)
            }
        }
    }

    /// Take down how the process ended, and add what only the harness knows to the conclusion.
    async fn ran(&mut self, driven: Driven, argv: Vec<String>) -> Ran {
        let Driven {
            mut conclusion,
            ending,
            report,
            capture,
            capture_error,
            facts,
            repeated,
            tools,
        } = driven;
        let duration_ms = millis(report.duration);
        if let Some(facts) = facts {
            self.note_facts(&mut conclusion, &facts);
        }
        let shows_unknown_key = self.unknown_key().is_cancelled();
        self.close_models(&mut conclusion).await;
        if shows_unknown_key {
            self.note_unknown_key(&mut conclusion);
        }
        self.bring_workspace_out(&mut conclusion).await;
        self.read_sidecar(&mut conclusion);
        self.remove_ignore_lines().await;
        self.compare_accounts(&mut conclusion);
        self.note_session(&conclusion, tools);
        if conclusion.outcome == Outcome::Timeout {
            self.note_timeout(&mut conclusion, &ending, duration_ms);
        }
        if let Some(what) = repeated {
            let message = format!("the agent was ended in a loop: {what}");
            let error = LogError::new("AGENT_LOOP", message);
            conclusion.errors.push(error);
        }
        if capture.truncated() {
            let limit = self.plan.task.limits.output.transcript_bytes;
            let message = format!(
                "the terminal log was truncated at {limit} bytes ({} MB limit); raw/ holds the whole output",
                limit / 1_048_576
            );
            conclusion.errors.push(LogError::new(
                self.code(|cli| cli.truncated_code, "OUTPUT_TRUNCATED"),
                message,
            ));
        }
        if capture.raw_truncated() {
            let message = format!(
                "a raw log was cut at {} bytes; the rest was counted",
                self.plan.task.limits.output.raw_bytes
            );
            conclusion
                .errors
                .push(LogError::new("RAW_OUTPUT_TRUNCATED", message));
        }
        if let Some(error) = capture_error {
            conclusion.outcome = Outcome::Sandbox;
            conclusion
                .errors
                .push(LogError::new("SANDBOX_FAILED", chain(&error)));
        }
        self.note_ending(&mut conclusion, &ending, &report);
        self.record.process = Some(record::ProcessRecord::of(&report, argv, &ending, &capture));
        Ran {
            conclusion,
            ending,
            completed_at: Timestamp::now(),
            duration_ms,
        }
    }

    /// Add what the end of the process says about the trial.
    fn note_ending(&mut self, conclusion: &mut Conclusion, ending: &Ending, report: &Report) {
        if ending.ended_by == Some(EndedBy::SupervisorLost) {
            conclusion.outcome = Outcome::Sandbox;
            let message = "the supervisor of the agent's process was killed; the processes that it supervised were ended";
            conclusion
                .errors
                .push(LogError::new("SUPERVISOR_LOST", message));
        }
        if ending.ended_by == Some(EndedBy::Session) && conclusion.outcome == Outcome::Completed {
            self.record
                .notes
                .push("the agent's process was ended after it had given its result".to_owned());
        }
        for leak in &report.leaked {
            self.record.notes.push(format!(
                "the agent left a process behind, which was ended: {} ({})",
                leak.name, leak.pid
            ));
        }
    }

    /// Cancelled when the agent shows a key that the gateway does not know; never without a gateway.
    fn unknown_key(&self) -> CancellationToken {
        let models = self.models.as_ref();
        models.map_or_else(CancellationToken::new, |models| models.unknown_key.clone())
    }

    /// An agent with a key of its own was configured wrongly: it cannot reach a model.
    fn note_unknown_key(&mut self, conclusion: &mut Conclusion) {
        if conclusion.outcome == Outcome::Completed {
            let note = "the gateway refused a call with an API key that it does not know";
            self.note(note.to_owned());
            return;
        }
        conclusion.outcome = Outcome::Auth;
        let message = "the agent was ended: it showed the gateway an API key that the gateway does not know; remove the key from the agent's script, image or settings, or list its variable in `secrets.unsafe_pass_through`";
        let error = LogError::new("UNKNOWN_API_KEY", message);
        conclusion.errors.push(error);
    }

    /// Compare the agent's own figures with the gateway's. An agent without any has the gateway's
    /// in its log.
    fn compare_accounts(&mut self, conclusion: &mut Conclusion) {
        let Some(record) = &mut self.record.gateway else {
            return;
        };
        match &conclusion.usage {
            None => conclusion.usage = record.usage(),
            Some(usage) => model_access::compare(record, usage),
        }
    }

    /// Record what the session says about the agent's work, over all iterations.
    fn note_session(&mut self, conclusion: &Conclusion, tools: BTreeSet<String>) {
        let record = &mut self.record;
        let before = if record.iterations.is_empty() {
            Some(0)
        } else {
            record.session_ms
        };
        let took = conclusion.times.duration_ms;
        record.session_ms = before.zip(took).map(|(before, took)| before + took);
        // A final account without a tool call says that there was none; other silence says nothing.
        let usage = conclusion.usage.as_ref();
        let is_final = usage.is_some_and(|usage| usage.source == UsageSource::ResultEvent);
        if tools.is_empty() && !is_final && record.tools_used.is_none() {
            return;
        }
        let mut all: BTreeSet<String> = record.tools_used.take().into_iter().flatten().collect();
        all.extend(tools);
        record.tools_used = Some(all.into_iter().collect());
    }

    /// Take down what went through the gateway.
    async fn close_models(&mut self, conclusion: &mut Conclusion) {
        let (Some(all), Some(own)) = (self.context.models, self.models.take()) else {
            return;
        };
        let KeyAccount {
            record,
            context,
            last_failure,
        } = all.close(own).await;
        if let Some(context) = context
            && let Err(error) = record::write_json(&self.artifacts.join(CONTEXT_FILE), &context)
        {
            self.record.notes.push(chain(&error));
        }
        if let Some(failed) = last_failure
            && matches!(
                conclusion.outcome,
                Outcome::Timeout | Outcome::AgentError | Outcome::Loop
            )
        {
            conclusion.outcome = failed.outcome;
            let message = format!(
                "the agent's last call to a model failed, by the gateway's account: {}",
                failed.what
            );
            conclusion
                .errors
                .push(LogError::new("MODEL_CALLS_FAILED", message));
        }
        if let Some(limit) = &record.exhausted
            && conclusion.outcome != Outcome::Completed
        {
            conclusion.outcome = Outcome::BudgetExceeded;
            let message = format!("the trial's budget ({limit}) was used up");
            conclusion
                .errors
                .push(LogError::new("BUDGET_EXCEEDED", message));
        }
        self.note_lost_calls(&record, conclusion);
        self.record.gateway = Some(record);
    }

    /// An agent whose calls led nowhere has not failed: there was no model to work with.
    fn note_lost_calls(&mut self, record: &GatewayRecord, conclusion: &mut Conclusion) {
        let missed = record.replay.as_ref().map_or(0, |replay| replay.missed);
        if missed > 0 && self.context.models.is_some_and(Models::is_strict_replay) {
            let message = format!("{missed} call(s) are not in the recording that was replayed");
            if conclusion.outcome == Outcome::Completed {
                self.record.notes.push(message);
            } else {
                conclusion.outcome = Outcome::Sandbox;
                conclusion
                    .errors
                    .push(LogError::new("REPLAY_MISS", message));
            }
        }
        let failed = matches!(conclusion.outcome, Outcome::AgentError | Outcome::GaveUp);
        if failed && record.calls > 0 && record.calls_unreachable == record.calls {
            conclusion.outcome = Outcome::Network;
            let message = "the gateway reached no provider";
            conclusion
                .errors
                .push(LogError::new("PROVIDER_UNREACHABLE", message));
        }
    }

    /// What the container's engine knows: whether memory or disk ran out.
    fn note_facts(&mut self, conclusion: &mut Conclusion, facts: &Facts) {
        let mut has_limit = false;
        if let record::SandboxRecord::Docker(record) = &mut self.record.sandbox {
            record.peak_memory_bytes = facts.peak_memory_bytes;
            record.oom_kills = facts.oom_kills;
            has_limit = record.limits.memory_bytes.is_some();
        }
        if let Some(kills) = facts.oom_kills.filter(|&kills| kills > 0) {
            let message =
                format!("{kills} process(es) of the agent were killed for want of memory");
            if conclusion.outcome == Outcome::Completed {
                self.record.notes.push(message);
            } else {
                // A limit of its own is the agent's to keep; the memory of the machine is not.
                conclusion.outcome = if has_limit {
                    Outcome::AgentError
                } else {
                    Outcome::OutOfMemory
                };
                conclusion
                    .errors
                    .push(LogError::new("OUT_OF_MEMORY", message));
            }
        }
        if let Some(bytes) = facts.disk_exceeded {
            conclusion.outcome = Outcome::AgentError;
            let message = format!("the agent was ended: it had written {bytes} bytes to disk");
            conclusion.errors.push(LogError::new("DISK_LIMIT", message));
        }
    }

    /// A task that brings its own files is done inside the container: get what came of it.
    async fn bring_workspace_out(&mut self, conclusion: &mut Conclusion) {
        let (true, Some(workspace)) = (
            self.docker().is_some() && self.plan.task.environment().is_some(),
            &self.workspace,
        ) else {
            return;
        };
        let path = workspace.path().to_owned();
        let brought = match workspace.files.clear() {
            Ok(()) => self.bring_out(&path).await.map_err(|error| chain(&error)),
            Err(error) => Err(error.to_string()),
        };
        if let Err(message) = brought {
            conclusion.outcome = Outcome::Sandbox;
            conclusion
                .errors
                .push(LogError::new("SANDBOX_FAILED", message));
        }
    }

    fn note_timeout(&self, conclusion: &mut Conclusion, ending: &Ending, duration_ms: u64) {
        let code = self.code(|cli| cli.timeout_code, "AGENT_TIMEOUT");
        conclusion
            .errors
            .retain(|error| error.code.as_deref() != Some(code));
        let limits = &self.plan.task.limits;
        let (which, limit) = match ending.ended_by {
            Some(EndedBy::IdleLimit) => ("idle timeout", limits.idle_timeout),
            Some(EndedBy::NoProgress) => ("no-progress timeout", limits.progress.quiet),
            _ => ("timeout", limits.timeout),
        };
        let of = limit.map_or(String::new(), |limit| {
            format!(" of {} ms", limit.as_millis())
        });
        let message = format!(
            "{which}{of}: the agent was ended after {duration_ms} ms; its output up to then is kept"
        );
        conclusion.errors.push(LogError::new(code, message));
    }

    fn code(&self, of: impl Fn(&'static Cli) -> &'static str, other: &'static str) -> &'static str {
        self.contender().adapter.cli().map_or(other, of)
    }

    /// The agent's part of a trial in which the agent had none.
    pub(super) fn not_run(&self, outcome: Outcome, code: &str, message: String) -> Ran {
        Ran {
            conclusion: Conclusion::of(outcome, vec![LogError::new(code, message)]),
            ending: Ending::default(),
            completed_at: Timestamp::now(),
            duration_ms: millis(self.clock.elapsed()),
        }
    }
}
