//! The standalone gateway, for agents that Proctor does not start: keys by name, one call log, and
//! an account of each key at the end.

use std::{collections::BTreeMap, net::SocketAddr};

use camino::Utf8Path;
use proctor_gateway::{GatewayError, Overview, Pages, VirtualKey};
use proctor_record::record::GatewayRecord;

use crate::{
    config::{GatewaySettings, Gateways, Recordings},
    model_access::{ListenOptions, Models},
};

/// A running gateway and its keys.
#[derive(Debug)]
pub struct StandaloneGateway {
    models: Models,
    keys: Vec<(String, VirtualKey)>,
}

impl StandaloneGateway {
    /// Starts the gateway with a key for each name. Every call adds a line to `log`.
    pub fn start(
        gateways: &Gateways,
        env: &BTreeMap<String, String>,
        listen: SocketAddr,
        log: Option<&Utf8Path>,
    ) -> Result<StandaloneGateway, GatewayError> {
        let options = ListenOptions {
            listen,
            pages: Pages::Shown,
            certificate: None,
        };
        let models = Models::at(&gateways.common, env, options)?;
        let mut keys = Vec::new();
        for (name, settings) in &gateways.keys {
            let mut spec = models.key_spec(settings, name);
            spec.log = log.map(Into::into);
            keys.push((name.clone(), models.gateway().mint(spec)?));
        }
        Ok(StandaloneGateway { models, keys })
    }

    /// The base URL for clients.
    pub fn url(&self) -> String {
        self.models.gateway().url()
    }

    /// The keys by name, valid for any client.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        let keys = self.keys.iter();
        keys.map(|(name, key)| (name.as_str(), key.expose()))
    }

    /// Its current state.
    pub fn overview(&self) -> Overview {
        self.models.gateway().overview()
    }

    /// Ends all calls. Returns the account of each key.
    pub async fn stop(self) -> Vec<(String, GatewayRecord)> {
        let mut records = Vec::new();
        for (name, key) in self.keys {
            let account = self.models.revoke(&key).await;
            records.push((name, account.record));
        }
        records
    }
}

/// Whether there is an upstream: a script, recordings, or a provider in the environment.
pub fn has_answers(settings: &GatewaySettings, env: &BTreeMap<String, String>) -> bool {
    let replays = settings
        .recordings
        .as_ref()
        .is_some_and(Recordings::replays);
    settings.script.is_some() || replays || !crate::model_access::providers(env).is_empty()
}
