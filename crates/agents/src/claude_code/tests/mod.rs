//! Tests of the session, each from output to log, with shared helpers.

mod launch;
mod recorded;
mod text;
mod verdict;

use std::{io::BufReader, time::Duration};

use proctor_record::{
    outcome::{EndedBy, Ending},
    session::{Conclusion, LineSource, Session, SessionEvent, SessionHost},
    transcript::{AgentContext, Document, Recording, normalize},
};

use super::stream::{AfterResult, ClaudeSession, StreamFormat};

macro_rules! session {
    ($name:literal) => {
        include_str!(concat!("../../../tests/data/sessions/", $name))
    };
}

const HELLO: &str = session!("00-claude-2.1.197-hello.jsonl");
const SIMPLE: &str = session!("01-claude-ok-simple.jsonl");
const SUBAGENTS: &str = session!("02-claude-ok-subagents-hooks.jsonl");
const INTERRUPTED: &str = session!("05-claude-error-during-exec-exit0.jsonl");
const AUTHENTICATION_FAILED: &str = session!("06-claude-2.1.39-authentication-failed.jsonl");
const RATE_LIMITED: &str = session!("07-claude-2.1.39-rate-limit.jsonl");
const SESSION_FILE: &str = session!("10-session-file-2.1.325.jsonl");
const PTY: &str = session!("11-pty-capture-2.1.325.log");
const CUT_OFF: &str = session!("12-partial-messages-cut-off.jsonl");
const TWO_RESULTS: &str = session!("13-two-results-tail.jsonl");
const SHAPES: &str = session!("message-shapes.ndjson");

fn log_of(output: impl AsRef<[u8]>, exit_code: Option<i32>) -> Document {
    serde_json::from_slice(&json_of(output, exit_code)).unwrap()
}

fn json_of(output: impl AsRef<[u8]>, exit_code: Option<i32>) -> Vec<u8> {
    let recording = Recording {
        exit_code,
        agent: AgentContext {
            name: "claude-code",
            adapter_version: "0.1.0",
            provider: "anthropic",
            model: Some("configured"),
            ..AgentContext::default()
        },
        ..Recording::default()
    };
    let session = Box::new(ClaudeSession::new(StreamFormat::Auto, AfterResult::EndSoon));
    let mut json = Vec::new();
    // A small buffer, so that lines are split at many positions.
    let reader = BufReader::with_capacity(1000, output.as_ref());
    normalize(session, reader, &mut json, recording).unwrap();
    json
}

fn codes(log: &Document) -> Vec<&str> {
    let errors = log.account.errors.iter();
    errors.filter_map(|error| error.code.as_deref()).collect()
}

/// A host that records requests.
#[derive(Default)]
struct Host {
    events: Vec<String>,
    ends: Vec<Duration>,
}

impl SessionHost for Host {
    fn event(&mut self, event: SessionEvent<'_>) {
        self.events.push(format!("{event:?}"));
    }
    fn reply(&mut self, _bytes: Vec<u8>) {}
    fn close_input(&mut self) {}
    fn end_within(&mut self, grace: Duration) {
        self.ends.push(grace);
    }
}

fn conclude(form: StreamFormat, output: &str, ending: Ending) -> (Conclusion, Host) {
    let mut host = Host::default();
    let mut session = Box::new(ClaudeSession::new(form, AfterResult::EndSoon));
    for line in output.lines() {
        session.on_line(LineSource::Stdout, line.as_bytes(), &mut host);
    }
    (session.finish(&ending, &mut host), host)
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
