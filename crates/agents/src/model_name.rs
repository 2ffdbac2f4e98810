//! Names of models with their makers, as CLIs that serve several makers expect them.

/// The model as `maker/name`: as written, or by how the names of the makers' models begin. `google` is
/// the name for Google. `None` when the maker is not known.
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

/// The model as LiteLLM names it. A name without a known maker may be an alias of the CLI.
pub fn litellm(model: &str) -> String {
    with_maker(model, "gemini").unwrap_or_else(|| model.to_owned())
}
