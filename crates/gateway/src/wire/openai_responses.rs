//! OpenAI responses: usage of a response and of the events that end one.

use serde::Deserialize;

use super::openai_chat::{CompletionDetails, PromptDetails, of_counts};
use super::{Seen, last_value};
use crate::tokens::Tokens;

#[derive(Deserialize)]
struct Event {
    r#type: Option<String>,
    response: Option<Response>,
}

#[derive(Deserialize)]
struct Response {
    model: Option<String>,
    usage: Option<Usage>,
}

/// Usage as this API counts: input includes what was cached, output its reasoning.
#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    input_tokens_details: Option<PromptDetails>,
    output_tokens_details: Option<CompletionDetails>,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        let input = usage.input_tokens_details.unwrap_or_default();
        let output = usage.output_tokens_details.unwrap_or_default();
        of_counts(usage.input_tokens, usage.output_tokens, input, output)
    }
}

pub(crate) fn read_event(data: &[u8], seen: &mut Seen) {
    if memchr::memmem::find(data, b"\"response\"").is_none() {
        return;
    }
    let Ok(event) = serde_json::from_slice::<Event>(data) else {
        return keep_usage(last_value::<Usage>(data, "\"usage\""), seen);
    };
    let kind = event.r#type.as_deref().unwrap_or_default();
    let ends = [
        "response.completed",
        "response.incomplete",
        "response.failed",
    ];
    seen.finished |= ends.contains(&kind);
    if let Some(response) = event.response {
        keep(response, seen);
    }
}

pub(crate) fn read_body(body: &[u8], seen: &mut Seen) {
    match serde_json::from_slice::<Response>(body) {
        Ok(response) => keep(response, seen),
        Err(_) => keep_usage(last_value::<Usage>(body, "\"usage\""), seen),
    }
}

fn keep(response: Response, seen: &mut Seen) {
    seen.model = response.model.or(seen.model.take());
    keep_usage(response.usage, seen);
}

fn keep_usage(usage: Option<Usage>, seen: &mut Seen) {
    seen.tokens = usage.map(Tokens::from).or(seen.tokens);
}
