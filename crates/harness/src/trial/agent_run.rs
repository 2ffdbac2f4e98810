//! Runs a trial's agent, and adds the harness's own evidence to the conclusion of its session.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use proctor_process::{Background, Capture, CaptureLimits, CapturePaths, Limits, Report};
use proctor_record::{
    outcome::{EndedBy, Ending, Outcome},
    platform,
    record::{self, Phase, cli::Cli},
    session::{Conclusion, LogError, McpServer},
    usage::UsageSource,
};
use proctor_sandbox::docker::JobFacts;
use tokio_util::sync::CancellationToken;

use super::{
    AgentEnd, AgentStart, Agents, Site, Trial, chain,
    evidence::{self, Cancelled, Evidence, GatewayEvidence, ResourceEvidence, TimeEvidence},
    logs_folder, millis,
};
use crate::{
    evaluate::{Evaluator, Verifier, VerifierMode},
    model_access::{self, KeyAccount, TrialModels},
    trial::{
        contestant::Contestant,
        drive::{Drive, Driven},
        export::CONTEXT_FILE,
    },
};

/// The signal that the kernel's OOM killer sends.
const KILLED: i32 = 9;
/// The signals that end processes from outside: HUP, INT, KILL and TERM.
const ENDING_SIGNALS: [i32; 4] = [1, 2, 9, 15];
/// Shells add this number to the signal that killed a program.
const SHELLS_SIGNAL: i32 = 128;
/// How long to wait for our own signal after a job-wide signal killed the agent.
const OWN_SIGNAL_WAIT: Duration = Duration::from_millis(500);

/// The kernel's OOM kills in the job's cgroup. They may belong to another trial, so only an agent
/// that was killed counts as a victim.
fn killed_since(before: u64, ending: &Ending) -> Option<JobFacts> {
    let kills = platform::oom_kills()?.saturating_sub(before);
    let was_killed = ending.signal == Some(KILLED) || ending.code == Some(SHELLS_SIGNAL + KILLED);
    (kills > 0 && was_killed).then(|| JobFacts {
        oom_kills: Some(kills),
        ..JobFacts::default()
    })
}

/// Cancelled when the agent sends a key that the gateway does not know; never without a gateway.
fn unknown_key(models: Option<&TrialModels>) -> CancellationToken {
    models.map_or_else(CancellationToken::new, |models| models.unknown_key.clone())
}

impl Trial<'_> {
    /// Runs the agent to its end.
    pub(super) async fn drive(
        &mut self,
        agents: &Agents,
        site: &Site,
        start: AgentStart,
        wall: Option<Duration>,
    ) -> AgentEnd {
        self.phase(Phase::Running);
        let AgentStart {
            launch,
            socket,
            workdir,
            models,
            mut log,
        } = start;
        let limits = &self.plan.task.limits;
        let stamp = Timestamp::now().strftime("%Y-%m-%dT%H-%M-%S-%3fZ");
        let plan = self.plan_of(agents.contestant);
        let required_mcp = self.required_mcp(agents.contestant);
        let drive = Drive {
            cwd: &workdir,
            exec_env: &site.exec_env,
            trial_dir: &site.trial_dir.path,
            limits: Limits {
                wall,
                idle: limits.idle_timeout,
                output: limits.output.max_bytes,
                ..Limits::default()
            },
            background: self.background(),
            progress: limits.progress,
            paths: CapturePaths {
                stdout: self.artifacts.join("raw/stdout").into(),
                stderr: self.artifacts.join("raw/stderr").into(),
                transcript: logs_folder(&self.artifacts, plan.adapter)
                    .join(format!("terminal-output-{stamp}.log"))
                    .into(),
            },
            capture: CaptureLimits {
                raw: limits.output.raw_bytes,
                transcript: limits.output.transcript_bytes,
            },
            socket,
            host: self.context.host,
            log: &mut log,
            required_mcp: &required_mcp,
            listener: self.context.listener,
            cancel: self.context.cancel,
            unknown_key: unknown_key(models.as_ref()),
        };
        let kills = platform::oom_kills();
        let end = match drive.run(launch).await {
            Ok(mut driven) => {
                driven.facts = driven
                    .facts
                    .or_else(|| killed_since(kills?, &driven.ending));
                self.ran(driven, agents.contestant, site, models).await
            }
            Err(error) => {
                let message = chain(&error);
                self.not_run(Outcome::Sandbox, "SANDBOX_FAILED", message)
            }
        };
        AgentEnd {
            log: Some(log),
            ..end.of(agents)
        }
    }

    /// Collects all evidence about the agent's end, decides the outcome, and records both.
    async fn ran(
        &mut self,
        driven: Driven,
        contestant: Contestant,
        site: &Site,
        models: Option<TrialModels>,
    ) -> AgentEnd {
        let plan = self.plan_of(contestant);
        let cli = plan.adapter.cli();
        let Driven {
            argv,
            mut conclusion,
            ending,
            report,
            capture,
            capture_error,
            facts,
            repeated,
            tools,
            mcp_servers,
        } = driven;
        let duration_ms = millis(report.duration);
        let gateway = self.close_models(models).await;
        self.observe_session();
        let evidence = Evidence {
            session: conclusion.outcome,
            ending,
            time: self.time_evidence(cli, &ending, duration_ms),
            resources: facts.map_or_else(ResourceEvidence::default, |it| self.note_facts(&it)),
            gateway,
            needs_model: cli.is_some(),
            unusable_mcp: self.unusable_mcp(contestant, mcp_servers),
            repeated,
            workspace_error: self.bring_workspace_out(site).await,
            capture_error: capture_error.map(|error| chain(&error)),
            cancelled: self.cancelled_with(conclusion.outcome, &ending).await,
            is_change_lost: false,
        };
        let decision = evidence::outcome(&evidence, std::mem::take(&mut conclusion.errors));
        conclusion.outcome = decision.outcome;
        conclusion.errors = decision.errors;
        self.record.notes.extend(decision.notes);
        self.read_metrics_file(plan, &site.workspace, &mut conclusion);
        self.remove_ignore_lines(plan, &site.workspace).await;
        self.compare_accounts(&mut conclusion);
        self.note_session(&conclusion, tools);
        self.record_delivery();
        conclusion.errors.extend(self.truncations(cli, &capture));
        self.note_ending(conclusion.outcome, &ending, &report);
        self.record.process = Some(record::ProcessRecord::of(&report, argv, &ending, &capture));
        AgentEnd {
            contestant,
            version: None,
            log: None,
            conclusion,
            ending,
            completed_at: Timestamp::now(),
            duration_ms,
        }
    }

    /// Record the MCP servers that the agent reported. Returns those that it lacks and cannot do without.
    fn unusable_mcp(
        &mut self,
        contestant: Contestant,
        reported: Option<Vec<McpServer>>,
    ) -> Vec<McpServer> {
        let required = self.required_mcp(contestant);
        let Some(reported) = reported else {
            if !required.is_empty() {
                let names = required.join(", ");
                self.note(format!(
                    "the agent did not report the states of its MCP servers: {names}"
                ));
            }
            return Vec::new();
        };
        let state = |name: &String| {
            let found = reported.iter().find(|server| server.name == *name);
            found.cloned().unwrap_or_else(|| McpServer {
                name: name.clone(),
                status: "not reported".to_owned(),
            })
        };
        let unusable = required.iter().map(state);
        let is_unusable = |server: &McpServer| {
            !server.is_usable() || server.is_connecting() && !self.may_have_tools_of(&server.name)
        };
        let unusable: Vec<McpServer> = unusable.filter(is_unusable).collect();
        for McpServer { name, status } in reported.iter().filter(|server| !server.is_usable()) {
            if !required.contains(name) {
                let note = format!("the MCP server `{name}` was not usable: {status}");
                self.record.notes.push(note);
            }
        }
        if contestant == Contestant::Primary && !reported.is_empty() {
            self.record.agent.mcp_servers = Some(reported);
        }
        unusable
    }

    /// Whether the trial is cancelled. A job-wide signal may kill the agent before our own signal arrives.
    async fn cancelled_with(&self, session: Outcome, ending: &Ending) -> Cancelled {
        let by_shell = ending.code.map(|code| code - SHELLS_SIGNAL);
        let signal = ending.signal.or(by_shell);
        let was_signalled = session == Outcome::AgentError
            && ending.ended_by.is_none()
            && signal.is_some_and(|signal| ENDING_SIGNALS.contains(&signal));
        if was_signalled {
            let _ = tokio::time::timeout(OWN_SIGNAL_WAIT, self.context.cancel.cancelled()).await;
        }
        self.context.cancelled()
    }

    fn time_evidence(
        &self,
        cli: Option<&'static Cli>,
        ending: &Ending,
        took_ms: u64,
    ) -> TimeEvidence {
        let limits = &self.plan.task.limits;
        TimeEvidence {
            limit: match ending.ended_by {
                Some(EndedBy::IdleLimit) => limits.idle_timeout,
                Some(EndedBy::NoProgress) => limits.progress.quiet,
                _ => limits.timeout,
            },
            took_ms,
            code: cli.map_or("AGENT_TIMEOUT", |cli| cli.timeout_code),
        }
    }

    /// Errors about logs that were truncated at their limits.
    fn truncations(&self, cli: Option<&Cli>, capture: &Capture) -> Vec<LogError> {
        let limits = &self.plan.task.limits.output;
        let mut errors = Vec::new();
        if capture.truncated() {
            let message = format!(
                "the terminal log was truncated at {} bytes ({} MB limit); raw/ has the complete output",
                limits.transcript_bytes,
                limits.transcript_bytes / 1_048_576
            );
            let code = cli.map_or("OUTPUT_TRUNCATED", |cli| cli.truncated_code);
            errors.push(LogError::new(code, message));
        }
        if capture.raw_truncated() {
            let message = format!(
                "a raw log was truncated at {} bytes; further bytes were only counted",
                limits.raw_bytes
            );
            errors.push(LogError::new("RAW_OUTPUT_TRUNCATED", message));
        }
        errors
    }

    /// Notes how the process was ended, and the processes that it left behind.
    fn note_ending(&mut self, outcome: Outcome, ending: &Ending, report: &Report) {
        if ending.ended_by == Some(EndedBy::Session) && outcome == Outcome::Completed {
            self.record
                .notes
                .push("the agent's process was ended after its result".to_owned());
        }
        for leak in &report.leaked {
            self.record.notes.push(format!(
                "the agent left a process behind, which was ended: {} ({})",
                leak.name, leak.pid
            ));
        }
        let kept: Vec<String> = report
            .background
            .iter()
            .map(|process| format!("{} ({})", process.name, process.pid))
            .collect();
        if !kept.is_empty() {
            self.note(format!(
                "background processes of the agent go on while it is judged: {}",
                kept.join(", ")
            ));
        }
    }

    /// The fate of processes that the agent leaves behind: a task in Harbor's format may be judged by what they serve.
    pub(super) fn background(&self) -> Background {
        let mut verifiers = self
            .plan
            .task
            .evaluators
            .iter()
            .filter_map(Evaluator::verifier);
        let uses = |verifier: &Verifier| {
            verifier.mode == VerifierMode::Shared || !verifier.collect.is_empty()
        };
        if verifiers.any(uses) {
            Background::Keep
        } else {
            Background::End
        }
    }

    /// Compares the agent's own figures with the gateway's. An agent without figures gets the
    /// gateway's in its log.
    fn compare_accounts(&mut self, conclusion: &mut Conclusion) {
        let Some(record) = &mut self.record.gateway else {
            return;
        };
        match &conclusion.usage {
            None => conclusion.usage = record.usage(),
            Some(usage) => model_access::compare(record, usage),
        }
    }

    /// Records the session's data about the agent's work, over all iterations.
    fn note_session(&mut self, conclusion: &Conclusion, tools: BTreeSet<String>) {
        let record = &mut self.record;
        let before = if record.iterations.is_empty() {
            Some(0)
        } else {
            record.session_ms
        };
        let took = conclusion.times.duration_ms;
        record.session_ms = before.zip(took).map(|(before, took)| before + took);
        // Without tool calls, a final account means zero; otherwise the number is unknown.
        let usage = conclusion.usage.as_ref();
        let is_final = usage.is_some_and(|usage| usage.source == UsageSource::ResultEvent);
        if tools.is_empty() && !is_final && record.tools_used.is_none() {
            return;
        }
        let mut all: BTreeSet<String> = record.tools_used.take().into_iter().flatten().collect();
        all.extend(tools);
        record.tools_used = Some(all.into_iter().collect());
    }

    /// Closes the agent's access to models and records the gateway's account.
    async fn close_models(&mut self, own: Option<TrialModels>) -> Option<GatewayEvidence> {
        let (all, own) = (self.context.models?, own?);
        let shows_unknown_key = own.unknown_key.is_cancelled();
        let KeyAccount {
            record,
            context,
            last_failure,
            watched,
        } = all.close(own).await;
        self.note_delivery(&watched, record.calls);
        if let Some(context) = context
            && let Err(error) = record::write_json(&self.artifacts.join(CONTEXT_FILE), &context)
        {
            self.record.notes.push(chain(&error));
        }
        let misses = record.replay.as_ref().map_or(0, |replay| replay.missed);
        let evidence = GatewayEvidence {
            calls: record.calls,
            calls_unreachable: record.calls_unreachable,
            last_failure,
            exhausted: record.exhausted.clone(),
            replay_misses: if all.is_strict_replay() { misses } else { 0 },
            shows_unknown_key,
        };
        self.record.gateway = Some(record);
        Some(evidence)
    }

    /// Records the engine's data about memory and disk.
    fn note_facts(&mut self, facts: &JobFacts) -> ResourceEvidence {
        let mut has_memory_limit = false;
        if let record::SandboxRecord::Docker(record) = &mut self.record.sandbox {
            record.peak_memory_bytes = facts.peak_memory_bytes;
            record.oom_kills = facts.oom_kills;
            has_memory_limit = record.limits.memory_bytes.is_some();
        }
        ResourceEvidence {
            oom_kills: facts.oom_kills.unwrap_or_default(),
            has_memory_limit,
            disk_exceeded: facts.disk_exceeded,
        }
    }

    /// Copies the workspace of a task with its own files out of the container. Returns the error if
    /// that failed.
    pub(super) async fn bring_workspace_out(&self, site: &Site) -> Option<String> {
        self.docker()?;
        self.plan.task.environment()?;
        let workspace = &site.workspace;
        match workspace.files.clear() {
            Ok(()) => {
                let brought = self.bring_out(&site.exec_env, workspace.path()).await;
                brought.err().map(|error| chain(&error))
            }
            Err(error) => Some(error.to_string()),
        }
    }

    /// The end of an agent that did not start.
    pub(super) fn not_run(&self, outcome: Outcome, code: &str, message: String) -> AgentEnd {
        let evidence = Evidence::of(outcome, self.context.cancelled());
        let decision = evidence::outcome(&evidence, vec![LogError::new(code, message)]);
        AgentEnd {
            contestant: Contestant::Primary,
            version: None,
            log: None,
            conclusion: Conclusion::of(decision.outcome, decision.errors),
            ending: Ending::default(),
            completed_at: Timestamp::now(),
            duration_ms: millis(self.clock.elapsed()),
        }
    }
}
