//! LiteLLM's config file: the models and their providers. Keys are referenced by their variables.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A provider, with LiteLLM's name and prefix of its models.
struct LiteLlmNames {
    name: &'static str,
    key: &'static str,
    base_url: &'static str,
    /// The suffix of base URLs that LiteLLM expects.
    version: &'static str,
    models: &'static [&'static str],
}

const KNOWN: [LiteLlmNames; 3] = [
    LiteLlmNames {
        name: "anthropic",
        key: "ANTHROPIC_API_KEY",
        base_url: "ANTHROPIC_BASE_URL",
        version: "",
        models: &["claude-*"],
    },
    LiteLlmNames {
        name: "openai",
        key: "OPENAI_API_KEY",
        base_url: "OPENAI_BASE_URL",
        version: "/v1",
        models: &["gpt-*", "o1*", "o3*", "o4*", "codex-*"],
    },
    LiteLlmNames {
        name: "gemini",
        key: "GEMINI_API_KEY",
        base_url: "GOOGLE_GEMINI_BASE_URL",
        version: "/v1beta",
        models: &["gemini-*"],
    },
];

/// All variables that may contain a provider's key.
pub(super) const KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
];

/// The variables with the key and base URL of each provider.
pub(super) const PLACES: [(&str, &str); 3] = [
    (KNOWN[0].key, KNOWN[0].base_url),
    (KNOWN[1].key, KNOWN[1].base_url),
    (KNOWN[2].key, KNOWN[2].base_url),
];

/// A provider with a key in the environment.
pub(super) struct KeyedProvider<'a> {
    known: &'static LiteLlmNames,
    base_url: Option<&'a str>,
}

/// The providers with a key in the environment.
pub(super) fn providers(env: &BTreeMap<String, String>) -> Vec<KeyedProvider<'_>> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    let found = KNOWN.iter().filter(|known| set(known.key).is_some());
    found
        .map(|known| KeyedProvider {
            known,
            base_url: set(known.base_url).map(String::as_str),
        })
        .collect()
}

/// The config as JSON, which is valid YAML.
pub(super) fn of(providers: &[KeyedProvider<'_>]) -> Value {
    let models: Vec<Value> = providers.iter().flat_map(models).collect();
    json!({
        "model_list": models,
        "litellm_settings": {"callbacks": "recorder.recorder", "num_retries": 0},
        // The agent's reaction to a failed call is part of the measurement.
        "router_settings": {"num_retries": 0, "disable_cooldowns": true},
        "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
    })
}

fn models(provider: &KeyedProvider<'_>) -> Vec<Value> {
    let known = provider.known;
    let entry = |name: String, model: &str| {
        let mut params = json!({
            "model": format!("{}/{model}", known.name),
            "api_key": format!("os.environ/{}", known.key),
        });
        if let Some(url) = provider.base_url {
            let url = url.trim_end_matches('/');
            let url = url.strip_suffix("/v1").unwrap_or(url);
            params["api_base"] = json!(format!("{url}{}", known.version));
        }
        json!({"model_name": name, "litellm_params": params})
    };
    let own = known
        .models
        .iter()
        .map(|model| entry((*model).to_owned(), model));
    let qualified = entry(format!("{}/*", known.name), "*");
    own.chain([qualified]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn models_are_routed_to_providers_with_keys() {
        let env = env(&[
            ("ANTHROPIC_API_KEY", "sk-canary"),
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/"),
            ("OPENAI_API_KEY", ""),
        ]);
        let config = of(&providers(&env));
        assert!(!config.to_string().contains("canary"), "{config}");
        let first = &config["model_list"][0];
        assert_eq!(first["model_name"], "claude-*");
        let params = json!({
            "model": "anthropic/claude-*",
            "api_key": "os.environ/ANTHROPIC_API_KEY",
            "api_base": "http://127.0.0.1:1",
        });
        assert_eq!(first["litellm_params"], params);
        assert_eq!(config["model_list"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn base_urls_have_the_version_suffix_of_litellm() {
        let env = env(&[
            ("OPENAI_API_KEY", "k"),
            ("OPENAI_BASE_URL", "http://h/v1"),
            ("GEMINI_API_KEY", "k"),
            ("GOOGLE_GEMINI_BASE_URL", "http://h"),
        ]);
        let config = of(&providers(&env)).to_string();
        assert!(config.contains("http://h/v1\""), "{config}");
        assert!(config.contains("http://h/v1beta\""), "{config}");
    }
}
