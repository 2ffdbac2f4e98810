//! How a session of Claude Code ended, from its result event, its messages and its retries. Classes come from structured fields; a text counts only where the CLI has no field, and
//! only as the beginning of its own error result.

use proctor_record::{
    outcome::{EndedBy, Ending, status_in},
    session::LogError,
};

use crate::{
    fault::ApiFault,
    verdict::{End, Names},
};

pub(super) const NAMES: Names = Names {
    title: "Claude Code",
    code: "CLAUDE",
    login: super::adapter::LOGIN_HINT,
};

/// How the CLI begins a text about a failed call. Versions up to 2.1.100 have no field for its status.
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

/// Everything in the output that the verdict needs.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The format of the output.
    pub(super) form: Seen,
    /// The last result event.
    pub(super) result: Option<ResultFacts>,
    /// The last thing seen was that the CLI tries an API call again.
    pub(super) retrying: Option<ApiFault>,
    /// The last message was the CLI's own, about a failed API call.
    pub(super) api_fault: Option<ApiFault>,
    /// Credentials were refused, and the session asked for the end.
    pub(super) auth_refused: Option<ApiFault>,
    /// The CLI's account says that no model was used, and no model answered.
    pub(super) no_model_call: bool,
    /// Session files: the model said that its turn was over.
    pub(super) turn_ended: bool,
    /// The end of standard error.
    pub(super) stderr_tail: String,
}

/// The detected format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Seen {
    /// None at all.
    #[default]
    Nothing,
    /// Stream-json events.
    Events,
    /// Lines of a session file, which never holds a result.
    SessionFile,
    /// Plain text, which never holds a result either.
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

impl Facts {
    /// How the session ended, by what the CLI said.
    pub(super) fn end(&self, ending: &Ending) -> End {
        if let Some(result) = &self.result {
            return match result.end() {
                End::Done if self.no_model_call => End::Error {
                    code: "NO_MODEL_CALL",
                    why: "ended without calling a model; it executes prompts that begin with `/` as commands".to_owned(),
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
        // Plain text and session files never hold a result.
        let is_over = match self.form {
            Seen::Text => true,
            Seen::SessionFile => self.turn_ended,
            Seen::Nothing | Seen::Events => false,
        };
        match &self.api_fault {
            _ if was_cut_off => End::Open,
            Some(fault) => End::Failed(fault.clone()),
            None if is_over => End::Done,
            None => End::Open,
        }
    }

    /// The errors that the result lists, for the log.
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

    /// The failed call behind an error result, with the CLI's own words about it.
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

/// Whether a text is the CLI's own, about a failed call, and not a model's.
pub(super) fn is_own_error(text: &str) -> bool {
    OWN_ERRORS.iter().any(|start| text.starts_with(start))
}

/// At most `bytes` of `text`, cut between characters.
pub(super) fn truncated(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
