//! A suite: the file that names agents, tasks and trials. Every agent does every task.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Format, Node, Span, Value};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    agent::{self, AgentSpec},
    entries::{self, load_tasks, read_entries},
    execution::{self, Execution},
    executor::{self, Executor},
    interpolate::{Unset, UnsetByAgent, Variables},
    keep_workspace::KeepWorkspace,
    remarks::Remarks,
    settings::Settings,
    source::Source,
    thunderdome::{self, SuiteEnv},
};
use crate::{
    fs::{is_safe_name, named},
    sandbox::SandboxKind,
    task::{Task, repo_task::Surroundings},
};

const MAX_NAME: usize = 100;
/// Keys that make a file a suite.
const TELLING: [&str; 3] = ["agents", "tasks", "orchestrators"];
/// Keys that are understood and not there yet.
const NOT_YET: [&str; 1] = ["max_cost"];
/// All keys.
const KEYS: [&str; 17] = [
    "$schema",
    "agents",
    "orchestrators",
    "tasks",
    "trials",
    "parallel",
    "results",
    "keep_workspace",
    "executor",
    "sandbox",
    "limits",
    "network",
    "providers",
    "gateway",
    "proxy",
    "secrets",
    NOT_YET[0],
];

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
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    agents: Option<Vec<IgnoredAny>>,
    /// Contenders as Thunderdome writes them: adapter scripts.
    #[schemars(with = "Option<Vec<Orchestrator>>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    orchestrators: Option<Vec<IgnoredAny>>,
    /// What they are asked.
    #[schemars(with = "Vec<entries::TaskEntry>", length(min = 1))]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    tasks: Vec<IgnoredAny>,
    /// How often each agent does each task.
    #[schemars(range(min = 1, max = 1000))]
    trials: Option<u32>,
    /// How many trials run at the same time.
    #[schemars(range(min = 1, max = 256))]
    parallel: Option<usize>,
    /// Where results go.
    results: Option<ResultsSection>,
    /// Which workspaces of finished trials are kept whole: those that the diff cannot restore (`needed`)
    /// unless given.
    keep_workspace: Option<KeepWorkspace>,
    /// Who runs the trials: `local`, `slurm`, or a map.
    #[schemars(with = "Option<executor::ExecutorChoice>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    executor: Option<IgnoredAny>,
    /// Where trials execute: `local`, `docker`, or a map.
    #[schemars(with = "Option<execution::SandboxChoice>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    sandbox: Option<IgnoredAny>,
    /// What a trial may take (needs containers), and when an agent that does not get on is ended.
    #[schemars(with = "Option<execution::LimitsAsWritten>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    limits: Option<IgnoredAny>,
    /// What a trial may reach; needs containers.
    #[schemars(with = "Option<execution::NetworkChoice>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    network: Option<IgnoredAny>,
    /// How much is asked of each provider at the same time.
    #[schemars(with = "Option<BTreeMap<String, execution::ProviderAsWritten>>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    providers: Option<IgnoredAny>,
    /// The gateway that agents reach models through.
    #[schemars(with = "Option<execution::GatewayAsWritten>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    gateway: Option<IgnoredAny>,
    /// The gateway as Thunderdome writes it.
    #[schemars(with = "Option<thunderdome::ProxyAsWritten>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    proxy: Option<IgnoredAny>,
    /// Keys of providers, and what agents may see of them.
    #[schemars(with = "Option<thunderdome::SecretsAsWritten>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    secrets: Option<IgnoredAny>,
}

/// An adapter script.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "stands for its schema")]
struct Orchestrator {
    /// Its name, in results and filters.
    name: String,
    /// The script, relative to the suite.
    adapter: String,
    /// The image that it runs in.
    image: Option<String>,
    /// More environment.
    env: Option<BTreeMap<String, String>>,
}

/// Where results go.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResultsSection {
    /// The folder; `./results` beside the suite when left out.
    dir: String,
}

/// A suite that is in order.
#[derive(Clone, Debug)]
pub struct ResolvedSuite {
    /// The contenders.
    pub agents: Vec<SuiteAgent>,
    /// The tasks.
    pub tasks: Vec<Arc<Task>>,
    /// How often each agent does each task.
    pub trials: u32,
    /// How many trials run at the same time.
    pub parallel: usize,
    /// Where results go.
    pub results_dir: Utf8PathBuf,
    /// Where and how trials execute.
    pub execution: Execution,
    /// The environment, with what `secrets.env_file` adds to it.
    pub env: BTreeMap<String, String>,
    /// The variables that `secrets.env_file` sets.
    pub secret_names: Vec<String>,
    /// The folder of the suite.
    pub folder: Utf8PathBuf,
    /// The file.
    pub source: Arc<Source>,
    /// Settings that are accepted and have no effect here, or less than they say; one line each.
    pub notes: Vec<String>,
}

impl ResolvedSuite {
    /// Whether the file is Thunderdome's: it has `orchestrators`.
    pub fn is_thunderdome(&self) -> bool {
        self.agents.iter().any(|agent| agent.is_orchestrator)
    }

    /// Fail when an agent of the suite uses a variable that has no value.
    pub(crate) fn check_variables(&self) -> Result<(), ConfigError> {
        let unset = self.agents.iter().flat_map(|agent| &agent.unset);
        let faults: Vec<Fault> = unset.map(|unset| unset.fault.clone()).collect();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(self.source.error(faults))
        }
    }

    /// Forget the variables of agents that have no value, and give their names with those of the
    /// agents: for checking a file of which nothing is run.
    pub fn take_unset(&mut self) -> Vec<String> {
        let mut remarks = Remarks::default();
        for agent in &mut self.agents {
            for unset in agent.unset.drain(..) {
                let text = format!("`{}` is not set: agents that use it cannot run", unset.name);
                remarks.add_about(text, &agent.name);
            }
        }
        remarks.lines()
    }
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

/// Whether a file is a suite rather than a test case. What cannot be read is no suite: reading
/// it as a test case then says what is wrong.
pub fn is_suite(path: &Utf8Path) -> bool {
    std::fs::read_to_string(path)
        .ok()
        .and_then(|text| Format::of(path).parse(&text).ok())
        .is_some_and(|root| TELLING.iter().any(|key| root.get(key).is_some()))
}

/// Where the results of a suite go, read without the rest of it; `None` when it does not say.
pub fn results_dir_of(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let text = std::fs::read_to_string(path).ok()?;
    let root = Format::of(path).parse(&text).ok()?;
    let dir = root.get("results")?.get("dir")?.as_str()?.to_owned();
    let folder = path.parent().unwrap_or(Utf8Path::new(""));
    Some(named::absolute(&folder.join(dir)))
}

/// Read a suite and its tasks. All files that are wrong are told.
pub fn load_suite(
    path: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    load(path, None, env, settings)
}

/// Read a suite from a text that was kept of it, as the file that it was.
pub fn load_kept_suite(
    path: &Utf8Path,
    text: String,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    load(path, Some(text), env, settings)
}

fn load(
    path: &Utf8Path,
    text: Option<String>,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let one = |error| vec![error];
    let SuiteEnv {
        env,
        secret_names,
        remarks,
    } = thunderdome::with_secrets(path, env).map_err(one)?;
    let variables = Variables {
        project: &settings.variables,
        env: &env,
    };
    let read = match text {
        Some(text) => Source::of_suite_text(path, text, &variables),
        None => Source::read_suite(path, &variables),
    };
    let suite = resolve(read.map_err(one)?, &env, settings, remarks)?;
    Ok(ResolvedSuite {
        secret_names,
        ..suite
    })
}

/// The suite of agents of these kinds on the tasks of folders; the first kind that is installed when none is named.
pub fn suite_of_folders(
    folders: &[Utf8PathBuf],
    kinds: &[String],
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let variables = Variables {
        project: &BTreeMap::new(),
        env: &BTreeMap::new(),
    };
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
    let read = Source::of_suite_text("command line".into(), text, &variables);
    let read = read.map_err(|error| vec![error])?;
    resolve(read, env, settings, Remarks::default())
}

fn resolve(
    (source, mut root, unset): (Source, Node, UnsetByAgent),
    env: &BTreeMap<String, String>,
    settings: &Settings,
    mut remarks: Remarks,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let source = Arc::new(source);
    let path = source.path();
    let folder = named::absolute(path.parent().unwrap_or(Utf8Path::new("")));
    if thunderdome::is_own_file(&root) {
        thunderdome::tolerate(&mut root, &KEYS, &mut remarks);
    }
    let mut faults = root.refuse(&NOT_YET);
    let whole = root.clone();
    let mut execution = execution::take(&mut root, &folder, &mut faults);
    let collected = (&mut faults, &mut remarks);
    let foreign = thunderdome::settings(&mut root, &folder, &mut execution, collected);
    let written = root.read::<Suite>().map_err(|fault| faults.push(fault));
    let agents = read_agents(&root, (&source, settings), unset, &mut faults);
    if whole.get("sandbox").is_none() && matches!(execution.executor, Executor::Docker(_)) {
        execution.sandbox = SandboxKind::Docker;
    }
    if whole.get("sandbox").is_none()
        && agents
            .iter()
            .any(|agent| agent.spec.config.get("image").is_some())
    {
        // An agent that brings an image is to run in it.
        execution.sandbox = SandboxKind::Docker;
    }
    execution.refuses_gateway = without_gateway(&whole);
    thunderdome::without_gateway(&whole, &mut execution, &mut faults);
    if execution.sandbox == SandboxKind::Docker {
        execution.use_containers();
    }
    execution::check(&execution, &whole, &mut faults);
    let surroundings = Surroundings {
        source: &source,
        folder: &folder,
        is_thunderdome: foreign.is_own_file,
        judge_model: foreign.judge_model.as_deref(),
    };
    let entries = read_entries(&root, &surroundings, &mut faults);
    let (Ok(written), true) = (written, faults.is_empty()) else {
        return Err(vec![source.error(faults)]);
    };
    let mut tasks = load_tasks(entries, env, settings)?;
    for task in &mut tasks {
        let limits = &mut Arc::make_mut(task).limits;
        limits.progress = execution.progress.or(limits.progress);
    }
    for task in &tasks {
        for note in &task.notes {
            remarks.add_about(note.clone(), &task.name);
        }
    }
    check_limits(&written, &root, &mut faults);
    check_unique(
        tasks.iter().map(|task| task.name.as_str()),
        "task",
        root.span_of("tasks"),
        &mut faults,
    );
    if !faults.is_empty() {
        return Err(vec![source.error(faults)]);
    }
    let keep_workspace = written.keep_workspace.or(settings.keep_workspace);
    execution.keep_workspace = keep_workspace.unwrap_or(KeepWorkspace::Needed);
    let dir = written
        .results
        .map_or_else(|| "results".to_owned(), |results| results.dir);
    Ok(ResolvedSuite {
        agents,
        tasks,
        trials: written.trials.unwrap_or(1),
        parallel: written.parallel.unwrap_or(1),
        results_dir: named::absolute(&folder.join(dir)),
        execution,
        env: env.clone(),
        secret_names: Vec::new(),
        folder,
        source,
        notes: remarks.lines(),
    })
}

/// Whether the suite says that there is to be no gateway.
fn without_gateway(root: &Node) -> bool {
    let gateway = root.get("proxy").and_then(|proxy| proxy.get("gateway"));
    gateway.and_then(Node::as_str) == Some("none")
}

fn read_agents(
    root: &Node,
    (source, settings): (&Source, &Settings),
    mut unset: UnsetByAgent,
    faults: &mut Vec<Fault>,
) -> Vec<SuiteAgent> {
    let mut agents = Vec::new();
    for (number, agent) in thunderdome::orchestrators(root, source, faults) {
        let unset = unset.remove(&("orchestrators", number)).unwrap_or_default();
        agents.push(SuiteAgent { unset, ..agent });
    }
    if let Some(Value::List(items)) = root.get("agents").map(|node| &node.value) {
        for (number, item) in items.iter().enumerate() {
            let unset = unset.remove(&("agents", number)).unwrap_or_default();
            match read_agent(item, settings) {
                Ok(agent) => agents.push(SuiteAgent { unset, ..agent }),
                // Values that are not there may be the reason for the rest.
                Err(_) if !unset.is_empty() => faults.extend(unset.into_iter().map(|it| it.fault)),
                Err(more) => faults.extend(more),
            }
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

fn check_unique<'a>(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_suite_are_listed() {
        let schema = schemars::schema_for!(Suite);
        let known = schema.as_value()["properties"].as_object().unwrap();
        let missing: Vec<&String> = known
            .keys()
            .filter(|key| !KEYS.contains(&key.as_str()))
            .collect();
        assert_eq!(missing, Vec::<&String>::new());
    }
}
