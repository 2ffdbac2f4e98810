//! Scripts: a list of answers, independent of the API.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::Value;

/// The answers of a scripted model, in the order in which a conversation gets them.
///
/// Answers with the same [`Answer::when`] form a lane of their own, and so do those without one.
/// A request belongs to the lane whose `when` occurs in the opening of its conversation, otherwise
/// to the main lane. A lane that has run out answers with `then`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The answers.
    pub answers: Vec<Answer>,
    /// The answer to every request past the end of its lane. Default: the text "done".
    #[serde(default)]
    pub then: Message,
}

impl Script {
    /// A script of these answers, with "done" after them.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            answers: answers.into_iter().collect(),
            then: Message::default(),
        }
    }
}

/// One answer: what to do, for whom, when, and how often.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "AnswerEntry")]
pub struct Answer {
    /// Serve only conversations that open (system prompt and what comes before the first assistant
    /// message) with a text that contains this. Later messages do not count, because a sub-agent's
    /// prompt also occurs in the tool call of the conversation that started it.
    pub when: Option<String>,
    /// How many requests get this answer before the next one has its turn.
    pub repeat: Repeat,
    /// How long to wait before the answer begins.
    pub delay: Duration,
    /// The action.
    pub act: Action,
}

/// The action of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Text or tool calls.
    Message(Message),
    /// An error in the API's own form.
    Error(ApiError),
    /// No answer until the server stops.
    Hang,
}

/// A message of the model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Message {
    /// The content blocks, in order.
    pub content: Vec<Block>,
    /// The reported usage. Default: zero.
    pub usage: Usage,
    /// The model that claims to have answered: that of the request unless given.
    pub model: Option<String>,
    /// Pause before every streamed event but the first.
    pub pace_ms: u64,
    /// Drop the connection after this many streamed events, or in the middle of a plain body.
    pub cut_after: Option<usize>,
}

impl Default for Message {
    fn default() -> Self {
        Self {
            content: vec![Block::Text("done".to_owned())],
            usage: Usage::default(),
            model: None,
            pace_ms: 0,
            cut_after: None,
        }
    }
}

/// One content block.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Prose.
    Text(String),
    /// Reasoning that is shown.
    Thinking(String),
    /// A call of a tool.
    ToolUse(ToolUse),
    /// Write this file, with the client's tool for it.
    WriteFile(WriteFile),
    /// Run this shell command, with the client's tool for it.
    RunCommand(String),
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// Where, absolute or relative to where the client works.
    pub path: String,
    /// The whole content.
    pub content: String,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolUse {
    /// The tool's name as the agent offers it.
    pub name: String,
    /// The arguments.
    pub input: Value,
}

/// Token counts of one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Tokens read at full price.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written to the cache.
    pub cache_creation: u64,
    /// The part of `output` that was reasoning.
    pub reasoning: u64,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiError {
    /// The HTTP status, 400 to 599.
    pub status: u16,
    /// The text of the error: one that names the status unless given.
    #[serde(default)]
    pub message: Option<String>,
    /// The `retry-after` header in seconds.
    #[serde(default)]
    pub retry_after: Option<u64>,
}

/// How often an answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// This number of times.
    Times(u32),
    /// For every request from then on.
    Forever,
}

/// The reason why an answer in a script is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// None or several of the actions were given.
    #[error("an answer needs exactly one of message, error and hang, found {found}")]
    NotOneAction {
        /// How many were found.
        found: usize,
    },
    /// `hang: false` has no effect.
    #[error("hang can only be true")]
    HangFalse,
    /// A status that is not an error.
    #[error("status {status} is not an error status (400 to 599)")]
    NoErrorStatus {
        /// The status as written.
        status: u16,
    },
    /// An answer that would never be used.
    #[error("repeat must be at least 1")]
    NeverGiven,
}

impl Answer {
    /// An answer in the main lane, without delay or repetition.
    pub fn new(act: Action) -> Self {
        Self {
            when: None,
            repeat: Repeat::Times(1),
            delay: Duration::ZERO,
            act,
        }
    }

    /// A message of these blocks.
    pub fn message(content: impl IntoIterator<Item = Block>) -> Self {
        Self::new(Action::Message(Message {
            content: content.into_iter().collect(),
            ..Message::default()
        }))
    }

    /// A message of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::message([Block::Text(text.into())])
    }

    /// A message of one tool call.
    pub fn tool_use(name: impl Into<String>, input: Value) -> Self {
        let name = name.into();
        Self::message([Block::ToolUse(ToolUse { name, input })])
    }

    /// A message that writes a file, with the client's tool.
    pub fn write_file(path: impl Into<String>, content: impl Into<String>) -> Self {
        let (path, content) = (path.into(), content.into());
        Self::message([Block::WriteFile(WriteFile { path, content })])
    }

    /// A message that runs a shell command, with the client's tool.
    pub fn run_command(command: impl Into<String>) -> Self {
        Self::message([Block::RunCommand(command.into())])
    }

    /// An error with this status.
    pub fn error(status: u16) -> Self {
        Self::new(Action::Error(ApiError {
            status,
            message: None,
            retry_after: None,
        }))
    }

    /// No answer until the server stops.
    pub fn hang() -> Self {
        Self::new(Action::Hang)
    }

    /// Only for conversations that open with a text containing `part`.
    #[must_use]
    pub fn when(mut self, part: impl Into<String>) -> Self {
        self.when = Some(part.into());
        self
    }

    /// Repeats the answer for every request from then on.
    #[must_use]
    pub fn forever(mut self) -> Self {
        self.repeat = Repeat::Forever;
        self
    }

    /// Repeats the answer `times` times.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.repeat = Repeat::Times(times);
        self
    }

    /// Delays the answer.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Reports this usage. No effect unless the answer is a message.
    #[must_use]
    pub fn usage(self, usage: Usage) -> Self {
        self.change_message(|message| message.usage = usage)
    }

    /// Reports this model. No effect unless the answer is a message.
    #[must_use]
    pub fn model(self, model: impl Into<String>) -> Self {
        let model = model.into();
        self.change_message(|message| message.model = Some(model))
    }

    /// Pauses between streamed events. No effect unless the answer is a message.
    #[must_use]
    pub fn pace_ms(self, pace_ms: u64) -> Self {
        self.change_message(|message| message.pace_ms = pace_ms)
    }

    /// Drops the connection after `events` events. No effect unless the answer is a message.
    #[must_use]
    pub fn cut_after(self, events: usize) -> Self {
        self.change_message(|message| message.cut_after = Some(events))
    }

    /// Sets `retry-after`. No effect unless the answer is an error.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        if let Action::Error(error) = &mut self.act {
            error.retry_after = Some(seconds);
        }
        self
    }

    fn change_message(mut self, change: impl FnOnce(&mut Message)) -> Self {
        if let Action::Message(message) = &mut self.act {
            change(message);
        }
        self
    }
}

/// An answer in a script file, where the three actions are separate keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerEntry {
    when: Option<String>,
    repeat: Option<Repeat>,
    #[serde(default)]
    delay_ms: u64,
    message: Option<Message>,
    error: Option<ApiError>,
    hang: Option<bool>,
}

impl TryFrom<AnswerEntry> for Answer {
    type Error = ScriptError;

    fn try_from(written: AnswerEntry) -> Result<Self, ScriptError> {
        let act = match (written.message, written.error, written.hang) {
            (Some(message), None, None) => Action::Message(message),
            (None, Some(error), None) => Action::Error(checked(error)?),
            (None, None, Some(true)) => Action::Hang,
            (None, None, Some(false)) => return Err(ScriptError::HangFalse),
            (message, error, hang) => {
                let given = [message.is_some(), error.is_some(), hang.is_some()];
                let found = given.into_iter().filter(|given| *given).count();
                return Err(ScriptError::NotOneAction { found });
            }
        };
        let repeat = written.repeat.unwrap_or(Repeat::Times(1));
        if repeat == Repeat::Times(0) {
            return Err(ScriptError::NeverGiven);
        }
        Ok(Self {
            when: written.when,
            repeat,
            delay: Duration::from_millis(written.delay_ms),
            act,
        })
    }
}

fn checked(error: ApiError) -> Result<ApiError, ScriptError> {
    match error.status {
        400..=599 => Ok(error),
        status => Err(ScriptError::NoErrorStatus { status }),
    }
}

impl<'de> Deserialize<'de> for Repeat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RepeatVisitor)
    }
}

struct RepeatVisitor;

impl Visitor<'_> for RepeatVisitor {
    type Value = Repeat;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of times or \"forever\"")
    }

    fn visit_u64<E: de::Error>(self, times: u64) -> Result<Repeat, E> {
        u32::try_from(times)
            .map(Repeat::Times)
            .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(times), &self))
    }

    fn visit_i64<E: de::Error>(self, times: i64) -> Result<Repeat, E> {
        u32::try_from(times)
            .map(Repeat::Times)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(times), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Repeat, E> {
        match text {
            "forever" => Ok(Repeat::Forever),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(script: Value) -> Result<Script, String> {
        serde_json::from_value(script).map_err(|error| error.to_string())
    }

    #[test]
    fn script_file_equals_builders() {
        let written = parse(json!({"answers": [
            {"message": {"content": [{"text": "hi"}], "usage": {"input": 3}}},
            {"when": "sub", "message": {"content": [{"tool_use": {"name": "Write", "input": {"a": 1}}}]}},
            {"error": {"status": 429}, "repeat": "forever", "delay_ms": 5},
            {"hang": true, "repeat": 2},
        ]}))
        .unwrap();
        let usage = Usage {
            input: 3,
            ..Usage::default()
        };
        let built = Script::new([
            Answer::text("hi").usage(usage),
            Answer::tool_use("Write", json!({"a": 1})).when("sub"),
            Answer::error(429).forever().after(Duration::from_millis(5)),
            Answer::hang().times(2),
        ]);
        assert_eq!(written, built);
    }

    #[test]
    fn unknown_keys_in_a_script_are_errors() {
        let cases = [
            json!({"answers": [], "than": {}}),
            json!({"answers": [{"hang": true, "repaet": 2}]}),
            json!({"answers": [{"message": {"contents": []}}]}),
            json!({"answers": [{"message": {"usage": {"inputs": 1}}}]}),
            json!({"answers": [{"message": {"content": [{"txt": "hi"}]}}]}),
        ];
        for case in cases {
            let error = parse(case.clone()).expect_err(&case.to_string());
            assert!(error.contains("unknown"), "{case}: {error}");
        }
    }

    #[test]
    fn invalid_answers_are_refused() {
        let cases = [
            (json!({}), "exactly one of"),
            (json!({"hang": true, "error": {"status": 500}}), "found 2"),
            (json!({"hang": false}), "only be true"),
            (json!({"error": {"status": 200}}), "not an error status"),
            (json!({"hang": true, "repeat": 0}), "at least 1"),
            (json!({"hang": true, "repeat": "always"}), "forever"),
        ];
        for (answer, expected) in cases {
            let error = parse(json!({"answers": [answer]})).unwrap_err();
            assert!(error.contains(expected), "{answer}: {error}");
        }
    }
}
