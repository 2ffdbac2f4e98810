//! The models as trials reach them: through a gateway of the run, each trial with a key of its
//! own. Real keys stay in the gateway; what a trial used has a second, independent source.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_gateway::{
    Auth, Budget, CassetteSpec, Gateway, GatewayConfig, GatewayError, HttpUpstream, KeySpec,
    Ledger, Limits, NanoUsd, OnMiss, Pace, Policy, Provider, Secret, Setting, SocketGuard, Totals,
    Upstream, VirtualKey,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    agent::Endpoint,
    config::{Execution, GatewaySettings, TapeMode, Tapes},
    usage::{Figures, Usage, UsageSource, Usd},
};

/// The port in containers from which the gateway is reached.
pub const PORT_INSIDE: u16 = 4000;
/// The file with one line for each call.
const CALLS_FILE: &str = "calls.ndjson";

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
    /// What all trials may spend together.
    shared: Vec<Arc<Budget>>,
    /// The real keys, so that they can be kept out of what agents see.
    secrets: Vec<String>,
}

/// A trial's way to the models.
#[derive(Debug)]
pub struct TrialModels {
    key: VirtualKey,
    _socket: Option<SocketGuard>,
    /// What the agent is told.
    pub endpoint: Endpoint,
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

/// What the gateway counted for a trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GatewayRecord {
    /// Calls that reached a model.
    pub calls: u64,
    /// Calls that failed there.
    pub calls_failed: u64,
    /// Calls that broke off: their usage may be too low.
    pub calls_cut: u64,
    /// Calls that the gateway refused.
    pub calls_refused: u64,
    /// The limit that stopped a call.
    pub exhausted: Option<String>,
    /// What was used, over all models.
    #[serde(flatten)]
    pub total: Figures,
    /// The same, for each model.
    pub per_model: BTreeMap<String, Figures>,
    /// Hosts that were asked for and refused, with how often.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_hosts: BTreeMap<String, u64>,
    /// Where the agent's own figures differ by more than one in a hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
}

impl Models {
    /// Start the gateway that `execution` asks for; `None` when agents reach models by themselves.
    pub fn start(
        execution: &Execution,
        env: &BTreeMap<String, String>,
    ) -> Result<Option<Models>, GatewayError> {
        let Some(settings) = &execution.gateway else {
            return Ok(None);
        };
        let mut secrets = Vec::new();
        let upstreams = match &settings.script {
            Some(script) => {
                let script = || Upstream::Script(Arc::clone(script));
                let providers = Provider::ALL.into_iter();
                providers.map(|provider| (provider, script())).collect()
            }
            None => PROVIDERS
                .into_iter()
                .filter_map(|known| {
                    let upstream = known.upstream(env)?;
                    secrets.extend(upstream.key.as_ref().map(|key| key.expose().to_owned()));
                    Some((known.provider, Upstream::Http(upstream)))
                })
                .collect(),
        };
        let gateway = Gateway::start(GatewayConfig {
            upstreams,
            extra_roots: env
                .get("SSL_CERT_FILE")
                .into_iter()
                .map(Into::into)
                .collect(),
            ..GatewayConfig::default()
        })?;
        let run_limit = settings.run_budget_usd.map(|usd| Limits {
            usd: Some(NanoUsd::from_usd(usd)),
            ..Limits::default()
        });
        Ok(Some(Models {
            gateway: Arc::new(gateway),
            shared: run_limit
                .map(|limits| Arc::new(Budget::new(limits)))
                .into_iter()
                .collect(),
            settings: settings.clone(),
            secrets,
        }))
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
                tapes: self.settings.tapes.clone(),
                ..GatewaySettings::default()
            },
            shared: self.shared.clone(),
            secrets: self.secrets.clone(),
        }
    }

    /// Whether calls are recorded or played back, so that the same question has to be asked in
    /// the same words.
    pub fn has_tapes(&self) -> bool {
        self.settings.tapes.is_some()
    }

    /// A way to the models for one trial, and to the hosts of `allow_hosts`. Inside a container it
    /// leads through a socket in `sockets`. `label` is the trial's place among all, as a path.
    pub fn open(
        &self,
        label: &str,
        artifacts: &Utf8Path,
        sockets: Option<&Utf8Path>,
        allow_hosts: Vec<String>,
    ) -> Result<TrialModels, GatewayError> {
        let settings = &self.settings;
        let tape = settings.tapes.as_ref().map(|tapes| tape(tapes, label));
        let key = self.gateway.mint(KeySpec {
            label: label.to_owned(),
            limits: Limits {
                usd: settings.budget_usd.map(NanoUsd::from_usd),
                tokens: settings.budget_tokens,
                calls: settings.budget_calls,
            },
            shared: self.shared.clone(),
            policy: Policy {
                models: settings.models.clone(),
                temperature: settings.temperature.map(Setting::Set),
                max_tokens: settings.max_tokens.map(Setting::AtMost),
                ..Policy::default()
            },
            log: Some(artifacts.join(CALLS_FILE).into()),
            allow_hosts,
            cassette: tape,
            ..KeySpec::default()
        })?;
        let socket = match sockets {
            None => None,
            Some(folder) => {
                let path = folder.join("gateway.sock");
                Some(self.gateway.listen_unix(path.as_std_path(), Some(&key))?)
            }
        };
        let base_url = match sockets {
            None => self.gateway.url(),
            Some(_) => format!("http://127.0.0.1:{PORT_INSIDE}"),
        };
        Ok(TrialModels {
            endpoint: Endpoint {
                base_url,
                key: key.expose().to_owned(),
            },
            key,
            _socket: socket,
        })
    }

    /// Replace real keys in a trial's environment by its own.
    pub fn hide_keys(&self, models: &TrialModels, env: &mut BTreeMap<String, String>) {
        for value in env.values_mut() {
            if self.secrets.iter().any(|secret| secret == value) {
                value.clone_from(&models.endpoint.key);
            }
        }
    }

    /// End a trial's way to the models, and say what went over it.
    pub async fn close(&self, models: TrialModels) -> GatewayRecord {
        let ledger = self.gateway.revoke(&models.key).await;
        GatewayRecord::of(&ledger.unwrap_or_default())
    }
}

/// The recording of one trial's calls.
fn tape(tapes: &Tapes, label: &str) -> CassetteSpec {
    let path = tapes.folder.join(format!("{label}.ndjson"));
    match tapes.mode {
        TapeMode::Record => {
            // When the folder cannot be made, opening the file says why.
            let _ = fs_err::create_dir_all(path.parent().unwrap_or(&tapes.folder));
            CassetteSpec::Record(path.into())
        }
        TapeMode::Replay => CassetteSpec::Replay {
            path: path.into(),
            on_miss: OnMiss::Refuse,
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

impl GatewayRecord {
    fn of(ledger: &Ledger) -> GatewayRecord {
        GatewayRecord {
            calls: ledger.totals.calls,
            calls_failed: ledger.totals.calls_failed,
            calls_cut: ledger.totals.calls_cut,
            calls_refused: ledger.refused,
            exhausted: ledger.exhausted.and_then(|limit| {
                serde_json::to_value(limit)
                    .ok()?
                    .as_str()
                    .map(str::to_owned)
            }),
            total: figures(&ledger.totals),
            per_model: ledger
                .models
                .iter()
                .map(|(model, totals)| (model.clone(), figures(totals)))
                .collect(),
            refused_hosts: ledger.refused_hosts.clone(),
            differences: Vec::new(),
        }
    }

    /// What was used, by the gateway's account; `None` when no call told.
    pub fn usage(&self) -> Option<Usage> {
        self.total.input_tokens.map(|_| Usage {
            total: self.total.clone(),
            source: UsageSource::Gateway,
            lower_bound: self.calls_cut > 0,
            per_model: self.per_model.clone(),
        })
    }

    /// Hold the agent's own figures against these.
    pub fn compare(&mut self, agent: &Usage) {
        let pairs = [
            (
                "input_tokens",
                agent.total.input_tokens,
                self.total.input_tokens,
            ),
            (
                "output_tokens",
                agent.total.output_tokens,
                self.total.output_tokens,
            ),
            (
                "cache_read_tokens",
                agent.total.cache_read_tokens,
                self.total.cache_read_tokens,
            ),
            (
                "cache_creation_tokens",
                agent.total.cache_creation_tokens,
                self.total.cache_creation_tokens,
            ),
        ];
        for (name, agent, gateway) in pairs {
            if let (Some(agent), Some(gateway)) = (agent, gateway)
                && agent.abs_diff(gateway) * 100 > agent.max(gateway)
            {
                let difference = format!("{name}: {agent} by the agent, {gateway} by the gateway");
                self.differences.push(difference);
            }
        }
    }
}

/// Sums in the words of the record. Without a call that told its usage nothing is known.
fn figures(totals: &Totals) -> Figures {
    let known = totals.calls > totals.calls_without_usage + totals.calls_failed;
    let tokens = totals.usage;
    let number = |value: u64| known.then_some(value);
    let cost = totals.cost().filter(|_| known);
    Figures {
        input_tokens: number(tokens.input),
        output_tokens: number(tokens.output),
        total_tokens: number(tokens.input.saturating_add(tokens.output)),
        cache_read_tokens: number(tokens.cache_read),
        cache_creation_tokens: number(tokens.cache_write_5m.saturating_add(tokens.cache_write_1h)),
        cost_usd: cost.and_then(|cost| Usd::from_dollars(cost.0 as f64 / 1e9)),
    }
}

/// The folder of a trial's sockets.
pub fn sockets(area: &Utf8Path) -> Utf8PathBuf {
    area.join("run")
}
