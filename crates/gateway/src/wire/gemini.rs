//! Gemini: routes, usage and errors.

use serde::Deserialize;
use serde_json::{Value, json};

use super::path::model_segment;
use super::{Kind, Route, Seen, Wire, last_value};
use crate::tokens::Tokens;

/// Finds the model and the method in `/v1beta/models/M:method`, with the version or without.
pub(super) fn route(path: &str) -> Option<Route> {
    let (model, method) = without_version(path)
        .strip_prefix("/models/")?
        .split_once(':')?;
    let (kind, streams) = match method {
        "generateContent" => (Kind::Generate, false),
        "streamGenerateContent" => (Kind::Generate, true),
        "countTokens" => (Kind::CountTokens, false),
        _ => return None,
    };
    // The slash behind a vendor's name stays: gateways behind this one route by it.
    let segment = model_segment(model)?.replace("%2F", "/");
    let path = format!("/v1beta/models/{segment}:{method}");
    let mut route = Route::new(Wire::Gemini, kind, path);
    route.model = Some(model.to_owned());
    route.streams = streams;
    Some(route)
}

/// The list of models, or one of them.
pub(super) fn route_lookup(path: &str) -> Option<Route> {
    let rest = without_version(path).strip_prefix("/models")?;
    let is_model = |name: &str| !name.is_empty() && !name.contains(['/', ':', '[', ']']);
    if !rest.is_empty() && !rest.strip_prefix('/').is_some_and(is_model) {
        return None;
    }
    let path = format!("/v1beta/models{rest}");
    Some(Route::new(Wire::Gemini, Kind::Lookup, path))
}

fn without_version(path: &str) -> &str {
    let rest = path.strip_prefix("/v1beta");
    rest.or_else(|| path.strip_prefix("/v1")).unwrap_or(path)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    model_version: Option<String>,
    usage_metadata: Option<Usage>,
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
struct Usage {
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

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
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

pub(crate) fn read_event(data: &[u8], seen: &mut Seen) {
    match serde_json::from_slice::<Chunk>(data) {
        Ok(chunk) => keep(chunk, seen),
        Err(_) => keep_usage(last_value::<Usage>(data, "\"usageMetadata\""), seen),
    }
}

/// A plain answer is one object; a stream without `alt=sse` is an array of them.
pub(crate) fn read_body(body: &[u8], seen: &mut Seen) {
    if body.trim_ascii_start().starts_with(b"[") {
        return match serde_json::from_slice::<Vec<Chunk>>(body) {
            Ok(chunks) => chunks.into_iter().for_each(|chunk| keep(chunk, seen)),
            Err(_) => keep_usage(last_value::<Usage>(body, "\"usageMetadata\""), seen),
        };
    }
    read_event(body, seen);
}

fn keep(chunk: Chunk, seen: &mut Seen) {
    seen.finished |= chunk.candidates.iter().any(|c| c.finish_reason.is_some());
    seen.model = chunk.model_version.or(seen.model.take());
    keep_usage(chunk.usage_metadata, seen);
}

fn keep_usage(usage: Option<Usage>, seen: &mut Seen) {
    seen.tokens = usage.map(Tokens::from).or(seen.tokens);
}

/// The body of a refusal.
pub(crate) fn error_body(status: u16, message: &str) -> Value {
    let name = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    };
    json!({"error": {"code": status, "message": message, "status": name}})
}
