//! A suite: the file that names agents, tasks and trials. Every agent does every task.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    agent::{self, AgentSpec},
    error::{ConfigError, Fault},
    execution::{self, Execution, SandboxKind},
    executor::{self, Executor},
    interpolate::Variables,
    node::{Node, Span, Value},
    parse::{self, Format},
    paths,
    settings::Settings,
    source::Source,
    thunderdome,
};
use crate::task::{Task, case, find, harbor, repo_task};

const MAX_NAME: usize = 100;
/// Keys that make a file a suite.
const TELLING: [&str; 3] = ["agents", "tasks", "orchestrators"];
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
    #[schemars(with = "Vec<TaskEntry>", length(min = 1))]
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

/// Where tasks come from.
// For the schema: reading them by hand gives better complaints.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "stands for its schema")]
enum TaskEntry {
    Testcase(TestcaseEntry),
    Folder(FolderEntry),
    Repo(Box<repo_task::RepoEntry>),
}

/// Test cases.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TestcaseEntry {
    /// A test case, a folder of them, or a pattern such as `cases/*.yaml`. Their prompt, repo and
    /// evaluators count; their agent does not.
    testcase: String,
    /// What they belong to.
    category: Option<String>,
}

/// Tasks in Harbor's format.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FolderEntry {
    /// A task's folder, a folder of them, or a pattern such as `tasks/*`.
    folder: String,
    /// What they belong to; the category in their metadata when left out.
    category: Option<String>,
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
}

/// A contender of a suite.
#[derive(Clone, Debug)]
pub struct SuiteAgent {
    /// Its name, in results and filters.
    pub name: String,
    /// Its section.
    pub spec: AgentSpec,
}

/// Whether a file is a suite rather than a test case. What cannot be read is no suite: reading
/// it as a test case then says what is wrong.
pub fn is_suite(path: &Utf8Path) -> bool {
    let format = match path.extension() {
        Some("json") => Format::Json,
        _ => Format::Yaml,
    };
    std::fs::read_to_string(path)
        .ok()
        .and_then(|text| parse::parse(&text, format).ok())
        .is_some_and(|root| TELLING.iter().any(|key| root.get(key).is_some()))
}

/// Read a suite and its tasks. All files that are wrong are told.
pub fn load_suite(
    path: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let (env, secret_names) = thunderdome::with_secrets(path, env).map_err(|error| vec![error])?;
    let variables = Variables {
        project: &settings.variables,
        env: &env,
    };
    let read = Source::read(path, &variables).map_err(|error| vec![error])?;
    let suite = resolve(read, &env, settings)?;
    Ok(ResolvedSuite {
        secret_names,
        ..suite
    })
}

/// Read a suite from a text that was kept of it, as the file that it was.
pub fn load_kept_suite(
    path: &Utf8Path,
    text: String,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let (env, secret_names) = thunderdome::with_secrets(path, env).map_err(|error| vec![error])?;
    let variables = Variables {
        project: &settings.variables,
        env: &env,
    };
    let read = Source::of_text(path, text, &variables).map_err(|error| vec![error])?;
    let suite = resolve(read, &env, settings)?;
    Ok(ResolvedSuite {
        secret_names,
        ..suite
    })
}

/// The suite of agents of these kinds on the tasks of a folder; the first kind that is installed
/// when none is named.
pub fn suite_of_folder(
    folder: &Utf8Path,
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
    let folder = paths::absolute(folder);
    text.extend(["tasks:\n  - folder: ", &quoted(folder.as_str()), "\n"]);
    let read = Source::of_text("command line".into(), text, &variables);
    resolve(read.map_err(|error| vec![error])?, env, settings)
}

fn resolve(
    (source, mut root): (Source, Node),
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let source = Arc::new(source);
    let path = source.path();
    let folder = paths::absolute(path.parent().unwrap_or(Utf8Path::new("")));
    let mut faults = root.refuse(&NOT_YET);
    let whole = root.clone();
    let mut execution = execution::take(&mut root, &folder, &mut faults);
    thunderdome::settings(&mut root, &mut execution, &mut faults);
    let written = root.read::<Suite>().map_err(|fault| faults.push(fault));
    let agents = read_agents(&root, settings, &mut faults);
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
    if execution.sandbox == SandboxKind::Docker {
        execution.use_containers();
    }
    execution::check(&execution, &whole, &mut faults);
    let entries = read_entries(&root, &source, &folder, &mut faults);
    let (Ok(written), true) = (written, faults.is_empty()) else {
        return Err(vec![source.error(faults)]);
    };
    let mut tasks = load_tasks(entries, env, settings)?;
    for task in &mut tasks {
        let limits = &mut Arc::make_mut(task).limits;
        limits.progress = execution.progress.or(limits.progress);
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
    let dir = written
        .results
        .map_or_else(|| "results".to_owned(), |results| results.dir);
    Ok(ResolvedSuite {
        agents,
        tasks,
        trials: written.trials.unwrap_or(1),
        parallel: written.parallel.unwrap_or(1),
        results_dir: paths::absolute(&folder.join(dir)),
        execution,
        env: env.clone(),
        secret_names: Vec::new(),
        folder,
        source,
    })
}

/// Whether the suite says that there is to be no gateway.
fn without_gateway(root: &Node) -> bool {
    let gateway = root.get("proxy").and_then(|proxy| proxy.get("gateway"));
    gateway.and_then(Node::as_str) == Some("none")
}

fn read_agents(root: &Node, settings: &Settings, faults: &mut Vec<Fault>) -> Vec<SuiteAgent> {
    let mut agents = thunderdome::orchestrators(root, faults);
    if let Some(Value::List(items)) = root.get("agents").map(|node| &node.value) {
        for item in items {
            match read_agent(item, settings) {
                Ok(agent) => agents.push(agent),
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
    Ok(SuiteAgent { name, spec })
}

/// A contender's name.
pub(super) fn agent_name(node: &Node) -> Result<String, Fault> {
    let Some(name) = node.as_str() else {
        let message = format!("expected a string, found {}", node.value);
        return Err(Fault::new(node.span, message));
    };
    if is_name(name) {
        return Ok(name.to_owned());
    }
    let message = format!("`{name}` cannot be an agent's name");
    let hint = format!("use up to {MAX_NAME} letters, digits, `.`, `_` and `-`");
    Err(Fault::new(node.span, message).with_hint(hint))
}

/// Names become folders.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= MAX_NAME
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
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

/// A task that a suite names, read as far as the suite itself tells.
enum Entry {
    Case(Utf8PathBuf, Option<String>),
    Folder(Utf8PathBuf, Option<String>),
    Repo(Box<Task>),
}

/// What `tasks` names, in the order of the file, each folder's sorted.
fn read_entries(
    root: &Node,
    source: &Arc<Source>,
    folder: &Utf8Path,
    faults: &mut Vec<Fault>,
) -> Vec<Entry> {
    let Some(Value::List(items)) = root.get("tasks").map(|node| &node.value) else {
        return Vec::new();
    };
    if items.is_empty() {
        faults.push(root.fault("tasks", "`tasks` is empty"));
    }
    let mut entries = Vec::new();
    for item in items {
        match read_entry(item, source, folder) {
            Ok(more) => entries.extend(more),
            Err(more) => faults.extend(more),
        }
    }
    entries
}

fn read_entry(
    item: &Node,
    source: &Arc<Source>,
    folder: &Utf8Path,
) -> Result<Vec<Entry>, Vec<Fault>> {
    let one = |fault: Fault| vec![fault];
    let keys = ["testcase", "folder", "repo"];
    let mut given = keys.iter().filter(|key| item.get(key).is_some());
    let (first, second) = (given.next(), given.next());
    match (first.copied(), second) {
        (Some(_), Some(other)) => {
            let message = "a task comes from a `testcase`, a `folder` or a `repo`: keep one";
            Err(one(Fault::new(item.key_span_of(other), message)))
        }
        (None, _) => {
            let message = "a task names a `testcase`, a `folder` or a `repo`";
            Err(one(Fault::new(item.span, message)))
        }
        (Some("repo"), None) => {
            let task = repo_task::read(item, source, folder)?;
            Ok(vec![Entry::Repo(Box::new(task))])
        }
        (Some("folder"), None) => {
            let written: FolderEntry = item.read().map_err(one)?;
            let found = find::task_folders(&folder.join(&written.folder));
            if found.is_empty() {
                let message = format!("there is no task in {}", written.folder);
                let hint = format!("a task is a folder with a {}", find::TASK_FILE);
                return Err(one(item.fault("folder", message).with_hint(hint)));
            }
            let entry = |path| Entry::Folder(path, written.category.clone());
            Ok(found.into_iter().map(entry).collect())
        }
        (Some(_), None) => {
            let written: TestcaseEntry = item.read().map_err(one)?;
            let found = find::case_files(&folder.join(&written.testcase));
            if found.is_empty() {
                let message = format!("there is no test case {}", written.testcase);
                return Err(one(item.fault("testcase", message)));
            }
            let entry = |path| Entry::Case(path, written.category.clone());
            Ok(found.into_iter().map(entry).collect())
        }
    }
}

fn load_tasks(
    entries: Vec<Entry>,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<Vec<Arc<Task>>, Vec<ConfigError>> {
    let mut tasks = Vec::new();
    let mut errors = Vec::new();
    for entry in entries {
        let (loaded, category) = match entry {
            Entry::Case(path, category) => (case::load(&path, env, settings), category),
            Entry::Folder(path, category) => (harbor::load(&path, env, settings), category),
            Entry::Repo(task) => (Ok(*task), None),
        };
        match loaded {
            Ok(task) => tasks.push(Arc::new(Task {
                category: category.or(task.category.clone()),
                ..task
            })),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(tasks)
    } else {
        Err(errors)
    }
}
