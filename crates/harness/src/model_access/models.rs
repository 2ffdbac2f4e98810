//! The gateway of a run, and the key of each trial.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::agent::Endpoint;
use proctor_gateway::{
    Budget, Certificate, Gateway, GatewayConfig, GatewayError, KeySpec, Limits, NanoUsd,
    NumberSetting, OnMiss, Pace, Pages, PortGuard, Provider, RecordingSpec, RequestPolicy, Secret,
    ServerTools, SocketGuard, Upstream, VirtualKey, Watch,
};
use proctor_process::Relay;
use proctor_record::{record::GatewayPlace, usage::Usd};
use tokio_util::sync::CancellationToken;

use super::{CALLS_FILE, KeyAccount, PROVIDERS, account::replayed, prices};
use crate::config::{Execution, GatewaySettings, RecordingMode, Recordings};

/// The gateway's port in containers.
pub const PORT_INSIDE: u16 = 4000;

/// The socket of a trial's connection to the gateway.
pub const SOCKET: &str = "gateway.sock";

/// The gateway of a run.
#[derive(Debug)]
pub struct Models {
    pub(super) gateway: Arc<Gateway>,
    pub(super) settings: GatewaySettings,
    /// The shared budget of all trials.
    pub(super) shared: Vec<Arc<Budget>>,
    /// The location of the gateway, if trials run on nodes.
    pub(super) known_as: Option<GatewayPlace>,
}

/// The model access of a trial.
#[derive(Debug)]
pub struct TrialModels {
    gateway: Arc<Gateway>,
    key: VirtualKey,
    /// The trial's own listener: a socket for containers, a port for agents on this machine.
    _socket: Option<SocketGuard>,
    _port: Option<PortGuard>,
    /// The endpoint for the agent.
    pub endpoint: Endpoint,
    /// Cancelled when the agent sends a key that the gateway does not know.
    pub unknown_key: CancellationToken,
}

impl TrialModels {
    /// Proxy variables for access to the allowed hosts through the gateway.
    pub fn proxy_env(&self) -> BTreeMap<String, String> {
        let host = self.endpoint.base_url.trim_start_matches("http://");
        let proxy = format!("http://proctor:{}@{host}", self.endpoint.key);
        [
            ("HTTPS_PROXY", proxy.as_str()),
            ("https_proxy", proxy.as_str()),
            ("NO_PROXY", "127.0.0.1,localhost"),
            ("no_proxy", "127.0.0.1,localhost"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }
}

impl Drop for TrialModels {
    /// Revokes the key: a trial may be abandoned while its agent continues out of reach.
    fn drop(&mut self) {
        self.gateway.cut_off(&self.key);
    }
}

/// The gateway settings of a trial.
#[derive(Debug)]
pub struct Needs<'a> {
    /// The trial's identity as a path.
    pub label: &'a str,
    /// The directory of its call log.
    pub artifacts: &'a Utf8Path,
    /// The directory of its sockets, inside a container.
    pub sockets: Option<&'a Utf8Path>,
    /// The allowed hosts.
    pub allow_hosts: Vec<String>,
    /// The temperature that its agent is configured with and cannot set itself.
    pub temperature: Option<f64>,
    /// The shared budget of several keys of the trial, instead of the limits of each key.
    pub budget: Option<Arc<Budget>>,
    /// Provider keys that the agent has and may send.
    pub passed_keys: Vec<String>,
    /// Whether its network is closed: tools that run at the provider would bypass it.
    pub is_sealed: bool,
    /// Texts, skills and tools to look for in requests.
    pub watch: Vec<Watch>,
}

/// The address of a gateway, and whether it has status pages.
#[derive(Debug)]
pub(crate) struct ListenOptions {
    pub(crate) listen: SocketAddr,
    pub(crate) pages: Pages,
    pub(crate) certificate: Option<Certificate>,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        ListenOptions {
            listen: GatewayConfig::default().listen,
            pages: Pages::Hidden,
            certificate: None,
        }
    }
}

impl Models {
    /// Starts the gateway of `execution`; `None` if agents connect to providers directly.
    pub fn start(
        execution: &Execution,
        env: &BTreeMap<String, String>,
    ) -> Result<Option<Models>, GatewayError> {
        let settings = execution.gateway.as_ref();
        settings
            .map(|settings| Models::at(settings, env, ListenOptions::default()))
            .transpose()
    }

    /// Starts a gateway with these options.
    pub(crate) fn at(
        settings: &GatewaySettings,
        env: &BTreeMap<String, String>,
        options: ListenOptions,
    ) -> Result<Models, GatewayError> {
        let upstreams = match &settings.script {
            Some(script) => {
                let script = || Upstream::Script(Arc::clone(script));
                let providers = Provider::ALL.into_iter();
                providers.map(|provider| (provider, script())).collect()
            }
            None => PROVIDERS
                .into_iter()
                .filter_map(|known| {
                    let mut upstream = known.upstream(env)?;
                    let throttle = settings.throttles.get(known.provider.name());
                    upstream.throttle = throttle.copied().unwrap_or_default();
                    upstream.retries = settings.retries;
                    Some((known.provider, Upstream::Http(upstream)))
                })
                .collect(),
        };
        let extra_roots = env.get("SSL_CERT_FILE").filter(|file| !file.is_empty());
        let extra_roots = extra_roots.map(Utf8PathBuf::from);
        let gateway = Gateway::start(GatewayConfig {
            upstreams,
            prices: prices(settings),
            extra_roots: extra_roots
                .into_iter()
                .chain(settings.ca_file.clone())
                .map(Into::into)
                .collect(),
            listen: options.listen,
            pages: options.pages,
            certificate: options.certificate,
            ..GatewayConfig::default()
        })?;
        let run_limit = settings.run_budget_usd.map(|usd| Limits {
            usd: Some(nano_usd(usd)),
            ..Limits::default()
        });
        Ok(Models {
            gateway: Arc::new(gateway),
            shared: run_limit
                .map(|limits| Arc::new(Budget::new(limits)))
                .into_iter()
                .collect(),
            settings: settings.clone(),
            known_as: None,
        })
    }

    /// Starts a gateway for models as judges, for a run whose agents do not use one.
    pub fn start_for_judges(env: &BTreeMap<String, String>) -> Result<Models, GatewayError> {
        let execution = Execution {
            gateway: Some(GatewaySettings::default()),
            ..Execution::default()
        };
        let started = Models::start(&execution, env)?;
        Ok(started.expect("the gateway is enabled"))
    }

    /// The same gateway for judges. The limits and policies of agents do not apply, but the shared
    /// budget does.
    #[must_use]
    pub fn for_judges(&self) -> Models {
        Models {
            gateway: Arc::clone(&self.gateway),
            settings: GatewaySettings {
                recordings: self.settings.recordings.clone(),
                ..GatewaySettings::default()
            },
            shared: self.shared.clone(),
            known_as: self.known_as,
        }
    }

    /// Uses the shared budget of another gateway.
    pub(crate) fn share_budget(&mut self, other: &Models) {
        self.shared.clone_from(&other.shared);
    }

    /// Whether calls are recorded or replayed, so that equal questions must have equal text.
    pub fn has_recording(&self) -> bool {
        self.settings.recordings.is_some()
    }

    /// The budget of one trial with several keys.
    pub fn trial_budget(&self) -> Arc<Budget> {
        Arc::new(Budget::new(limits(&self.settings)))
    }

    /// Opens the model access of one trial.
    pub fn open(&self, needs: Needs<'_>) -> Result<TrialModels, GatewayError> {
        let sockets = needs.sockets;
        let key = self.gateway.mint(self.trial_key(needs))?;
        let (mut socket, mut port) = (None, None);
        let base_url = if let Some(folder) = sockets {
            let path = folder.join(SOCKET);
            socket = Some(self.gateway.listen_local(path.as_std_path(), Some(&key))?);
            format!("http://127.0.0.1:{PORT_INSIDE}")
        } else {
            let own = port.insert(self.gateway.listen_port(&key)?);
            format!("http://{}", own.address())
        };
        Ok(TrialModels {
            gateway: Arc::clone(&self.gateway),
            endpoint: Endpoint {
                base_url,
                key: key.expose().to_owned(),
            },
            unknown_key: self.gateway.unknown_key(&key).unwrap_or_default(),
            key,
            _socket: socket,
            _port: port,
        })
    }

    /// The key settings of a trial.
    fn trial_key(&self, needs: Needs<'_>) -> KeySpec {
        let mut spec = self.key_spec(&self.settings, needs.label);
        spec.log = Some(needs.artifacts.join(CALLS_FILE).into());
        spec.allow_hosts = needs.allow_hosts;
        if let Some(budget) = needs.budget {
            spec.limits = Limits::default();
            spec.shared.push(budget);
        }
        if let Some(temperature) = needs.temperature {
            spec.policy.temperature = Some(NumberSetting::Set(temperature));
        }
        if needs.is_sealed && self.settings.server_tools.is_none() {
            spec.policy.server_tools = ServerTools::Refuse;
        }
        spec.watch = needs.watch;
        spec.aliases = needs.passed_keys.into_iter().map(Secret::new).collect();
        spec
    }

    /// The key settings for these limits and policies.
    pub(crate) fn key_spec(&self, settings: &GatewaySettings, label: &str) -> KeySpec {
        KeySpec {
            label: label.to_owned(),
            limits: limits(settings),
            shared: self.shared.clone(),
            policy: RequestPolicy {
                models: settings.models.clone(),
                rename: settings.rename.clone(),
                temperature: settings.temperature,
                max_tokens: settings.max_tokens,
                server_tools: settings.server_tools.unwrap_or_default(),
            },
            recording: settings
                .recordings
                .as_ref()
                .map(|recordings| recording_spec(recordings, label)),
            faults: settings.faults.clone(),
            ..KeySpec::default()
        }
    }

    /// Whether calls are answered from recordings only.
    pub fn is_strict_replay(&self) -> bool {
        let mode = self
            .settings
            .recordings
            .as_ref()
            .map(|recordings| recordings.mode);
        mode == Some(RecordingMode::Replay(OnMiss::Refuse))
    }

    /// The gateway itself.
    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Closes a trial's model access. Returns its account.
    pub async fn close(&self, models: TrialModels) -> KeyAccount {
        self.revoke(&models.key).await
    }

    /// Revokes a key. Returns its account.
    pub(crate) async fn revoke(&self, key: &VirtualKey) -> KeyAccount {
        let ledger = self.gateway.revoke(key).await.unwrap_or_default();
        let mut account = KeyAccount::of(&ledger);
        let replays = self
            .settings
            .recordings
            .as_ref()
            .is_some_and(Recordings::replays);
        account.record.place = self.known_as;
        account.record.replay = ledger.recording.as_ref().filter(|_| replays).map(replayed);
        account
    }
}

/// An amount as the gateway has it.
fn nano_usd(amount: Usd) -> NanoUsd {
    NanoUsd(amount.nanos())
}

/// The budget of one trial.
fn limits(settings: &GatewaySettings) -> Limits {
    Limits {
        usd: settings.budget_usd.map(nano_usd),
        tokens: settings.budget_tokens,
        calls: settings.budget_calls,
    }
}

/// The recording of one trial's calls.
fn recording_spec(recordings: &Recordings, label: &str) -> RecordingSpec {
    let path = recordings.folder.join(format!("{label}.ndjson"));
    match recordings.mode {
        RecordingMode::Record => {
            // If the directory cannot be created, opening the file reports the error.
            let _ = fs_err::create_dir_all(path.parent().unwrap_or(&recordings.folder));
            RecordingSpec::Record(path.into())
        }
        RecordingMode::Replay(on_miss) => RecordingSpec::Replay {
            path: path.into(),
            on_miss,
            pace: Pace::AtOnce,
        },
    }
}

/// The forwarding from a port of a container to the gateway.
pub(crate) fn relay() -> Relay {
    Relay {
        listen: SocketAddr::from(([127, 0, 0, 1], PORT_INSIDE)),
        socket: format!("/proctor/run/{SOCKET}").into(),
    }
}

/// The directory of a trial's sockets.
pub fn sockets(trial_dir: &Utf8Path) -> Utf8PathBuf {
    trial_dir.join("run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_tools_are_refused_in_closed_networks_by_default() {
        let dir = tempfile::tempdir().unwrap();
        let (allow, refuse) = (ServerTools::Allow, ServerTools::Refuse);
        for (is_sealed, setting, expected) in [
            (true, None, refuse),
            (true, Some(allow), allow),
            (false, None, allow),
            (false, Some(refuse), refuse),
        ] {
            let mut models = Models::start_for_judges(&BTreeMap::new()).unwrap();
            models.settings.server_tools = setting;
            let spec = models.trial_key(Needs {
                label: "agent/task/1",
                artifacts: Utf8Path::from_path(dir.path()).unwrap(),
                sockets: None,
                allow_hosts: Vec::new(),
                temperature: None,
                budget: None,
                passed_keys: Vec::new(),
                is_sealed,
                watch: Vec::new(),
            });
            assert_eq!(spec.policy.server_tools, expected);
        }
    }

    #[test]
    fn key_of_an_abandoned_trial_is_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let models = Models::start_for_judges(&BTreeMap::new()).unwrap();
        let opened = models.open(Needs {
            label: "agent/task/1",
            artifacts: Utf8Path::from_path(dir.path()).unwrap(),
            sockets: None,
            allow_hosts: Vec::new(),
            temperature: None,
            budget: None,
            passed_keys: Vec::new(),
            is_sealed: false,
            watch: Vec::new(),
        });
        let opened = opened.unwrap();
        let key = opened.key.clone();
        assert!(models.gateway().ledger(&key).is_some());
        drop(opened);
        assert!(models.gateway().ledger(&key).is_none());
    }
}
