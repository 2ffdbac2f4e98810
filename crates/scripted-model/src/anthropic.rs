//! The Anthropic Messages API as a scripted model speaks it: reads what a request is about, writes
//! answers as JSON or as events.

use serde_json::{Value, json};

use crate::content::RequestContent;
use crate::reply::{FilledReply, pieces};
use crate::script::{ApiError, Usage};
use proctor_model_api::anthropic_error_type;

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerSentEvent(Value);

impl ServerSentEvent {
    /// The event as it goes over the wire: its name is the type of its data.
    pub(crate) fn encode(&self) -> String {
        let name = self.0["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {}\n\n", self.0)
    }
}

impl FilledReply {
    /// The whole message, for a request that wants no stream.
    pub(crate) fn to_json(&self) -> Value {
        let mut whole = self.envelope();
        whole["content"] = self.blocks().map(|block| block.whole).collect();
        whole["stop_reason"] = self.stop_reason().into();
        whole["usage"] = usage_json(self.usage);
        whole
    }

    /// The message as the events of a stream.
    pub(crate) fn to_events(&self) -> Vec<ServerSentEvent> {
        let mut start = self.envelope();
        // The true count of output tokens is only known at the end, so the real API starts low.
        let first = Usage {
            output: self.usage.output.min(1),
            ..self.usage
        };
        start["usage"] = usage_json(first);
        let mut events = vec![json!({"type": "message_start", "message": start})];
        for (index, block) in self.blocks().enumerate() {
            events.push(json!({
                "type": "content_block_start", "index": index, "content_block": block.empty,
            }));
            events.extend(block.deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ));
            events.push(json!({"type": "content_block_stop", "index": index}));
        }
        events.push(json!({
            "type": "message_delta",
            "delta": {"stop_reason": self.stop_reason(), "stop_sequence": null},
            "usage": usage_json(self.usage),
        }));
        events.push(json!({"type": "message_stop"}));
        events.into_iter().map(ServerSentEvent).collect()
    }

    fn envelope(&self) -> Value {
        json!({
            "id": format!("msg_scripted_{}", self.serial),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
        })
    }

    fn stop_reason(&self) -> &'static str {
        if self.calls_tools() {
            "tool_use"
        } else {
            "end_turn"
        }
    }

    fn blocks(&self) -> impl Iterator<Item = WireBlock> {
        let blocks = self.said.iter().enumerate();
        blocks.map(|(index, block)| {
            WireBlock::new(block, &format!("toolu_scripted_{}_{index}", self.serial))
        })
    }
}

/// A content block in the three shapes that the API knows.
struct WireBlock {
    whole: Value,
    empty: Value,
    deltas: Vec<Value>,
}

impl WireBlock {
    fn new(block: &RequestContent, tool_use_id: &str) -> Self {
        match block {
            RequestContent::Text(text) => Self {
                whole: json!({"type": "text", "text": text}),
                empty: json!({"type": "text", "text": ""}),
                deltas: pieces(text)
                    .map(|piece| json!({"type": "text_delta", "text": piece}))
                    .collect(),
            },
            RequestContent::Thinking(text) => Self {
                whole: json!({"type": "thinking", "thinking": text, "signature": "scripted"}),
                empty: json!({"type": "thinking", "thinking": "", "signature": ""}),
                deltas: pieces(text)
                    .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                    .chain([json!({"type": "signature_delta", "signature": "scripted"})])
                    .collect(),
            },
            RequestContent::Call(call) => Self {
                whole: json!({"type": "tool_use", "id": tool_use_id, "name": call.name, "input": call.input}),
                empty: json!({"type": "tool_use", "id": tool_use_id, "name": call.name, "input": {}}),
                deltas: pieces(&call.input.to_string())
                    .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                    .collect(),
            },
        }
    }
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_creation,
    })
}

/// The body of a refusal.
pub(crate) fn error_json(error: &ApiError, serial: usize) -> Value {
    let kind = anthropic_error_type(error.status);
    let named = || format!("scripted error {}", error.status);
    let message = error.message.clone().unwrap_or_else(named);
    json!({
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": format!("req_scripted_{serial}"),
    })
}

/// Whether a request of this user agent is a question on the side rather than a turn.
///
/// Claude Code offers tools in every turn, of sub-agents too, and none when it wants a title, a
/// summary or the prefix of a shell command from a small model. Clients that never offer tools
/// exist, so the absence alone is not sufficient. Some versions, such as 2.1.0, fill the
/// prompt cache of their sub-agents with a message of one word.
pub(crate) fn is_side_request(user_agent: Option<&str>, body: &Value) -> bool {
    let claude_code = user_agent.is_some_and(|agent| agent.starts_with("claude-cli/"));
    let is_warm_up = || opening_messages(body).eq(["Warmup"]);
    claude_code && (body["tools"].as_array().is_none_or(Vec::is_empty) || is_warm_up())
}

/// The text of each message before the first answer.
fn opening_messages(body: &Value) -> impl Iterator<Item = String> {
    let before_answer = messages(body).take_while(|message| message["role"] != "assistant");
    before_answer.map(|message| text_of(&message["content"]))
}

/// The opening of a conversation: the system prompt and the messages before the first answer.
pub(crate) fn opening(body: &Value) -> String {
    std::iter::once(text_of(&body["system"]))
        .chain(opening_messages(body))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The text of a content value: a string, or a list of blocks of which only text counts.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|b| b["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// See [`crate::RecordedRequest::last_user_text`].
pub(crate) fn last_user_text(body: &Value) -> Option<String> {
    let of_user = messages(body).filter(|message| message["role"] == "user");
    let texts = of_user.flat_map(|message| match &message["content"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| block["text"].as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    });
    texts
        .filter(|text| !text.trim_start().starts_with("<system-reminder>"))
        .last()
}

/// See [`crate::RecordedRequest::last_tool_result`].
pub(crate) fn last_tool_result(body: &Value) -> Option<String> {
    let blocks = messages(body).filter_map(|message| message["content"].as_array());
    let results = blocks.flatten().filter(|b| b["type"] == "tool_result");
    results.last().map(|result| text_of(&result["content"]))
}

fn messages(body: &Value) -> impl Iterator<Item = &Value> {
    body["messages"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Action, Answer, Block, Message};

    fn message(answer: Answer) -> Message {
        match answer.act {
            Action::Message(message) => message,
            other => panic!("no message: {other:?}"),
        }
    }

    fn reply(message: &Message) -> FilledReply {
        FilledReply::new(message, "m-1", &[], 7)
    }

    /// Puts the events of a stream together again, as a client does.
    fn reassemble(events: &[ServerSentEvent]) -> Value {
        let mut whole = Value::Null;
        let mut json_parts: Vec<String> = Vec::new();
        for ServerSentEvent(event) in events {
            let index = usize::try_from(event["index"].as_u64().unwrap_or(0)).unwrap();
            match event["type"].as_str().unwrap() {
                "message_start" => whole = event["message"].clone(),
                "content_block_start" => {
                    let blocks = whole["content"].as_array_mut().unwrap();
                    assert_eq!(blocks.len(), index);
                    blocks.push(event["content_block"].clone());
                    json_parts.push(String::new());
                }
                "content_block_delta" => {
                    let delta = &event["delta"];
                    let block = &mut whole["content"][index];
                    for field in ["text", "thinking", "signature"] {
                        if let Some(piece) = delta[field].as_str() {
                            let so_far = block[field].as_str().unwrap().to_owned();
                            block[field] = (so_far + piece).into();
                        }
                    }
                    json_parts[index] += delta["partial_json"].as_str().unwrap_or_default();
                }
                "content_block_stop" if !json_parts[index].is_empty() => {
                    let input = serde_json::from_str(&json_parts[index]).unwrap();
                    whole["content"][index]["input"] = input;
                }
                "message_delta" => {
                    whole["stop_reason"] = event["delta"]["stop_reason"].clone();
                    whole["usage"] = event["usage"].clone();
                }
                _ => {}
            }
        }
        whole
    }

    #[test]
    fn joined_stream_equals_the_plain_message() {
        let call = Answer::tool_use("Write", json!({"content": "ü".repeat(100), "n": [1, null]}));
        let mut message = message(call);
        message.content.insert(0, Block::Thinking("hm ".repeat(50)));
        message.content.insert(1, Block::Text("äöü ".repeat(50)));
        message.usage = Usage {
            input: 1,
            output: 20,
            cache_read: 300,
            cache_creation: 4000,
            reasoning: 0,
        };
        let reply = reply(&message);
        assert_eq!(reassemble(&reply.to_events()), reply.to_json());
    }

    #[test]
    fn the_stop_reason_follows_from_the_content() {
        let says = message(Answer::text("hi"));
        let calls = message(Answer::tool_use("Read", json!({})));
        assert_eq!(reply(&says).to_json()["stop_reason"], "end_turn");
        assert_eq!(reply(&calls).to_json()["stop_reason"], "tool_use");
    }

    #[test]
    fn the_model_is_that_of_the_request_unless_the_script_says_otherwise() {
        let echo = message(Answer::text("hi"));
        let other = message(Answer::text("hi").model("m-2"));
        assert_eq!(reply(&echo).to_json()["model"], "m-1");
        assert_eq!(reply(&other).to_json()["model"], "m-2");
    }

    #[test]
    fn a_stream_starts_with_few_output_tokens_and_ends_with_all() {
        let usage = Usage {
            input: 9,
            output: 50,
            ..Usage::default()
        };
        let message = message(Answer::text("hi").usage(usage));
        let events = reply(&message).to_events();
        let start = &events.first().unwrap().0["message"]["usage"];
        let end = &events[events.len() - 2].0["usage"];
        assert_eq!(
            (&start["input_tokens"], &start["output_tokens"]),
            (&json!(9), &json!(1))
        );
        assert_eq!(end["output_tokens"], 50);
    }

    #[test]
    fn errors_have_the_type_that_belongs_to_their_status() {
        let kinds = [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (429, "rate_limit_error"),
            (500, "api_error"),
            (529, "overloaded_error"),
        ];
        for (status, kind) in kinds {
            let error = ApiError {
                status,
                message: Some("why".to_owned()),
                retry_after: None,
            };
            let body = error_json(&error, 1);
            assert_eq!(body["error"], json!({"type": kind, "message": "why"}));
        }
    }

    #[test]
    fn only_claude_code_without_tools_makes_side_requests() {
        let cli = Some("claude-cli/2.1.30 (external, sdk-cli)");
        assert!(is_side_request(cli, &json!({})));
        assert!(is_side_request(cli, &json!({"tools": []})));
        assert!(!is_side_request(cli, &json!({"tools": [{"name": "Bash"}]})));
        let asks = |text: &str| {
            json!({"tools": [{"name": "Bash"}], "messages": [
            {"role": "user", "content": [{"type": "text", "text": text}]}]})
        };
        assert!(is_side_request(cli, &asks("Warmup")));
        assert!(!is_side_request(cli, &asks("Warmup now")));
        assert!(!is_side_request(Some("litellm/1"), &asks("Warmup")));
        assert!(!is_side_request(Some("litellm/1"), &json!({})));
        assert!(!is_side_request(None, &json!({})));
    }

    #[test]
    fn real_request_is_interpreted() {
        let body = json!({
            "system": [{"type": "text", "text": "You are an agent."}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "<system-reminder>\nrules</system-reminder>"},
                    {"type": "text", "text": "please write"},
                ]},
                {"role": "system", "content": [{"type": "text", "text": "# Environment"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "input": {"prompt": "SUB"}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "content": [{"type": "text", "text": "File created"}]},
                ]},
            ],
        });
        assert_eq!(last_user_text(&body).as_deref(), Some("please write"));
        assert_eq!(last_tool_result(&body).as_deref(), Some("File created"));
        let opening = opening(&body);
        assert!(opening.contains("You are an agent.") && opening.contains("please write"));
        assert!(!opening.contains("SUB") && !opening.contains("File created"));
    }
}
