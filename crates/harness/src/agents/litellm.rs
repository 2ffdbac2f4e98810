//! What agents built on `LiteLLM` share: how models are named and where they are reached.

use std::collections::BTreeMap;

use super::options;
use crate::agent::{Endpoint, LaunchError};

/// Keys and addresses that come in from the host.
pub(super) const CREDENTIAL_ENV: &[&str] = &[
    "OPENAI_API_KEY",
    "OPENAI_API_BASE",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_API_BASE",
    "GEMINI_API_KEY",
    "GEMINI_API_BASE",
    "OPENROUTER_API_KEY",
    "DEEPSEEK_API_KEY",
];

/// Those of them that are keys.
pub(super) const KEYS: &[&str] = &[
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
    "DEEPSEEK_API_KEY",
];

/// The model with its maker. A name that begins like no maker's may be an alias of the CLI.
pub(super) fn model(name: &str) -> String {
    options::qualified(name, "gemini").unwrap_or_else(|| name.to_owned())
}

/// The variables that lead every maker's models to the endpoint.
pub(super) fn endpoint_env(
    model: Option<&str>,
    endpoint: &Endpoint,
    code: &'static str,
) -> Result<BTreeMap<String, String>, LaunchError> {
    let maker = model.and_then(|model| model.split_once('/'));
    if let Some((maker, _)) = maker
        && !matches!(maker, "openai" | "anthropic" | "gemini")
    {
        return Err(LaunchError {
            message: format!("the gateway has no models of `{maker}`"),
            hint: Some("name a model of openai, anthropic or gemini".to_owned()),
            code,
        });
    }
    let Endpoint { base_url, key } = endpoint;
    let env = [
        ("OPENAI_API_BASE", format!("{base_url}/v1")),
        ("OPENAI_API_KEY", key.clone()),
        ("ANTHROPIC_API_BASE", base_url.clone()),
        ("ANTHROPIC_API_KEY", key.clone()),
        // No version is put before the path here.
        ("GEMINI_API_BASE", format!("{base_url}/v1beta")),
        ("GEMINI_API_KEY", key.clone()),
    ];
    let named = env.map(|(name, value)| (name.to_owned(), value));
    Ok(BTreeMap::from(named))
}

/// The figures of one answer. Its input includes what was read from and written to the cache.
pub(super) fn tokens(usage: &serde_json::Value) -> super::tokens::Tokens {
    use super::tokens::{Tokens, number};
    let tokens = Tokens {
        input: number(usage, "/prompt_tokens"),
        output: number(usage, "/completion_tokens"),
        cache_read: number(usage, "/prompt_tokens_details/cached_tokens"),
        cache_write: number(usage, "/cache_creation_input_tokens"),
        cost: None,
    };
    tokens.without_cached_input()
}
