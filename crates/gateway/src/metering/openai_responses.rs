//! Usage in responses of the OpenAI Responses API.

use serde::Deserialize;

use super::openai_chat::{CompletionDetails, PromptDetails, of_counts};
use super::summary::{ResponseSummary, last_value};
use super::tokens::Tokens;

#[derive(Deserialize)]
struct ResponsesEvent {
    r#type: Option<String>,
    response: Option<ResponsesBody>,
}

#[derive(Deserialize)]
struct ResponsesBody {
    model: Option<String>,
    usage: Option<ResponsesUsage>,
}

/// Usage as this API counts: input includes what was cached, output its reasoning.
#[derive(Deserialize)]
struct ResponsesUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    input_tokens_details: Option<PromptDetails>,
    output_tokens_details: Option<CompletionDetails>,
}

impl From<ResponsesUsage> for Tokens {
    fn from(usage: ResponsesUsage) -> Self {
        let input = usage.input_tokens_details.unwrap_or_default();
        let output = usage.output_tokens_details.unwrap_or_default();
        of_counts(usage.input_tokens, usage.output_tokens, input, output)
    }
}

pub(super) fn read_event(data: &[u8], summary: &mut ResponseSummary) {
    if memchr::memmem::find(data, b"\"response\"").is_none() {
        return;
    }
    let Ok(event) = serde_json::from_slice::<ResponsesEvent>(data) else {
        return keep_usage(last_value::<ResponsesUsage>(data, "\"usage\""), summary);
    };
    let kind = event.r#type.as_deref().unwrap_or_default();
    let ends = [
        "response.completed",
        "response.incomplete",
        "response.failed",
    ];
    summary.finished |= ends.contains(&kind);
    if let Some(response) = event.response {
        keep(response, summary);
    }
}

pub(super) fn read_body(body: &[u8], summary: &mut ResponseSummary) {
    match serde_json::from_slice::<ResponsesBody>(body) {
        Ok(response) => keep(response, summary),
        Err(_) => keep_usage(last_value::<ResponsesUsage>(body, "\"usage\""), summary),
    }
}

fn keep(response: ResponsesBody, summary: &mut ResponseSummary) {
    summary.model = response.model.or(summary.model.take());
    keep_usage(response.usage, summary);
}

fn keep_usage(usage: Option<ResponsesUsage>, summary: &mut ResponseSummary) {
    summary.tokens = usage.map(Tokens::from).or(summary.tokens);
}
