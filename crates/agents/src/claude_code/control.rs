//! The control protocol of Claude Code, over standard input and output or a WebSocket: initialise,
//! send the prompt once, answer permission requests, stop after the result. Current CLIs nest their
//! requests in `request`; a client without nesting (`flat`) is served, too.

use std::{fmt::Write as _, time::Duration};

use proctor_record::{
    outcome::{Ending, Outcome},
    session::{Conclusion, LineSource, LogError, Session, SessionEvent, SessionHost},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{flat, stream::ClaudeSession};

const INITIALIZE_ID: &str = "proctor-initialize";
/// How long to wait after the result. Version 2.0 crashes if the socket is just closed, so its
/// process is ended instead.
const AFTER_RESULT: Duration = Duration::from_secs(2);

/// The answer to permission requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptPolicy {
    Allow,
    Deny,
}

/// The state of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialogState {
    /// No connection yet.
    Waiting,
    /// Connected; the CLI has not answered `initialize`.
    Initializing,
    /// The prompt is sent.
    Running,
    /// The last result has arrived.
    Done,
}

/// A session that drives the CLI, and wraps the session that reads its events.
pub struct ControlSession {
    inner: ClaudeSession,
    prompt: String,
    policy: PromptPolicy,
    state: DialogState,
    /// The number of the model's messages, if the client uses the flat form.
    flat: Option<u64>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: String,
    request_id: Option<String>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    response: Option<ControlResponse>,
}

#[derive(Default, Deserialize)]
struct ControlRequest<'a> {
    #[serde(default)]
    subtype: String,
    tool_name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ControlResponse {
    request_id: Option<String>,
}

impl ControlSession {
    pub fn new(inner: ClaudeSession, prompt: String, policy: PromptPolicy) -> ControlSession {
        ControlSession {
            inner,
            prompt,
            policy,
            state: DialogState::Waiting,
            flat: None,
        }
    }

    /// Whether the client uses the flat form.
    pub fn is_flat(&self) -> bool {
        self.flat.is_some()
    }

    /// Answers a request in the flat form, in which the client initialises and the prompt follows.
    fn on_flat_request(&mut self, request: &flat::Request<'_>, host: &mut dyn SessionHost) {
        self.flat.get_or_insert(0);
        let is_allowed = self.policy == PromptPolicy::Allow;
        send(host, &request.answer(is_allowed));
        match request.subtype.as_ref() {
            "initialize"
                if matches!(self.state, DialogState::Waiting | DialogState::Initializing) =>
            {
                self.state = DialogState::Running;
                let prompt = std::mem::take(&mut self.prompt);
                send(host, &flat::prompt(&prompt));
            }
            "can_use_tool" => request.tell(is_allowed, host),
            _ => {}
        }
    }

    fn on_request(&mut self, id: &str, request: &ControlRequest<'_>, host: &mut dyn SessionHost) {
        let answer = match request.subtype.as_str() {
            "can_use_tool" => json!({
                "subtype": "success",
                "request_id": id,
                "response": self.permission(request, host),
            }),
            "initialize" => json!({ "subtype": "success", "request_id": id, "response": {} }),
            // Always answer: the CLI would wait forever otherwise.
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

    fn permission(&self, request: &ControlRequest<'_>, host: &mut dyn SessionHost) -> Value {
        let tool = request.tool_name.as_deref().unwrap_or("a tool");
        match self.policy {
            PromptPolicy::Allow => json!({ "behavior": "allow", "updatedInput": request.input }),
            PromptPolicy::Deny => {
                host.event(SessionEvent::Note(&format!("permission denied: {tool}")));
                json!({ "behavior": "deny", "message": format!("{tool} is not allowed in this trial") })
            }
        }
    }

    /// Sends the prompt once, even after a reconnection: otherwise the agent would do the task, and
    /// pay for it, twice.
    fn send_prompt(&mut self, host: &mut dyn SessionHost) {
        self.state = DialogState::Running;
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
                // A malformed request is refused like an unknown one.
                let request: ControlRequest<'_> = serde_json::from_str(request).unwrap_or_default();
                self.on_request(&id, &request, host);
            }
            ("control_response", _) => {
                let answers = envelope.response.and_then(|response| response.request_id);
                if self.state == DialogState::Initializing
                    && answers.as_deref() == Some(INITIALIZE_ID)
                {
                    self.send_prompt(host);
                }
            }
            ("control_request" | "control_cancel_request" | "keep_alive", _) => {}
            _ => return false,
        }
        true
    }
}

impl Session for ControlSession {
    fn on_open(&mut self, host: &mut dyn SessionHost) {
        if matches!(self.state, DialogState::Waiting | DialogState::Initializing) {
            self.state = DialogState::Initializing;
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

    fn on_line(&mut self, source: LineSource, line: &[u8], host: &mut dyn SessionHost) {
        if source != LineSource::Stderr && is_control(line) && self.on_control_line(line, host) {
            return;
        }
        match &mut self.flat {
            None => self.inner.on_line(source, line, host),
            Some(messages) => match flat::FlatEvent::read(line) {
                flat::FlatEvent::Assistant(message) => {
                    *messages += 1;
                    message.tell(host);
                }
                flat::FlatEvent::Result(line) => self.inner.on_line(source, &line, host),
                flat::FlatEvent::Other => self.inner.on_line(source, line, host),
            },
        }
        if self.state == DialogState::Running && self.inner.is_finished() {
            self.state = DialogState::Done;
            host.close_input();
            host.end_within(AFTER_RESULT);
        }
    }

    fn on_oversized_line(&mut self, source: LineSource, bytes: u64) {
        self.inner.on_oversized_line(source, bytes);
    }

    fn finish(self: Box<Self>, ending: &Ending, host: &mut dyn SessionHost) -> Conclusion {
        let mut conclusion = Box::new(self.inner).finish(ending, host);
        conclusion.turns = conclusion.turns.or(self.flat);
        if self.state == DialogState::Waiting && conclusion.outcome == Outcome::AgentError {
            // The CLI never got the prompt, so the trial is excluded.
            conclusion.outcome = Outcome::Sandbox;
            conclusion.errors.push(LogError::new(
                "CLAUDE_INVALID_CONFIG",
                "Claude Code never connected: this version may not support `transport: websocket`; use `transport: control`",
            ));
        }
        conclusion
    }
}

/// A cheap check before parsing: most lines are events. It searches the whole line, because the
/// type is not always first.
fn is_control(line: &[u8]) -> bool {
    memchr::memmem::find(line, b"\"control_").is_some()
        || memchr::memmem::find(line, b"\"keep_alive\"").is_some()
}

fn send(host: &mut dyn SessionHost, message: &Value) {
    let mut line = ascii(&message.to_string());
    line.push('\n');
    host.reply(line.into_bytes());
}

/// JSON with escapes for non-ASCII characters: 2.1.30 reads its input in blocks of 64 KiB and
/// corrupts a character at a block boundary.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(text, "\\u{unit:04x}").expect("writing to a string cannot fail");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{
        super::stream::{AfterResult, StreamFormat},
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
    fn reported(lines: &[&str]) -> Asked {
        let inner = ClaudeSession::new(StreamFormat::StreamJson, AfterResult::KeepOpen);
        let mut control = ControlSession::new(inner, "do it".to_owned(), PromptPolicy::Allow);
        let mut asked = Asked::default();
        control.on_open(&mut asked);
        let initialized = format!(
            r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"{INITIALIZE_ID}"}}}}"#
        );
        for line in [initialized.as_str()].iter().chain(lines) {
            control.on_line(LineSource::Stdout, line.as_bytes(), &mut asked);
        }
        assert_eq!(
            asked.replies[1]["message"]["content"][0]["text"], "do it",
            "{:?}",
            asked.replies
        );
        asked
    }

    #[test]
    fn every_request_is_answered() {
        for request in [
            r#"{"type":"control_request","request_id":"r","request":{"subtype":"hook_callback","callback_id":"c"}}"#,
            r#"{"request":{"subtype":"mcp_message","message":{"long":"................................................................"}},"request_id":"r","type":"control_request"}"#,
            r#"{"type":"control_request","request_id":"r","request":{"subtype":17}}"#,
            r#"{"type":"control_request","request_id":"r"}"#,
        ] {
            let asked = reported(&[request]);
            assert_eq!(
                asked.replies[2]["response"]["subtype"], "error",
                "{request}"
            );
            assert_eq!(asked.replies[2]["response"]["request_id"], "r", "{request}");
        }
    }

    #[test]
    fn permission_answer_contains_the_input() {
        let asked = reported(&[
            r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"A \"B\"","input":{"n":1.50}}}"#,
        ]);
        let answer = &asked.replies[2]["response"]["response"];
        assert_eq!(answer["behavior"], "allow");
        assert_eq!(answer["updatedInput"], json!({"n": 1.50}));
    }

    #[test]
    fn result_is_final_without_background_tasks_only() {
        let running =
            r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"t"}]}"#;
        let done = r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#;
        let result = r#"{"type":"result","subtype":"success","is_error":false}"#;
        assert!(reported(&[result]).closed);
        assert!(!reported(&[running, result]).closed);
        assert!(!reported(&[running, result, done]).closed);
        assert!(reported(&[running, result, done, result]).closed);
    }

    #[test]
    fn flat_client_gets_flat_answers_and_one_prompt() {
        let inner = ClaudeSession::new(StreamFormat::StreamJson, AfterResult::KeepOpen);
        let mut control = ControlSession::new(inner, "do it".to_owned(), PromptPolicy::Allow);
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
            control.on_line(LineSource::Socket, line.as_bytes(), &mut asked);
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
        assert!(asked.closed, "the result ends the session");
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
    fn messages_are_escaped_to_ascii() {
        let text = "ä € 🦀 \\ \"quoted\"".repeat(10);
        let json = json!({ "text": text }).to_string();
        let escaped = ascii(&json);
        assert!(escaped.is_ascii(), "{escaped}");
        let read: Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(read["text"], text.as_str());
    }

    #[test]
    fn prompt_is_sent_once_despite_reconnections() {
        let inner = ClaudeSession::new(StreamFormat::StreamJson, AfterResult::KeepOpen);
        let mut control = ControlSession::new(inner, "do it".to_owned(), PromptPolicy::Allow);
        let mut asked = Asked::default();
        let initialized = format!(
            r#"{{"type":"control_response","response":{{"request_id":"{INITIALIZE_ID}"}}}}"#
        );
        for _ in 0..3 {
            control.on_open(&mut asked);
            control.on_line(LineSource::Socket, initialized.as_bytes(), &mut asked);
        }
        let prompts = asked.replies.iter().filter(|reply| reply["type"] == "user");
        assert_eq!(prompts.count(), 1);
    }
}
