//! A suite: the file that names agents, tasks and trials. Every agent does every task.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Node, Span, keys_of};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    agent::{self, AgentSpec},
    execution::{self, Execution},
    executor::{self, Executor},
    interpolate::{Unset, UnsetByAgent, Variables},
    keep_workspace::KeepWorkspace,
    remarks::Remarks,
    settings::Settings,
    source::{self, Source},
    task_entry::TaskEntry,
    thunderdome::{self, SuiteEnv},
};
use crate::{
    fs::{is_safe_name, named},
    sandbox::SandboxKind,
};

const MAX_NAME: usize = 100;
/// Keys that make a file a suite.
const SUITE_KEYS: [&str; 3] = ["agents", "tasks", "orchestrators"];
/// Keys that are understood and not there yet.
const NOT_YET: [&str; 1] = ["max_cost"];
/// A suite as written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The schema that an editor checks the file against.
    #[serde(rename = "$schema")]
    #[expect(
        dead_code,
        reason = "for editors; named here so that it is a known key"
    )]
    schema: Option<String>,
    /// The contenders: an `agent` section each, with a `name`.
    #[schemars(with = "Option<Vec<serde_json::Map<String, serde_json::Value>>>")]
    pub(super) agents: Option<Vec<Node>>,
    /// Contenders as Thunderdome writes them: adapter scripts.
    #[schemars(with = "Option<Vec<thunderdome::Orchestrator>>")]
    pub(super) orchestrators: Option<Vec<Node>>,
    /// What they are asked.
    #[schemars(with = "Vec<TaskEntry>", length(min = 1))]
    pub(super) tasks: Option<Vec<Node>>,
    /// How often each agent does each task.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) trials: Option<u32>,
    /// How many trials run at the same time.
    #[schemars(range(min = 1, max = 256))]
    pub(super) parallel: Option<usize>,
    /// Where results go.
    pub(super) results: Option<ResultsSection>,
    /// Which workspaces of finished trials are kept whole: those that the diff cannot restore (`needed`)
    /// unless given.
    pub(super) keep_workspace: Option<KeepWorkspace>,
    /// Who runs the trials: `local`, `slurm`, or a map.
    #[schemars(with = "Option<executor::ExecutorChoice>")]
    pub(super) executor: Option<Node>,
    /// Where trials execute: `local`, `docker`, or a map.
    #[schemars(with = "Option<execution::SandboxChoice>")]
    pub(super) sandbox: Option<Node>,
    /// What a trial may take (needs containers), and when an agent that does not get on is ended.
    #[schemars(with = "Option<execution::LimitsAsWritten>")]
    pub(super) limits: Option<Node>,
    /// What a trial may reach; needs containers.
    #[schemars(with = "Option<execution::NetworkChoice>")]
    pub(super) network: Option<Node>,
    /// How much is asked of each provider at the same time.
    #[schemars(with = "Option<BTreeMap<String, execution::ProviderAsWritten>>")]
    pub(super) providers: Option<Node>,
    /// The gateway that agents reach models through.
    #[schemars(with = "Option<execution::GatewayAsWritten>")]
    pub(super) gateway: Option<Node>,
    /// The gateway as Thunderdome writes it.
    #[schemars(with = "Option<thunderdome::ProxyAsWritten>")]
    pub(super) proxy: Option<Node>,
    /// Keys of providers, and what agents may see of them.
    #[schemars(with = "Option<thunderdome::SecretsAsWritten>")]
    pub(super) secrets: Option<Node>,
}

/// Where results go.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResultsSection {
    /// The folder; `./results` beside the suite when left out.
    dir: String,
}

/// A contender of a suite.
#[derive(Clone, Debug)]
pub struct SuiteAgent {
    /// Its name, in results and filters.
    pub name: String,
    /// Its section.
    pub spec: AgentSpec,
    /// The variables without a value in its section: errors once it runs.
    pub unset: Vec<Unset>,
    /// Whether it stands under `orchestrators`.
    pub is_orchestrator: bool,
}

/// Whether a file is a suite rather than a test case.
pub fn is_suite(path: &Utf8Path) -> bool {
    SuiteFile::open(path).is_some()
}

/// Where the results of a suite go, read without the rest of it; `None` when it does not say.
pub fn results_dir_of(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let file = SuiteFile::read(path).ok()?;
    let dir = file.root.get("results")?.get("dir")?.as_str()?.to_owned();
    let folder = path.parent().unwrap_or(Utf8Path::new(""));
    Some(named::absolute(&folder.join(dir)))
}

/// A suite as written, without its tasks: they are in files of their own.
pub struct SuiteConfig {
    pub(crate) agents: Vec<SuiteAgent>,
    pub(crate) tasks: Vec<(Node, TaskEntry)>,
    /// The position of `tasks`.
    pub(crate) tasks_span: Span,
    pub(crate) trials: u32,
    pub(crate) parallel: usize,
    pub(crate) results_dir: Utf8PathBuf,
    pub(crate) execution: Execution,
    /// The environment, with the variables of `secrets.env_file`.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) secret_names: Vec<String>,
    pub(crate) folder: Utf8PathBuf,
    pub(crate) source: Arc<Source>,
    pub(crate) remarks: Remarks,
    pub(crate) is_thunderdome: bool,
    pub(crate) judge_model: Option<String>,
    /// The faults so far. Those of the tasks are reported together with them.
    pub(crate) faults: Vec<Fault>,
}

/// A file that is parsed once: to find out whether it is a suite, for its environment and for all the rest.
pub struct SuiteFile {
    source: Source,
    root: Node,
}

impl SuiteFile {
    /// Parse the file at `path` if it is a suite rather than a test case. A file that cannot be parsed is not a
    /// suite: reading it as a test case reports what is wrong.
    pub fn open(path: &Utf8Path) -> Option<SuiteFile> {
        let file = SuiteFile::read(path).ok()?;
        let has = |key: &&str| file.root.get(key).is_some();
        SUITE_KEYS.iter().any(has).then_some(file)
    }

    /// Parse the file at `path`.
    pub fn read(path: &Utf8Path) -> Result<SuiteFile, ConfigError> {
        SuiteFile::parse(path, source::read_text(path)?)
    }

    /// Parse the text of the file at `path`.
    pub fn parse(path: &Utf8Path, text: String) -> Result<SuiteFile, ConfigError> {
        let (source, root) = Source::parse(path, text)?;
        Ok(SuiteFile { source, root })
    }

    pub(crate) fn read_config(
        mut self,
        env: &BTreeMap<String, String>,
        settings: &Settings,
    ) -> Result<SuiteConfig, ConfigError> {
        let env = thunderdome::with_secrets(&self.root, self.source.path(), env)?;
        let variables = Variables {
            project: &settings.variables,
            env: &env.env,
        };
        let unset = self.source.fill_suite(&mut self.root, &variables)?;
        read_config((self.source, self.root, unset), env, settings)
    }
}

/// The suite of agents of these kinds on the tasks of folders, without the tasks. The text is kept with the results,
/// so that the run can be resumed like that of any other suite.
pub(crate) fn config_of_folders(
    folders: &[Utf8PathBuf],
    kinds: &[String],
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<SuiteConfig, ConfigError> {
    let quoted = |text: &str| serde_json::Value::from(text.replace("${", "$${")).to_string();
    let mut text = "agents:\n".to_owned();
    for kind in kinds {
        text.extend(["  - type: ", &quoted(kind), "\n"]);
    }
    if kinds.is_empty() {
        text.push_str("  - backend: auto\n");
    }
    text.push_str("tasks:\n");
    for folder in folders {
        let folder = named::absolute(folder);
        text.extend(["  - folder: ", &quoted(folder.as_str()), "\n"]);
    }
    SuiteFile::parse("command line".into(), text)?.read_config(env, settings)
}

fn read_config(
    (source, mut root, unset): (Source, Node, UnsetByAgent),
    suite_env: SuiteEnv,
    settings: &Settings,
) -> Result<SuiteConfig, ConfigError> {
    let SuiteEnv {
        env,
        secret_names,
        mut remarks,
    } = suite_env;
    let folder = named::absolute(source.path().parent().unwrap_or(Utf8Path::new("")));
    let is_thunderdome = thunderdome::is_own_file(&root);
    if is_thunderdome {
        let known = [keys_of::<Suite>(), &NOT_YET].concat();
        thunderdome::tolerate(&mut root, &known, &mut remarks);
    }
    let mut faults = root.refuse(&NOT_YET);
    let Some(suite) = root.read_collecting::<Suite>(&mut faults) else {
        return Err(source.error(faults));
    };
    let mut execution = execution::read(&suite, &folder, &mut faults);
    let collected = (&mut faults, &mut remarks);
    let judge_model = thunderdome::settings((&root, &suite), &folder, &mut execution, collected);
    let agents = read_agents(&root, &suite, (&source, settings), unset, &mut faults);
    // An agent that brings an image has to run in it.
    let brings_image = |agent: &SuiteAgent| agent.spec.config.get("image").is_some();
    let is_docker = matches!(execution.executor, Executor::Docker(_));
    if root.get("sandbox").is_none() && (is_docker || agents.iter().any(brings_image)) {
        execution.sandbox = SandboxKind::Docker;
    }
    execution.refuses_gateway = without_gateway(&root);
    thunderdome::without_gateway(&root, &mut execution, &mut faults);
    if execution.sandbox == SandboxKind::Docker {
        execution.use_containers();
    }
    execution::check(&execution, &root, &mut faults);
    check_limits(&suite, &root, &mut faults);
    let tasks = read_tasks(&root, suite.tasks, &mut faults);
    let keep_workspace = suite.keep_workspace.or(settings.keep_workspace);
    execution.keep_workspace = keep_workspace.unwrap_or(KeepWorkspace::Needed);
    let dir = suite
        .results
        .map_or_else(|| "results".to_owned(), |results| results.dir);
    Ok(SuiteConfig {
        agents,
        tasks,
        tasks_span: root.span_of("tasks"),
        trials: suite.trials.unwrap_or(1),
        parallel: suite.parallel.unwrap_or(1),
        results_dir: named::absolute(&folder.join(dir)),
        execution,
        env,
        secret_names,
        folder,
        source: Arc::new(source),
        remarks,
        is_thunderdome,
        judge_model,
        faults,
    })
}

fn read_tasks(
    root: &Node,
    items: Option<Vec<Node>>,
    faults: &mut Vec<Fault>,
) -> Vec<(Node, TaskEntry)> {
    let Some(items) = items else {
        // A list with a wrong type is reported already.
        if root.get("tasks").is_none() {
            faults.push(Fault::new(root.span, "missing key `tasks`"));
        }
        return Vec::new();
    };
    if items.is_empty() {
        faults.push(root.fault("tasks", "`tasks` is empty"));
    }
    let mut entries = Vec::new();
    for item in items {
        match TaskEntry::read(&item) {
            Ok(entry) => entries.push((item, entry)),
            Err(fault) => faults.push(fault),
        }
    }
    entries
}

/// Whether the suite says that there is to be no gateway.
fn without_gateway(root: &Node) -> bool {
    let gateway = root.get("proxy").and_then(|proxy| proxy.get("gateway"));
    gateway.and_then(Node::as_str) == Some("none")
}

fn read_agents(
    root: &Node,
    suite: &Suite,
    (source, settings): (&Source, &Settings),
    mut unset: UnsetByAgent,
    faults: &mut Vec<Fault>,
) -> Vec<SuiteAgent> {
    let mut agents = Vec::new();
    for (number, agent) in
        thunderdome::orchestrators(suite.orchestrators.as_deref(), source, faults)
    {
        let unset = unset.remove(&("orchestrators", number)).unwrap_or_default();
        agents.push(SuiteAgent { unset, ..agent });
    }
    for (number, item) in suite.agents.iter().flatten().enumerate() {
        let unset = unset.remove(&("agents", number)).unwrap_or_default();
        match read_agent(item, settings) {
            Ok(agent) => agents.push(SuiteAgent { unset, ..agent }),
            // Missing values may be the reason for the other faults.
            Err(_) if !unset.is_empty() => faults.extend(unset.into_iter().map(|it| it.fault)),
            Err(more) => faults.extend(more),
        }
    }
    if agents.is_empty() && faults.is_empty() {
        let fault = match (root.get("agents"), root.get("orchestrators")) {
            (Some(_), _) => root.fault("agents", "`agents` is empty"),
            (None, Some(_)) => root.fault("orchestrators", "`orchestrators` is empty"),
            (None, None) => Fault::new(root.span, "missing key `agents`"),
        };
        faults.push(fault);
    }
    let names = agents.iter().map(|agent| agent.name.as_str());
    check_unique(names, "agent", root.span_of("agents"), faults);
    agents
}

/// An `agent` section with a name of its own.
fn read_agent(item: &Node, settings: &Settings) -> Result<SuiteAgent, Vec<Fault>> {
    let mut section = item.clone();
    let name = section.remove("name");
    let mut spec = agent::read(&section, item.span)?;
    spec.complete(settings);
    let name = match (&name, &spec.kind) {
        (Some((_, _, node)), _) => agent_name(node).map_err(|fault| vec![fault])?,
        (None, agent::AgentType::Named(kind)) => kind.clone(),
        (None, agent::AgentType::Auto) => agent::AUTO.to_owned(),
    };
    Ok(SuiteAgent {
        name,
        spec,
        unset: Vec::new(),
        is_orchestrator: false,
    })
}

/// A contender's name.
pub(super) fn agent_name(node: &Node) -> Result<String, Fault> {
    let Some(name) = node.as_str() else {
        let message = format!("expected a string, found {}", node.value);
        return Err(Fault::new(node.span, message));
    };
    // Names become folders.
    if is_safe_name(name) && name.len() <= MAX_NAME {
        return Ok(name.to_owned());
    }
    let message = format!("`{name}` cannot be an agent's name");
    let hint = format!("use up to {MAX_NAME} letters, digits, `.`, `_` and `-`");
    Err(Fault::new(node.span, message).with_hint(hint))
}

/// Add a fault for each name that appears more than once.
pub(crate) fn check_unique<'a>(
    names: impl Iterator<Item = &'a str>,
    what: &str,
    span: Span,
    faults: &mut Vec<Fault>,
) {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            faults.push(
                Fault::new(span, format!("two {what}s are called `{name}`"))
                    .with_hint("give each a name of its own"),
            );
        }
    }
}

fn check_limits(written: &Suite, root: &Node, faults: &mut Vec<Fault>) {
    if !(1..=1000).contains(&written.trials.unwrap_or(1)) {
        faults.push(root.fault("trials", "`trials` is a number from 1 to 1000"));
    }
    if !(1..=256).contains(&written.parallel.unwrap_or(1)) {
        faults.push(root.fault("parallel", "`parallel` is a number from 1 to 256"));
    }
}
