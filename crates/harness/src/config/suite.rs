//! A suite: the file that names agents, tasks and trials. Every agent does every task.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Node, Span, Value, keys_of};
use proctor_record::fs::{is_safe_name, named};
use proctor_sandbox::SandboxKind;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use super::{
    agent::{self, AgentSpec},
    either::Either,
    execution::{self, Execution},
    executor::{self, Executor},
    experiment::ExperimentSettings,
    gate::{GateAsWritten, GateSettings, RuleAsWritten},
    git_source::GitSource,
    interpolate::{Unset, UnsetByAgent, Variables},
    keep_workspace::KeepWorkspace,
    remarks::Remarks,
    settings::Settings,
    source::{self, Source},
    task_entry::TaskEntry,
    thunderdome::{self, SuiteEnv},
    treatment::Treatment,
    variants,
};

const MAX_NAME: usize = 100;
/// Keys that make a file a suite.
const SUITE_KEYS: [&str; 3] = ["agents", "tasks", "orchestrators"];
/// A key that would be misleading to ignore in a file of Thunderdome's.
const BUDGET_KEY: &str = "max_cost";
/// A suite as written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The JSON Schema that editors use to check the file.
    #[serde(rename = "$schema")]
    #[expect(
        dead_code,
        reason = "for editors; named here so that it is a known key"
    )]
    schema: Option<String>,
    /// The allowed differences between variants: keys of agents, such as `files`, options of `config`, or
    /// JSON pointers into their definitions. Any other difference is an error.
    pub(super) vary: Option<Vec<String>>,
    /// The agents: an `agent` section each, with a `name`. They can have `files`, `skills`,
    /// `prompt_prefix`, `prompt_suffix`, `prompt_template`, `ref` and `variants`.
    #[schemars(with = "Option<Vec<serde_json::Map<String, serde_json::Value>>>")]
    pub(super) agents: Option<Vec<Node>>,
    /// Agents in Thunderdome's format: adapter scripts.
    #[schemars(with = "Option<Vec<thunderdome::Orchestrator>>")]
    pub(super) orchestrators: Option<Vec<Node>>,
    /// The tasks.
    #[schemars(with = "Vec<TaskEntry>", length(min = 1))]
    pub(super) tasks: Option<Vec<Node>>,
    /// The number of trials of each agent on each task.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) trials: Option<u32>,
    /// The maximum number of concurrent trials.
    #[schemars(range(min = 1, max = 256))]
    pub(super) parallel: Option<usize>,
    /// The comparison of the agents with one of them.
    pub(super) experiment: Option<ExperimentSettings>,
    /// The rules that a run must keep: a list, or a map.
    #[schemars(with = "Option<Either<Vec<RuleAsWritten>, GateAsWritten>>")]
    pub(super) gate: Option<Node>,
    /// The location of results.
    pub(super) results: Option<ResultsSection>,
    /// Which workspaces of finished trials are kept. Default: those that the diff cannot restore
    /// (`needed`).
    pub(super) keep_workspace: Option<KeepWorkspace>,
    /// The executor of the trials: `local`, `slurm`, or a map.
    #[schemars(with = "Option<executor::ExecutorAsWritten>")]
    pub(super) executor: Option<Node>,
    /// The sandbox of the trials: `local`, `docker`, or a map.
    #[schemars(with = "Option<execution::SandboxForms>")]
    pub(super) sandbox: Option<Node>,
    /// Resource limits of a trial (require containers), and limits for agents that make no
    /// progress.
    #[schemars(with = "Option<execution::LimitsAsWritten>")]
    pub(super) limits: Option<Node>,
    /// The network access of a trial; requires containers.
    #[serde(default)]
    #[schemars(schema_with = "execution::network_schema")]
    pub(super) network: Option<Node>,
    /// Limits on concurrent trials by provider.
    #[schemars(with = "Option<BTreeMap<String, execution::ProviderAsWritten>>")]
    pub(super) providers: Option<Node>,
    /// The gateway for model requests.
    #[schemars(with = "Option<execution::GatewayAsWritten>")]
    pub(super) gateway: Option<Node>,
    /// The gateway in Thunderdome's format.
    #[schemars(with = "Option<thunderdome::ProxyAsWritten>")]
    pub(super) proxy: Option<Node>,
    /// API keys of providers, and the variables that agents can see.
    #[schemars(with = "Option<thunderdome::SecretsAsWritten>")]
    pub(super) secrets: Option<Node>,
}

/// The location of results.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResultsSection {
    /// The directory, relative to the suite. Default: `.proctor` of the project.
    dir: String,
}

/// An agent of a suite.
#[derive(Clone, Debug)]
pub struct SuiteAgent {
    /// Its name, in results and filters.
    pub name: String,
    /// Its section.
    pub spec: AgentSpec,
    /// The unset variables of its section: errors only if the agent runs.
    pub unset: Vec<Unset>,
    /// Whether it is listed under `orchestrators`.
    pub is_orchestrator: bool,
    /// Its own files, skills, prompt parts and start revision.
    pub treatment: Treatment,
    /// The name of the agent that it is a variant of.
    pub variant_of: Option<String>,
}

/// Whether a file is a suite rather than a test case.
pub fn is_suite(path: &Utf8Path) -> bool {
    SuiteFile::open(path).is_some()
}

/// The results directory of a suite, without reading the rest; `None` if it is not set.
pub fn results_dir_of(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let file = SuiteFile::read(path).ok()?;
    let dir = file.root.get("results")?.get("dir")?.as_str()?.to_owned();
    let folder = path.parent().unwrap_or(Utf8Path::new(""));
    Some(named::absolute(&folder.join(dir)))
}

/// A suite as written, without its tasks, which have their own files.
pub struct SuiteConfig {
    pub(crate) agents: Vec<SuiteAgent>,
    /// The allowed differences between variants, with their position.
    pub(crate) vary: Option<(Vec<String>, Span)>,
    pub(crate) tasks: Vec<(Node, TaskEntry)>,
    /// The position of `tasks`.
    pub(crate) tasks_span: Span,
    pub(crate) trials: u32,
    pub(crate) parallel: usize,
    pub(crate) experiment: Option<ExperimentSettings>,
    pub(crate) gate: Option<GateSettings>,
    /// The results directory; `None` for that of the project.
    pub(crate) results_dir: Option<Utf8PathBuf>,
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

/// A suite file that is parsed once for all purposes: its kind, its environment and its content.
#[derive(Clone)]
pub struct SuiteFile {
    source: Source,
    root: Node,
}

impl SuiteFile {
    /// Parses the file at `path` if it is a suite and not a test case. A malformed file is not a
    /// suite: reading it as a test case reports the faults.
    pub fn open(path: &Utf8Path) -> Option<SuiteFile> {
        let file = SuiteFile::read(path).ok()?;
        let has = |key: &&str| file.root.get(key).is_some();
        SUITE_KEYS.iter().any(has).then_some(file)
    }

    /// Parses the file at `path`.
    pub fn read(path: &Utf8Path) -> Result<SuiteFile, ConfigError> {
        SuiteFile::parse(path, source::read_text(path)?)
    }

    /// Parses the text of the file at `path`.
    pub fn parse(path: &Utf8Path, text: String) -> Result<SuiteFile, ConfigError> {
        let (source, root) = Source::parse(path, text)?;
        Ok(SuiteFile { source, root })
    }

    /// A suite with this content instead of a file's. `path` is the file that the content comes from;
    /// paths are relative to its directory.
    pub fn of_document(
        path: &Utf8Path,
        document: Map<String, serde_json::Value>,
    ) -> Result<SuiteFile, ConfigError> {
        let text = serde_json::Value::Object(document);
        SuiteFile::parse(path, format!("{text:#}\n"))
    }

    /// The path of the file.
    pub fn path(&self) -> &Utf8Path {
        self.source.path()
    }

    /// Whether an entry of `tasks` names a git repository of task directories.
    pub(crate) fn has_git_datasets(&self) -> bool {
        let tasks = self.root.get("tasks").map(|tasks| &tasks.value);
        matches!(tasks, Some(Value::List(items)) if items.iter().any(|it| it.get("git").is_some()))
    }

    /// The content, with variables as written.
    pub fn document(&self) -> Result<Map<String, serde_json::Value>, ConfigError> {
        let read = self.root.read();
        read.map_err(|fault| self.source.error(vec![fault]))
    }

    /// The rules of the suite, without reading the rest.
    pub fn gate(&self) -> Result<Option<GateSettings>, ConfigError> {
        let mut faults = Vec::new();
        let node = self.root.get("gate");
        let gate = node.and_then(|node| GateSettings::read(node, &mut faults));
        if faults.is_empty() {
            Ok(gate)
        } else {
            Err(self.source.error(faults))
        }
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

/// A suite without tasks, with agents of these kinds, for the tasks of directories. The text is
/// kept with the results so that the run can be resumed like any other suite.
pub(crate) fn config_of_folders(
    folders: &[Utf8PathBuf],
    kinds: &[String],
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<SuiteConfig, ConfigError> {
    let literal = |text: &str| text.replace("${", "$${");
    let mut agents: Vec<_> = kinds
        .iter()
        .map(|kind| json!({"type": literal(kind)}))
        .collect();
    if kinds.is_empty() {
        agents.push(json!({"type": agent::AUTO}));
    }
    let entry = |path: &Utf8PathBuf| {
        if let Some(source) = GitSource::parse(path.as_str()) {
            return source.entry();
        }
        let path = named::absolute(path);
        let key = if path.is_file() { "swebench" } else { "folder" };
        json!({key: literal(path.as_str())})
    };
    let tasks: Vec<_> = folders.iter().map(entry).collect();
    let document = [
        ("agents".to_owned(), json!(agents)),
        ("tasks".to_owned(), json!(tasks)),
    ];
    let file = SuiteFile::of_document("command line".into(), Map::from_iter(document))?;
    file.read_config(env, settings)
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
        let known = [keys_of::<Suite>(), &[BUDGET_KEY]].concat();
        thunderdome::tolerate(&mut root, &known, &mut remarks);
    }
    let mut faults = Vec::new();
    let Some(suite) = root.read_collecting::<Suite>(&mut faults) else {
        return Err(source.error(faults));
    };
    let mut execution = execution::read(&suite, &folder, &mut faults);
    let collected = (&mut faults, &mut remarks);
    let judge_model = thunderdome::settings((&root, &suite), &folder, &mut execution, collected);
    let context = (&source, folder.as_path(), settings);
    let agents = read_agents(&root, &suite, context, unset, &mut faults);
    if let Some(vary) = &suite.vary {
        variants::check_vary(vary, root.span_of("vary"), &agents, &mut faults);
    }
    // An agent with an image has to run in it.
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
    if let (Some(experiment), Some(node)) = (&suite.experiment, root.get("experiment")) {
        experiment.check(node, &mut faults);
    }
    let gate = suite.gate.as_ref();
    let gate = gate.and_then(|node| GateSettings::read(node, &mut faults));
    let tasks = read_tasks(&root, suite.tasks, &mut faults);
    let keep_workspace = suite.keep_workspace.or(settings.keep_workspace);
    execution.keep_workspace = keep_workspace.unwrap_or(KeepWorkspace::Needed);
    let thunderdomes = || is_thunderdome.then(|| "results".to_owned());
    let dir = suite
        .results
        .map(|results| results.dir)
        .or_else(thunderdomes);
    Ok(SuiteConfig {
        agents,
        vary: suite.vary.map(|vary| (vary, root.span_of("vary"))),
        tasks,
        tasks_span: root.span_of("tasks"),
        trials: suite.trials.unwrap_or(1),
        parallel: suite.parallel.unwrap_or(1),
        experiment: suite.experiment,
        gate,
        results_dir: dir.map(|dir| named::absolute(&folder.join(dir))),
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
        // A list with a wrong type is already reported.
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

/// Whether the suite turns the gateway off.
fn without_gateway(root: &Node) -> bool {
    let gateway = root.get("proxy").and_then(|proxy| proxy.get("gateway"));
    gateway.and_then(Node::as_str) == Some("none")
}

fn read_agents(
    root: &Node,
    suite: &Suite,
    (source, folder, settings): (&Source, &Utf8Path, &Settings),
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
        match read_variants(item, folder, settings) {
            Ok(variants) => agents.extend(variants.into_iter().map(|agent| SuiteAgent {
                unset: unset.clone(),
                ..agent
            })),
            // Unset variables may be the cause of the other faults.
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

/// Reads an entry of `agents`: one agent, or its variants.
fn read_variants(
    item: &Node,
    folder: &Utf8Path,
    settings: &Settings,
) -> Result<Vec<SuiteAgent>, Vec<Fault>> {
    let (sections, variant_of) = variants::expand(item).map_err(|fault| vec![fault])?;
    let agents = sections.iter().map(|section| {
        let agent = read_agent(section, folder, settings)?;
        Ok(SuiteAgent {
            variant_of: variant_of.clone(),
            ..agent
        })
    });
    agents.collect()
}

/// Reads an `agent` section with its name.
fn read_agent(
    item: &Node,
    folder: &Utf8Path,
    settings: &Settings,
) -> Result<SuiteAgent, Vec<Fault>> {
    let mut section = item.clone();
    let name = section.remove("name");
    let treatment = Treatment::take(&mut section, folder)?;
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
        treatment,
        variant_of: None,
    })
}

/// Reads the name of an agent.
pub(super) fn agent_name(node: &Node) -> Result<String, Fault> {
    let Some(name) = node.as_str() else {
        let message = format!("expected a string, found {}", node.value);
        return Err(Fault::new(node.span, message));
    };
    // Names are used as directory names.
    if is_safe_name(name) && name.len() <= MAX_NAME {
        return Ok(name.to_owned());
    }
    let message = format!("invalid agent name `{name}`");
    let hint = format!("use up to {MAX_NAME} letters, digits, `.`, `_` and `-`");
    Err(Fault::new(node.span, message).with_hint(hint))
}

/// Adds a fault for each duplicate name.
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
                Fault::new(span, format!("duplicate {what} name `{name}`"))
                    .with_hint("choose unique names"),
            );
        }
    }
}

fn check_limits(written: &Suite, root: &Node, faults: &mut Vec<Fault>) {
    if !(1..=1000).contains(&written.trials.unwrap_or(1)) {
        faults.push(root.fault("trials", "`trials` must be from 1 to 1000"));
    }
    if !(1..=256).contains(&written.parallel.unwrap_or(1)) {
        faults.push(root.fault("parallel", "`parallel` must be from 1 to 256"));
    }
}
