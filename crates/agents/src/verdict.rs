//! The verdict on a CLI's session: its own report, its exit code and the cause of its end together.
//! All CLIs share it. Exit codes alone are not trusted: several CLIs exit with 0 after any failure.

use std::collections::BTreeMap;

use proctor_record::{
    outcome::{EndedBy, Ending, Outcome, exit_in_words},
    session::LogError,
};

use super::{bypass, fault::ApiFault};
use crate::agent::LaunchError;

const SIGKILL: i32 = 9;

/// The names of a CLI in messages and codes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CliNames {
    /// In messages, such as `OpenCode`.
    pub(super) title: &'static str,
    /// The prefix of codes, such as `OPENCODE`.
    pub(super) code: &'static str,
    /// How to log in: a hint that begins with a lower-case letter.
    pub(super) login: &'static str,
}

/// How a session ended, according to the CLI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// The CLI did not report its end.
    #[default]
    Open,
    /// The CLI reported that it was done.
    Done,
    /// It stopped by itself before it was done: its own limit, a loop.
    GaveUp {
        /// The code, without the CLI's name.
        code: &'static str,
        /// The reason.
        why: String,
    },
    /// It ended with its own error.
    Error {
        /// The code, without the CLI's name.
        code: &'static str,
        /// The reason.
        why: String,
    },
    /// It could not start because a part of its environment is missing.
    Unready {
        /// The code, without the CLI's name.
        code: &'static str,
        /// The reason.
        why: String,
    },
    /// A call failed permanently.
    Failed(ApiFault),
    /// The last event was the retry of a call.
    Retrying(ApiFault),
}

impl End {
    pub(super) fn gave_up(code: &'static str, why: impl Into<String>) -> End {
        End::GaveUp {
            code,
            why: why.into(),
        }
    }
}

impl CliNames {
    /// The error for a CLI that cannot be launched as configured.
    pub(super) fn invalid(self, message: impl Into<String>) -> LaunchError {
        LaunchError {
            message: message.into(),
            hint: None,
            code: format!("{}_INVALID_CONFIG", self.code),
        }
    }

    /// The error for a missing model: the gateway requires one.
    pub(super) fn needs_model(self, example: &str) -> LaunchError {
        let message = format!("{} requires a `model` with the gateway", self.title);
        self.invalid(message)
            .with_hint(format!("add one, such as `{example}`"))
    }

    /// The error for a setting that would bypass the gateway.
    pub(super) fn bypass(self, setting: &str) -> LaunchError {
        let message = format!("{setting} would make {} bypass the gateway", self.title);
        self.invalid(message)
            .with_hint("remove it, or run without the gateway")
    }

    /// Refuses variables and arguments of the user that would bypass the gateway.
    pub(super) fn check_bypass(
        self,
        env: &BTreeMap<String, String>,
        args: &[String],
    ) -> Result<(), LaunchError> {
        if let Some(name) = bypass::in_env(env) {
            return Err(self.bypass(&format!("`env.{name}`")));
        }
        match args.iter().find(|arg| bypass::in_text(arg).is_some()) {
            None => Ok(()),
            Some(arg) => {
                let shown = &arg[..arg.floor_char_boundary(60)];
                Err(self.bypass(&format!("the argument `{shown}`")))
            }
        }
    }

    /// The outcome of the run, and the errors for the log.
    pub(super) fn judge(
        self,
        end: &End,
        ending: &Ending,
        last_words: &str,
    ) -> (Outcome, Vec<LogError>) {
        match end {
            End::Done => self.judge_done(ending, last_words),
            End::GaveUp { code, why } => {
                self.one(Outcome::GaveUp, code, format!("{} {why}", self.title))
            }
            End::Error { code, why } => {
                self.one(Outcome::AgentError, code, format!("{} {why}", self.title))
            }
            End::Unready { code, why } => {
                self.one(Outcome::Sandbox, code, format!("{} {why}", self.title))
            }
            End::Failed(fault) => self.failed(fault),
            End::Open | End::Retrying(_) => self.judge_cut_off(end, ending, last_words),
        }
    }

    fn judge_done(self, ending: &Ending, last_words: &str) -> (Outcome, Vec<LogError>) {
        match (ending.ended_by, ending.code, ending.signal) {
            (Some(EndedBy::Session), _, _) | (None, Some(0) | None, None) => {
                (Outcome::Completed, Vec::new())
            }
            (Some(by), _, _) => self.one(
                Outcome::Completed,
                "ENDED_AFTER_RESULT",
                format!(
                    "{} was done but did not exit; it was ended by {}. Its work is kept.",
                    self.title,
                    reason(by)
                ),
            ),
            (None, _, _) => self.exited(ending, last_words),
        }
    }

    fn judge_cut_off(
        self,
        end: &End,
        ending: &Ending,
        last_words: &str,
    ) -> (Outcome, Vec<LogError>) {
        let title = self.title;
        match ending.ended_by {
            Some(EndedBy::Cancelled) => self.one(
                Outcome::Interrupted,
                "INTERRUPTED",
                format!("the run was cancelled before {title} was done"),
            ),
            Some(EndedBy::OutputLimit) => self.one(
                Outcome::OutputLimit,
                "OUTPUT_LIMIT",
                format!("{title} wrote more than the output limit and was ended"),
            ),
            by => match (end, by) {
                (End::Retrying(fault), _) => {
                    let outcome = fault.outcome().unwrap_or(Outcome::Network);
                    let said = format!(
                        "it was ended during a retry ({})",
                        fault.describe()
                    );
                    self.infrastructure(outcome, &said)
                }
                (_, Some(by)) if by.is_time_limit() => self.one(
                    Outcome::Timeout,
                    "TIMEOUT",
                    format!(
                        "timeout: {title} was ended by {} before it was done",
                        reason(by)
                    ),
                ),
                (_, Some(EndedBy::Loop)) => (Outcome::Loop, Vec::new()),
                _ if ending.signal.is_some() || ending.code.is_some_and(|code| code != 0) => {
                    self.exited(ending, last_words)
                }
                _ => self.one(
                    Outcome::AgentError,
                    "NO_RESULT",
                    format!(
                        "{title} ended without a result, which is a failure regardless of its exit code{}",
                        after_colon(last_words)
                    ),
                ),
            },
        }
    }

    /// A failed call: an infrastructure failure, or the CLI's own.
    pub(super) fn failed(self, fault: &ApiFault) -> (Outcome, Vec<LogError>) {
        match fault.outcome() {
            Some(outcome) => self.infrastructure(outcome, &fault.describe()),
            None => self.one(
                Outcome::AgentError,
                "API_ERROR",
                format!(
                    "{} stopped because of an error: {}",
                    self.title,
                    fault.describe()
                ),
            ),
        }
    }

    fn exited(self, ending: &Ending, last_words: &str) -> (Outcome, Vec<LogError>) {
        let title = self.title;
        if ending.signal == Some(SIGKILL) || ending.code == Some(128 + SIGKILL) {
            let message = format!(
                "{title} was killed (SIGKILL), but not by Proctor: it may have run out of memory"
            );
            return self.one(Outcome::AgentError, "KILLED", message);
        }
        let how = match (ending.code, ending.signal) {
            (_, Some(signal)) => format!("was ended by signal {signal}"),
            (code, None) => exit_in_words(code.unwrap_or_default()),
        };
        // Errors before the start of a session are reported only here.
        let fault = ApiFault::said(last_words);
        if let Some(outcome @ (Outcome::Auth | Outcome::Quota)) = fault.outcome() {
            return self.infrastructure(outcome, &fault.describe());
        }
        let message = format!("{title} {how}{}", after_colon(last_words));
        self.one(Outcome::AgentError, "EXIT", message)
    }

    fn infrastructure(self, outcome: Outcome, said: &str) -> (Outcome, Vec<LogError>) {
        let title = self.title;
        let (code, message) = match outcome {
            Outcome::Auth => (
                "AUTH_FAILED",
                format!(
                    "{title} is not authenticated: {said}. To fix this, {}",
                    self.login
                ),
            ),
            Outcome::RateLimit => (
                "RATE_LIMIT",
                format!(
                    "the API's rate limit was hit: {said}. Wait, or run fewer trials at a time"
                ),
            ),
            Outcome::Overloaded => (
                "OVERLOADED",
                format!("the API is overloaded: {said}. Try again later"),
            ),
            Outcome::Quota => (
                "QUOTA",
                format!(
                    "the account's credit or quota is exhausted: {said}. Add credit and run again"
                ),
            ),
            _ => (
                "NETWORK",
                format!(
                    "the API is unreachable or failed: {said}. Check the network and the base URL"
                ),
            ),
        };
        self.one(outcome, code, message)
    }

    fn one(self, outcome: Outcome, code: &str, message: String) -> (Outcome, Vec<LogError>) {
        let code = format!("{}_{code}", self.code);
        (outcome, vec![LogError::new(&code, message)])
    }
}

fn reason(by: EndedBy) -> &'static str {
    match by {
        EndedBy::WallLimit => "the time limit",
        EndedBy::IdleLimit => "the idle limit",
        EndedBy::NoProgress => "the no-progress limit",
        EndedBy::Loop => "the loop limit",
        EndedBy::OutputLimit => "the output limit",
        EndedBy::Cancelled => "a cancelled run",
        EndedBy::Session => "the session",
        EndedBy::SupervisorLost => "the loss of its supervisor",
    }
}

fn after_colon(words: &str) -> String {
    match words.trim() {
        "" => String::new(),
        words => format!(": {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: CliNames = CliNames {
        title: "Some CLI",
        code: "SOME",
        login: "log in",
    };

    fn check(end: &End, ending: Ending, expect: (Outcome, Option<&str>)) {
        let (outcome, errors) = NAMES.judge(end, &ending, "last words");
        let code = errors.first().and_then(|error| error.code.as_deref());
        assert_eq!((outcome, code), expect, "{end:?} {ending:?}");
    }

    fn exited(code: i32) -> Ending {
        Ending {
            code: Some(code),
            ..Ending::default()
        }
    }

    fn ended(by: EndedBy) -> Ending {
        Ending {
            signal: Some(15),
            ended_by: Some(by),
            ..Ending::default()
        }
    }

    #[test]
    fn outcome_depends_on_the_report_and_the_ending() {
        let failed = |status| {
            End::Failed(ApiFault {
                status: Some(status),
                message: String::new(),
            })
        };
        let retrying = End::Retrying(ApiFault::said("Overloaded"));
        check(&End::Done, exited(0), (Outcome::Completed, None));
        check(
            &End::Done,
            exited(1),
            (Outcome::AgentError, Some("SOME_EXIT")),
        );
        check(
            &End::Done,
            ended(EndedBy::WallLimit),
            (Outcome::Completed, Some("SOME_ENDED_AFTER_RESULT")),
        );
        check(
            &End::Open,
            exited(0),
            (Outcome::AgentError, Some("SOME_NO_RESULT")),
        );
        check(
            &End::Open,
            exited(137),
            (Outcome::AgentError, Some("SOME_KILLED")),
        );
        check(
            &failed(401),
            exited(0),
            (Outcome::Auth, Some("SOME_AUTH_FAILED")),
        );
        let broken = End::Error {
            code: "EXECUTION_ERROR",
            why: "ended with an error".to_owned(),
        };
        check(
            &broken,
            exited(0),
            (Outcome::AgentError, Some("SOME_EXECUTION_ERROR")),
        );
        check(
            &failed(400),
            exited(1),
            (Outcome::AgentError, Some("SOME_API_ERROR")),
        );
        check(
            &retrying,
            ended(EndedBy::IdleLimit),
            (Outcome::Overloaded, Some("SOME_OVERLOADED")),
        );
        check(
            &retrying,
            ended(EndedBy::Cancelled),
            (Outcome::Interrupted, Some("SOME_INTERRUPTED")),
        );
        check(
            &End::Open,
            ended(EndedBy::IdleLimit),
            (Outcome::Timeout, Some("SOME_TIMEOUT")),
        );
        check(&End::Open, ended(EndedBy::Loop), (Outcome::Loop, None));
        check(
            &retrying,
            ended(EndedBy::Loop),
            (Outcome::Overloaded, Some("SOME_OVERLOADED")),
        );
        check(
            &End::Open,
            ended(EndedBy::NoProgress),
            (Outcome::Timeout, Some("SOME_TIMEOUT")),
        );
        check(
            &End::Open,
            ended(EndedBy::OutputLimit),
            (Outcome::OutputLimit, Some("SOME_OUTPUT_LIMIT")),
        );
    }
}
