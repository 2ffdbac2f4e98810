//! Names of models with their makers, for CLIs that support several makers.

/// The model as `maker/name`: as written, or by the prefix of its name. `google` is the name for
/// Google. `None` if the maker is unknown.
pub fn with_maker(model: &str, google: &str) -> Option<String> {
    let begins = |words: &[&str]| words.iter().any(|word| model.starts_with(word));
    let maker = match model {
        _ if model.contains('/') => return Some(model.to_owned()),
        _ if begins(&["claude-"]) => "anthropic",
        _ if begins(&["gpt-", "chatgpt-", "codex-", "o1", "o3", "o4"]) => "openai",
        _ if begins(&["gemini-"]) => google,
        _ => return None,
    };
    Some(format!("{maker}/{model}"))
}

/// The model in LiteLLM's format. A name without a known maker may be an alias of the CLI.
pub fn litellm(model: &str) -> String {
    with_maker(model, "gemini").unwrap_or_else(|| model.to_owned())
}
