//! Reads the events of `gemini --output-format stream-json`. It retries failed calls for minutes
//! and reports that on standard error only.

use proctor_record::{
    outcome::Ending,
    session::{Role, SessionEvent, SessionHost},
    usage::{Usage, UsageSource},
};
use serde_json::Value;

use super::super::{
    fault::ApiFault,
    mcp,
    reader::Reader,
    tokens::{Tokens, by_model, number},
    transcript::{Failed, Transcript, answer, call, say, text},
    verdict::End,
};

/// The maximum size of a message; a longer one is reported in parts.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// The exit code without valid credentials.
const NO_CREDENTIALS: i32 = 41;

/// Reads one `gemini`.
#[derive(Default)]
pub(super) struct GeminiReader {
    transcript: Transcript,
    usage: Option<Usage>,
    /// The pieces of the answer so far.
    answer: String,
    /// The last error message.
    complaint: String,
    is_looping: bool,
}

impl GeminiReader {
    fn message(&mut self, event: &Value, role: &str, host: &mut dyn SessionHost) {
        let content = text(event, "/content").unwrap_or_default();
        if role == "assistant" {
            self.answer.push_str(content);
            if self.answer.len() > MAX_MESSAGE_BYTES {
                self.flush(host);
            }
        } else {
            say(host, Role::User, content, text(event, "/timestamp"));
        }
    }

    fn flush(&mut self, host: &mut dyn SessionHost) {
        let answer = std::mem::take(&mut self.answer);
        self.transcript.said(&answer, host);
    }

    fn error(&mut self, event: &Value, host: &mut dyn SessionHost) {
        let message = text(event, "/message").unwrap_or_default();
        self.is_looping |= message.starts_with("Loop detected");
        if text(event, "/severity") == Some("error") {
            message.clone_into(&mut self.complaint);
        }
        host.event(SessionEvent::Note(message));
    }

    fn result(&mut self, event: &Value, host: &mut dyn SessionHost) {
        self.transcript.times.duration_ms = number(event, "/stats/duration_ms");
        self.usage = usage(&event["stats"]);
        self.transcript.end = self.end(event);
        if let Some(stats) = event.get("stats") {
            tokens(stats).report(host);
        }
    }

    /// How the run ended. A run that was stopped in a loop reports `success`, too.
    fn end(&self, event: &Value) -> End {
        if self.is_looping {
            return End::gave_up("LOOP", "detected a loop and stopped");
        }
        if text(event, "/status") == Some("success") {
            return End::Done;
        }
        if text(event, "/error/type") == Some("FatalTurnLimitedError") {
            return End::gave_up("MAX_TURNS", "reached its turn limit (max_turns)");
        }
        End::Failed(fault(
            text(event, "/error/message").unwrap_or(&self.complaint),
        ))
    }
}

impl Reader for GeminiReader {
    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    fn event(&mut self, event: &Value, host: &mut dyn SessionHost) {
        let kind = text(event, "/type").unwrap_or_default();
        let role = text(event, "/role").unwrap_or_default();
        if (kind, role) != ("message", "assistant") {
            self.flush(host);
        }
        if let Some(timestamp) = text(event, "/timestamp") {
            self.transcript.time(timestamp);
        }
        self.transcript.end = End::Open;
        match kind {
            "init" => {
                self.transcript.model = text(event, "/model").map(str::to_owned);
                self.transcript.session_id = text(event, "/session_id").map(str::to_owned);
                self.transcript.started(host);
            }
            "message" => self.message(event, role, host),
            "tool_use" => {
                let name = text(event, "/tool_name").unwrap_or_default();
                let id = text(event, "/tool_id");
                call(host, id, name, &event["parameters"], None);
            }
            "tool_result" => tool_result(event, host),
            "error" => self.error(event, host),
            "result" => self.result(event, host),
            _ => self.transcript.counts.unknown_events += 1,
        }
    }

    /// Parses `MCP issues detected`, which names no server, and `Attempt 1 failed with status 429. Retrying with backoff...`
    fn stderr(&mut self, line: &[u8], host: &mut dyn SessionHost) {
        let stated = String::from_utf8_lossy(line);
        if stated.starts_with("MCP issues detected") {
            mcp::report_failed(std::iter::once("(not named)"), host);
        }
        let is_retry = stated.starts_with("Attempt ") && stated.contains("Retrying");
        if is_retry {
            let status = stated.split_once("failed with status ");
            let status = status.and_then(|(_, after)| after.get(..3)?.parse().ok());
            let note = stated.split_inclusive("...").next().unwrap_or_default();
            self.transcript.retry(note, host);
            self.transcript.end = End::Retrying(ApiFault {
                status,
                message: stated.clone().into_owned(),
            });
        }
        self.transcript.stderr(line, host);
    }

    fn finish(&mut self, ending: &Ending, host: &mut dyn SessionHost) -> Option<Usage> {
        self.flush(host);
        let end = &mut self.transcript.end;
        match (end, ending.code) {
            (End::Failed(fault), Some(code)) if fault.status.is_none() => {
                fault.status = status_of(code);
            }
            (end @ End::Open, Some(NO_CREDENTIALS)) if ending.ended_by.is_none() => {
                *end = End::Failed(ApiFault {
                    status: Some(401),
                    message: "no valid credentials".to_owned(),
                });
            }
            _ => {}
        }
        self.usage.take()
    }
}

/// The API status from the exit code, which is the status modulo 256: 401 becomes 145.
fn status_of(code: i32) -> Option<u64> {
    let code = u64::try_from(code).ok()?;
    (144..256).contains(&code).then_some(code + 256)
}

fn tool_result(event: &Value, host: &mut dyn SessionHost) {
    let id = text(event, "/tool_id").unwrap_or_default();
    let failed = if text(event, "/status") == Some("error") {
        Failed::Yes
    } else {
        Failed::No
    };
    let stated = text(event, "/error/message").or(text(event, "/output"));
    answer(host, id, stated.unwrap_or_default(), failed);
}

/// A failed call in the CLI's format: `[API Error: 401 …]`, or with the API's own JSON inside.
pub(in super::super) fn fault(message: &str) -> ApiFault {
    let inner = message.strip_prefix("[API Error: ").unwrap_or(message);
    let first = inner.lines().next().unwrap_or_default();
    let first = first.strip_suffix(']').unwrap_or(first);
    if let Ok(json) = serde_json::from_str::<Value>(first) {
        return ApiFault {
            status: number(&json, "/error/code"),
            message: text(&json, "/error/message").unwrap_or(first).to_owned(),
        };
    }
    if first == "terminated" {
        // The only message of its HTTP client for a closed connection.
        return ApiFault::said("the connection was closed");
    }
    let stated = first.split_once(' ').and_then(|(status, rest)| {
        let status: u64 = status.parse().ok()?;
        (400..600).contains(&status).then_some((status, rest))
    });
    ApiFault {
        status: stated.map(|(status, _)| status),
        message: stated.map_or(first, |(_, rest)| rest).to_owned(),
    }
}

/// Converts the figures. The CLI counts cached tokens as input, and excludes thoughts from the
/// output but not from the total.
fn usage(stats: &Value) -> Option<Usage> {
    let models = stats.get("models").and_then(Value::as_object);
    let models = models.into_iter().flatten();
    let usage = by_model(
        models.map(|(name, stats)| (name.clone(), tokens(stats))),
        UsageSource::ResultEvent,
    );
    usage.or_else(|| tokens(stats).usage(UsageSource::ResultEvent))
}

fn tokens(stats: &Value) -> Tokens {
    let tokens = Tokens {
        input: number(stats, "/input_tokens"),
        output: output(stats),
        cache_read: number(stats, "/cached"),
        ..Tokens::default()
    };
    tokens.without_cached_input()
}

fn output(stats: &Value) -> Option<u64> {
    let total = number(stats, "/total_tokens");
    let rest = total
        .zip(number(stats, "/input_tokens"))
        .and_then(|(total, input)| total.checked_sub(input));
    rest.max(number(stats, "/output_tokens"))
}
