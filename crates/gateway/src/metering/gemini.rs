//! Usage in responses of Gemini.

use serde::Deserialize;

use super::summary::{ResponseSummary, last_value};
use super::tokens::Tokens;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiChunk {
    model_version: Option<String>,
    usage_metadata: Option<GeminiUsage>,
    #[serde(default)]
    candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    finish_reason: Option<String>,
}

/// Usage as this API counts: the prompt includes what was cached, thoughts stand beside the candidates,
/// and what tools put into the prompt beside the prompt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the API's own names")]
struct GeminiUsage {
    #[serde(default)]
    prompt_token_count: u64,
    #[serde(default)]
    candidates_token_count: u64,
    #[serde(default)]
    cached_content_token_count: u64,
    #[serde(default)]
    thoughts_token_count: u64,
    #[serde(default)]
    tool_use_prompt_token_count: u64,
}

impl From<GeminiUsage> for Tokens {
    fn from(usage: GeminiUsage) -> Self {
        let cached = usage.cached_content_token_count;
        let fresh = usage.prompt_token_count.saturating_sub(cached);
        Self {
            input: fresh.saturating_add(usage.tool_use_prompt_token_count),
            output: usage
                .candidates_token_count
                .saturating_add(usage.thoughts_token_count),
            cache_read: cached,
            reasoning: usage.thoughts_token_count,
            ..Self::default()
        }
    }
}

pub(super) fn read_event(data: &[u8], summary: &mut ResponseSummary) {
    match serde_json::from_slice::<GeminiChunk>(data) {
        Ok(chunk) => keep(chunk, summary),
        Err(_) => keep_usage(
            last_value::<GeminiUsage>(data, "\"usageMetadata\""),
            summary,
        ),
    }
}

/// A plain answer is one object; a stream without `alt=sse` is an array of them.
pub(super) fn read_body(body: &[u8], summary: &mut ResponseSummary) {
    if body.trim_ascii_start().starts_with(b"[") {
        return match serde_json::from_slice::<Vec<GeminiChunk>>(body) {
            Ok(chunks) => chunks.into_iter().for_each(|chunk| keep(chunk, summary)),
            Err(_) => keep_usage(
                last_value::<GeminiUsage>(body, "\"usageMetadata\""),
                summary,
            ),
        };
    }
    read_event(body, summary);
}

fn keep(chunk: GeminiChunk, summary: &mut ResponseSummary) {
    summary.finished |= chunk.candidates.iter().any(|c| c.finish_reason.is_some());
    summary.model = chunk.model_version.or(summary.model.take());
    keep_usage(chunk.usage_metadata, summary);
}

fn keep_usage(usage: Option<GeminiUsage>, summary: &mut ResponseSummary) {
    summary.tokens = usage.map(Tokens::from).or(summary.tokens);
}
