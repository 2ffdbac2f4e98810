//! How a session of Claude Code ended, from its result event, its messages and its retries. Failure
//! classes come from structured fields; a text is used only as the start of an error result.

use proctor_record::{
    outcome::{EndedBy, Ending, status_in},
    session::LogError,
};

use crate::{
    fault::ApiFault,
    verdict::{CliNames, End},
};

pub(super) const NAMES: CliNames = CliNames {
    title: "Claude Code",
    code: "CLAUDE",
    login: super::adapter::LOGIN_HINT,
};

/// How the CLI's client library reports an answer that is not valid JSON.
const UNREADABLE_ANSWER: &str = "Could not parse message into JSON";

/// Prefixes of the CLI's texts about a failed call. Versions up to 2.1.100 have no field for its
/// status.
const OWN_ERRORS: &[&str] = &[
    "API Error",
    "Failed to authenticate",
    "Not logged in",
    "Invalid API key",
    "OAuth token",
    "Please run /login",
    "Your account",
    "Your organization",
    "This organization",
    "Credit balance",
    "You've hit your",
    "You've reached your",
    "You're out of",
    "Claude AI usage limit",
    "5-hour limit",
    "Weekly limit",
    "Session limit",
    "Opus weekly limit",
    "Unable to connect",
    "Connection error",
    "Request timed out",
];

/// All evidence in the output for the verdict.
#[derive(Debug, Default)]
pub(super) struct SessionFacts {
    /// The format of the output.
    pub(super) form: DetectedFormat,
    /// The last result event.
    pub(super) result: Option<ResultFacts>,
    /// The pending retry of an API call, if it was the last event.
    pub(super) retrying: Option<ApiFault>,
    /// The failed API call, if the last message was the CLI's own about it.
    pub(super) api_fault: Option<ApiFault>,
    /// Refused credentials, for which the session requested the end.
    pub(super) auth_refused: Option<ApiFault>,
    /// Whether the CLI's account has no model usage, and no model answered.
    pub(super) no_model_call: bool,
    /// Plain text: the CLI's last words are an error of its own.
    pub(super) text_error: Option<End>,
    /// When the account's limit that was reached is lifted, in Unix seconds.
    pub(super) limit_resets_at: Option<u64>,
    /// Session files: whether the model ended its turn.
    pub(super) turn_ended: bool,
    /// The end of standard error.
    pub(super) stderr_tail: String,
}

/// The detected format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DetectedFormat {
    /// No output.
    #[default]
    Nothing,
    /// Stream-json events.
    Events,
    /// Lines of a session file, which never contains a result.
    SessionFile,
    /// Plain text, which never contains a result either.
    Text,
}

/// The content of a result event.
#[derive(Debug, Default)]
pub(super) struct ResultFacts {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    pub(super) terminal_reason: Option<String>,
    pub(super) fault: ApiFault,
    pub(super) text: Option<String>,
    pub(super) errors: Vec<String>,
}

impl SessionFacts {
    /// How the session ended, according to the CLI.
    pub(super) fn end(&self, ending: &Ending) -> End {
        // Some versions report a result when they are ended, which says nothing about the cause.
        let was_ended = ending.ended_by.is_some();
        let result = self.result.as_ref();
        if let Some(result) = result.filter(|result| !(was_ended && result.is_abort())) {
            return match result.end() {
                End::Error { .. } if self.has_unreadable_answer() => {
                    End::Failed(ApiFault::said(UNREADABLE_ANSWER))
                }
                End::Failed(mut fault) => {
                    if let Some(seconds) = self.limit_resets_at {
                        let said = fault.message.trim_end();
                        fault.message = format!("the limit resets at {seconds}; {said}");
                    }
                    End::Failed(fault)
                }
                End::Done if self.no_model_call => End::Error {
                    code: "NO_MODEL_CALL",
                    why: "ended without a model call; it runs prompts that start with `/` as commands".to_owned(),
                },
                end => end,
            };
        }
        if let Some(fault) = &self.auth_refused {
            return End::Failed(fault.clone());
        }
        if let Some(fault) = &self.retrying {
            return End::Retrying(fault.clone());
        }
        let was_cut_off = !matches!(
            ending.ended_by,
            None | Some(EndedBy::Session | EndedBy::SupervisorLost)
        );
        // Plain text and session files never contain a result.
        let is_over = match self.form {
            DetectedFormat::Text => true,
            DetectedFormat::SessionFile => self.turn_ended,
            DetectedFormat::Nothing | DetectedFormat::Events => false,
        };
        match &self.api_fault {
            _ if was_cut_off => End::Open,
            Some(fault) => End::Failed(fault.clone()),
            None if self.text_error.is_some() && self.has_unreadable_answer() => {
                End::Failed(ApiFault::said(UNREADABLE_ANSWER))
            }
            None if is_over => self.text_error.clone().unwrap_or(End::Done),
            None => End::Open,
        }
    }

    /// Some versions report an answer that is not valid JSON on standard error only.
    fn has_unreadable_answer(&self) -> bool {
        self.stderr_tail.contains(UNREADABLE_ANSWER)
    }

    /// The errors in the result, for the log.
    pub(super) fn reported(&self) -> impl Iterator<Item = LogError> {
        let errors = self.result.iter().flat_map(|result| &result.errors);
        errors.take(5).map(|text| LogError {
            stack_trace: text
                .contains("\n    at ")
                .then(|| truncated(text, 8000).to_owned()),
            ..LogError::new(
                "CLAUDE_REPORTED_ERROR",
                truncated(text.lines().next().unwrap_or_default(), 1000),
            )
        })
    }
}

impl ResultFacts {
    /// Whether the result only says that the CLI was ended from outside.
    fn is_abort(&self) -> bool {
        let reason = self.terminal_reason.as_deref().unwrap_or_default();
        self.is_error && is_abort(reason)
    }

    fn end(&self) -> End {
        if !self.is_error && self.subtype == "success" {
            return End::Done;
        }
        let fault = self.fault();
        let said = self.errors.first().or(self.text.as_ref());
        let said = said.map_or_else(String::new, |said| {
            let line = said.lines().next().unwrap_or_default();
            format!(": {}", truncated(line, 300))
        });
        let reason = self.terminal_reason.as_deref().unwrap_or_default();
        match (self.subtype.as_str(), reason) {
            _ if self.is_error && fault.outcome().is_some() => End::Failed(fault),
            ("error_max_turns", _) | (_, "max_turns") => End::gave_up(
                "MAX_TURNS",
                format!("reached its turn limit (max_turns){said}"),
            ),
            ("error_max_budget_usd", _) => {
                End::gave_up("MAX_BUDGET", format!("reached its budget{said}"))
            }
            _ if self.is_error && self.fault.status.is_some() => End::Failed(fault),
            _ => End::Error {
                code: "EXECUTION_ERROR",
                why: format!("ended with an error result{said}"),
            },
        }
    }

    /// The failed call that caused an error result, with the CLI's message.
    fn fault(&self) -> ApiFault {
        let said = self.text.as_deref().filter(|text| is_own_error(text));
        let said = said.unwrap_or_default();
        let fault = ApiFault {
            status: self.fault.status.or_else(|| status_in(said).map(u64::from)),
            message: format!("{said}\n{}", self.fault.message),
        };
        let is_api_error = self.terminal_reason.as_deref() == Some("api_error");
        if is_api_error && fault.status.is_none() && fault.outcome().is_none() {
            return ApiFault::said(format!("the connection failed: {said}"));
        }
        fault
    }
}

/// Whether the reason of a result is that the CLI was ended, such as `aborted_streaming`.
pub(super) fn is_abort(reason: &str) -> bool {
    reason.starts_with("aborted")
}

/// Whether a text is the CLI's own message about a failed call, and not the model's.
pub(super) fn is_own_error(text: &str) -> bool {
    OWN_ERRORS.iter().any(|start| text.starts_with(start))
}

/// The failure that the last words of plain text stand for. The CLI may exit with 0 after them.
pub(super) fn text_error(said: &str) -> Option<End> {
    let said = said.trim();
    if said.starts_with("Error: Reached max turns") {
        return Some(End::gave_up(
            "MAX_TURNS",
            "reached its turn limit (max_turns)",
        ));
    }
    (said == "Execution error").then(|| End::Error {
        code: "EXECUTION_ERROR",
        why: "ended with an error".to_owned(),
    })
}

/// At most `bytes` of `text`, cut at a character boundary.
pub(super) fn truncated(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
