//! Usage in responses of OpenAI chat completions.

use serde::Deserialize;

use super::summary::{ResponseSummary, last_value};
use super::tokens::Tokens;

#[derive(Deserialize)]
struct ChatChunk {
    model: Option<String>,
    usage: Option<ChatUsage>,
}

/// Usage as this API counts: the prompt includes what was cached, the completion its reasoning.
#[derive(Deserialize)]
struct ChatUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

/// Cached tokens of the prompt.
#[derive(Deserialize, Default, Clone, Copy)]
pub(super) struct PromptDetails {
    pub(super) cached_tokens: Option<u64>,
    pub(super) cache_write_tokens: Option<u64>,
}

/// Reasoning tokens of the completion.
#[derive(Deserialize, Default, Clone, Copy)]
pub(super) struct CompletionDetails {
    pub(super) reasoning_tokens: Option<u64>,
}

impl From<ChatUsage> for Tokens {
    fn from(usage: ChatUsage) -> Self {
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

pub(super) fn read_event(data: &[u8], summary: &mut ResponseSummary) {
    if data == b"[DONE]" {
        summary.finished = true;
        return;
    }
    // Most chunks carry `"usage":null` or no usage; the first chunk names the model.
    let has_usage = memchr::memmem::find(data, b"\"usage\":{").is_some()
        || memchr::memmem::find(data, b"\"usage\": {").is_some();
    if has_usage || summary.model.is_none() {
        read_body(data, summary);
    }
}

pub(super) fn read_body(body: &[u8], summary: &mut ResponseSummary) {
    if let Ok(chunk) = serde_json::from_slice::<ChatChunk>(body) {
        summary.model = chunk.model.or(summary.model.take());
        summary.tokens = chunk.usage.map(Tokens::from).or(summary.tokens);
    } else {
        let usage = last_value::<ChatUsage>(body, "\"usage\"");
        summary.tokens = usage.map(Tokens::from).or(summary.tokens);
    }
}
