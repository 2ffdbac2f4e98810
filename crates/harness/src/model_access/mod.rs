//! The models as trials reach them: through a gateway of the run, each trial with a key of its
//! own. Real keys stay in the gateway; what a trial used has a second, independent source.

mod account;
pub mod litellm;
mod nodes;
mod reconcile;
pub mod standalone;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_gateway::{
    Auth, Budget, Certificate, Gateway, GatewayConfig, GatewayError, HttpUpstream, KeySpec, Limits,
    NanoUsd, OnMiss, Pace, Pages, Policy, PortGuard, Prices, Provider, RecordingSpec, Secret,
    ServerTools, Setting, SocketGuard, Upstream, VirtualKey,
};
use proctor_process::Relay;
use tokio_util::sync::CancellationToken;

use self::account::replayed;
pub use self::account::{KeyAccount, compare};
pub(crate) use self::nodes::{CoordinatorGateway, is_provider_key, stand_in_for_keys};
pub(crate) use self::reconcile::failed_call::FailedCall;
use crate::{
    agent::Endpoint,
    config::{Execution, GatewaySettings, RecordingMode, Recordings},
    record::{GatewayPlace, StoreError},
};

/// The port in containers from which the gateway is reached.
pub const PORT_INSIDE: u16 = 4000;
/// The socket of a trial's own way to the gateway.
pub const SOCKET: &str = "gateway.sock";
/// The file with one line for each call.
pub(crate) const CALLS_FILE: &str = "calls.ndjson";

/// A provider, and the variables that say where it is and with which key.
struct Known {
    provider: Provider,
    usual: &'static str,
    keys: &'static [(&'static str, Option<Auth>)],
    base_url: &'static str,
}

const PROVIDERS: [Known; 3] = [
    Known {
        provider: Provider::Anthropic,
        usual: "https://api.anthropic.com",
        keys: &[
            ("ANTHROPIC_API_KEY", None),
            ("ANTHROPIC_AUTH_TOKEN", Some(Auth::Bearer)),
        ],
        base_url: "ANTHROPIC_BASE_URL",
    },
    Known {
        provider: Provider::OpenAi,
        usual: "https://api.openai.com",
        keys: &[("OPENAI_API_KEY", None)],
        base_url: "OPENAI_BASE_URL",
    },
    Known {
        provider: Provider::Gemini,
        usual: "https://generativelanguage.googleapis.com",
        keys: &[("GEMINI_API_KEY", None), ("GOOGLE_API_KEY", None)],
        base_url: "GOOGLE_GEMINI_BASE_URL",
    },
];

/// The gateway of a run.
#[derive(Debug)]
pub struct Models {
    gateway: Arc<Gateway>,
    settings: GatewaySettings,
    /// The budget of all trials together.
    shared: Vec<Arc<Budget>>,
    /// Where it is, when trials run on nodes.
    known_as: Option<GatewayPlace>,
}

/// A trial's way to the models.
#[derive(Debug)]
pub struct TrialModels {
    gateway: Arc<Gateway>,
    key: VirtualKey,
    /// The trial's own listener: a socket for containers, a port for agents on this machine.
    _socket: Option<SocketGuard>,
    _port: Option<PortGuard>,
    /// Where the agent reaches the models.
    pub endpoint: Endpoint,
    /// Cancelled when the agent shows a key that the gateway does not know.
    pub unknown_key: CancellationToken,
}

impl TrialModels {
    /// Variables that lead programs through the gateway to the hosts that are allowed.
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
    /// A trial may be abandoned, with an agent that continues out of reach.
    fn drop(&mut self) {
        self.gateway.cut_off(&self.key);
    }
}

/// The gateway settings of a trial.
#[derive(Debug)]
pub struct Needs<'a> {
    /// The trial's place among all, as a path.
    pub label: &'a str,
    /// The folder that its call log goes to.
    pub artifacts: &'a Utf8Path,
    /// The folder of its sockets, inside a container.
    pub sockets: Option<&'a Utf8Path>,
    /// The hosts that it may reach.
    pub allow_hosts: Vec<String>,
    /// The temperature that its agent asks for and cannot set itself.
    pub temperature: Option<f64>,
    /// The shared budget of several keys of the trial, instead of the limits of each key.
    pub budget: Option<Arc<Budget>>,
    /// Real keys that the agent has and may show.
    pub passed_keys: Vec<String>,
    /// Whether its network is closed: tools that a provider runs itself would lead out of it.
    pub is_sealed: bool,
}

/// Where a gateway listens, and whether it shows what it does.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) listen: SocketAddr,
    pub(crate) pages: Pages,
    pub(crate) certificate: Option<Certificate>,
}

impl Default for Place {
    fn default() -> Place {
        Place {
            listen: GatewayConfig::default().listen,
            pages: Pages::Hidden,
            certificate: None,
        }
    }
}

impl Models {
    /// Start the gateway that `execution` asks for; `None` when agents reach models by themselves.
    pub fn start(
        execution: &Execution,
        env: &BTreeMap<String, String>,
    ) -> Result<Option<Models>, GatewayError> {
        let settings = execution.gateway.as_ref();
        settings
            .map(|settings| Models::at(settings, env, Place::default()))
            .transpose()
    }

    /// Start a gateway at this place.
    pub(crate) fn at(
        settings: &GatewaySettings,
        env: &BTreeMap<String, String>,
        place: Place,
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
            listen: place.listen,
            pages: place.pages,
            certificate: place.certificate,
            ..GatewayConfig::default()
        })?;
        let run_limit = settings.run_budget_usd.map(|usd| Limits {
            usd: Some(NanoUsd::from_usd(usd)),
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

    /// A gateway for judges that ask a model themselves, for a run whose agents need none.
    pub fn start_for_judges(env: &BTreeMap<String, String>) -> Result<Models, GatewayError> {
        let execution = Execution {
            gateway: Some(GatewaySettings::default()),
            ..Execution::default()
        };
        let started = Models::start(&execution, env)?;
        Ok(started.expect("a gateway was asked for"))
    }

    /// The same gateway for judges: what agents may spend and ask for does not bind them. What
    /// all trials may spend together does.
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

    /// Spend from the budget that all trials of another gateway share.
    pub(crate) fn share_budget(&mut self, other: &Models) {
        self.shared.clone_from(&other.shared);
    }

    /// Whether calls are recorded or played back, so that the same question has to be asked in
    /// the same words.
    pub fn has_tapes(&self) -> bool {
        self.settings.recordings.is_some()
    }

    /// The budget of one trial with several keys.
    pub fn trial_budget(&self) -> Arc<Budget> {
        Arc::new(Budget::new(limits(&self.settings)))
    }

    /// A way to the models for one trial.
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

    /// The key of a trial with these needs.
    fn trial_key(&self, needs: Needs<'_>) -> KeySpec {
        let mut spec = self.key_spec(&self.settings, needs.label);
        spec.log = Some(needs.artifacts.join(CALLS_FILE).into());
        spec.allow_hosts = needs.allow_hosts;
        if let Some(budget) = needs.budget {
            spec.limits = Limits::default();
            spec.shared.push(budget);
        }
        if let Some(temperature) = needs.temperature {
            spec.policy.temperature = Some(Setting::Set(temperature));
        }
        if needs.is_sealed && self.settings.server_tools.is_none() {
            spec.policy.server_tools = ServerTools::Refuse;
        }
        spec.aliases = needs.passed_keys.into_iter().map(Secret::new).collect();
        spec
    }

    /// A key with these limits and policies.
    pub(crate) fn key_spec(&self, settings: &GatewaySettings, label: &str) -> KeySpec {
        KeySpec {
            label: label.to_owned(),
            limits: limits(settings),
            shared: self.shared.clone(),
            policy: Policy {
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

    /// Whether calls are answered from recordings and from nothing else.
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

    /// End a trial's way to the models, and say what went over it.
    pub async fn close(&self, models: TrialModels) -> KeyAccount {
        self.revoke(&models.key).await
    }

    /// End a key, and say what went over it.
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

/// The known cost of the calls that gateways logged below a directory: those of the agent, of its
/// earlier iterations and of judges.
pub(crate) fn spent_usd_in(folder: &Utf8Path) -> f64 {
    #[derive(serde::Deserialize)]
    struct Spent {
        cost_nano_usd: Option<NanoUsd>,
        /// Set where the call broke off: budgets count the most that it may have cost.
        at_most_nano_usd: Option<NanoUsd>,
    }
    let known = calls_below::<Spent>(folder)
        .into_iter()
        .filter_map(|call| call.at_most_nano_usd.or(call.cost_nano_usd));
    known.fold(NanoUsd::default(), NanoUsd::plus).0 as f64 / 1e9
}

/// The calls that gateways logged below a directory. Files in workspaces belong to agents and are
/// skipped.
pub(crate) fn calls_below<T: serde::de::DeserializeOwned>(folder: &Utf8Path) -> Vec<T> {
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name() != "src-modified" {
            found.extend(calls_below::<T>(entry.path()));
        } else if entry.file_name() == CALLS_FILE {
            let text = fs_err::read_to_string(entry.path()).unwrap_or_default();
            // A line may be cut off where a process was killed.
            let calls = text.lines().map(serde_json::from_str);
            found.extend(calls.filter_map(Result::ok));
        }
    }
    found
}

/// Copy the logs of the calls of trials, which are named by their paths below `trials`, to the same
/// paths below `target`. Earlier iterations and judges have logs of their own.
pub(crate) fn copy_calls(
    trials: &Utf8Path,
    target: &Utf8Path,
    paths: impl Iterator<Item = Utf8PathBuf>,
) -> Result<(), StoreError> {
    for trial in paths {
        let logs = call_logs(&trials.join(&trial).join("artifacts"));
        for (number, log) in logs.iter().enumerate() {
            let ending = match number {
                0 => ".ndjson".to_owned(),
                more => format!(".{}.ndjson", more + 1),
            };
            let path = target.join(format!("{trial}{ending}"));
            let folder = path.parent().unwrap_or(target);
            let made = fs_err::create_dir_all(folder);
            let copied = made.and_then(|()| fs_err::copy(log, &path).map(drop));
            copied.map_err(|source| StoreError { path, source })?;
        }
    }
    Ok(())
}

/// The logs of calls in a trial's artifacts, the agent's own first.
fn call_logs(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let mut folders = Vec::new();
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.into_path());
        } else if entry.file_name() == CALLS_FILE {
            found.push(entry.into_path());
        }
    }
    folders.sort();
    for folder in folders {
        found.extend(call_logs(&folder));
    }
    found
}

/// The budget of one trial.
fn limits(settings: &GatewaySettings) -> Limits {
    Limits {
        usd: settings.budget_usd.map(NanoUsd::from_usd),
        tokens: settings.budget_tokens,
        calls: settings.budget_calls,
    }
}

/// The providers that the environment names, and where they are.
pub fn providers(env: &BTreeMap<String, String>) -> Vec<(&'static str, String)> {
    let known = PROVIDERS.into_iter();
    known
        .filter_map(|known| Some((known.provider.name(), known.upstream(env)?.base_url)))
        .collect()
}

/// All prices that hold with these settings.
pub fn prices(settings: &GatewaySettings) -> Prices {
    let mut prices = Prices::built_in();
    for price in &settings.prices {
        // They were checked when they were read.
        let _ = prices.add(price.clone());
    }
    prices
}

/// The recording of one trial's calls.
fn recording_spec(recordings: &Recordings, label: &str) -> RecordingSpec {
    let path = recordings.folder.join(format!("{label}.ndjson"));
    match recordings.mode {
        RecordingMode::Record => {
            // When the folder cannot be made, opening the file says why.
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

impl Known {
    /// The provider as the environment describes it; `None` when it says nothing.
    fn upstream(&self, env: &BTreeMap<String, String>) -> Option<HttpUpstream> {
        let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
        let key = self
            .keys
            .iter()
            .find_map(|(name, auth)| Some((set(name)?, *auth)));
        let base_url = set(self.base_url);
        if key.is_none() && base_url.is_none() {
            return None;
        }
        // Clients of some providers name the version in the base URL; the gateway gets it in the path.
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

/// The forwarding from a port of a container to the gateway.
pub(crate) fn relay() -> Relay {
    Relay {
        listen: SocketAddr::from(([127, 0, 0, 1], PORT_INSIDE)),
        socket: format!("/proctor/run/{SOCKET}").into(),
    }
}

/// The folder of a trial's sockets.
pub fn sockets(area: &Utf8Path) -> Utf8PathBuf {
    area.join("run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_of_a_provider_are_refused_in_closed_networks_unless_allowed() {
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
            });
            assert_eq!(spec.policy.server_tools, expected);
        }
    }

    #[test]
    fn the_key_of_a_trial_that_was_left_as_it_is_opens_nothing() {
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
        });
        let opened = opened.unwrap();
        let key = opened.key.clone();
        assert!(models.gateway().ledger(&key).is_some());
        drop(opened);
        assert!(models.gateway().ledger(&key).is_none());
    }
}
