//! Gemini as a scripted model speaks it.

use serde_json::{Value, json};

use crate::anthropic::text_of;
use crate::content::RequestContent;
use crate::reply::{FilledReply, pieces};
use crate::script::Usage;

/// The whole answer.
pub(crate) fn to_json(reply: &FilledReply) -> Value {
    let parts: Vec<Value> = reply
        .said
        .iter()
        .flat_map(|said| parts(said, usize::MAX))
        .collect();
    chunk(reply, &parts, Some("STOP"))
}

/// The answer as the objects of a stream. Usage and the end come with the last one.
pub(crate) fn to_chunks(reply: &FilledReply) -> Vec<Value> {
    let all: Vec<Value> = reply.said.iter().flat_map(|said| parts(said, 40)).collect();
    let last = all.len().saturating_sub(1);
    let chunks = all.iter().enumerate().map(|(index, part)| {
        let ends = (index == last).then_some("STOP");
        chunk(reply, std::slice::from_ref(part), ends)
    });
    let chunks: Vec<Value> = chunks.collect();
    if chunks.is_empty() {
        vec![chunk(reply, &[], Some("STOP"))]
    } else {
        chunks
    }
}

/// The answer as the events of a stream.
pub(crate) fn to_events(reply: &FilledReply) -> Vec<String> {
    let events = to_chunks(reply)
        .into_iter()
        .map(|chunk| format!("data: {chunk}\r\n\r\n"));
    events.collect()
}

/// A stream without `alt=sse` is an array that comes bit by bit.
pub(crate) fn to_array(reply: &FilledReply) -> Vec<String> {
    let chunks = to_chunks(reply);
    let last = chunks.len() - 1;
    let bits = chunks.iter().enumerate().map(|(index, chunk)| {
        let before = if index == 0 { "[" } else { ",\r\n" };
        let after = if index == last { "]" } else { "" };
        format!("{before}{chunk}{after}")
    });
    bits.collect()
}

fn parts(said: &RequestContent, longest: usize) -> Vec<Value> {
    let split = |text: &str| -> Vec<String> {
        if longest == usize::MAX {
            vec![text.to_owned()]
        } else {
            pieces(text).collect()
        }
    };
    match said {
        RequestContent::Text(text) => split(text)
            .iter()
            .map(|piece| json!({"text": piece}))
            .collect(),
        RequestContent::Thinking(text) => split(text)
            .iter()
            .map(|piece| json!({"text": piece, "thought": true}))
            .collect(),
        RequestContent::Call(call) => {
            vec![json!({"functionCall": {"name": call.name, "args": call.input}})]
        }
    }
}

fn chunk(reply: &FilledReply, parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(reason) = finish {
        candidate["finishReason"] = reason.into();
    }
    let mut chunk = json!({
        "candidates": [candidate],
        "modelVersion": reply.model,
        "responseId": format!("scripted-{}", reply.serial),
    });
    if finish.is_some() {
        chunk["usageMetadata"] = usage(reply.usage);
    }
    chunk
}

fn usage(usage: Usage) -> Value {
    let prompt = usage.input + usage.cache_read + usage.cache_creation;
    json!({
        "promptTokenCount": prompt,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": prompt + usage.output,
    })
}

/// The opening of the conversation.
pub(crate) fn opening(body: &Value) -> String {
    let system = body
        .get("systemInstruction")
        .unwrap_or(&body["system_instruction"]);
    let contents = body["contents"].as_array().into_iter().flatten();
    let before_answer = contents.take_while(|content| content["role"] != "model");
    let texts = before_answer.map(|content| text_of(&content["parts"]));
    std::iter::once(text_of(&system["parts"]))
        .chain(texts)
        .collect::<Vec<_>>()
        .join("\n")
}
