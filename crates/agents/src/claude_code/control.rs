//! The control protocol of Claude Code, over standard input and output or a WebSocket:
//! initialise, send the prompt once, answer permission requests, stop after the result.
//! Current CLIs nest what they ask in `request`; a client that does not (`flat`) is answered alike.

use std::{fmt::Write as _, time::Duration};

use proctor_record::{
    outcome::{Ending, Outcome},
    session::{Conclusion, LogError, Session, SessionEvent, SessionHost, Source},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{flat, stream::ClaudeSession};

const INITIALIZE_ID: &str = "proctor-initialize";
/// After the result the CLI has nothing left to do; 2.0 crashes on a bare close of a socket,
/// so its process is ended instead.
const AFTER_RESULT: Duration = Duration::from_secs(2);

/// What permission requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
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
    /// The last result came.
    Done,
}

/// A session that drives the CLI, around the one that reads its events.
pub struct Control {
    inner: ClaudeSession,
    prompt: String,
    policy: Policy,
    state: State,
    /// The client speaks the flat form; messages of its model so far.
    flat: Option<u64>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: String,
    request_id: Option<String>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    response: Option<Response>,
}

#[derive(Default, Deserialize)]
struct Request<'a> {
    #[serde(default)]
    subtype: String,
    tool_name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response {
    request_id: Option<String>,
}

impl Control {
    pub fn new(inner: ClaudeSession, prompt: String, policy: Policy) -> Control {
        Control {
            inner,
            prompt,
            policy,
            state: State::Waiting,
            flat: None,
        }
    }

    /// Whether the client speaks the flat form.
    pub fn is_flat(&self) -> bool {
        self.flat.is_some()
    }

    /// Answer a request in the flat form, in which the client initialises and the prompt follows.
    fn on_flat_request(&mut self, request: &flat::Request<'_>, host: &mut dyn SessionHost) {
        self.flat.get_or_insert(0);
        let is_allowed = self.policy == Policy::Allow;
        send(host, &request.answer(is_allowed));
        match request.subtype.as_ref() {
            "initialize" if matches!(self.state, State::Waiting | State::Initializing) => {
                self.state = State::Running;
                let prompt = std::mem::take(&mut self.prompt);
                send(host, &flat::prompt(&prompt));
            }
            "can_use_tool" => request.tell(is_allowed, host),
            _ => {}
        }
    }

    fn on_request(&mut self, id: &str, request: &Request<'_>, host: &mut dyn SessionHost) {
        let answer = match request.subtype.as_str() {
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
        let tool = request.tool_name.as_deref().unwrap_or("a tool");
        match self.policy {
            Policy::Allow => json!({ "behavior": "allow", "updatedInput": request.input }),
            Policy::Deny => {
                host.event(SessionEvent::Note(&format!("permission denied: {tool}")));
                json!({ "behavior": "deny", "message": format!("{tool} is not allowed in this trial") })
            }
        }
    }

    /// The prompt is sent once, even if the connection changes: an agent that gets it again would
    /// do the task, and pay for it, twice.
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
        if let Some(request) = flat::Request::read(line) {
            self.on_flat_request(&request, host);
            return true;
        }
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(line) else {
            return false;
        };
        match (envelope.kind.as_str(), envelope.request_id) {
            ("control_request", Some(id)) => {
                let request = envelope.request.map(RawValue::get).unwrap_or_default();
                // One of an unknown shape is refused like one of an unknown kind.
                let request: Request<'_> = serde_json::from_str(request).unwrap_or_default();
                self.on_request(&id, &request, host);
            }
            ("control_response", _) => {
                let answers = envelope.response.and_then(|response| response.request_id);
                if self.state == State::Initializing && answers.as_deref() == Some(INITIALIZE_ID) {
                    self.send_prompt(host);
                }
            }
            ("control_request" | "control_cancel_request" | "keep_alive", _) => {}
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
        match &mut self.flat {
            None => self.inner.on_line(source, line, host),
            Some(messages) => match flat::Event::read(line) {
                flat::Event::Assistant(message) => {
                    *messages += 1;
                    message.tell(host);
                }
                flat::Event::Result(line) => self.inner.on_line(source, &line, host),
                flat::Event::Other => self.inner.on_line(source, line, host),
            },
        }
        if self.state == State::Running && self.inner.is_finished() {
            self.state = State::Done;
            host.close_input();
            host.end_within(AFTER_RESULT);
        }
    }

    fn on_oversized_line(&mut self, source: Source, bytes: u64) {
        self.inner.on_oversized_line(source, bytes);
    }

    fn finish(self: Box<Self>, ending: &Ending, host: &mut dyn SessionHost) -> Conclusion {
        let mut conclusion = Box::new(self.inner).finish(ending, host);
        conclusion.turns = conclusion.turns.or(self.flat);
        if self.state == State::Waiting && conclusion.outcome == Outcome::AgentError {
            // It never had the prompt, so this says nothing about how it works.
            conclusion.outcome = Outcome::Sandbox;
            conclusion.errors.push(LogError::new(
                "CLAUDE_INVALID_CONFIG",
                "Claude Code never connected: this version may not take `transport: websocket`; use `transport: control`",
            ));
        }
        conclusion
    }
}

/// A cheap look before parsing: most lines are events. The whole line, because the CLI does
/// not promise to put the type first, and does not always.
fn is_control(line: &[u8]) -> bool {
    memchr::memmem::find(line, b"\"control_").is_some()
        || memchr::memmem::find(line, b"\"keep_alive\"").is_some()
}

fn send(host: &mut dyn SessionHost, message: &Value) {
    let mut line = ascii(&message.to_string());
    line.push('\n');
    host.reply(line.into_bytes());
}

/// JSON with escapes for all that is not ASCII: 2.1.30 reads its input in blocks of 64 KiB and corrupts a
/// character that is cut in two.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(text, "\\u{unit:04x}").expect("a string takes every text");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{
        super::stream::{AfterResult, Form},
        *,
    };

    /// The requests of the session.
    #[derive(Default)]
    struct Asked {
        replies: Vec<Value>,
        closed: bool,
    }

    impl SessionHost for Asked {
        fn event(&mut self, _event: SessionEvent<'_>) {}
        fn reply(&mut self, bytes: Vec<u8>) {
            self.replies.push(serde_json::from_slice(&bytes).unwrap());
        }
        fn close_input(&mut self) {
            self.closed = true;
        }
        fn end_within(&mut self, _grace: Duration) {}
    }

    /// A session that has sent its prompt, and has then read these lines.
    fn told(lines: &[&str]) -> Asked {
        let inner = ClaudeSession::new(Form::StreamJson, AfterResult::KeepOpen);
        let mut control = Control::new(inner, "do it".to_owned(), Policy::Allow);
        let mut asked = Asked::default();
        control.on_open(&mut asked);
        let initialized = format!(
            r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"{INITIALIZE_ID}"}}}}"#
        );
        for line in [initialized.as_str()].iter().chain(lines) {
            control.on_line(Source::Stdout, line.as_bytes(), &mut asked);
        }
        assert_eq!(
            asked.replies[1]["message"]["content"][0]["text"], "do it",
            "{:?}",
            asked.replies
        );
        asked
    }

    #[test]
    fn every_request_is_answered_whatever_it_asks_and_however_it_is_written() {
        for request in [
            r#"{"type":"control_request","request_id":"r","request":{"subtype":"hook_callback","callback_id":"c"}}"#,
            r#"{"request":{"subtype":"mcp_message","message":{"long":"................................................................"}},"request_id":"r","type":"control_request"}"#,
            r#"{"type":"control_request","request_id":"r","request":{"subtype":17}}"#,
            r#"{"type":"control_request","request_id":"r"}"#,
        ] {
            let asked = told(&[request]);
            assert_eq!(
                asked.replies[2]["response"]["subtype"], "error",
                "{request}"
            );
            assert_eq!(asked.replies[2]["response"]["request_id"], "r", "{request}");
        }
    }

    #[test]
    fn a_permission_request_gets_its_input_back() {
        let asked = told(&[
            r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"A \"B\"","input":{"n":1.50}}}"#,
        ]);
        let answer = &asked.replies[2]["response"]["response"];
        assert_eq!(answer["behavior"], "allow");
        assert_eq!(answer["updatedInput"], json!({"n": 1.50}));
    }

    #[test]
    fn a_result_is_the_end_only_when_nothing_runs_in_the_background() {
        let running =
            r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"t"}]}"#;
        let done = r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#;
        let result = r#"{"type":"result","subtype":"success","is_error":false}"#;
        assert!(told(&[result]).closed);
        assert!(!told(&[running, result]).closed);
        assert!(!told(&[running, result, done]).closed);
        assert!(told(&[running, result, done, result]).closed);
    }

    #[test]
    fn a_flat_client_is_answered_in_the_flat_form_and_has_the_prompt_once() {
        let inner = ClaudeSession::new(Form::StreamJson, AfterResult::KeepOpen);
        let mut control = Control::new(inner, "do it".to_owned(), Policy::Allow);
        let mut asked = Asked::default();
        for line in [
            r#"{"type":"control_request","subtype":"initialize","supportedApiVersions":["1"]}"#,
            r#"{"type":"control_request","subtype":"can_use_tool","toolName":"Bash","input":{"command":"ls"}}"#,
            r#"{"type":"control_request","subtype":"initialize","request_id":"again"}"#,
            r#"{"type":"control_request","subtype":"dance"}"#,
            "no JSON",
            r#"{"type":"assistant","content":[{"type":"text","text":"hello"}]}"#,
            r#"{"type":"result","result":"done","usage":{"input_tokens":7,"output_tokens":3}}"#,
        ] {
            control.on_line(Source::Socket, line.as_bytes(), &mut asked);
        }
        let initialized = json!({"type": "control_response", "subtype": "initialize", "apiVersion": "1", "permissionMode": "default"});
        let prompt = json!({"type": "user", "content": [{"type": "text", "text": "do it"}]});
        let allowed =
            json!({"type": "control_response", "subtype": "can_use_tool", "allowed": true});
        assert_eq!(asked.replies[..3], [initialized.clone(), prompt, allowed]);
        let mut again = initialized;
        again["request_id"] = "again".into();
        assert_eq!(asked.replies[3], again, "the prompt is not sent again");
        assert_eq!(asked.replies[4]["subtype"], "dance");
        assert!(asked.replies[4]["error"].is_string());
        assert_eq!(asked.replies.len(), 5);
        assert!(asked.closed, "the result ends it");
        let ending = Ending {
            code: Some(0),
            ..Ending::default()
        };
        let conclusion = Box::new(control).finish(&ending, &mut asked);
        assert_eq!(conclusion.outcome, Outcome::Completed);
        assert_eq!(conclusion.turns, Some(1));
        let usage = conclusion.usage.unwrap();
        assert_eq!(usage.total.input_tokens, Some(7));
    }

    #[test]
    fn messages_are_ascii_and_say_the_same() {
        let text = "ä € 🦀 \\ \"quoted\"".repeat(10);
        let json = json!({ "text": text }).to_string();
        let escaped = ascii(&json);
        assert!(escaped.is_ascii(), "{escaped}");
        let read: Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(read["text"], text.as_str());
    }

    #[test]
    fn the_prompt_is_sent_once_however_often_the_agent_connects() {
        let inner = ClaudeSession::new(Form::StreamJson, AfterResult::KeepOpen);
        let mut control = Control::new(inner, "do it".to_owned(), Policy::Allow);
        let mut asked = Asked::default();
        let initialized = format!(
            r#"{{"type":"control_response","response":{{"request_id":"{INITIALIZE_ID}"}}}}"#
        );
        for _ in 0..3 {
            control.on_open(&mut asked);
            control.on_line(Source::Socket, initialized.as_bytes(), &mut asked);
        }
        let prompts = asked.replies.iter().filter(|reply| reply["type"] == "user");
        assert_eq!(prompts.count(), 1);
    }
}
