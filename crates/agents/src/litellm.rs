//! Shared by agents built on `LiteLLM`: names of models and their URLs.

use super::{
    cli::{CliContestant, Login},
    tokens::{Tokens, number},
};
use crate::agent::{Authentication, Endpoint, Launch, LaunchContext, LaunchError};

/// Keys and base URLs that are taken from the host.
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

/// Any of these keys is enough, and there may be others.
pub(super) const LOGIN: Login = Login {
    keys: &[
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "DEEPSEEK_API_KEY",
    ],
    otherwise: Authentication::Unknown,
};

pub(super) const LOGIN_HINT: &str = "set the key of the model's maker, such as ANTHROPIC_API_KEY";

/// Adds the variables that route all models to the gateway.
pub(super) fn lead_to_gateway(
    agent: &CliContestant,
    context: &LaunchContext<'_>,
    launch: &mut Launch,
) -> Result<(), LaunchError> {
    let Some(Endpoint { base_url, key }) = context.endpoint else {
        return Ok(());
    };
    let model = agent.model.as_deref();
    if let Some((maker, _)) = model.and_then(|model| model.split_once('/'))
        && !matches!(maker, "openai" | "anthropic" | "gemini")
    {
        let message = format!("the gateway does not support models of `{maker}`");
        let error = agent.names.invalid(message);
        return Err(error.with_hint("use a model of openai, anthropic or gemini"));
    }
    let env = [
        ("OPENAI_API_BASE", format!("{base_url}/v1")),
        ("OPENAI_API_KEY", key.clone()),
        ("ANTHROPIC_API_BASE", base_url.clone()),
        ("ANTHROPIC_API_KEY", key.clone()),
        // LiteLLM adds no version to the path here.
        ("GEMINI_API_BASE", format!("{base_url}/v1beta")),
        ("GEMINI_API_KEY", key.clone()),
    ];
    let named = env.map(|(name, value)| (name.to_owned(), value));
    launch.env.extend(named);
    Ok(())
}

/// The figures of one answer. Its input includes cached tokens.
pub(super) fn tokens(usage: &serde_json::Value) -> Tokens {
    let tokens = Tokens {
        input: number(usage, "/prompt_tokens"),
        output: number(usage, "/completion_tokens"),
        cache_read: number(usage, "/prompt_tokens_details/cached_tokens"),
        cache_write: number(usage, "/cache_creation_input_tokens"),
        cost: None,
    };
    tokens.without_cached_input()
}
