//! The outcome of an agent's run: all evidence in one struct, decided by one pure function.

#[cfg(test)]
mod tests;

use std::time::Duration;

use proctor_record::{
    outcome::{EndedBy, Ending, Outcome},
    session::{LogError, McpServer},
    text::counted,
};

use crate::model_access::FailedCall;

/// All evidence about the end of an agent's run.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// The outcome that the session concluded.
    pub(super) session: Outcome,
    /// How the process ended.
    pub(super) ending: Ending,
    /// The time limit that ended it, and its duration.
    pub(super) time: TimeEvidence,
    /// Memory and disk, reported by the kernel or the engine.
    pub(super) resources: ResourceEvidence,
    /// Model calls, counted by the gateway; `None` without a gateway.
    pub(super) gateway: Option<GatewayEvidence>,
    /// Whether it is an agent that cannot work without a model.
    pub(super) needs_model: bool,
    /// MCP servers that it lacked and cannot do without.
    pub(super) unusable_mcp: Vec<McpServer>,
    /// The action that the agent repeated until `loop_limit` ended it.
    pub(super) repeated: Option<String>,
    /// Why the workspace could not be copied out of the container.
    pub(super) workspace_error: Option<String>,
    /// Why captured output is missing on disk.
    pub(super) capture_error: Option<String>,
    /// Whether the trial was cancelled.
    pub(super) cancelled: Cancelled,
    /// Whether the cancellation left the agent's change unknown.
    pub(super) is_change_lost: bool,
}

/// The time limit and the duration, for the message of a timeout.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeEvidence {
    /// The effective limit, if any.
    pub(super) limit: Option<Duration>,
    pub(super) took_ms: u64,
    /// The code of the agent's timeout error.
    pub(super) code: &'static str,
}

/// The data of the kernel or the container engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResourceEvidence {
    /// Processes that were killed because memory ran out.
    pub(super) oom_kills: u64,
    /// Whether the container had its own memory limit.
    pub(super) has_memory_limit: bool,
    /// The bytes on disk when the disk limit ended the agent.
    pub(super) disk_exceeded: Option<u64>,
}

/// The gateway's observations of the agent.
#[derive(Clone, Debug, Default)]
pub(super) struct GatewayEvidence {
    /// Model calls, and the number of them that did not reach a provider.
    pub(super) calls: u64,
    pub(super) calls_unreachable: u64,
    /// The last call, if it failed.
    pub(super) last_failure: Option<FailedCall>,
    /// The budget that was exhausted.
    pub(super) exhausted: Option<String>,
    /// The number of calls that are missing in the recording, if only recorded calls are answered.
    pub(super) replay_misses: usize,
    /// Whether the agent sent a key that the gateway does not know.
    pub(super) shows_unknown_key: bool,
}

/// Whether and why a trial was cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cancelled {
    #[default]
    No,
    /// By the user or a signal.
    Interrupted,
    /// For a cause with its own outcome, such as the time limit of a job.
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
    /// A different outcome, for this reason.
    Outcome(Outcome, Option<LogError>),
    /// The same, and all earlier errors are consequences.
    Cause(Outcome, LogError),
    /// The outcome is kept, and the record gets an error.
    Error(LogError),
    /// The outcome is kept, and the record gets a note.
    Note(String),
}

/// A rule gets the evidence and the outcome so far.
type Rule = fn(&Evidence, Outcome) -> Option<Finding>;

/// All rules, in order. Later rules override earlier ones.
const RULES: &[Rule] = &[
    out_of_memory,
    disk_limit,
    last_call_failed,
    budget_exceeded,
    no_model_call,
    mcp_unusable,
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
    /// An outcome without other evidence, such as that of an agent that did not start.
    pub(super) fn of(outcome: Outcome, cancelled: Cancelled) -> Evidence {
        Evidence {
            session: outcome,
            ending: Ending::default(),
            time: TimeEvidence::default(),
            resources: ResourceEvidence::default(),
            gateway: None,
            needs_model: false,
            unusable_mcp: Vec::new(),
            repeated: None,
            workspace_error: None,
            capture_error: None,
            cancelled,
            is_change_lost: false,
        }
    }
}

/// Decides the outcome of an agent's run. `errors` are the errors that the session reported.
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
            Finding::Cause(outcome, error) => {
                decision.outcome = outcome;
                decision.errors.clear();
                Some(error)
            }
            Finding::Error(error) => Some(error),
            Finding::Note(note) => {
                decision.notes.push(note);
                None
            }
        };
        if let Some(error) = error {
            // This message replaces the session's less precise timeout error.
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
    let message = format!("processes of the agent killed for lack of memory: {oom_kills}");
    match so_far {
        Outcome::Completed => Some(Finding::Note(message)),
        // Exceeding the container's limit is the agent's fault; exhausting the machine's memory is not.
        _ if has_memory_limit => because(Outcome::AgentError, "OUT_OF_MEMORY", message),
        _ => because(Outcome::OutOfMemory, "OUT_OF_MEMORY", message),
    }
}

fn disk_limit(evidence: &Evidence, _: Outcome) -> Option<Finding> {
    let bytes = evidence.resources.disk_exceeded?;
    let message = format!("the agent was ended: it exceeded the disk limit with {bytes} bytes");
    because(Outcome::AgentError, "DISK_LIMIT", message)
}

/// Some agents retry failed calls silently, or report another reason for their end.
fn last_call_failed(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let failed = evidence.gateway.as_ref()?.last_failure.as_ref()?;
    let message = format!(
        "the agent's last model call failed at the gateway: {}",
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
    let message = format!("the trial's budget ({limit}) was exhausted");
    (so_far != Outcome::Completed)
        .then(|| because(Outcome::BudgetExceeded, "BUDGET_EXCEEDED", message))?
}

/// Success without a model is not the agent's work: the CLI ran the prompt as a command, or its calls bypassed the gateway.
fn no_model_call(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let calls = evidence.gateway.as_ref()?.calls;
    let message = "the agent reported success, and the gateway saw no model call; the agent may have called a model past the gateway";
    (calls == 0 && evidence.needs_model && so_far == Outcome::Completed)
        .then(|| because(Outcome::AgentError, "NO_MODEL_CALL", message))?
}

/// The agent was not what was asked for.
fn mcp_unusable(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let unusable = evidence.unusable_mcp.iter();
    let unusable = unusable.map(|McpServer { name, status }| format!("`{name}` ({status})"));
    let unusable: Vec<String> = unusable.collect();
    if unusable.is_empty() || so_far.is_infrastructure() || so_far == Outcome::Interrupted {
        return None;
    }
    let message = format!(
        "the agent could not use MCP servers of its `mcp_config`: {}; `require_mcp: false` runs it without them",
        unusable.join(", ")
    );
    let error = LogError::new("MCP_SERVER_FAILED", message);
    Some(Finding::Cause(Outcome::Sandbox, error))
}

fn not_in_recording(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let misses = evidence.gateway.as_ref()?.replay_misses;
    let message = format!(
        "{} not in the recording that was replayed",
        counted(misses, "call")
    );
    match so_far {
        _ if misses == 0 => None,
        Outcome::Completed => Some(Finding::Note(message)),
        _ => because(Outcome::Sandbox, "REPLAY_MISS", message),
    }
}

fn provider_unreachable(evidence: &Evidence, so_far: Outcome) -> Option<Finding> {
    let gateway = evidence.gateway.as_ref()?;
    let is_unreachable = gateway.calls > 0 && gateway.calls_unreachable == gateway.calls;
    let message = "the gateway could not reach a provider";
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
        let note = "the gateway refused a call with an unknown API key";
        return Some(Finding::Note(note.to_owned()));
    }
    let message = "the agent was ended: it sent an unknown API key to the gateway; remove the key from the agent's script, image or settings, or list its variable in `secrets.unsafe_pass_through`";
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
    let message = format!("the agent was ended because of a loop: {what}");
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
    let message =
        "the supervisor of the agent's process was killed, and the supervised processes were ended";
    match evidence.ending.ended_by {
        Some(EndedBy::SupervisorLost) => because(Outcome::Sandbox, "SUPERVISOR_LOST", message),
        _ => None,
    }
}

/// Cluster engines signal all processes of a job, so the agent may die before our own signal
/// arrives. That is not the agent's failure.
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
