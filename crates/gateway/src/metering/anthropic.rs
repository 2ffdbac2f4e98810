//! Usage in responses of the Anthropic Messages API.

use serde::Deserialize;

use super::summary::{ResponseSummary, last_value};

#[derive(Deserialize)]
struct AnthropicEvent {
    r#type: Option<String>,
    model: Option<String>,
    usage: Option<AnthropicUsage>,
    message: Option<AnthropicMessage>,
}

#[derive(Deserialize)]
struct AnthropicMessage {
    model: Option<String>,
    usage: Option<AnthropicUsage>,
}

/// Usage as this API counts. A stream reports it twice, the second time with the true output. A value
/// that is not repeated stays.
#[derive(Deserialize)]
struct AnthropicUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Option<u64>,
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    #[serde(alias = "reasoning_tokens")]
    thinking_tokens: Option<u64>,
}

pub(super) fn read_event(data: &[u8], summary: &mut ResponseSummary) {
    // Nearly all events have this type, which reports no usage.
    if data.starts_with(b"{\"type\":\"content_block_delta\"") {
        return;
    }
    let interesting: [&[u8]; 2] = [b"\"usage\"", b"\"message_stop\""];
    if interesting
        .iter()
        .any(|part| memchr::memmem::find(data, part).is_some())
    {
        read_body(data, summary);
    }
}

pub(super) fn read_body(body: &[u8], summary: &mut ResponseSummary) {
    let Ok(event) = serde_json::from_slice::<AnthropicEvent>(body) else {
        return keep(last_value::<AnthropicUsage>(body, "\"usage\""), summary);
    };
    summary.finished |= event.r#type.as_deref() == Some("message_stop");
    summary.model = event.model.or(summary.model.take());
    keep(event.usage, summary);
    if let Some(message) = event.message {
        summary.model = message.model.or(summary.model.take());
        keep(message.usage, summary);
    }
}

fn keep(usage: Option<AnthropicUsage>, summary: &mut ResponseSummary) {
    let Some(usage) = usage else { return };
    let tokens = summary.tokens.get_or_insert_default();
    let set = |to: &mut u64, value: Option<u64>| *to = value.unwrap_or(*to);
    set(&mut tokens.input, usage.input_tokens);
    set(&mut tokens.output, usage.output_tokens);
    set(&mut tokens.cache_read, usage.cache_read_input_tokens);
    let thinking = usage.output_tokens_details.and_then(|d| d.thinking_tokens);
    set(&mut tokens.reasoning, thinking);
    let of_an_hour = match &usage.cache_creation {
        Some(parts) => parts.ephemeral_1h_input_tokens,
        None => None,
    };
    set(&mut tokens.cache_write_1h, of_an_hour);
    let total = usage.cache_creation_input_tokens;
    let of_minutes = usage
        .cache_creation
        .and_then(|parts| parts.ephemeral_5m_input_tokens);
    // Without the parts everything was written for the standard five minutes.
    let rest = total.map(|total| total.saturating_sub(tokens.cache_write_1h));
    set(&mut tokens.cache_write_5m, of_minutes.or(rest));
}
