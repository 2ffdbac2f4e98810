//! Settings of the user that would make an agent bypass the gateway: variables and arguments with the address of a model,
//! with a proxy, or with another configuration than the one that names the gateway.

use std::collections::BTreeMap;

/// Ends of variables that hold the address of a model, or of a proxy.
const ADDRESS_SUFFIXES: &[&str] = &["_BASE_URL", "_API_BASE", "_API_URL", "_API_HOST", "_PROXY"];

/// Variables that select another provider, socket or configuration.
const OTHER_WAYS: &[&str] = &[
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "ANTHROPIC_UNIX_SOCKET",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "AZURE_OPENAI_ENDPOINT",
    "OLLAMA_HOST",
    "CODEX_HOME",
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_CONTENT",
    "OPENCODE_CONFIG_DIR",
];

/// Parts of arguments and settings that hold an address, in lower case.
const ARGUMENT_PARTS: &[&str] = &[
    "base_url",
    "base-url",
    "baseurl",
    "api_base",
    "api-base",
    "apibase",
    "model_provider",
    "_proxy",
    "--proxy",
    "claude_code_use_",
    "anthropic_unix_socket",
];

/// The variable that would make an agent bypass the gateway.
pub(super) fn in_env(env: &BTreeMap<String, String>) -> Option<&str> {
    let leads_away = |name: &&String| {
        let name = name.to_ascii_uppercase();
        let is_address = ADDRESS_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
        name != "NO_PROXY" && (is_address || OTHER_WAYS.contains(&name.as_str()))
    };
    env.keys().find(leads_away).map(String::as_str)
}

/// The part of an argument, or of the text of a settings file, that would do the same.
pub(super) fn in_text(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    let text = text.replace("no_proxy", "");
    ARGUMENT_PARTS
        .iter()
        .find(|part| text.contains(*part))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_proxies_and_other_providers_are_found() {
        let found = |name: &str| {
            let env = BTreeMap::from([(name.to_owned(), "x".to_owned())]);
            in_env(&env).is_some()
        };
        for name in [
            "ANTHROPIC_BASE_URL",
            "OPENAI_API_BASE",
            "GOOGLE_GEMINI_BASE_URL",
            "COPILOT_PROVIDER_BASE_URL",
            "ANTHROPIC_BEDROCK_BASE_URL",
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "CLAUDE_CODE_USE_BEDROCK",
            "OPENCODE_CONFIG_CONTENT",
        ] {
            assert!(found(name), "{name}");
        }
        for name in [
            "ANTHROPIC_API_KEY",
            "NO_PROXY",
            "DATABASE_URL",
            "BASE_URLS",
            "PATH",
        ] {
            assert!(!found(name), "{name}");
        }
    }

    #[test]
    fn addresses_in_arguments_and_settings_are_found() {
        for text in [
            r#"{"env":{"ANTHROPIC_BASE_URL":"http://x"}}"#,
            r#"{"env":{"HTTPS_PROXY":"http://x"}}"#,
            "--openai-api-base=http://x",
            "model_providers.own={base_url=\"http://x\"}",
            "openai_base_url=http://x",
            "--proxy",
        ] {
            assert!(in_text(text).is_some(), "{text}");
        }
        for text in [
            "--verbose",
            "--add-dir",
            r#"{"env":{"NO_PROXY":"x"}}"#,
            "base",
        ] {
            assert_eq!(in_text(text), None, "{text}");
        }
    }
}
