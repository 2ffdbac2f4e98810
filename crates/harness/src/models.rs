//! The models as trials reach them: through a gateway of the run, each trial with a key of its
//! own. Real keys stay in the gateway; what a trial used has a second, independent source.

mod gateways;
mod nodes;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_gateway::{
    Auth, Budget, Call, CassetteReport, CassetteSpec, Certificate, Ended, Gateway, GatewayConfig,
    GatewayError, HttpUpstream, KeySpec, Kind, Ledger, Limits, ModelContext, NanoUsd, OnMiss, Pace,
    Pages, Policy, Prices, Provider, Secret, Setting, SocketGuard, Tokens, Totals, Upstream,
    VirtualKey,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::gateways::RunGateways;
pub(crate) use self::nodes::{HeadGateway, is_provider_key};
use crate::{
    agent::Endpoint,
    config::{Execution, GatewayPlace, GatewaySettings, TapeMode, Tapes},
    last_call::{self, FailedCall},
    side_calls::{self, SideCall, View},
    usage::{Figures, Usage, UsageSource, Usd},
};

/// The port in containers from which the gateway is reached.
pub const PORT_INSIDE: u16 = 4000;
/// The socket of a trial's own way to the gateway.
pub const SOCKET: &str = "gateway.sock";
/// The file with one line for each call.
pub(crate) const CALLS_FILE: &str = "calls.ndjson";

/// So many differences to a recording are told.
const MOST_DIFFERENCES: usize = 20;

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
    /// Where it is, when trials run on nodes.
    known_as: Option<GatewayPlace>,
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
    /// Calls whose provider could not be reached or did not answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_unreachable: u64,
    /// Calls that a fault was put into on purpose.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_with_faults: u64,
    /// How often the gateway asked a provider again: what the agent would have done is not seen.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u64,
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
    /// Calls that the agent's own figures leave out, such as those for titles and commit messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_calls: Vec<SideCall>,
    /// Where the agent's own figures, with those calls, differ by more than one in a hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// What was done with a recording, when calls were answered from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayRecord>,
    /// Where the gateway was, when the trial ran on a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<GatewayPlace>,
    /// The calls one by one, to compare with; on disk they are in the call log.
    #[serde(skip)]
    seen: Vec<SideCall>,
    /// What the agent told its model besides the prompt, in a file of its own.
    #[serde(skip)]
    pub(crate) context: Option<ModelContext>,
    /// The last call, if it failed.
    #[serde(skip)]
    pub(crate) last_failure: Option<FailedCall>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What the gateway did with a recording of earlier calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayRecord {
    /// Calls that were answered from it.
    pub answered: usize,
    /// Calls that are not in it.
    pub missed: usize,
    /// Recorded calls that nobody asked for.
    pub unused: usize,
    /// Where calls that are not in it differ from what was expected next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
}

/// What a trial needs of the gateway.
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
                    let mut upstream = known.upstream(env)?;
                    let throttle = settings.throttles.get(known.provider.name());
                    upstream.throttle = throttle.copied().unwrap_or_default();
                    upstream.retries = settings.retries;
                    secrets.extend(upstream.key.as_ref().map(|key| key.expose().to_owned()));
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
            secrets,
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
                tapes: self.settings.tapes.clone(),
                ..GatewaySettings::default()
            },
            shared: self.shared.clone(),
            secrets: self.secrets.clone(),
            known_as: self.known_as,
        }
    }

    /// Whether calls are recorded or played back, so that the same question has to be asked in
    /// the same words.
    pub fn has_tapes(&self) -> bool {
        self.settings.tapes.is_some()
    }

    /// A way to the models for one trial.
    pub fn open(&self, needs: Needs<'_>) -> Result<TrialModels, GatewayError> {
        let mut spec = self.key_spec(&self.settings, needs.label);
        spec.log = Some(needs.artifacts.join(CALLS_FILE).into());
        spec.allow_hosts = needs.allow_hosts;
        if let Some(temperature) = needs.temperature {
            spec.policy.temperature = Some(Setting::Set(temperature));
        }
        let key = self.gateway.mint(spec)?;
        let socket = match needs.sockets {
            None => None,
            Some(folder) => {
                let path = folder.join(SOCKET);
                Some(self.gateway.listen_unix(path.as_std_path(), Some(&key))?)
            }
        };
        let base_url = match needs.sockets {
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

    /// A key with these limits and policies.
    pub(crate) fn key_spec(&self, settings: &GatewaySettings, label: &str) -> KeySpec {
        KeySpec {
            label: label.to_owned(),
            limits: Limits {
                usd: settings.budget_usd.map(NanoUsd::from_usd),
                tokens: settings.budget_tokens,
                calls: settings.budget_calls,
            },
            shared: self.shared.clone(),
            policy: Policy {
                models: settings.models.clone(),
                rename: settings.rename.clone(),
                temperature: settings.temperature,
                max_tokens: settings.max_tokens,
            },
            cassette: settings.tapes.as_ref().map(|tapes| tape(tapes, label)),
            faults: settings.faults.clone(),
            ..KeySpec::default()
        }
    }

    /// Whether calls are answered from recordings and from nothing else.
    pub fn is_strict_replay(&self) -> bool {
        let mode = self.settings.tapes.as_ref().map(|tapes| tapes.mode);
        mode == Some(TapeMode::Replay(OnMiss::Refuse))
    }

    /// The gateway itself.
    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
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
        self.revoke(&models.key).await
    }

    /// End a key, and say what went over it.
    pub(crate) async fn revoke(&self, key: &VirtualKey) -> GatewayRecord {
        let ledger = self.gateway.revoke(key).await.unwrap_or_default();
        let mut record = GatewayRecord::of(&ledger);
        let replays = self.settings.tapes.as_ref().is_some_and(Tapes::replays);
        record.place = self.known_as;
        record.replay = ledger.cassette.as_ref().filter(|_| replays).map(replayed);
        record
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

/// A cassette's report, in the words of the record.
fn replayed(report: &CassetteReport) -> ReplayRecord {
    let told = report.misses.iter().flat_map(|miss| {
        let places = miss.differences.iter().map(|difference| {
            format!(
                "{} {}: recorded {}, asked {}",
                miss.path, difference.at, difference.recorded, difference.asked
            )
        });
        let none = miss.differences.is_empty();
        let none = none.then(|| format!("{}: nothing like it was recorded", miss.path));
        places.chain(none).collect::<Vec<_>>()
    });
    ReplayRecord {
        answered: report.hits,
        missed: report.missed,
        unused: report.unused,
        differences: told.take(MOST_DIFFERENCES).collect(),
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
        TapeMode::Replay(on_miss) => CassetteSpec::Replay {
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

impl GatewayRecord {
    fn of(ledger: &Ledger) -> GatewayRecord {
        GatewayRecord {
            calls: ledger.totals.calls,
            calls_failed: ledger.totals.calls_failed,
            calls_cut: ledger.totals.calls_cut,
            calls_refused: ledger.refused,
            calls_unreachable: ledger.totals.calls_unreachable,
            calls_with_faults: ledger.totals.calls_with_faults,
            retries: ledger.totals.retries,
            exhausted: ledger.exhausted.map(|limit| limit.name().to_owned()),
            total: figures(&ledger.totals),
            per_model: ledger
                .models
                .iter()
                .map(|(model, totals)| (model.clone(), figures(totals)))
                .collect(),
            refused_hosts: ledger.refused_hosts.clone(),
            side_calls: Vec::new(),
            differences: Vec::new(),
            replay: None,
            place: None,
            seen: ledger.calls.iter().filter_map(seen).collect(),
            context: ledger.context.clone(),
            last_failure: last_call::failed(ledger),
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
        self.side_calls = side_calls::left_out(&agent.total, &self.total, &self.seen);
        let view = View::of(&agent.total);
        let mut told = view.numbers(&agent.total);
        for call in &self.side_calls {
            for (told, more) in told.iter_mut().zip(view.numbers(&call.figures)) {
                *told = told.map(|told| told + more.unwrap_or_default());
            }
        }
        let pairs = told.into_iter().zip(view.numbers(&self.total));
        for (name, pair) in View::NAMES.into_iter().zip(pairs) {
            if let (Some(agent), Some(gateway)) = pair
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
    if !known {
        return Figures::default();
    }
    counted(totals.usage, totals.cost())
}

/// Tokens and their cost in the words of the record.
fn counted(tokens: Tokens, cost: Option<NanoUsd>) -> Figures {
    Figures {
        input_tokens: Some(tokens.input),
        output_tokens: Some(tokens.output),
        total_tokens: Some(tokens.input.saturating_add(tokens.output)),
        cache_read_tokens: Some(tokens.cache_read),
        cache_creation_tokens: Some(tokens.cache_write_5m.saturating_add(tokens.cache_write_1h)),
        cost_usd: cost.and_then(|cost| Usd::from_dollars(cost.0 as f64 / 1e9)),
    }
}

/// A call whose usage is known.
fn seen(call: &Call) -> Option<SideCall> {
    let counts = call.kind == Kind::Generate && call.ended != Ended::Refused;
    Some(SideCall {
        call: call.call,
        model: call.effective_model().map(str::to_owned),
        figures: counted(call.usage.filter(|_| counts)?, call.cost_nano_usd),
    })
}

/// The folder of a trial's sockets.
pub fn sockets(area: &Utf8Path) -> Utf8PathBuf {
    area.join("run")
}
