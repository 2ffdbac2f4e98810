//! The providers that Proctor knows, with their variables and prices.

use std::collections::BTreeMap;

use proctor_gateway::{Auth, HttpUpstream, Prices, Provider, Secret};

use crate::config::GatewaySettings;

/// A provider, with the variables of its base URL and key.
pub(super) struct ProviderVariables {
    pub(super) provider: Provider,
    usual: &'static str,
    pub(super) keys: &'static [(&'static str, Option<Auth>)],
    pub(super) base_url: &'static str,
}

pub(super) const PROVIDERS: [ProviderVariables; 3] = [
    ProviderVariables {
        provider: Provider::Anthropic,
        usual: "https://api.anthropic.com",
        keys: &[
            ("ANTHROPIC_API_KEY", None),
            ("ANTHROPIC_AUTH_TOKEN", Some(Auth::Bearer)),
        ],
        base_url: "ANTHROPIC_BASE_URL",
    },
    ProviderVariables {
        provider: Provider::OpenAi,
        usual: "https://api.openai.com",
        keys: &[("OPENAI_API_KEY", None)],
        base_url: "OPENAI_BASE_URL",
    },
    ProviderVariables {
        provider: Provider::Gemini,
        usual: "https://generativelanguage.googleapis.com",
        keys: &[("GEMINI_API_KEY", None), ("GOOGLE_API_KEY", None)],
        base_url: "GOOGLE_GEMINI_BASE_URL",
    },
];

/// The providers in the environment, with their base URLs.
pub fn providers(env: &BTreeMap<String, String>) -> Vec<(&'static str, String)> {
    let known = PROVIDERS.into_iter();
    known
        .filter_map(|known| Some((known.provider.name(), known.upstream(env)?.base_url)))
        .collect()
}

/// All prices with these settings.
pub fn prices(settings: &GatewaySettings) -> Prices {
    let mut prices = Prices::built_in();
    for price in &settings.prices {
        // Prices are validated when they are read.
        let _ = prices.add(price.clone());
    }
    prices
}

impl ProviderVariables {
    /// The provider from the environment; `None` if it is not configured.
    pub(super) fn upstream(&self, env: &BTreeMap<String, String>) -> Option<HttpUpstream> {
        let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
        let key = self
            .keys
            .iter()
            .find_map(|(name, auth)| Some((set(name)?, *auth)));
        let base_url = set(self.base_url);
        if key.is_none() && base_url.is_none() {
            return None;
        }
        // Clients of some providers have the version in the base URL; the gateway has it in the path.
        let base_url = base_url.map_or(self.usual, |url| {
            let url = url.trim_end_matches('/');
            url.strip_suffix("/v1").unwrap_or(url)
        });
        let secret = key.map(|(key, _)| Secret::new(key.clone()));
        let mut upstream = HttpUpstream::new(base_url, secret);
        upstream.auth = key.and_then(|(_, auth)| auth);
        Some(upstream)
    }
}
