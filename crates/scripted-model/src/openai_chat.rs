//! Chat completions as a scripted model speaks them.

use serde_json::{Value, json};

use crate::anthropic::text_of;
use crate::content::RequestContent;
use crate::reply::{FilledReply, pieces};
use crate::script::Usage;

/// The whole answer.
pub(crate) fn to_json(reply: &FilledReply) -> Value {
    let calls: Vec<Value> = reply.calls().map(|(index, _)| call(reply, index)).collect();
    let mut message = json!({"role": "assistant", "content": reply.text()});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let mut whole = envelope(reply, "chat.completion");
    whole["choices"] =
        json!([{"index": 0, "message": message, "finish_reason": finish_reason(reply)}]);
    whole["usage"] = usage(reply.usage);
    whole
}

/// The answer as the events of a stream. Usage comes last, as for every client that asks for it.
pub(crate) fn to_events(reply: &FilledReply) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let mut chunk = envelope(reply, "chat.completion.chunk");
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        chunk
    };
    let mut chunks = vec![chunk(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    )];
    let mut index = 0;
    for said in &reply.said {
        match said {
            RequestContent::Text(text) => chunks
                .extend(pieces(text).map(|piece| chunk(json!({"content": piece}), Value::Null))),
            RequestContent::Thinking(text) => chunks.extend(
                pieces(text).map(|piece| chunk(json!({"reasoning_content": piece}), Value::Null)),
            ),
            RequestContent::Call(_) => {
                let mut whole = call(reply, index);
                whole["index"] = index.into();
                let arguments = whole["function"]["arguments"].take();
                whole["function"]["arguments"] = "".into();
                chunks.push(chunk(json!({"tool_calls": [whole]}), Value::Null));
                let arguments = arguments.as_str().unwrap_or_default().to_owned();
                chunks.extend(pieces(&arguments).map(|piece| {
                    let part = json!({"index": index, "function": {"arguments": piece}});
                    chunk(json!({"tool_calls": [part]}), Value::Null)
                }));
                index += 1;
            }
        }
    }
    chunks.push(chunk(json!({}), finish_reason(reply).into()));
    let mut last = envelope(reply, "chat.completion.chunk");
    last["choices"] = json!([]);
    last["usage"] = usage(reply.usage);
    chunks.push(last);
    let events = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    events.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn envelope(reply: &FilledReply, object: &str) -> Value {
    json!({
        "id": format!("chatcmpl-scripted-{}", reply.serial),
        "object": object,
        "created": 0,
        "model": reply.model,
    })
}

fn call(reply: &FilledReply, index: usize) -> Value {
    let (_, call) = reply
        .calls()
        .nth(index)
        .expect("the index comes from the same list");
    json!({
        "id": format!("call_scripted_{}_{index}", reply.serial),
        "type": "function",
        "function": {"name": call.name, "arguments": call.input.to_string()},
    })
}

fn finish_reason(reply: &FilledReply) -> &'static str {
    if reply.calls_tools() {
        "tool_calls"
    } else {
        "stop"
    }
}

fn usage(usage: Usage) -> Value {
    let prompt = usage.input + usage.cache_read + usage.cache_creation;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_creation,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

/// The opening of the conversation.
pub(crate) fn opening(body: &Value) -> String {
    let messages = body["messages"].as_array().into_iter().flatten();
    let before_answer = messages.take_while(|message| message["role"] != "assistant");
    let texts: Vec<String> = before_answer
        .map(|message| text_of(&message["content"]))
        .collect();
    texts.join("\n")
}
