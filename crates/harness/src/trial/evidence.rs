//! The outcome of an agent's run: all evidence in one struct, decided by one pure function.

use std::time::Duration;

use crate::{
    model_access::FailedCall,
    outcome::{EndedBy, Ending, Outcome},
    session::LogError,
};

/// Everything that is known about the end of an agent's run.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// The outcome that the session concluded.
    pub(super) session: Outcome,
    /// How the process ended.
    pub(super) ending: Ending,
    /// The time limit that ended it, and the time that it took.
    pub(super) time: TimeEvidence,
    /// Memory and disk, by the kernel's or the engine's account.
    pub(super) resources: ResourceEvidence,
    /// Model calls, by the gateway's account; `None` without a gateway.
    pub(super) gateway: Option<GatewayEvidence>,
    /// The action that the agent repeated until `loop_limit` ended it.
    pub(super) repeated: Option<String>,
    /// Why the workspace did not come out of the container.
    pub(super) workspace_error: Option<String>,
    /// Why captured output is not on disk.
    pub(super) capture_error: Option<String>,
    /// Whether the trial was cancelled.
    pub(super) cancelled: Cancelled,
    /// Whether the cancellation left the agent's change unknown.
    pub(super) is_change_lost: bool,
}

/// Time limits and the time taken, for the message of a timeout.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeEvidence {
    /// The limit that applied, if one is set.
    pub(super) limit: Option<Duration>,
    pub(super) took_ms: u64,
    /// The code of the agent's timeout error.
    pub(super) code: &'static str,
}

/// What the kernel or the container engine reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResourceEvidence {
    /// Processes that were killed for lack of memory.
    pub(super) oom_kills: u64,
    /// Whether the container had a memory limit of its own.
    pub(super) has_memory_limit: bool,
    /// The bytes on disk when the disk limit ended the agent.
    pub(super) disk_exceeded: Option<u64>,
}

/// What the gateway saw of the agent.
#[derive(Clone, Debug, Default)]
pub(super) struct GatewayEvidence {
    /// Model calls, and those of them that reached no provider.
    pub(super) calls: u64,
    pub(super) calls_unreachable: u64,
    /// The last call, if it failed.
    pub(super) last_failure: Option<FailedCall>,
    /// The budget that was used up.
    pub(super) exhausted: Option<String>,
    /// Calls that are not in the recording, when only recorded calls are answered.
    pub(super) replay_misses: usize,
    /// Whether the agent showed a key that the gateway does not know.
    pub(super) shows_unknown_key: bool,
}

/// Whether and why a trial was cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cancelled {
    #[default]
    No,
    /// By the user or a signal.
    Interrupted,
    /// For a cause that has an outcome of its own, such as the end of a job's time.
    Because(Outcome),
}

/// The outcome of an agent's run, with the errors and notes that explain it.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) outcome: Outcome,
    pub(super) errors: Vec<LogError>,
    pub(super) notes: Vec<String>,
}

/// One conclusion from the evidence.
enum Finding {
    /// The outcome is this one instead, for this reason.
    Outcome(Outcome, Option<LogError>),
    /// The outcome stays, and the record has an error.
    Error(LogError),
    /// The outcome stays, and the record has a note.
    Note(String),
}

/// A rule sees the evidence and the outcome so far.
type Rule = fn(&Evidence, Outcome) -> Option<Finding>;

/// All rules. A later one overrides an earlier one.
const RULES: &[Rule] = &[
    out_of_memory,
    disk_limit,
    last_call_failed,
    budget_exceeded,
    not_in_recording,
    provider_unreachable,
    unknown_key,
    timed_out,
    repeated,
    workspace_lost,
    output_lost,
    supervisor_lost,
    cancelled,
];

impl Evidence {
    /// An outcome without other evidence, such as that of an agent that was not started.
    pub(super) fn of(outcome: Outcome, cancelled: Cancelled) -> Evidence {
        Evidence {
            session: outcome,
            ending: Ending::default(),
            time: TimeEvidence::default(),
            resources: ResourceEvidence::default(),
            gateway: None,
            repeated: None,
            workspace_error: None,
            capture_error: None,
            cancelled,
            is_change_lost: false,
        }
    }
}

/// Decide the outcome of an agent's run. `errors` are those that the session reported.
pub(super) fn outcome(evidence: &Evidence, errors: Vec<LogError>) -> Decision {
    let mut decision = Decision {
        outcome: evidence.session,
        errors,
        notes: Vec::new(),
    };
    for rule in RULES {
        let Some(finding) = rule(evidence, decision.outcome) else {
            continue;
        };
        let error = match finding {
            Finding::Outcome(outcome, error) => {
                decision.outcome = outcome;
                error
            }
            Finding::Error(error) => Some(error),
            Finding::Note(note) => {
                decision.notes.push(note);
                None
            }
        };
        if let Some(error) = error {
            // The session's own error about a timeout knows less.
            let is_timeout = error.code.as_deref() == Some(evidence.time.code);
            decision
                .errors
                .retain(|earlier| !is_timeout || earlier.code != error.code);
            decision.errors.push(error);
        }
    }
    decision
}

#[expect(clippy::unnecessary_wraps, reason = "the return type of every rule")]
fn because(outcome: Outcome, code: &str, message: impl Into<String>) -> Option<Finding> {
    Some(Finding::Outcome(
        outcome,
        Some(LogError::new(code, message)),
    ))
}

fn out_of_memory(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let ResourceEvidence {
        oom_kills,
        has_memory_limit,
        ..
    } = evidence.resources;
    if oom_kills == 0 {
        return None;
    }
    let message = format!("{oom_kills} process(es) of the agent were killed for want of memory");
    match so_far {
        Outcome::Completed => Some(Finding::Note(message)),
        // The agent has to keep within a limit of its own; the machine's memory is not its concern.
        _ if has_memory_limit => because(Outcome::AgentError, "OUT_OF_MEMORY", message),
        _ => because(Outcome::OutOfMemory, "OUT_OF_MEMORY", message),
    }
}

fn disk_limit(evidence: &Evidence, _: Outcome) -> Option<Finding> {
    let bytes = evidence.resources.disk_exceeded?;
    let message = format!("the agent was ended: it had written {bytes} bytes to disk");
    because(Outcome::AgentError, "DISK_LIMIT", message)
}

/// Some agents retry failed calls silently, or give another reason for their end.
fn last_call_failed(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let failed = evidence.gateway.as_ref()?.last_failure.as_ref()?;
    let message = format!(
        "the agent's last call to a model failed, by the gateway's account: {}",
        failed.what
    );
    match so_far {
        Outcome::Timeout | Outcome::AgentError | Outcome::Loop => {
            because(failed.outcome, "MODEL_CALLS_FAILED", message)
        }
        _ => None,
    }
}

fn budget_exceeded(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let limit = evidence.gateway.as_ref()?.exhausted.as_ref()?;
    let message = format!("the trial's budget ({limit}) was used up");
    (so_far != Outcome::Completed)
        .then(|| because(Outcome::BudgetExceeded, "BUDGET_EXCEEDED", message))?
}

fn not_in_recording(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let misses = evidence.gateway.as_ref()?.replay_misses;
    let message = format!("{misses} call(s) are not in the recording that was replayed");
    match so_far {
        _ if misses == 0 => None,
        Outcome::Completed => Some(Finding::Note(message)),
        _ => because(Outcome::Sandbox, "REPLAY_MISS", message),
    }
}

fn provider_unreachable(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let gateway = evidence.gateway.as_ref()?;
    let is_unreachable = gateway.calls > 0 && gateway.calls_unreachable == gateway.calls;
    let message = "the gateway reached no provider";
    match so_far {
        Outcome::AgentError | Outcome::GaveUp if is_unreachable => {
            because(Outcome::Network, "PROVIDER_UNREACHABLE", message)
        }
        _ => None,
    }
}

fn unknown_key(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    if !evidence.gateway.as_ref()?.shows_unknown_key {
        return None;
    }
    if so_far == Outcome::Completed {
        let note = "the gateway refused a call with an API key that it does not know";
        return Some(Finding::Note(note.to_owned()));
    }
    let message = "the agent was ended: it showed the gateway an API key that the gateway does not know; remove the key from the agent's script, image or settings, or list its variable in `secrets.unsafe_pass_through`";
    because(Outcome::Auth, "UNKNOWN_API_KEY", message)
}

fn timed_out(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    if so_far != Outcome::Timeout {
        return None;
    }
    let which = match evidence.ending.ended_by {
        Some(EndedBy::IdleLimit) => "idle timeout",
        Some(EndedBy::NoProgress) => "no-progress timeout",
        _ => "timeout",
    };
    let TimeEvidence {
        limit,
        took_ms,
        code,
    } = evidence.time;
    let of = limit.map_or(String::new(), |limit| {
        format!(" of {} ms", limit.as_millis())
    });
    let message = format!(
        "{which}{of}: the agent was ended after {took_ms} ms; its output up to then is kept"
    );
    Some(Finding::Error(LogError::new(code, message)))
}

fn repeated(evidence: &Evidence, _: Outcome) -> Option<Finding> {
    let what = evidence.repeated.as_ref()?;
    let message = format!("the agent was ended in a loop: {what}");
    Some(Finding::Error(LogError::new("AGENT_LOOP", message)))
}

fn workspace_lost(evidence: &Evidence, _: Outcome) -> Option<Finding> {
    let message = evidence.workspace_error.as_ref()?;
    because(Outcome::Sandbox, "SANDBOX_FAILED", message)
}

fn output_lost(evidence: &Evidence, _: Outcome) -> Option<Finding> {
    let message = evidence.capture_error.as_ref()?;
    because(Outcome::Sandbox, "SANDBOX_FAILED", message)
}

fn supervisor_lost(evidence: &Evidence, _: Outcome) -> Option<Finding> {
    let message = "the supervisor of the agent's process was killed; the processes that it supervised were ended";
    match evidence.ending.ended_by {
        Some(EndedBy::SupervisorLost) => because(Outcome::Sandbox, "SUPERVISOR_LOST", message),
        _ => None,
    }
}

/// Cluster engines signal all processes of a job, and the agent may die before our own signal arrives: that is not its
/// own failure.
fn cancelled(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let instead = match evidence.cancelled {
        Cancelled::No => return None,
        Cancelled::Interrupted => Outcome::Interrupted,
        Cancelled::Because(outcome) => outcome,
    };
    let was_interrupted = match so_far {
        Outcome::Interrupted => true,
        Outcome::AgentError => evidence.ending.ended_by.is_none(),
        Outcome::Completed => evidence.is_change_lost,
        _ => false,
    };
    was_interrupted.then_some(Finding::Outcome(instead, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(outcome: Outcome) -> Evidence {
        let mut evidence = Evidence::of(outcome, Cancelled::No);
        evidence.time.code = "AGENT_TIMEOUT";
        evidence
    }

    fn ended(outcome: Outcome, by: EndedBy) -> Evidence {
        let mut evidence = session(outcome);
        evidence.ending.ended_by = Some(by);
        evidence
    }

    fn oom(outcome: Outcome, has_memory_limit: bool) -> Evidence {
        let mut evidence = session(outcome);
        evidence.resources.oom_kills = 1;
        evidence.resources.has_memory_limit = has_memory_limit;
        evidence
    }

    fn disk(outcome: Outcome) -> Evidence {
        let mut evidence = session(outcome);
        evidence.resources.disk_exceeded = Some(1000);
        evidence
    }

    fn gateway(outcome: Outcome, gateway: GatewayEvidence) -> Evidence {
        Evidence {
            gateway: Some(gateway),
            ..session(outcome)
        }
    }

    fn failed_call(outcome: Outcome) -> Evidence {
        let failed = FailedCall {
            outcome: Outcome::RateLimit,
            what: "status 429".to_owned(),
        };
        let seen = GatewayEvidence {
            calls: 2,
            last_failure: Some(failed),
            ..GatewayEvidence::default()
        };
        gateway(outcome, seen)
    }

    fn exhausted(outcome: Outcome) -> Evidence {
        let seen = GatewayEvidence {
            calls: 2,
            exhausted: Some("usd".to_owned()),
            ..GatewayEvidence::default()
        };
        gateway(outcome, seen)
    }

    fn missed(outcome: Outcome) -> Evidence {
        let seen = GatewayEvidence {
            calls: 2,
            replay_misses: 1,
            ..GatewayEvidence::default()
        };
        gateway(outcome, seen)
    }

    fn unreachable(outcome: Outcome, calls_unreachable: u64) -> Evidence {
        let seen = GatewayEvidence {
            calls: 2,
            calls_unreachable,
            ..GatewayEvidence::default()
        };
        gateway(outcome, seen)
    }

    fn unknown_key(outcome: Outcome) -> Evidence {
        let seen = GatewayEvidence {
            shows_unknown_key: true,
            ..GatewayEvidence::default()
        };
        gateway(outcome, seen)
    }

    fn cancelled(outcome: Outcome, cancelled: Cancelled) -> Evidence {
        Evidence {
            cancelled,
            ..session(outcome)
        }
    }

    fn broken(outcome: Outcome) -> Evidence {
        Evidence {
            capture_error: Some("no space left".to_owned()),
            ..failed_call(outcome)
        }
    }

    /// Evidence, the expected outcome, and the code of the last error or `note`.
    type Row = (Evidence, Outcome, &'static str);

    #[track_caller]
    fn check(rows: Vec<Row>) {
        for (evidence, outcome, code) in rows {
            let decision = super::outcome(&evidence, Vec::new());
            assert_eq!(decision.outcome, outcome, "{evidence:?}");
            let last = decision.errors.last().and_then(|it| it.code.as_deref());
            let note = decision.notes.last().map(|_| "note");
            assert_eq!(last.or(note).unwrap_or_default(), code, "{evidence:?}");
        }
    }

    #[test]
    fn outcome_of_every_session_without_other_evidence_is_the_sessions() {
        for outcome in Outcome::ALL {
            let code = match outcome {
                Outcome::Timeout => "AGENT_TIMEOUT",
                _ => "",
            };
            check(vec![(session(outcome), outcome, code)]);
        }
    }

    #[test]
    fn outcome_by_memory_and_disk() {
        use Outcome::{AgentError, Completed, OutOfMemory, Timeout};
        check(vec![
            (oom(Completed, false), Completed, "note"),
            (oom(Completed, true), Completed, "note"),
            (oom(AgentError, false), OutOfMemory, "OUT_OF_MEMORY"),
            (oom(AgentError, true), AgentError, "OUT_OF_MEMORY"),
            (oom(Timeout, false), OutOfMemory, "OUT_OF_MEMORY"),
            (disk(Completed), AgentError, "DISK_LIMIT"),
            (disk(AgentError), AgentError, "DISK_LIMIT"),
        ]);
    }

    #[test]
    fn outcome_by_the_gateways_account() {
        use Outcome::{
            AgentError, Auth, BudgetExceeded, Completed, GaveUp, Loop, Network, OutputLimit,
            Overloaded, RateLimit, Sandbox, Timeout,
        };
        check(vec![
            (failed_call(Completed), Completed, ""),
            (failed_call(GaveUp), GaveUp, ""),
            (failed_call(OutputLimit), OutputLimit, ""),
            (failed_call(AgentError), RateLimit, "MODEL_CALLS_FAILED"),
            (failed_call(Timeout), RateLimit, "MODEL_CALLS_FAILED"),
            (failed_call(Loop), RateLimit, "MODEL_CALLS_FAILED"),
            // The session knows more about a failure that it classed.
            (failed_call(Overloaded), Overloaded, ""),
            (exhausted(Completed), Completed, ""),
            (exhausted(AgentError), BudgetExceeded, "BUDGET_EXCEEDED"),
            (exhausted(Auth), BudgetExceeded, "BUDGET_EXCEEDED"),
            (exhausted(Timeout), BudgetExceeded, "BUDGET_EXCEEDED"),
            (missed(Completed), Completed, "note"),
            (missed(AgentError), Sandbox, "REPLAY_MISS"),
            (unreachable(AgentError, 2), Network, "PROVIDER_UNREACHABLE"),
            (unreachable(GaveUp, 2), Network, "PROVIDER_UNREACHABLE"),
            (unreachable(AgentError, 1), AgentError, ""),
            (unreachable(Completed, 2), Completed, ""),
            (unknown_key(Completed), Completed, "note"),
            (unknown_key(AgentError), Auth, "UNKNOWN_API_KEY"),
            (unknown_key(Timeout), Auth, "UNKNOWN_API_KEY"),
        ]);
    }

    #[test]
    fn outcome_by_the_end_of_the_process() {
        use Outcome::{AgentError, Completed, Loop, Sandbox, Timeout};
        let repeated = Evidence {
            repeated: Some("the same call 9 times".to_owned()),
            ..ended(Loop, EndedBy::Loop)
        };
        let workspace = Evidence {
            workspace_error: Some("the container is gone".to_owned()),
            ..session(Completed)
        };
        check(vec![
            (ended(Timeout, EndedBy::WallLimit), Timeout, "AGENT_TIMEOUT"),
            (ended(Timeout, EndedBy::IdleLimit), Timeout, "AGENT_TIMEOUT"),
            (ended(Completed, EndedBy::WallLimit), Completed, ""),
            (repeated, Loop, "AGENT_LOOP"),
            (workspace, Sandbox, "SANDBOX_FAILED"),
            (broken(Completed), Sandbox, "SANDBOX_FAILED"),
            (broken(AgentError), Sandbox, "SANDBOX_FAILED"),
            (
                ended(AgentError, EndedBy::SupervisorLost),
                Sandbox,
                "SUPERVISOR_LOST",
            ),
        ]);
    }

    #[test]
    fn outcome_of_a_cancelled_trial() {
        use Outcome::{AgentError, Completed, GaveUp, Interrupted, RateLimit, Timeout};
        let because = Cancelled::Because(Timeout);
        let lost = |by| Evidence {
            is_change_lost: true,
            ..cancelled(Completed, by)
        };
        let by_us = |outcome, by| Evidence {
            cancelled: Cancelled::Interrupted,
            ..ended(outcome, by)
        };
        let failed = Evidence {
            cancelled: Cancelled::Interrupted,
            ..failed_call(AgentError)
        };
        check(vec![
            (cancelled(Interrupted, Cancelled::No), Interrupted, ""),
            (
                cancelled(Interrupted, Cancelled::Interrupted),
                Interrupted,
                "",
            ),
            (cancelled(Interrupted, because), Timeout, ""),
            // The agent was killed with us.
            (
                cancelled(AgentError, Cancelled::Interrupted),
                Interrupted,
                "",
            ),
            (cancelled(AgentError, because), Timeout, ""),
            (cancelled(AgentError, Cancelled::No), AgentError, ""),
            (by_us(AgentError, EndedBy::OutputLimit), AgentError, ""),
            (cancelled(GaveUp, Cancelled::Interrupted), GaveUp, ""),
            (failed, RateLimit, "MODEL_CALLS_FAILED"),
            // Completed work stands, unless it is unknown.
            (cancelled(Completed, Cancelled::Interrupted), Completed, ""),
            (lost(Cancelled::Interrupted), Interrupted, ""),
            (lost(because), Timeout, ""),
            (lost(Cancelled::No), Completed, ""),
        ]);
    }

    #[test]
    fn timeout_error_of_the_session_is_replaced() {
        let mut evidence = ended(Outcome::Timeout, EndedBy::IdleLimit);
        evidence.time.limit = Some(Duration::from_secs(3));
        evidence.time.took_ms = 3010;
        let said = vec![
            LogError::new("AGENT_TIMEOUT", "less exact"),
            LogError::new("OTHER", "kept"),
        ];
        let decision = super::outcome(&evidence, said);
        let messages: Vec<_> = decision
            .errors
            .iter()
            .map(|it| it.message.as_str())
            .collect();
        assert_eq!(
            messages,
            [
                "kept",
                "idle timeout of 3000 ms: the agent was ended after 3010 ms; its output up to then is kept"
            ]
        );
    }
}
