//! A suite: the file that names agents, tasks and trials. Every agent does every task.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    agent::{self, AgentSpec},
    error::{ConfigError, Fault},
    interpolate::Variables,
    node::{Node, Span, Value},
    parse::{self, Format},
    paths,
    settings::Settings,
    source::Source,
    testcase::{self, ResolvedCase},
};

const MAX_NAME: usize = 100;
/// Keys that make a file a suite.
const TELLING: [&str; 3] = ["agents", "tasks", "orchestrators"];
/// Keys that are understood and not there yet.
const NOT_YET: [&str; 8] = [
    "orchestrators",
    "sandbox",
    "limits",
    "gateway",
    "proxy",
    "network",
    "secrets",
    "max_cost",
];

/// A suite as written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The contenders: an `agent` section each, with a `name`.
    #[schemars(
        with = "Vec<serde_json::Map<String, serde_json::Value>>",
        length(min = 1)
    )]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    agents: Vec<IgnoredAny>,
    /// What they are asked.
    #[schemars(length(min = 1))]
    tasks: Vec<TaskEntry>,
    /// How often each agent does each task.
    #[schemars(range(min = 1, max = 1000))]
    trials: Option<u32>,
    /// How many trials run at the same time.
    #[schemars(range(min = 1, max = 256))]
    parallel: Option<usize>,
    /// Where results go.
    results: Option<ResultsSection>,
}

/// Where tasks come from.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskEntry {
    /// A test case, a folder of them, or a pattern such as `cases/*.yaml`. Their prompt, repo and
    /// evaluators count; their agent does not.
    testcase: String,
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
    pub cases: Vec<Arc<ResolvedCase>>,
    /// How often each agent does each task.
    pub trials: u32,
    /// How many trials run at the same time.
    pub parallel: usize,
    /// Where results go.
    pub results_dir: Utf8PathBuf,
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

/// Read a suite and its test cases. All files that are wrong are told.
pub fn load_suite(
    path: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedSuite, Vec<ConfigError>> {
    let variables = Variables {
        project: &settings.variables,
        env,
    };
    let (source, mut root) = Source::read(path, &variables).map_err(|error| vec![error])?;
    let source = Arc::new(source);
    let folder = paths::absolute(path.parent().unwrap_or(Utf8Path::new("")));
    let mut faults = root.refuse(&NOT_YET);
    let written = root.read::<Suite>().map_err(|fault| faults.push(fault));
    let agents = read_agents(&root, settings, &mut faults);
    let files = written.as_ref().map_or_else(
        |()| Vec::new(),
        |suite| task_files(suite, &root, &folder, &mut faults),
    );
    let (Ok(written), true) = (written, faults.is_empty()) else {
        return Err(vec![source.error(faults)]);
    };
    let cases = load_cases(&files, env, settings)?;
    check_limits(&written, &root, &mut faults);
    check_unique(
        cases.iter().map(|case| case.name.as_str()),
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
        cases,
        trials: written.trials.unwrap_or(1),
        parallel: written.parallel.unwrap_or(1),
        results_dir: paths::absolute(&folder.join(dir)),
        folder,
        source,
    })
}

fn read_agents(root: &Node, settings: &Settings, faults: &mut Vec<Fault>) -> Vec<SuiteAgent> {
    let Some(Value::List(items)) = root.get("agents").map(|node| &node.value) else {
        return Vec::new();
    };
    if items.is_empty() {
        faults.push(root.fault("agents", "`agents` is empty"));
    }
    let mut agents = Vec::new();
    for item in items {
        match read_agent(item, settings) {
            Ok(agent) => agents.push(agent),
            Err(more) => faults.extend(more),
        }
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
    spec.default_model.clone_from(&settings.model);
    let fallback = match &spec.kind {
        agent::AgentType::Named(kind) => kind.clone(),
        agent::AgentType::Auto => "auto".to_owned(),
    };
    let (name, span) = match &name {
        None => (fallback, item.span),
        Some((_, _, node)) => match node.as_str() {
            Some(name) => (name.to_owned(), node.span),
            None => {
                return Err(vec![Fault::new(
                    node.span,
                    format!("expected a string, found {}", node.value),
                )]);
            }
        },
    };
    if is_name(&name) {
        Ok(SuiteAgent { name, spec })
    } else {
        let message = format!("`{name}` cannot be an agent's name");
        let hint = format!("use up to {MAX_NAME} letters, digits, `.`, `_` and `-`");
        Err(vec![Fault::new(span, message).with_hint(hint)])
    }
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

/// The files that `tasks` names, in the order of the file, each folder's sorted.
fn task_files(
    suite: &Suite,
    root: &Node,
    folder: &Utf8Path,
    faults: &mut Vec<Fault>,
) -> Vec<Utf8PathBuf> {
    let spans = match root.get("tasks").map(|node| &node.value) {
        Some(Value::List(items)) => items.iter().map(|item| item.span_of("testcase")).collect(),
        _ => Vec::new(),
    };
    if suite.tasks.is_empty() {
        faults.push(root.fault("tasks", "`tasks` is empty"));
    }
    let mut files = Vec::new();
    for (entry, span) in suite.tasks.iter().zip(spans) {
        let found = matching(&folder.join(&entry.testcase));
        if found.is_empty() {
            faults.push(Fault::new(
                span,
                format!("there is no test case {}", entry.testcase),
            ));
        }
        files.extend(found);
    }
    files
}

/// A file, the test cases of a folder, or what a `*` in the last part stands for.
fn matching(path: &Utf8Path) -> Vec<Utf8PathBuf> {
    let pattern = path.file_name().filter(|name| name.contains('*'));
    let (folder, pattern) = match pattern {
        Some(pattern) => (path.parent().unwrap_or(path), pattern),
        None if path.is_dir() => (path, "*"),
        None => {
            return path
                .is_file()
                .then(|| path.to_owned())
                .into_iter()
                .collect();
        }
    };
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    let mut found: Vec<Utf8PathBuf> = entries
        .map(|entry| entry.path().to_owned())
        .filter(|file| matches!(file.extension(), Some("yaml" | "yml" | "json")))
        .filter(|file| {
            file.file_name()
                .is_some_and(|name| !name.starts_with('.') && fits(pattern, name))
        })
        .filter(|file| !is_suite(file))
        .collect();
    found.sort();
    found
}

/// Whether `name` is what `pattern` says, where `*` is any text.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len())
                .filter(|at| tail.is_char_boundary(*at))
                .any(|at| fits(rest, &tail[at..]))
        }),
    }
}

fn load_cases(
    files: &[Utf8PathBuf],
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<Vec<Arc<ResolvedCase>>, Vec<ConfigError>> {
    let mut cases = Vec::new();
    let mut errors = Vec::new();
    for file in files {
        match testcase::load(file, env, settings) {
            Ok(case) => cases.push(Arc::new(case)),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(cases)
    } else {
        Err(errors)
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, name) in [
            ("*", "a.yaml"),
            ("*.yaml", "a.yaml"),
            ("a*b*c", "a-b-b-c"),
            ("a", "a"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.yaml", "a.json"), ("a*b", "ac"), ("a", "ab")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }
}
