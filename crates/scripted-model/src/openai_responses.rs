//! The responses API as a scripted model speaks it.

use serde_json::{Value, json};

use crate::anthropic::text_of;
use crate::content::RequestContent;
use crate::reply::{FilledReply, pieces};
use crate::script::{ToolUse, Usage};

/// The whole answer.
pub(crate) fn to_json(reply: &FilledReply) -> Value {
    let mut whole = envelope(reply, "completed");
    whole["output"] = items(reply).into();
    whole["usage"] = usage(reply.usage);
    whole
}

/// The answer as the events of a stream.
pub(crate) fn to_events(reply: &FilledReply) -> Vec<String> {
    let begun = envelope(reply, "in_progress");
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    for (index, item) in items(reply).into_iter().enumerate() {
        events.push(json!({
            "type": "response.output_item.added", "output_index": index, "item": opened(&item),
        }));
        events.extend(deltas(index, &item));
        events.push(json!({
            "type": "response.output_item.done", "output_index": index, "item": item,
        }));
    }
    events.push(json!({"type": "response.completed", "response": to_json(reply)}));
    let numbered = events.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        let name = event["type"].as_str().unwrap_or_default().to_owned();
        format!("event: {name}\ndata: {event}\n\n")
    });
    numbered.collect()
}

fn envelope(reply: &FilledReply, status: &str) -> Value {
    json!({
        "id": format!("resp_scripted_{}", reply.serial),
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": reply.model,
        "output": [],
        "usage": null,
    })
}

fn items(reply: &FilledReply) -> Vec<Value> {
    let said = reply.said.iter().enumerate();
    let items = said.map(|(index, said)| {
        let id = format!("{}_{index}", reply.serial);
        match said {
            RequestContent::Text(text) => json!({
                "type": "message", "id": format!("msg_scripted_{id}"), "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }),
            RequestContent::Thinking(text) => json!({
                "type": "reasoning", "id": format!("rs_scripted_{id}"),
                "summary": [{"type": "summary_text", "text": text}],
            }),
            RequestContent::Call(call) => call_item(call, &id),
        }
    });
    items.collect()
}

/// A tool that takes free text is called differently.
fn call_item(call: &ToolUse, id: &str) -> Value {
    match &call.input {
        Value::String(text) => json!({
            "type": "custom_tool_call", "id": format!("ctc_scripted_{id}"),
            "call_id": format!("call_scripted_{id}"), "name": call.name, "input": text,
            "status": "completed",
        }),
        input => json!({
            "type": "function_call", "id": format!("fc_scripted_{id}"),
            "call_id": format!("call_scripted_{id}"), "name": call.name,
            "arguments": input.to_string(), "status": "completed",
        }),
    }
}

/// An item as it looks before anything is in it.
fn opened(item: &Value) -> Value {
    let mut opened = item.clone();
    opened["status"] = "in_progress".into();
    for (field, empty) in [
        ("arguments", json!("")),
        ("input", json!("")),
        ("content", json!([])),
    ] {
        if opened.get(field).is_some() {
            opened[field] = empty;
        }
    }
    opened
}

fn deltas(index: usize, item: &Value) -> Vec<Value> {
    let (kind, text) = match item["type"].as_str() {
        Some("message") => ("response.output_text", item["content"][0]["text"].as_str()),
        Some("function_call") => (
            "response.function_call_arguments",
            item["arguments"].as_str(),
        ),
        Some("custom_tool_call") => ("response.custom_tool_call_input", item["input"].as_str()),
        _ => return Vec::new(),
    };
    let common = json!({"item_id": item["id"], "output_index": index, "content_index": 0});
    let with = |suffix: &str, field: &str, value: Value| {
        let mut event = common.clone();
        event["type"] = format!("{kind}.{suffix}").into();
        event[field] = value;
        event
    };
    let text = text.unwrap_or_default();
    let mut events: Vec<Value> = pieces(text)
        .map(|piece| with("delta", "delta", piece.into()))
        .collect();
    let field = match kind {
        "response.output_text" => "text",
        "response.custom_tool_call_input" => "input",
        _ => "arguments",
    };
    events.push(with("done", field, text.into()));
    if kind == "response.output_text" {
        let mut part = common.clone();
        part["type"] = "response.content_part.added".into();
        part["part"] = json!({"type": "output_text", "text": "", "annotations": []});
        events.insert(0, part.clone());
        part["type"] = "response.content_part.done".into();
        part["part"]["text"] = text.into();
        events.push(part);
    }
    events
}

fn usage(usage: Usage) -> Value {
    let input = usage.input + usage.cache_read + usage.cache_creation;
    json!({
        "input_tokens": input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_creation,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": input + usage.output,
    })
}

/// The opening of the conversation.
pub(crate) fn opening(body: &Value) -> String {
    let instructions = text_of(&body["instructions"]);
    if let Some(prompt) = body["input"].as_str() {
        return format!("{instructions}\n{prompt}");
    }
    let items = body["input"].as_array().into_iter().flatten();
    let before_answer = items.take_while(|item| {
        item["role"] != "assistant" && item["type"].as_str().is_none_or(|kind| kind == "message")
    });
    let texts = before_answer.map(|item| text_of(&item["content"]));
    std::iter::once(instructions)
        .chain(texts)
        .collect::<Vec<_>>()
        .join("\n")
}
