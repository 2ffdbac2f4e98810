//! The end of a trial: a closed set of outcomes, and the exit of a process, as data. Infrastructure
//! failures are separate outcomes, so that they never look like a score.

mod provider_failure;
mod reset_time;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    provider_failure::{provider_failure, status_in},
    reset_time::{LimitReset, limit_reset},
};

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The agent ended by itself and reported that it was done.
    Completed,
    /// The agent ended by itself and reported that it was not done (turn limit, exit 2 of an
    /// adapter script).
    GaveUp,
    /// The agent failed: crashed, exited non-zero, or ended without a result.
    AgentError,
    /// The wall-clock, idle or no-progress limit ended the agent.
    Timeout,
    /// The output limit ended the agent.
    OutputLimit,
    /// The agent repeated an action and was ended for it.
    Loop,
    /// The trial's budget was exhausted before the agent was done.
    BudgetExceeded,
    /// The user or a signal ended the run.
    Interrupted,
    /// Credentials are missing or were refused.
    Auth,
    /// The provider's rate limit was reached.
    RateLimit,
    /// The provider was overloaded.
    Overloaded,
    /// The provider was unreachable, or the connection failed.
    Network,
    /// The account's credit or quota is exhausted.
    Quota,
    /// The agent was killed because memory ran out.
    OutOfMemory,
    /// The sandbox could not be created or failed.
    Sandbox,
    /// The agent's program is not installed.
    NotInstalled,
}

/// The status in `youbencha-log.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent completed.
    Success,
    /// Anything else that is not a timeout.
    Failed,
    /// A time limit ended the agent.
    Timeout,
}

impl Outcome {
    /// Every outcome, in the order of the table in `docs/outcomes.md`.
    pub const ALL: [Outcome; 16] = [
        Outcome::Completed,
        Outcome::GaveUp,
        Outcome::AgentError,
        Outcome::Timeout,
        Outcome::OutputLimit,
        Outcome::Loop,
        Outcome::BudgetExceeded,
        Outcome::Interrupted,
        Outcome::Auth,
        Outcome::RateLimit,
        Outcome::Overloaded,
        Outcome::Network,
        Outcome::Quota,
        Outcome::OutOfMemory,
        Outcome::Sandbox,
        Outcome::NotInstalled,
    ];

    /// Whether the trial is excluded: the outcome says nothing about the agent, and it is never
    /// judged.
    pub fn is_infrastructure(self) -> bool {
        matches!(
            self,
            Outcome::Auth
                | Outcome::RateLimit
                | Outcome::Overloaded
                | Outcome::Network
                | Outcome::Quota
                | Outcome::OutOfMemory
                | Outcome::Sandbox
                | Outcome::NotInstalled
        )
    }

    /// Whether all trials of the same agent would end in the same way, so that a retry is
    /// pointless.
    pub fn is_hopeless(self) -> bool {
        matches!(self, Outcome::Auth | Outcome::Quota | Outcome::NotInstalled)
    }

    /// The status in the log.
    pub fn status(self) -> Status {
        match self {
            Outcome::Completed => Status::Success,
            Outcome::Timeout => Status::Timeout,
            _ => Status::Failed,
        }
    }

    /// The name in files and on the screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::GaveUp => "gave_up",
            Outcome::AgentError => "agent_error",
            Outcome::Timeout => "timeout",
            Outcome::OutputLimit => "output_limit",
            Outcome::Loop => "loop",
            Outcome::BudgetExceeded => "budget_exceeded",
            Outcome::Interrupted => "interrupted",
            Outcome::Auth => "auth",
            Outcome::RateLimit => "rate_limit",
            Outcome::Overloaded => "overloaded",
            Outcome::Network => "network",
            Outcome::Quota => "quota",
            Outcome::OutOfMemory => "out_of_memory",
            Outcome::Sandbox => "sandbox",
            Outcome::NotInstalled => "not_installed",
        }
    }
}

/// How the agent's process ended, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that killed it, if any.
    pub signal: Option<i32>,
    /// Why Proctor ended it, if it did.
    pub ended_by: Option<EndedBy>,
}

/// The exit of a process as text; a crash is named if the system has a code for it.
pub fn exit_in_words(code: i32) -> String {
    let status = proctor_process::Status::Code(code);
    match status.crash() {
        Some(_) => format!("crashed with {status}"),
        None => format!("exited with code {code}"),
    }
}

/// Why Proctor ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The wall-clock limit.
    WallLimit,
    /// There was no output for the idle limit.
    IdleLimit,
    /// There was no new event and no changed file for the no-progress limit.
    NoProgress,
    /// It repeated an action.
    Loop,
    /// It exceeded the output limit.
    OutputLimit,
    /// The run was cancelled.
    Cancelled,
    /// The session requested it: the result is final, or continuing is pointless.
    Session,
    /// The supervisor of the agent died; all supervised processes were killed.
    SupervisorLost,
}

impl EndedBy {
    /// Whether it was a time limit.
    pub fn is_time_limit(self) -> bool {
        matches!(
            self,
            EndedBy::WallLimit | EndedBy::IdleLimit | EndedBy::NoProgress
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_an_outcome_is_its_serialised_form() {
        for outcome in Outcome::ALL {
            let json = serde_json::to_value(outcome).unwrap();
            assert_eq!(json, outcome.as_str());
        }
    }
}
