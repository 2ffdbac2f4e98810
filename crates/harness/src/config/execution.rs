//! Where and how trials execute: `executor`, `sandbox`, `limits`, `network`, `providers` and
//! `gateway` of a suite.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Node, Value, parse_size};
use proctor_gateway::{Faults, NumberSetting, Price, Script, ServerTools, Throttle};
use proctor_record::usage::Usd;
use proctor_sandbox::{Network, ResourceLimits, SandboxKind, SandboxSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, de::IgnoredAny};

use super::{
    either::Either,
    executor::{self, Executor},
    gateway,
    keep_workspace::KeepWorkspace,
    litellm::{self, GatewayKind, LiteLlmSettings},
    recording::{self, MissAsWritten, Recordings},
    source::{Source, read_text},
    suite::Suite,
};
use crate::config::ProgressLimits;

/// More retries would hide a failing provider for too long.
const MOST_RETRIES: u32 = 10;

/// Where and how trials execute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Execution {
    /// The executor of the trials.
    pub executor: Executor,
    /// The kind of sandbox.
    pub sandbox: SandboxKind,
    /// Whether the user chose the kind of sandbox, with an option or in the suite.
    pub chose_sandbox: bool,
    /// The image of trials whose agent and task name none.
    pub image: Option<String>,
    /// Replacements of image names, such as those of a mirror.
    pub images: BTreeMap<String, String>,
    /// Resource limits of a trial.
    pub limits: ResourceLimits,
    /// When an agent is ended for making no progress; `None` leaves it to the task.
    pub progress: ProgressLimits,
    /// The network of a trial; `None` leaves it to the task.
    pub network: Option<Network>,
    /// The maximum number of concurrent trials by provider. Providers that are not listed have no
    /// limit.
    pub providers: BTreeMap<String, usize>,
    /// The gateway for model requests; `None` if agents connect to providers directly.
    pub gateway: Option<GatewaySettings>,
    /// Variables that agents get unchanged, secret or not.
    pub pass_through: Vec<String>,
    /// Whether the suite turns the gateway off, in containers, too.
    pub refuses_gateway: bool,
    /// The directory for copies of the trials' call logs when the run ends.
    pub log_dir: Option<Utf8PathBuf>,
    /// Which workspaces of finished trials are kept.
    pub keep_workspace: KeepWorkspace,
}

impl Execution {
    /// Runs trials in containers. Containers need the gateway to reach models, so it is enabled
    /// unless the suite turns it off.
    pub fn use_containers(&mut self) {
        self.sandbox = SandboxKind::Docker;
        if !self.refuses_gateway {
            self.gateway.get_or_insert_default();
        }
    }

    /// Runs trials in the kind of sandbox that the user chose.
    pub fn choose_sandbox(&mut self, kind: SandboxKind) {
        self.chose_sandbox = true;
        match kind {
            SandboxKind::Docker => self.use_containers(),
            SandboxKind::Local => self.sandbox = SandboxKind::Local,
        }
    }

    /// The settings that sandboxes need.
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

    /// A setting that needs containers, if there are none.
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

/// The settings of the gateway of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewaySettings {
    /// The budget of one trial, in dollars.
    pub budget_usd: Option<Usd>,
    /// The budget of one trial, in tokens.
    pub budget_tokens: Option<u64>,
    /// The maximum number of model calls of one trial.
    pub budget_calls: Option<u64>,
    /// The budget of all trials together, in dollars.
    pub run_budget_usd: Option<Usd>,
    /// The models that agents may request; all when empty.
    pub models: Vec<String>,
    /// Replacements of models, in matching order.
    pub rename: Vec<(String, String)>,
    /// The temperature of every request.
    pub temperature: Option<NumberSetting<f64>>,
    /// The maximum length of an answer, in tokens.
    pub max_tokens: Option<NumberSetting<u64>>,
    /// How to handle tools that run at the provider. Default: refused in closed networks.
    pub server_tools: Option<ServerTools>,
    /// The rate and concurrency limits by provider.
    pub throttles: BTreeMap<&'static str, Throttle>,
    /// How often the gateway retries a failed provider request.
    pub retries: u32,
    /// Injected faults.
    pub faults: Option<Faults>,
    /// Prices that override the built-in ones; later entries override earlier ones.
    pub prices: Vec<Price>,
    /// A file with certificates to trust in addition to the well-known roots.
    pub ca_file: Option<Utf8PathBuf>,
    /// A script of answers instead of a provider.
    pub script: Option<Arc<Script>>,
    /// Whether model calls are recorded or replayed.
    pub recordings: Option<Recordings>,
    /// LiteLLM between the gateway and the providers.
    pub litellm: Option<LiteLlmSettings>,
}

impl GatewaySettings {
    /// The model name to send to the provider for a requested model.
    pub fn sent_model<'a>(&'a self, asked: &'a str) -> &'a str {
        let policy = |(from, _): &&(String, String)| match from.strip_suffix('*') {
            Some(start) => asked.starts_with(start),
            None => from == asked,
        };
        let renamed = self.rename.iter().find(policy);
        renamed.map_or(asked, |(_, to)| to)
    }

    /// Whether there is a limit in dollars.
    pub fn has_money_limit(&self) -> bool {
        self.budget_usd.is_some() || self.run_budget_usd.is_some()
    }
}

/// The `gateway` section.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GatewayAsWritten {
    /// The budget of one trial, in dollars.
    #[schemars(with = "Option<f64>")]
    budget_usd: Option<Usd>,
    /// The budget of one trial, in tokens.
    budget_tokens: Option<u64>,
    /// The maximum number of model calls of one trial.
    budget_calls: Option<u64>,
    /// The budget of all trials together, in dollars.
    #[schemars(with = "Option<f64>")]
    run_budget_usd: Option<Usd>,
    /// The models that agents may request; a trailing `*` matches any suffix.
    #[serde(default)]
    models: Vec<String>,
    /// Replacements of models; a trailing `*` in a name matches any suffix.
    #[serde(default)]
    rename: BTreeMap<String, String>,
    /// The temperature of every request: a number, or `{at_most: N}`.
    #[schemars(with = "Option<Either<f64, gateway::NumberAsWritten<f64>>>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    temperature: Option<IgnoredAny>,
    /// The maximum length of an answer, in tokens: a number, or `{set: N}`.
    #[schemars(with = "Option<Either<f64, gateway::NumberAsWritten<f64>>>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    max_tokens: Option<IgnoredAny>,
    /// Tools that run at the provider, such as web search. Default: refused in containers without
    /// an open network, allowed elsewhere.
    server_tools: Option<ServerToolsAsWritten>,
    /// The maximum number of requests per minute to a provider: `{anthropic: 300}`.
    #[serde(default)]
    rate: BTreeMap<String, u32>,
    /// The maximum number of concurrent requests to a provider: `{anthropic: 8}`.
    #[serde(default)]
    concurrency: BTreeMap<String, usize>,
    /// How often the gateway retries a failed provider request. Retries hide how the agent itself
    /// handles failures.
    #[schemars(range(max = 10))]
    #[serde(default)]
    retries: u32,
    /// Injected faults, for testing agents.
    #[schemars(with = "Option<gateway::FaultsAsWritten>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    faults: Option<IgnoredAny>,
    /// A file with prices that override the built-in ones, relative to the suite.
    prices: Option<String>,
    /// A file with certificates to trust in addition to the well-known roots, relative to the
    /// suite.
    ca_file: Option<String>,
    /// A file with scripted answers, relative to the suite. No provider is used and no cost arises.
    script: Option<String>,
    /// A directory for recordings of the trials' model calls, relative to the suite.
    record: Option<String>,
    /// A directory of recordings to answer calls from. No provider is used.
    replay: Option<String>,
    /// How to handle a call that was not recorded: refuse it, or send it to the provider.
    on_miss: Option<MissAsWritten>,
    /// The connection to providers: `proctor` alone, or `litellm` behind it.
    #[serde(default)]
    kind: GatewayKind,
    /// The URL of a running LiteLLM. Default: one is started for the run.
    #[expect(
        dead_code,
        reason = "read with its position; named here as a known key"
    )]
    url: Option<String>,
    /// The LiteLLM program, relative to the suite. Default: `litellm` on the PATH.
    #[expect(
        dead_code,
        reason = "read with its position; named here as a known key"
    )]
    program: Option<String>,
    /// The port of the LiteLLM that is started. Default: a free port.
    #[expect(
        dead_code,
        reason = "read with its position; named here as a known key"
    )]
    port: Option<u16>,
}

/// `gateway.server_tools`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ServerToolsAsWritten {
    /// The requests are refused.
    Refuse,
    /// The requests are forwarded.
    Allow,
}

/// A name, or a map with settings.
pub(super) type SandboxForms = Either<SandboxKind, SandboxAsWritten>;

/// The schema of `network`: a name, or a map with the allowed hosts.
pub(super) fn network_schema(generator: &mut SchemaGenerator) -> Schema {
    let map = generator.subschema_for::<AllowlistAsWritten>();
    json_schema!({ "anyOf": [{ "type": "string", "enum": ["gateway", "open", "none"] }, map] })
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
    /// Replacements of image names, such as those of a mirror.
    #[serde(default)]
    images: BTreeMap<String, String>,
}

/// `limits`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsAsWritten {
    /// The number of CPUs, also fractional.
    #[schemars(range(min = 0.01))]
    cpus: Option<f64>,
    /// Memory: `512m`, `4g`.
    memory: Option<String>,
    /// Processes and threads.
    #[schemars(range(min = 1))]
    pids: Option<u32>,
    /// Disk: `10g`.
    disk: Option<String>,
    /// End an agent after this many milliseconds without a new event and without a changed file in
    /// its workspace. Works without containers, too.
    #[schemars(range(min = 1))]
    no_progress_timeout: Option<u64>,
    /// End an agent that repeats a tool call with the same input, or the same error, this many
    /// times in a row. Works without containers, too.
    #[schemars(range(min = 2))]
    loop_limit: Option<u32>,
}

/// `network`, when it is a map.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AllowlistAsWritten {
    /// Hosts that are reachable through the gateway: names, `*.names`, addresses, networks.
    allowlist: Vec<String>,
}

/// An entry of `providers`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderAsWritten {
    /// The maximum number of concurrent trials.
    #[schemars(range(min = 1))]
    parallel: usize,
}

/// Reads the sections of a suite that define where and how trials execute. Collects their faults.
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
    execution.chose_sandbox = true;
    if let Value::String(_) = node.value {
        execution.sandbox = node.read()?;
        return Ok(());
    }
    let written: SandboxAsWritten = node.read()?;
    if written.kind == SandboxKind::Local {
        for key in ["image", "images"] {
            if node.get(key).is_some() {
                return Err(node.fault(key, "`sandbox: local` does not support images"));
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
            node.fault(key, format!("invalid size `{text}`"))
                .with_hint("write a number with a unit, such as `512m` or `4g`")
        }),
    };
    if written
        .cpus
        .is_some_and(|cpus| cpus.is_nan() || cpus < 0.01)
    {
        return Err(node.fault("cpus", "`cpus` must be at least 0.01"));
    }
    if written.pids == Some(0) {
        return Err(node.fault("pids", "`pids` must be at least 1"));
    }
    if written.no_progress_timeout == Some(0) {
        let message = "`no_progress_timeout` must be at least 1 millisecond";
        return Err(node.fault("no_progress_timeout", message));
    }
    if written.loop_limit.is_some_and(|times| times < 2) {
        return Err(node.fault("loop_limit", "`loop_limit` must be at least 2"));
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
        let written: AllowlistAsWritten = node.read()?;
        return Ok(if written.allowlist.is_empty() {
            Network::Gateway
        } else {
            Network::Allowlist(written.allowlist)
        });
    }
    let text = node.as_str().unwrap_or_default();
    Network::named(text).ok_or_else(|| {
        Fault::new(
            node.span,
            format!("expected a network, found {}", node.value),
        )
        .with_hint("known: `gateway`, `open`, `none`, or a map with an `allowlist` of hosts")
    })
}

fn providers(node: &Node) -> Result<BTreeMap<String, usize>, Fault> {
    let written: BTreeMap<String, ProviderAsWritten> = node.read()?;
    let mut limits = BTreeMap::new();
    for (name, provider) in written {
        if provider.parallel == 0 {
            return Err(node.fault(&name, "`parallel` must be at least 1"));
        }
        limits.insert(name, provider.parallel);
    }
    Ok(limits)
}

/// A `gateway` section outside of suites, where LiteLLM is not supported.
pub(super) fn gateway_without_suite(
    node: &Node,
    folder: &Utf8Path,
) -> Result<GatewaySettings, Fault> {
    let settings = gateway_section(node, folder)?;
    if settings.litellm.is_some() {
        let fault = node.fault("kind", "`kind: litellm` is supported in suites only");
        return Err(fault.with_hint("run the test case from a suite, or use `kind: proctor`"));
    }
    Ok(settings)
}

/// The section `gateway` of a file in this directory.
fn gateway_section(node: &Node, folder: &Utf8Path) -> Result<GatewaySettings, Fault> {
    let written: GatewayAsWritten = node.read()?;
    check_gateway(&written, node)?;
    let script = match &written.script {
        None => None,
        Some(file) => {
            let script = read_script(&folder.join(file));
            Some(script.map_err(|error| node.fault("script", error.first_line()))?)
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
        temperature: gateway::number(node, "temperature", NumberSetting::Set)?,
        max_tokens: gateway::number(node, "max_tokens", NumberSetting::AtMost)?,
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
        let written = recording::RecordingKeys {
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
        if amount.is_some_and(|usd| usd <= Usd::default()) {
            return Err(node.fault(key, format!("`{key}` must be more than 0 dollars")));
        }
    }
    if written.retries > MOST_RETRIES {
        let message = format!("`retries` must be from 0 to {MOST_RETRIES}");
        return Err(node.fault("retries", message));
    }
    Ok(())
}

/// Reads a file with the answers of a scripted model.
pub fn read_script(path: &Utf8Path) -> Result<Arc<Script>, ConfigError> {
    let (source, root) = Source::parse(path, read_text(path)?)?;
    let script = root.read().map_err(|fault| source.error(vec![fault]))?;
    Ok(Arc::new(script))
}

/// Refuses settings that need containers if there are none.
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
            let message = format!("`{key}` requires containers");
            faults.push(
                Fault::new(root.key_span_of(key), message).with_hint("add `sandbox: docker`"),
            );
        }
    }
}
