//! Reads the events of `qwen --output-format stream-json`. They look like Claude Code's with other
//! meanings: input includes cached tokens, and an interrupted run has no result.

use proctor_record::{
    outcome::Ending,
    session::{MessageKind, Role, SessionEvent, SessionHost, Text},
    usage::{Usage, UsageSource},
};
use serde_json::Value;

use super::super::{
    fault::ApiFault,
    gemini_cli::fault,
    mcp,
    reader::Reader,
    tokens::{Tokens, number},
    transcript::{Failed, Transcript, answer, call, text},
    verdict::End,
};

/// The minimum wait before a retry that indicates a rate limit or an overload.
const RATE_LIMIT_WAIT_MS: u64 = 60_000;
/// The exit codes at its own limits; there is no result event then.
const TURN_LIMIT: i32 = 53;
const BUDGET: i32 = 55;

/// Reads one `qwen`.
#[derive(Default)]
pub(super) struct QwenReader {
    transcript: Transcript,
    /// The sum over messages.
    so_far: Tokens,
    /// Its own account at the end.
    account: Option<Usage>,
}

impl QwenReader {
    fn init(&mut self, event: &Value, host: &mut dyn SessionHost) {
        let owned = |pointer| text(event, pointer).map(str::to_owned);
        self.transcript.model = owned("/model");
        self.transcript.version = owned("/qwen_code_version");
        self.transcript.session_id = owned("/session_id");
        self.transcript.started(host);
        mcp::report(&event["mcp_servers"], host);
    }

    fn retry(&mut self, event: &Value, host: &mut dyn SessionHost) {
        let wait = number(event, "/data/delayMs").unwrap_or_default();
        let (note, message) = if wait >= RATE_LIMIT_WAIT_MS {
            ("API call retried after a minute", "rate limit or overload")
        } else {
            ("API call retried", "")
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
        self.so_far.report(host);
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

    /// Reports a message. The CLI writes its own text about a failed call as a message of the
    /// model.
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

impl Reader for QwenReader {
    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    fn event(&mut self, event: &Value, host: &mut dyn SessionHost) {
        let subtype = text(event, "/subtype").unwrap_or_default();
        match (text(event, "/type").unwrap_or_default(), subtype) {
            ("system", "init") => self.init(event, host),
            ("system", "retry") => self.retry(event, host),
            ("assistant", _) => self.assistant(event, host),
            ("user", _) => self.blocks(event, host),
            ("result", _) => self.result(event, host),
            // Parts of complete messages, and bookkeeping of goals.
            ("stream_event", _) => {}
            _ => self.transcript.counts.unknown_events += 1,
        }
    }

    fn finish(&mut self, ending: &Ending, _host: &mut dyn SessionHost) -> Option<Usage> {
        if self.transcript.end == End::Open && ending.ended_by.is_none() {
            self.transcript.end = match ending.code {
                Some(TURN_LIMIT) => End::gave_up("MAX_TURNS", "reached its turn limit (max_turns)"),
                Some(BUDGET) => End::gave_up("BUDGET", "reached a limit of its arguments"),
                _ => End::Open,
            };
        }
        let seen = self.so_far.usage(UsageSource::Messages);
        let seen = seen.map(|usage| Usage {
            lower_bound: true,
            ..usage
        });
        self.account.take().or(seen)
    }
}

fn end(result: &Value) -> End {
    let is_error = result["is_error"].as_bool().unwrap_or_default();
    if !is_error && text(result, "/subtype") == Some("success") {
        return End::Done;
    }
    let message = text(result, "/error/message").unwrap_or_default();
    if message.starts_with("Loop detection halted") {
        return End::gave_up("LOOP", "detected a loop and stopped");
    }
    End::Failed(fault(message))
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

/// Converts the figures: input includes cached tokens.
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
