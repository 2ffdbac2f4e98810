//! Where and how trials execute: `executor`, `sandbox`, `limits`, `network`, `providers` and
//! `gateway` of a suite.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{Fault, Node, Value, parse_size, parse_yaml};
use proctor_gateway::{Faults, Price, Script, ServerTools, Setting, Throttle};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    executor::{self, Executor},
    gateway,
    keep_workspace::KeepWorkspace,
    litellm::{self, GatewayKind, LiteLlmSettings},
    recording::{self, MissAsWritten, Recordings},
    suite::Suite,
};
use crate::{
    config::ProgressLimits,
    sandbox::{Network, ResourceLimits, SandboxKind, SandboxSettings},
};

/// More tries hide for too long that a provider fails.
const MOST_RETRIES: u32 = 10;

/// Where and how trials execute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Execution {
    /// The executor of the trials.
    pub executor: Executor,
    /// The kind of sandbox.
    pub sandbox: SandboxKind,
    /// The image of trials whose agent and task name none.
    pub image: Option<String>,
    /// Names of images that stand for others, such as a mirror's.
    pub images: BTreeMap<String, String>,
    /// Resource limits of a trial.
    pub limits: ResourceLimits,
    /// When an agent is ended for not getting on; `None` leaves it to the task.
    pub progress: ProgressLimits,
    /// The network of a trial; `None` leaves it to the task.
    pub network: Option<Network>,
    /// How many trials use a provider at the same time; as many as there are when it is not here.
    pub providers: BTreeMap<String, usize>,
    /// The gateway that agents reach models through; `None` when they do so by themselves.
    pub gateway: Option<GatewaySettings>,
    /// Variables that agents get as they are, secret or not.
    pub pass_through: Vec<String>,
    /// Whether the suite says that there is to be no gateway, in containers either.
    pub refuses_gateway: bool,
    /// Where a copy of each trial's log of calls goes when the run ends.
    pub log_dir: Option<Utf8PathBuf>,
    /// Which workspaces of finished trials are kept.
    pub keep_workspace: KeepWorkspace,
}

impl Execution {
    /// Run in containers. There nothing but the gateway leads to the models, unless the suite
    /// wants none.
    pub fn use_containers(&mut self) {
        self.sandbox = SandboxKind::Docker;
        if !self.refuses_gateway {
            self.gateway.get_or_insert_default();
        }
    }

    /// The part of it that sandboxes need.
    pub(crate) fn sandbox_settings(&self) -> SandboxSettings {
        let engines = match &self.executor {
            Executor::Docker(engines) => engines.clone(),
            Executor::Local | Executor::Slurm(_) => Vec::new(),
        };
        SandboxSettings {
            kind: self.sandbox,
            image: self.image.clone(),
            engines,
            images: self.images.clone(),
            limits: self.limits,
            network: self.network.clone(),
            refuses_gateway: self.refuses_gateway,
        }
    }

    /// A setting that only containers can hold to, when there are none.
    pub fn idle_setting(&self) -> Option<&'static str> {
        if self.sandbox == SandboxKind::Docker {
            None
        } else if self.limits != ResourceLimits::default() {
            Some("limits")
        } else {
            self.network.as_ref().map(|_| "network")
        }
    }
}

/// The gateway of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewaySettings {
    /// What one trial may spend, in dollars.
    pub budget_usd: Option<f64>,
    /// How many tokens one trial may use.
    pub budget_tokens: Option<u64>,
    /// How many calls one trial may make.
    pub budget_calls: Option<u64>,
    /// What all trials may spend together, in dollars.
    pub run_budget_usd: Option<f64>,
    /// The models that may be asked for; all when empty.
    pub models: Vec<String>,
    /// Models that are replaced by others, in the order in which they are looked for.
    pub rename: Vec<(String, String)>,
    /// The temperature of every request.
    pub temperature: Option<Setting<f64>>,
    /// The longest answer, in tokens.
    pub max_tokens: Option<Setting<u64>>,
    /// How to handle tools that run at the provider. By default they are refused in closed
    /// networks.
    pub server_tools: Option<ServerTools>,
    /// How much each provider gets at once, by its name.
    pub throttles: BTreeMap<&'static str, Throttle>,
    /// How often the gateway asks again when a provider fails.
    pub retries: u32,
    /// Faults that are put in on purpose.
    pub faults: Option<Faults>,
    /// Prices that win over the built-in ones, the later over the earlier.
    pub prices: Vec<Price>,
    /// A file with certificates to trust besides the well-known roots.
    pub ca_file: Option<Utf8PathBuf>,
    /// The source of answers instead of the providers.
    pub script: Option<Arc<Script>>,
    /// The use of recordings.
    pub recordings: Option<Recordings>,
    /// LiteLLM between the gateway and the providers.
    pub litellm: Option<LiteLlmSettings>,
}

impl GatewaySettings {
    /// The model that is sent when this one is asked for.
    pub fn sent_model<'a>(&'a self, asked: &'a str) -> &'a str {
        let policy = |(from, _): &&(String, String)| match from.strip_suffix('*') {
            Some(start) => asked.starts_with(start),
            None => from == asked,
        };
        let renamed = self.rename.iter().find(policy);
        renamed.map_or(asked, |(_, to)| to)
    }

    /// Whether anything is limited in dollars.
    pub fn has_money_limit(&self) -> bool {
        self.budget_usd.is_some() || self.run_budget_usd.is_some()
    }
}

/// `gateway`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GatewayAsWritten {
    /// What one trial may spend, in dollars.
    budget_usd: Option<f64>,
    /// How many tokens one trial may use.
    budget_tokens: Option<u64>,
    /// How many calls one trial may make.
    budget_calls: Option<u64>,
    /// What all trials may spend together, in dollars.
    run_budget_usd: Option<f64>,
    /// The models that may be asked for; a `*` at the end stands for anything.
    #[serde(default)]
    models: Vec<String>,
    /// Models that are replaced by others; a `*` at the end of a name stands for anything.
    #[serde(default)]
    rename: BTreeMap<String, String>,
    /// The temperature of every request: a number, or `{at_most: N}`.
    #[schemars(with = "Option<gateway::NumberChoice>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    temperature: Option<IgnoredAny>,
    /// The longest answer, in tokens: a number, or `{set: N}`.
    #[schemars(with = "Option<gateway::NumberChoice>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    max_tokens: Option<IgnoredAny>,
    /// Tools that a provider runs itself, such as searches of the web. Unless given, they are refused in
    /// containers without an open network, and pass elsewhere.
    server_tools: Option<ServerToolsAsWritten>,
    /// The most requests to a provider that start in a minute: `{anthropic: 300}`.
    #[serde(default)]
    rate: BTreeMap<String, u32>,
    /// The most requests to a provider at the same time: `{anthropic: 8}`.
    #[serde(default)]
    concurrency: BTreeMap<String, usize>,
    /// How often the gateway asks again when a provider fails. The agent's own behaviour is not
    /// seen then.
    #[schemars(range(max = 10))]
    #[serde(default)]
    retries: u32,
    /// Faults that are put in on purpose, for testing agents.
    #[schemars(with = "Option<gateway::FaultsAsWritten>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    faults: Option<IgnoredAny>,
    /// A file with prices, beside the suite, that win over the built-in ones.
    prices: Option<String>,
    /// A file with certificates to trust besides the well-known roots, beside the suite.
    ca_file: Option<String>,
    /// A file with answers, beside the suite: no model is asked and nothing is paid.
    script: Option<String>,
    /// A folder, beside the suite, that each trial's calls are recorded to.
    record: Option<String>,
    /// A folder of such recordings that calls are answered from: no model is asked.
    replay: Option<String>,
    /// What becomes of a call that was not recorded: it is refused, or goes to the provider.
    on_miss: Option<MissAsWritten>,
    /// What leads to the providers: `proctor` alone, or `litellm` behind it.
    #[serde(default)]
    kind: GatewayKind,
    /// Where LiteLLM runs already. Without it one is started for the run.
    #[expect(dead_code, reason = "read with its place; named here as a known key")]
    url: Option<String>,
    /// The program of LiteLLM, relative to the suite: `litellm` on the PATH unless given.
    #[expect(dead_code, reason = "read with its place; named here as a known key")]
    program: Option<String>,
    /// The port of the LiteLLM that is started: a free one unless given.
    #[expect(dead_code, reason = "read with its place; named here as a known key")]
    port: Option<u16>,
}

/// `gateway.server_tools`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ServerToolsAsWritten {
    /// They are refused.
    Refuse,
    /// They pass.
    Allow,
}

/// A name, or a map with settings.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "stands for its schema")]
pub(super) enum SandboxChoice {
    Named(SandboxKind),
    Map(SandboxAsWritten),
}

/// A name, or a map with the hosts that are allowed.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "stands for its schema")]
pub(super) enum NetworkChoice {
    Named(NetworkName),
    Map(NetworkAsWritten),
}

/// What a trial may reach.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "stands for its schema")]
pub(super) enum NetworkName {
    Gateway,
    Open,
    None,
}

/// `sandbox`, when it is a map.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SandboxAsWritten {
    /// `local` or `docker`.
    #[serde(rename = "type")]
    kind: SandboxKind,
    /// The image of trials whose agent and task name none.
    image: Option<String>,
    /// Names of images that stand for others, such as a mirror's.
    #[serde(default)]
    images: BTreeMap<String, String>,
}

/// `limits`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsAsWritten {
    /// Processors, in parts of one.
    #[schemars(range(min = 0.01))]
    cpus: Option<f64>,
    /// Memory: `512m`, `4g`.
    memory: Option<String>,
    /// Processes and threads.
    #[schemars(range(min = 1))]
    pids: Option<u32>,
    /// Disk: `10g`.
    disk: Option<String>,
    /// End an agent when for so many milliseconds it has told of nothing new and changed no file of
    /// its workspace. Needs no containers.
    #[schemars(range(min = 1))]
    no_progress_timeout: Option<u64>,
    /// End an agent when it uses a tool with the same input, or tells of the same trouble, so many
    /// times in a row. Needs no containers.
    #[schemars(range(min = 2))]
    loop_limit: Option<u32>,
}

/// `network`, when it is a map.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkAsWritten {
    /// Hosts that are reached through the gateway: names, `*.names`, addresses, networks.
    allowlist: Vec<String>,
}

/// An entry of `providers`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderAsWritten {
    /// How many trials use it at the same time.
    #[schemars(range(min = 1))]
    parallel: usize,
}

/// Read the sections of a suite that say where and how trials execute; their faults are collected.
pub(super) fn read(suite: &Suite, folder: &Utf8Path, faults: &mut Vec<Fault>) -> Execution {
    let mut execution = Execution::default();
    let mut read = |section: &Option<Node>, read: &mut dyn FnMut(&Node) -> Result<(), Fault>| {
        if let Some(Err(fault)) = section.as_ref().map(read) {
            faults.push(fault);
        }
    };
    read(&suite.executor, &mut |node| {
        execution.executor = executor::read(node)?;
        Ok(())
    });
    read(&suite.sandbox, &mut |node| sandbox(node, &mut execution));
    read(&suite.limits, &mut |node| limits(node, &mut execution));
    read(&suite.network, &mut |node| {
        execution.network = Some(network(node)?);
        Ok(())
    });
    read(&suite.providers, &mut |node| {
        execution.providers = providers(node)?;
        Ok(())
    });
    read(&suite.gateway, &mut |node| {
        execution.gateway = Some(gateway_section(node, folder)?);
        Ok(())
    });
    execution
}

fn sandbox(node: &Node, execution: &mut Execution) -> Result<(), Fault> {
    if let Value::String(_) = node.value {
        execution.sandbox = node.read()?;
        return Ok(());
    }
    let written: SandboxAsWritten = node.read()?;
    if written.kind == SandboxKind::Local {
        for key in ["image", "images"] {
            if node.get(key).is_some() {
                return Err(node.fault(key, "the local sandbox has no images"));
            }
        }
    }
    execution.sandbox = written.kind;
    execution.image = written.image;
    execution.images = written.images;
    Ok(())
}

fn limits(node: &Node, execution: &mut Execution) -> Result<(), Fault> {
    let written: LimitsAsWritten = node.read()?;
    let size = |key: &str, text: Option<&String>| match text {
        None => Ok(None),
        Some(text) => parse_size(text).map(Some).ok_or_else(|| {
            node.fault(key, format!("`{text}` is not a size"))
                .with_hint("write a number with a unit, such as `512m` or `4g`")
        }),
    };
    if written
        .cpus
        .is_some_and(|cpus| cpus.is_nan() || cpus < 0.01)
    {
        return Err(node.fault("cpus", "`cpus` is a number from 0.01"));
    }
    if written.pids == Some(0) {
        return Err(node.fault("pids", "`pids` is a number from 1"));
    }
    if written.no_progress_timeout == Some(0) {
        let message = "`no_progress_timeout` is a number of milliseconds from 1";
        return Err(node.fault("no_progress_timeout", message));
    }
    if written.loop_limit.is_some_and(|times| times < 2) {
        return Err(node.fault("loop_limit", "`loop_limit` is a number from 2"));
    }
    execution.limits = ResourceLimits {
        cpus: written.cpus,
        memory: size("memory", written.memory.as_ref())?,
        pids: written.pids,
        disk: size("disk", written.disk.as_ref())?,
    };
    execution.progress = ProgressLimits {
        quiet: written.no_progress_timeout.map(Duration::from_millis),
        repeats: written.loop_limit,
    };
    Ok(())
}

fn network(node: &Node) -> Result<Network, Fault> {
    if let Value::Map(_) = node.value {
        let written: NetworkAsWritten = node.read()?;
        return Ok(if written.allowlist.is_empty() {
            Network::Gateway
        } else {
            Network::Allowlist(written.allowlist)
        });
    }
    let text = node.as_str().unwrap_or_default();
    network_named(text).ok_or_else(|| {
        Fault::new(
            node.span,
            format!("expected a network, found {}", node.value),
        )
        .with_hint("known: `gateway`, `open`, `none`, or a map with an `allowlist` of hosts")
    })
}

/// The network with this name.
pub(crate) fn network_named(name: &str) -> Option<Network> {
    match name {
        "gateway" => Some(Network::Gateway),
        "open" => Some(Network::Open),
        "none" => Some(Network::None),
        _ => None,
    }
}

fn providers(node: &Node) -> Result<BTreeMap<String, usize>, Fault> {
    let written: BTreeMap<String, ProviderAsWritten> = node.read()?;
    let mut limits = BTreeMap::new();
    for (name, provider) in written {
        if provider.parallel == 0 {
            return Err(node.fault(&name, "`parallel` is a number from 1"));
        }
        limits.insert(name, provider.parallel);
    }
    Ok(limits)
}

/// A gateway section outside of suites, where LiteLLM is not supported.
pub(super) fn gateway_without_suite(
    node: &Node,
    folder: &Utf8Path,
) -> Result<GatewaySettings, Fault> {
    let settings = gateway_section(node, folder)?;
    if settings.litellm.is_some() {
        let fault = node.fault("kind", "`kind: litellm` works in suites only");
        return Err(fault.with_hint("run the test case from a suite, or use `kind: proctor`"));
    }
    Ok(settings)
}

/// The section `gateway` of a file in this folder.
fn gateway_section(node: &Node, folder: &Utf8Path) -> Result<GatewaySettings, Fault> {
    let written: GatewayAsWritten = node.read()?;
    check_gateway(&written, node)?;
    let script = match &written.script {
        None => None,
        Some(file) => {
            let script = read_script(&folder.join(file));
            Some(script.map_err(|message| node.fault("script", message))?)
        }
    };
    let prices = match &written.prices {
        None => Vec::new(),
        Some(file) => gateway::read_prices(&folder.join(file))
            .map_err(|message| node.fault("prices", message))?,
    };
    Ok(GatewaySettings {
        budget_usd: written.budget_usd,
        budget_tokens: written.budget_tokens,
        budget_calls: written.budget_calls,
        run_budget_usd: written.run_budget_usd,
        recordings: written.recordings(node, folder)?,
        rename: gateway::renames(&written.rename),
        temperature: gateway::number(node, "temperature", Setting::Set)?,
        max_tokens: gateway::number(node, "max_tokens", Setting::AtMost)?,
        throttles: gateway::throttles(node, &written.rate, &written.concurrency)?,
        server_tools: written.server_tools.map(|choice| match choice {
            ServerToolsAsWritten::Refuse => ServerTools::Refuse,
            ServerToolsAsWritten::Allow => ServerTools::Allow,
        }),
        retries: written.retries,
        faults: gateway::faults(node)?,
        ca_file: written.ca_file.map(|file| folder.join(file)),
        litellm: litellm::read(written.kind, node, folder)?,
        models: written.models,
        prices,
        script,
    })
}

impl GatewayAsWritten {
    fn recordings(&self, node: &Node, folder: &Utf8Path) -> Result<Option<Recordings>, Fault> {
        let written = recording::Written {
            record: self.record.as_deref(),
            replay: self.replay.as_deref(),
            on_miss: self.on_miss,
        };
        written.read(node, folder)
    }
}

fn check_gateway(written: &GatewayAsWritten, node: &Node) -> Result<(), Fault> {
    for (key, amount) in [
        ("budget_usd", written.budget_usd),
        ("run_budget_usd", written.run_budget_usd),
    ] {
        if amount.is_some_and(|usd| !usd.is_finite() || usd <= 0.0) {
            return Err(node.fault(key, format!("`{key}` is an amount of dollars above 0")));
        }
    }
    if written.retries > MOST_RETRIES {
        let message = format!("`retries` is a number from 0 to {MOST_RETRIES}");
        return Err(node.fault("retries", message));
    }
    Ok(())
}

/// A file with the answers of a scripted model.
pub fn read_script(path: &Utf8Path) -> Result<Arc<Script>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let root = parse_yaml(&text).map_err(|faults| {
        let first = faults.first().map_or("", |fault| fault.message.as_str());
        format!("{path}: {first}")
    })?;
    let script: Script = root
        .read()
        .map_err(|fault| format!("{path}: {}", fault.message))?;
    Ok(Arc::new(script))
}

/// Settings that need containers are refused without them.
pub(super) fn check(execution: &Execution, root: &Node, faults: &mut Vec<Fault>) {
    executor::check(execution, root, faults);
    if execution.sandbox == SandboxKind::Docker {
        return;
    }
    let is_idle = |key: &str| match key {
        "limits" => execution.limits != ResourceLimits::default(),
        key => root.get(key).is_some(),
    };
    for key in ["limits", "network"] {
        if is_idle(key) {
            let message = format!("`{key}` needs containers");
            faults.push(
                Fault::new(root.key_span_of(key), message).with_hint("add `sandbox: docker`"),
            );
        }
    }
}
