//! The control protocol of Claude Code, over standard input and output or a WebSocket:
//! initialise, send the prompt once, answer permission requests, stop after the result.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::stream::ClaudeSession;
use crate::{
    outcome::Ending,
    session::{Conclusion, Session, SessionEvent, SessionHost, Source},
};

const INITIALIZE_ID: &str = "proctor-initialize";
/// After the result the CLI has nothing left to do; 2.0 crashes on a bare close of a socket,
/// so its process is ended instead.
const AFTER_RESULT: Duration = Duration::from_secs(2);

/// What permission requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Allow,
    Deny,
}

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No connection yet.
    Waiting,
    /// Connected; the CLI has not answered `initialize`.
    Initializing,
    /// The prompt is sent.
    Running,
    /// The result came.
    Done,
}

/// A session that drives the CLI, around the one that reads its events.
pub(super) struct Control {
    inner: ClaudeSession,
    prompt: String,
    policy: Policy,
    state: State,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    request_id: Option<&'a str>,
    #[serde(borrow)]
    request: Option<Request<'a>>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
}

#[derive(Deserialize)]
struct Request<'a> {
    subtype: &'a str,
    tool_name: Option<&'a str>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    request_id: Option<&'a str>,
}

impl Control {
    pub(super) fn new(inner: ClaudeSession, prompt: String, policy: Policy) -> Control {
        Control {
            inner,
            prompt,
            policy,
            state: State::Waiting,
        }
    }

    fn on_request(&mut self, id: &str, request: &Request<'_>, host: &mut dyn SessionHost) {
        let answer = match request.subtype {
            "can_use_tool" => json!({
                "subtype": "success",
                "request_id": id,
                "response": self.permission(request, host),
            }),
            "initialize" => json!({ "subtype": "success", "request_id": id, "response": {} }),
            // An answer in any case: a CLI that waits for one hangs.
            other => json!({
                "subtype": "error",
                "request_id": id,
                "error": format!("proctor does not serve `{other}`"),
            }),
        };
        send(
            host,
            &json!({ "type": "control_response", "response": answer }),
        );
    }

    fn permission(&self, request: &Request<'_>, host: &mut dyn SessionHost) -> Value {
        let tool = request.tool_name.unwrap_or("a tool");
        match self.policy {
            Policy::Allow => json!({ "behavior": "allow", "updatedInput": request.input }),
            Policy::Deny => {
                host.event(SessionEvent::Note(&format!("permission denied: {tool}")));
                json!({ "behavior": "deny", "message": format!("{tool} is not allowed in this trial") })
            }
        }
    }

    /// The prompt goes out once, whatever happens to the connection: an agent that gets it
    /// again does the task again, and pays for it.
    fn send_prompt(&mut self, host: &mut dyn SessionHost) {
        self.state = State::Running;
        let prompt = std::mem::take(&mut self.prompt);
        send(
            host,
            &json!({
                "type": "user",
                "message": { "role": "user", "content": [{ "type": "text", "text": prompt }] },
                "parent_tool_use_id": null,
                "session_id": "",
            }),
        );
    }

    fn on_control_line(&mut self, line: &[u8], host: &mut dyn SessionHost) -> bool {
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(line) else {
            return false;
        };
        match (envelope.kind, envelope.request_id, envelope.request) {
            ("control_request", Some(id), Some(request)) => self.on_request(id, &request, host),
            ("control_response", _, _) => {
                let answers = envelope.response.and_then(|response| response.request_id);
                if self.state == State::Initializing && answers == Some(INITIALIZE_ID) {
                    self.send_prompt(host);
                }
            }
            ("control_request" | "control_cancel_request" | "keep_alive", _, _) => {}
            _ => return false,
        }
        true
    }
}

impl Session for Control {
    fn on_open(&mut self, host: &mut dyn SessionHost) {
        if matches!(self.state, State::Waiting | State::Initializing) {
            self.state = State::Initializing;
            send(
                host,
                &json!({
                    "type": "control_request",
                    "request_id": INITIALIZE_ID,
                    "request": { "subtype": "initialize" },
                }),
            );
        }
    }

    fn on_line(&mut self, source: Source, line: &[u8], host: &mut dyn SessionHost) {
        if source != Source::Stderr && is_control(line) && self.on_control_line(line, host) {
            return;
        }
        self.inner.on_line(source, line, host);
        if self.state == State::Running && self.inner.has_result() {
            self.state = State::Done;
            host.close_input();
            host.end_within(AFTER_RESULT);
        }
    }

    fn on_oversized_line(&mut self, source: Source, bytes: u64) {
        self.inner.on_oversized_line(source, bytes);
    }

    fn finish(self: Box<Self>, ending: &Ending, host: &mut dyn SessionHost) -> Conclusion {
        Box::new(self.inner).finish(ending, host)
    }
}

/// A cheap look before parsing: most lines are events. The type need not stand first in its line.
fn is_control(line: &[u8]) -> bool {
    memchr::memmem::find(line, b"\"control_").is_some()
        || memchr::memmem::find(line, b"\"keep_alive").is_some()
}

fn send(host: &mut dyn SessionHost, message: &Value) {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    host.reply(line);
}
