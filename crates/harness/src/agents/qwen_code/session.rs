//! Reads the events of `qwen --output-format stream-json`. They look like Claude Code's and
//! mean other things: input includes cached tokens, and a run that is cut short has no result.

use serde_json::Value;

use super::super::{
    fault::ApiFault,
    gemini_cli::fault,
    tokens::{Tokens, number},
    transcript::{Failed, Transcript, answer, call, text},
    verdict::{End, Names},
};
use crate::{
    outcome::Ending,
    session::{Conclusion, MessageKind, Role, Session, SessionEvent, SessionHost, Source, Text},
    usage::{Usage, UsageSource},
};

static NAMES: Names = Names {
    title: "Qwen Code",
    code: "QWEN",
    login: "Set the key that goes with `auth_type`, such as OPENAI_API_KEY, to a valid one",
};

/// Only for a rate limit or an overload does it wait this long before it tries again.
const RATE_LIMIT_WAIT_MS: u64 = 60_000;
/// Its exit codes at a limit of its own; there is no result event then.
const TURN_LIMIT: i32 = 53;
const BUDGET: i32 = 55;

/// The session.
pub(super) struct QwenSession {
    transcript: Transcript,
    /// Added up from messages.
    so_far: Tokens,
    /// Its own account at the end.
    account: Option<Usage>,
}

impl QwenSession {
    pub(super) fn new() -> QwenSession {
        QwenSession {
            transcript: Transcript::new(&NAMES),
            so_far: Tokens::default(),
            account: None,
        }
    }

    fn event(&mut self, event: &Value, host: &mut dyn SessionHost) {
        let subtype = text(event, "/subtype").unwrap_or_default();
        match (text(event, "/type").unwrap_or_default(), subtype) {
            ("system", "init") => self.init(event, host),
            ("system", "retry") => self.retry(event, host),
            ("assistant", _) => self.assistant(event, host),
            ("user", _) => self.blocks(event, host),
            ("result", _) => self.result(event, host),
            // Pieces of what comes whole, and the bookkeeping of goals.
            ("stream_event", _) => {}
            _ => self.transcript.counts.unknown_events += 1,
        }
    }

    fn init(&mut self, event: &Value, host: &mut dyn SessionHost) {
        let owned = |pointer| text(event, pointer).map(str::to_owned);
        self.transcript.model = owned("/model");
        self.transcript.version = owned("/qwen_code_version");
        self.transcript.session_id = owned("/session_id");
        self.transcript.started(host);
    }

    fn retry(&mut self, event: &Value, host: &mut dyn SessionHost) {
        let wait = number(event, "/data/delayMs").unwrap_or_default();
        let (note, message) = if wait >= RATE_LIMIT_WAIT_MS {
            (
                "API call tried again after a minute",
                "rate limit or overload",
            )
        } else {
            ("API call tried again", "")
        };
        self.transcript.retry(note, host);
        self.transcript.end = End::Retrying(ApiFault::said(message));
    }

    fn assistant(&mut self, event: &Value, host: &mut dyn SessionHost) {
        self.blocks(event, host);
        let tokens = tokens(&event["message"]["usage"]);
        if tokens.is_nothing() {
            return;
        }
        self.so_far = self.so_far.plus(tokens);
        let (input_tokens, output_tokens) = self.so_far.so_far();
        host.event(SessionEvent::Progress {
            input_tokens,
            output_tokens,
        });
    }

    fn blocks(&mut self, event: &Value, host: &mut dyn SessionHost) {
        self.transcript.end = End::Open;
        let parent = text(event, "/parent_tool_use_id");
        let blocks = event.pointer("/message/content").and_then(Value::as_array);
        for block in blocks.into_iter().flatten() {
            self.block(block, parent, host);
        }
    }

    fn block(&mut self, block: &Value, parent: Option<&str>, host: &mut dyn SessionHost) {
        match text(block, "/type").unwrap_or_default() {
            "text" => self.said(text(block, "/text").unwrap_or_default(), parent, host),
            "thinking" => {
                let thought = text(block, "/thinking").unwrap_or_default();
                message(host, MessageKind::Thinking, thought, parent);
            }
            "tool_use" => {
                self.transcript.counts.subagent_tool_calls += u64::from(parent.is_some());
                let name = text(block, "/name").unwrap_or_default();
                call(host, text(block, "/id"), name, &block["input"], parent);
            }
            "tool_result" => tool_result(block, host),
            _ => self.transcript.counts.unknown_events += 1,
        }
    }

    /// The CLI puts its own words about a failed call where the model speaks.
    fn said(&mut self, said: &str, parent: Option<&str>, host: &mut dyn SessionHost) {
        if said.starts_with("[API Error: ") {
            host.event(SessionEvent::Note(said));
        } else if parent.is_some() {
            message(host, MessageKind::Text, said, parent);
        } else {
            self.transcript.said(said, host);
        }
    }

    fn result(&mut self, event: &Value, host: &mut dyn SessionHost) {
        self.transcript.turns = number(event, "/num_turns");
        self.transcript.times.duration_ms = number(event, "/duration_ms");
        self.account = tokens(&event["usage"]).usage(UsageSource::ResultEvent);
        let denials = event["permission_denials"].as_array().map_or(0, Vec::len);
        if denials > 0 {
            self.transcript.counts.permission_denials += denials as u64;
            host.event(SessionEvent::Note(&format!("{denials} tool uses refused")));
        }
        self.transcript.end = end(event);
    }
}

impl Session for QwenSession {
    fn on_line(&mut self, source: Source, line: &[u8], host: &mut dyn SessionHost) {
        if source == Source::Stderr {
            self.transcript.stderr(line, host);
        } else if let Some(event) = self.transcript.object(line) {
            self.event(&event, host);
        }
    }

    fn on_oversized_line(&mut self, _source: Source, _bytes: u64) {
        self.transcript.counts.oversized_lines += 1;
    }

    fn finish(mut self: Box<Self>, ending: &Ending, _host: &mut dyn SessionHost) -> Conclusion {
        if self.transcript.end == End::Open && ending.ended_by.is_none() {
            self.transcript.end = match ending.code {
                Some(TURN_LIMIT) => gave_up("MAX_TURNS", "reached its turn limit (max_turns)"),
                Some(BUDGET) => gave_up("BUDGET", "reached a limit that its arguments set"),
                _ => End::Open,
            };
        }
        let seen = self.so_far.usage(UsageSource::Messages);
        let seen = seen.map(|usage| Usage {
            lower_bound: true,
            ..usage
        });
        self.transcript.conclude(self.account.or(seen), ending)
    }
}

fn end(result: &Value) -> End {
    let is_error = result["is_error"].as_bool().unwrap_or_default();
    if !is_error && text(result, "/subtype") == Some("success") {
        return End::Done;
    }
    let message = text(result, "/error/message").unwrap_or_default();
    if message.starts_with("Loop detection halted") {
        return gave_up("LOOP", "found itself in a loop and stopped");
    }
    End::Failed(fault(message))
}

fn gave_up(code: &'static str, why: &str) -> End {
    End::GaveUp {
        code,
        why: why.to_owned(),
    }
}

fn message(host: &mut dyn SessionHost, kind: MessageKind, content: &str, parent: Option<&str>) {
    host.event(SessionEvent::Message {
        role: Role::Assistant,
        kind,
        content: Text::Plain(content),
        timestamp: None,
        parent,
    });
}

fn tool_result(block: &Value, host: &mut dyn SessionHost) {
    let id = text(block, "/tool_use_id").unwrap_or_default();
    let failed = match block["is_error"].as_bool() {
        Some(true) => Failed::Yes,
        _ => Failed::No,
    };
    match &block["content"] {
        Value::Null => answer(host, id, "", failed),
        Value::String(content) => answer(host, id, content, failed),
        other => answer(host, id, &other.to_string(), failed),
    }
}

/// Input includes what was cached.
fn tokens(usage: &Value) -> Tokens {
    let tokens = Tokens {
        input: number(usage, "/input_tokens"),
        output: number(usage, "/output_tokens"),
        cache_read: number(usage, "/cache_read_input_tokens"),
        cache_write: number(usage, "/cache_creation_input_tokens"),
        cost: None,
    };
    tokens.without_cached_input()
}
