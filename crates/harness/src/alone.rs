//! The gateway on its own, for agents that Proctor does not start: keys by name, one call log, and an
//! account of each key at the end.

use std::{collections::BTreeMap, net::SocketAddr};

use camino::Utf8Path;
use proctor_gateway::{GatewayError, Overview, Pages, VirtualKey};

use crate::{
    config::{GatewaySettings, Gateways, Tapes},
    models::{GatewayRecord, Models, Place},
};

/// A running gateway and its keys.
#[derive(Debug)]
pub struct AloneGateway {
    models: Models,
    keys: Vec<(String, VirtualKey)>,
}

impl AloneGateway {
    /// Start it, with a key for each name. Every call adds a line to `log`.
    pub fn start(
        gateways: &Gateways,
        env: &BTreeMap<String, String>,
        listen: SocketAddr,
        log: Option<&Utf8Path>,
    ) -> Result<AloneGateway, GatewayError> {
        let place = Place {
            listen,
            pages: Pages::Shown,
            certificate: None,
        };
        let models = Models::at(&gateways.common, env, place)?;
        let mut keys = Vec::new();
        for (name, settings) in &gateways.keys {
            let mut spec = models.key_spec(settings, name);
            spec.log = log.map(Into::into);
            keys.push((name.clone(), models.gateway().mint(spec)?));
        }
        Ok(AloneGateway { models, keys })
    }

    /// The base URL for clients.
    pub fn url(&self) -> String {
        self.models.gateway().url()
    }

    /// The keys by name. Whoever has one may use it.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        let keys = self.keys.iter();
        keys.map(|(name, key)| (name.as_str(), key.expose()))
    }

    /// What it is doing.
    pub fn overview(&self) -> Overview {
        self.models.gateway().overview()
    }

    /// End every call and say what went over each key.
    pub async fn stop(self) -> Vec<(String, GatewayRecord)> {
        let mut records = Vec::new();
        for (name, key) in self.keys {
            let record = self.models.revoke(&key).await;
            records.push((name, record));
        }
        records
    }
}

/// Whether anybody would answer: a script, recordings, or a provider that the environment names.
pub fn has_answers(settings: &GatewaySettings, env: &BTreeMap<String, String>) -> bool {
    let replays = settings.tapes.as_ref().is_some_and(Tapes::replays);
    settings.script.is_some() || replays || !crate::models::providers(env).is_empty()
}
