//! LiteLLM's config file: which models lead to which provider. Keys are named by their variables.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A provider, and how LiteLLM names it and its models.
struct Known {
    name: &'static str,
    key: &'static str,
    base_url: &'static str,
    /// The suffix of base URLs that LiteLLM expects.
    version: &'static str,
    models: &'static [&'static str],
}

const KNOWN: [Known; 3] = [
    Known {
        name: "anthropic",
        key: "ANTHROPIC_API_KEY",
        base_url: "ANTHROPIC_BASE_URL",
        version: "",
        models: &["claude-*"],
    },
    Known {
        name: "openai",
        key: "OPENAI_API_KEY",
        base_url: "OPENAI_BASE_URL",
        version: "/v1",
        models: &["gpt-*", "o1*", "o3*", "o4*", "codex-*"],
    },
    Known {
        name: "gemini",
        key: "GEMINI_API_KEY",
        base_url: "GOOGLE_GEMINI_BASE_URL",
        version: "/v1beta",
        models: &["gemini-*"],
    },
];

/// Every variable that may hold a key of a provider.
pub(super) const KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
];

/// For each provider, the variables that say with which key and where.
pub(super) const PLACES: [(&str, &str); 3] = [
    (KNOWN[0].key, KNOWN[0].base_url),
    (KNOWN[1].key, KNOWN[1].base_url),
    (KNOWN[2].key, KNOWN[2].base_url),
];

/// A provider that the environment has a key for.
pub(super) struct Provider<'a> {
    known: &'static Known,
    base_url: Option<&'a str>,
}

/// The providers that there are keys for.
pub(super) fn providers(env: &BTreeMap<String, String>) -> Vec<Provider<'_>> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    let found = KNOWN.iter().filter(|known| set(known.key).is_some());
    found
        .map(|known| Provider {
            known,
            base_url: set(known.base_url).map(String::as_str),
        })
        .collect()
}

/// The config. JSON is YAML too.
pub(super) fn of(providers: &[Provider<'_>]) -> Value {
    let models: Vec<Value> = providers.iter().flat_map(models).collect();
    json!({
        "model_list": models,
        "litellm_settings": {"callbacks": "recorder.recorder", "num_retries": 0},
        // The agent's reaction to a failed call is part of the measurement.
        "router_settings": {"num_retries": 0, "disable_cooldowns": true},
        "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
    })
}

fn models(provider: &Provider<'_>) -> Vec<Value> {
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
    fn models_lead_to_the_providers_that_there_are_keys_for_and_no_key_is_named() {
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
    fn versions_stand_where_litellm_wants_them() {
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
