//! The gateway for trials on other machines. A gateway on the head serves all nodes: it has the
//! provider keys, the budget of the run and the limits of providers. Connections from nodes are
//! encrypted, and each trial has its own key. Each trial also has its own gateway for its own
//! settings.

use std::{
    collections::BTreeMap,
    io::Write,
    net::{Ipv4Addr, SocketAddr},
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::ADAPTERS;
use proctor_gateway::{Certificate, GatewayError, KeySpec, Pages, Secret, VirtualKey};
use proctor_record::{
    fs::dir,
    platform,
    record::{GatewayPlace, StoreError},
};
use proctor_sandbox::host::Host;
use serde::{Deserialize, Serialize};

use super::{ListenOptions, Models, PROVIDERS};
use crate::config::GatewaySettings;

/// The data about the head's gateway for nodes. The secret is not a provider's key, and is valid
/// only while the head runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CoordinatorGateway {
    /// Its URL.
    url: String,
    /// The file with its certificate.
    certificate: Utf8PathBuf,
    /// The seed of the trials' keys.
    secret: String,
    /// The providers that it serves.
    providers: Vec<String>,
}

/// Whether a variable contains a provider's key, of the gateway or of an agent.
pub(crate) fn is_provider_key(name: &str) -> bool {
    let keys = PROVIDERS.iter().flat_map(|known| known.keys);
    let mut keys = keys.map(|(key, _)| *key);
    let clis = ADAPTERS.iter().filter_map(|adapter| adapter.cli());
    let mut of_agents = clis.flat_map(|cli| cli.credential_env);
    // The list also has addresses, which nodes may know.
    let is_secret = name.ends_with("KEY") || name.ends_with("TOKEN");
    keys.any(|key| key == name) || is_secret && of_agents.any(|key| *key == name)
}

/// Sets missing provider keys to placeholders.
pub(crate) fn stand_in_for_keys(env: &mut BTreeMap<String, String>) {
    for (name, _) in PROVIDERS.iter().flat_map(|known| known.keys) {
        let stand_in = || format!("{name}-of-the-head");
        env.entry((*name).to_owned()).or_insert_with(stand_in);
    }
}

impl CoordinatorGateway {
    /// Reads the file of the head.
    pub(crate) fn read(file: &Utf8Path) -> Result<CoordinatorGateway, String> {
        let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())
    }

    /// Writes the file, readable for nodes of the same user only.
    pub(crate) fn write(&self, file: &Utf8Path, pem: &str) -> Result<(), StoreError> {
        let json = serde_json::to_string(self).expect("strings can be serialized");
        for (path, text) in [(&self.certificate, pem), (&file.to_owned(), &json)] {
            write_private(path, text).map_err(|source| StoreError {
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// The gateway of a trial that forwards to this one.
    pub(crate) fn models(
        &self,
        settings: GatewaySettings,
        env: &BTreeMap<String, String>,
        label: &str,
    ) -> Result<Models, GatewayError> {
        let settings = GatewaySettings {
            run_budget_usd: None,
            throttles: BTreeMap::new(),
            retries: 0,
            script: None,
            ca_file: Some(self.certificate.clone()),
            ..settings
        };
        let key = VirtualKey::derived(&Secret::new(self.secret.clone()), label);
        let mut env = env.clone();
        for known in PROVIDERS {
            for (name, _) in known.keys {
                env.remove(*name);
            }
            env.remove(known.base_url);
            let is_served = |name: &String| name == known.provider.name();
            if self.providers.iter().any(is_served) {
                let (name, _) = known.keys[0];
                env.insert(name.to_owned(), key.expose().to_owned());
                env.insert(known.base_url.to_owned(), self.url.clone());
            }
        }
        let models = Models::at(&settings, &env, ListenOptions::default())?;
        Ok(models.known_as(GatewayPlace::Head))
    }
}

/// Writes a file atomically, readable only for its owner.
fn write_private(path: &Utf8Path, text: &str) -> std::io::Result<()> {
    let fresh = Utf8PathBuf::from(format!("{path}.new"));
    let _ = fs_err::remove_file(&fresh);
    let mut file = platform::new_private_file(fresh.as_std_path())?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    dir::rename(&fresh, path)
}

impl Models {
    /// The same gateway with its location for records.
    #[must_use]
    pub(crate) fn known_as(mut self, place: GatewayPlace) -> Models {
        self.known_as = Some(place);
        self
    }

    /// Starts the gateway of the head, and writes its address for nodes to `folder`.
    pub(crate) fn on_head(
        settings: &GatewaySettings,
        host: &Host,
        address: &str,
    ) -> Result<(Models, CoordinatorGateway, String), GatewayError> {
        let mut names = vec![address.to_owned(), host.name.clone()];
        names.dedup();
        let certificate = Certificate::make(&names)?;
        let pem = certificate.pem().to_owned();
        let options = ListenOptions {
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            pages: Pages::Hidden,
            certificate: Some(certificate),
        };
        let models = Models::at(settings, &host.env, options)?;
        let port = models.gateway.address().port();
        let scripted = settings.script.is_some();
        let providers = PROVIDERS.into_iter().filter(|known| {
            let is_there = known.upstream(&host.env).is_some();
            scripted || is_there
        });
        let head = CoordinatorGateway {
            url: format!("https://{address}:{port}"),
            certificate: Utf8PathBuf::new(),
            secret: uuid::Uuid::now_v7().to_string() + &uuid::Uuid::now_v7().to_string(),
            providers: providers
                .map(|known| known.provider.name().to_owned())
                .collect(),
        };
        Ok((models, head, pem))
    }

    /// Creates the key of a trial on a node.
    pub(crate) fn admit(
        &self,
        head: &CoordinatorGateway,
        label: &str,
    ) -> Result<VirtualKey, GatewayError> {
        self.gateway.mint(KeySpec {
            label: label.to_owned(),
            shared: self.shared.clone(),
            key: Some(VirtualKey::derived(
                &Secret::new(head.secret.clone()),
                label,
            )),
            ..KeySpec::default()
        })
    }
}

impl CoordinatorGateway {
    /// Sets the file of its certificate.
    pub(crate) fn with_certificate(mut self, path: Utf8PathBuf) -> CoordinatorGateway {
        self.certificate = path;
        self
    }
}
