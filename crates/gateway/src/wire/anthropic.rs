//! The Anthropic Messages API: usage and errors.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Seen, last_value};

#[derive(Deserialize)]
struct Event {
    r#type: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    model: Option<String>,
    usage: Option<Usage>,
}

/// Usage as this API counts. A stream tells it twice, the second time with the true output; what is
/// not told again stays.
#[derive(Deserialize)]
struct Usage {
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

pub(crate) fn read_event(data: &[u8], seen: &mut Seen) {
    // Nearly all events are these, and none of them tells anything.
    if data.starts_with(b"{\"type\":\"content_block_delta\"") {
        return;
    }
    let interesting: [&[u8]; 2] = [b"\"usage\"", b"\"message_stop\""];
    if interesting
        .iter()
        .any(|part| memchr::memmem::find(data, part).is_some())
    {
        read_body(data, seen);
    }
}

pub(crate) fn read_body(body: &[u8], seen: &mut Seen) {
    let Ok(event) = serde_json::from_slice::<Event>(body) else {
        return keep(last_value::<Usage>(body, "\"usage\""), seen);
    };
    seen.finished |= event.r#type.as_deref() == Some("message_stop");
    seen.model = event.model.or(seen.model.take());
    keep(event.usage, seen);
    if let Some(message) = event.message {
        seen.model = message.model.or(seen.model.take());
        keep(message.usage, seen);
    }
}

fn keep(usage: Option<Usage>, seen: &mut Seen) {
    let Some(usage) = usage else { return };
    let tokens = seen.tokens.get_or_insert_default();
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

/// The name that this API has for an error of this status.
pub(crate) fn error_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

/// The body of a refusal.
pub(crate) fn error_body(status: u16, message: &str) -> Value {
    json!({"type": "error", "error": {"type": error_kind(status), "message": message}})
}
