//! The verdict on a run: exit code, result event, `is_error` and how it ended, together.
//! Classes come from structured fields; a text counts only where the CLI has no field, and
//! only as the beginning of its own error result.

use proctor_record::{
    outcome::{EndedBy, Ending, Outcome, exit_in_words, status_in},
    session::LogError,
};

use crate::fault::ApiFault;

const SIGKILL: i32 = 9;
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
const REFUSED: &str = "the API refused Claude Code's request";

/// Everything that the verdict rests on, besides how the process ended.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// What kind of output it was.
    pub(super) form: Seen,
    /// The last result event.
    pub(super) result: Option<ResultFacts>,
    /// The last thing seen was that the CLI tries an API call again.
    pub(super) retrying: Option<ApiFault>,
    /// The last message was the CLI's own, about a failed API call.
    pub(super) api_fault: Option<ApiFault>,
    /// Credentials were refused, and the session asked for the end.
    pub(super) auth_refused: bool,
    /// Session files: the model said that its turn was over.
    pub(super) turn_ended: bool,
    /// The end of standard error.
    pub(super) stderr_tail: String,
}

/// What kind of output was seen.
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

/// What a result event said.
#[derive(Debug, Default)]
pub(super) struct ResultFacts {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    pub(super) terminal_reason: Option<String>,
    pub(super) fault: ApiFault,
    pub(super) text: Option<String>,
    pub(super) errors: Vec<String>,
}

impl ResultFacts {
    fn is_success(&self) -> bool {
        !self.is_error && self.subtype == "success"
    }

    /// The class of an error result that is not the agent's fault.
    fn infrastructure(&self) -> Option<Outcome> {
        if !self.is_error {
            return None;
        }
        let said = self.text.as_deref().filter(|text| is_own_error(text));
        let said = said.unwrap_or_default();
        let fault = ApiFault {
            status: self.fault.status.or_else(|| status_in(said).map(u64::from)),
            message: format!("{}\n{said}", self.fault.message),
        };
        fault.outcome().or_else(|| {
            let is_api_error = self.terminal_reason.as_deref() == Some("api_error");
            (is_api_error && fault.status.is_none()).then_some(Outcome::Network)
        })
    }

    fn message(&self) -> String {
        let said = self.errors.first().or(self.text.as_ref());
        said.map_or_else(String::new, |said| {
            let line = said.lines().next().unwrap_or_default();
            format!(": {}", truncated(line, 300))
        })
    }
}

/// What became of the run, and the errors to log for it.
pub(super) fn judge(facts: &Facts, ending: &Ending) -> (Outcome, Vec<LogError>) {
    match &facts.result {
        Some(result) if result.is_success() => judge_success(ending, facts),
        Some(result) => judge_failure(result),
        None => judge_cut_off(facts, ending),
    }
}

fn judge_success(ending: &Ending, facts: &Facts) -> (Outcome, Vec<LogError>) {
    match (ending.ended_by, ending.code, ending.signal) {
        (Some(EndedBy::Session), _, _) | (None, Some(0) | None, None) => {
            (Outcome::Completed, Vec::new())
        }
        (Some(by), _, _) => one(
            Outcome::Completed,
            "CLAUDE_ENDED_AFTER_RESULT",
            format!(
                "Claude Code gave its result and did not exit; it was ended ({}). The result stands.",
                reason(by)
            ),
        ),
        (None, _, _) => exited(ending, facts, "after a result that says success"),
    }
}

fn judge_failure(result: &ResultFacts) -> (Outcome, Vec<LogError>) {
    let said = result.message();
    if let Some(outcome) = result.infrastructure() {
        return one(outcome, code(outcome), infrastructure(outcome, &said));
    }
    let reason = result.terminal_reason.as_deref().unwrap_or_default();
    let (outcome, code, what) = match (result.subtype.as_str(), reason) {
        ("error_max_turns", _) | (_, "max_turns") => (
            Outcome::GaveUp,
            "CLAUDE_MAX_TURNS",
            "Claude Code reached its turn limit (max_turns)",
        ),
        ("error_max_budget_usd", _) => (
            Outcome::GaveUp,
            "CLAUDE_MAX_BUDGET",
            "Claude Code reached its budget",
        ),
        _ if result.is_error && result.fault.status.is_some() => {
            (Outcome::AgentError, "CLAUDE_API_ERROR", REFUSED)
        }
        _ => (
            Outcome::AgentError,
            "CLAUDE_EXECUTION_ERROR",
            "Claude Code ended with an error result",
        ),
    };
    let (_, mut errors) = one(outcome, code, format!("{what}{said}"));
    errors.extend(result.errors.iter().take(5).map(|text| {
        LogError {
            message: truncated(text.lines().next().unwrap_or_default(), 1000).to_owned(),
            timestamp: None,
            code: Some("CLAUDE_REPORTED_ERROR".to_owned()),
            stack_trace: text
                .contains("\n    at ")
                .then(|| truncated(text, 8000).to_owned()),
            context: None,
        }
    }));
    (outcome, errors)
}

fn judge_cut_off(facts: &Facts, ending: &Ending) -> (Outcome, Vec<LogError>) {
    if facts.auth_refused {
        let said = facts.retrying.as_ref().map(ApiFault::describe);
        let said = said.map_or_else(String::new, |said| format!(" ({said})"));
        let message = infrastructure(Outcome::Auth, &said);
        return one(Outcome::Auth, code(Outcome::Auth), message);
    }
    if ending.ended_by == Some(EndedBy::Cancelled) {
        let message = "the run was cancelled before Claude Code was done".to_owned();
        return one(Outcome::Interrupted, "CLAUDE_INTERRUPTED", message);
    }
    if ending.ended_by == Some(EndedBy::OutputLimit) {
        let message = "Claude Code wrote more than the output limit and was ended".to_owned();
        return one(Outcome::OutputLimit, "CLAUDE_OUTPUT_LIMIT", message);
    }
    if let Some(fault) = &facts.retrying {
        // Without a status there was no answer at all.
        let outcome = fault.outcome().unwrap_or(Outcome::Network);
        let said = format!(
            ": it was still trying again when it ended ({})",
            fault.describe()
        );
        return one(outcome, code(outcome), infrastructure(outcome, &said));
    }
    match ending.ended_by {
        Some(EndedBy::Loop) => (Outcome::Loop, Vec::new()),
        Some(by) if by.is_time_limit() => one(
            Outcome::Timeout,
            "CLAUDE_TIMEOUT",
            format!(
                "timeout: Claude Code was ended by {} before it gave a result",
                reason(by)
            ),
        ),
        _ => judge_exit(facts, ending),
    }
}

fn judge_exit(facts: &Facts, ending: &Ending) -> (Outcome, Vec<LogError>) {
    if let Some(fault) = &facts.api_fault {
        let said = format!(" ({})", fault.describe());
        return match fault.outcome() {
            Some(outcome) => one(outcome, code(outcome), infrastructure(outcome, &said)),
            None => one(
                Outcome::AgentError,
                "CLAUDE_API_ERROR",
                format!("{REFUSED}{said}"),
            ),
        };
    }
    let is_clean = ending.signal.is_none() && matches!(ending.code, Some(0) | None);
    match facts.form {
        _ if !is_clean => exited(ending, facts, "without a result"),
        Seen::Text => (Outcome::Completed, Vec::new()),
        Seen::SessionFile if facts.turn_ended => (Outcome::Completed, Vec::new()),
        Seen::SessionFile => one(
            Outcome::AgentError,
            "CLAUDE_NO_RESULT",
            "the session file ends in the middle of a turn".to_owned(),
        ),
        Seen::Nothing => one(
            Outcome::AgentError,
            "CLAUDE_NO_RESULT",
            format!("Claude Code said nothing at all{}", tail(facts)),
        ),
        Seen::Events => one(
            Outcome::AgentError,
            "CLAUDE_NO_RESULT",
            "Claude Code ended without a result event, which is no success whatever its exit code"
                .to_owned(),
        ),
    }
}

fn exited(ending: &Ending, facts: &Facts, when: &str) -> (Outcome, Vec<LogError>) {
    let killed = ending.signal == Some(SIGKILL) || ending.code == Some(128 + SIGKILL);
    if killed {
        let message = format!(
            "Claude Code was killed (SIGKILL) {when}, not by Proctor: perhaps for want of memory"
        );
        return one(Outcome::AgentError, "CLAUDE_KILLED", message);
    }
    let how = match (ending.code, ending.signal) {
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        (code, None) => exit_in_words(code.unwrap_or_default()),
    };
    let message = format!("Claude Code {how} {when}{}", tail(facts));
    one(Outcome::AgentError, "CLAUDE_EXIT", message)
}

fn tail(facts: &Facts) -> String {
    match facts.stderr_tail.trim() {
        "" => String::new(),
        tail => format!(": {tail}"),
    }
}

fn reason(by: EndedBy) -> &'static str {
    match by {
        EndedBy::WallLimit => "the time limit",
        EndedBy::IdleLimit => "the idle limit",
        EndedBy::NoProgress => "the limit without progress",
        EndedBy::Loop => "the limit of repetitions",
        EndedBy::OutputLimit => "the output limit",
        EndedBy::Cancelled => "a cancelled run",
        EndedBy::Session => "the session",
        EndedBy::SupervisorLost => "the loss of its supervisor",
    }
}

fn code(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Auth => "CLAUDE_AUTH_FAILED",
        Outcome::RateLimit => "CLAUDE_RATE_LIMIT",
        Outcome::Overloaded => "CLAUDE_OVERLOADED",
        Outcome::Quota => "CLAUDE_QUOTA",
        _ => "CLAUDE_NETWORK",
    }
}

fn infrastructure(outcome: Outcome, said: &str) -> String {
    match outcome {
        Outcome::Auth => format!(
            "Claude Code is not authenticated{said}. Set ANTHROPIC_API_KEY to a valid key, or run `claude` and log in with /login"
        ),
        Outcome::RateLimit => {
            format!("the API's rate limit was hit{said}. Wait, or run fewer trials at a time")
        }
        Outcome::Overloaded => format!("the API is overloaded{said}. Try again later"),
        Outcome::Quota => {
            format!("the account's credit or quota is used up{said}. Top it up and run again")
        }
        _ => format!(
            "the API could not be reached or failed{said}. Check the network and the base URL"
        ),
    }
}

fn one(outcome: Outcome, code: &str, message: String) -> (Outcome, Vec<LogError>) {
    let error = LogError {
        message,
        timestamp: None,
        code: Some(code.to_owned()),
        stack_trace: None,
        context: None,
    };
    (outcome, vec![error])
}

/// Whether a text is the CLI's own, about a failed call, and not a model's.
pub(super) fn is_own_error(text: &str) -> bool {
    OWN_ERRORS.iter().any(|start| text.starts_with(start))
}

/// At most `bytes` of `text`, cut between characters.
pub(super) fn truncated(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
