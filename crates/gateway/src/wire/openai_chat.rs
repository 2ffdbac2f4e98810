//! OpenAI chat completions: usage and errors.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Seen, last_value};
use crate::tokens::Tokens;

#[derive(Deserialize)]
struct Chunk {
    model: Option<String>,
    usage: Option<Usage>,
}

/// Usage as this API counts: the prompt includes what was cached, the completion its reasoning.
#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

/// What of the prompt the cache had to do with.
#[derive(Deserialize, Default, Clone, Copy)]
pub(super) struct PromptDetails {
    pub(super) cached_tokens: Option<u64>,
    pub(super) cache_write_tokens: Option<u64>,
}

/// What of the completion was reasoning.
#[derive(Deserialize, Default, Clone, Copy)]
pub(super) struct CompletionDetails {
    pub(super) reasoning_tokens: Option<u64>,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        let prompt = usage.prompt_tokens_details.unwrap_or_default();
        let completion = usage.completion_tokens_details.unwrap_or_default();
        of_counts(
            usage.prompt_tokens,
            usage.completion_tokens,
            prompt,
            completion,
        )
    }
}

/// Both OpenAI APIs count alike under different names.
pub(super) fn of_counts(
    prompt: u64,
    completion: u64,
    of_prompt: PromptDetails,
    of_completion: CompletionDetails,
) -> Tokens {
    let cache_read = of_prompt.cached_tokens.unwrap_or(0);
    let cache_write = of_prompt.cache_write_tokens.unwrap_or(0);
    Tokens {
        input: prompt
            .saturating_sub(cache_read)
            .saturating_sub(cache_write),
        output: completion,
        cache_read,
        cache_write_5m: cache_write,
        cache_write_1h: 0,
        reasoning: of_completion.reasoning_tokens.unwrap_or(0),
    }
}

pub(crate) fn read_event(data: &[u8], seen: &mut Seen) {
    if data == b"[DONE]" {
        seen.finished = true;
        return;
    }
    // Most chunks carry `"usage":null` or nothing; the model is in every one and told by the first.
    let has_usage = memchr::memmem::find(data, b"\"usage\":{").is_some()
        || memchr::memmem::find(data, b"\"usage\": {").is_some();
    if has_usage || seen.model.is_none() {
        read_body(data, seen);
    }
}

pub(crate) fn read_body(body: &[u8], seen: &mut Seen) {
    if let Ok(chunk) = serde_json::from_slice::<Chunk>(body) {
        seen.model = chunk.model.or(seen.model.take());
        seen.tokens = chunk.usage.map(Tokens::from).or(seen.tokens);
    } else {
        let usage = last_value::<Usage>(body, "\"usage\"");
        seen.tokens = usage.map(Tokens::from).or(seen.tokens);
    }
}

/// The body of a refusal, on both OpenAI APIs.
pub(crate) fn error_body(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        403 => ("invalid_request_error", Some("permission_denied")),
        404 => ("invalid_request_error", Some("not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        500.. => ("server_error", None),
        _ => ("invalid_request_error", None),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// The body of a refusal for want of money.
pub(crate) fn quota_body(message: &str) -> Value {
    let kind = "insufficient_quota";
    json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
}
