//! `proctor list`.

use std::{fmt::Write, sync::Arc};

use camino::Utf8Path;
use proctor_agents::ADAPTERS;
use proctor_document::Node;
use proctor_harness::{
    config::{AgentType, SuiteAgent, SuiteFile},
    evaluate::EVALUATORS,
    plan::ResolvedSuite,
    task::Task,
};
use proctor_record::record::list::{self, RunListing};
use proctor_sandbox::host::Host;
use serde_json::{Value, json};

use crate::{
    args::{ListArgs, ListCommand, ListRunsArgs},
    error::{CliError, Exit},
    host,
    personality::{self, Listing, Personality},
    platform, ui,
};

pub fn list(args: &ListArgs) -> Result<Exit, CliError> {
    match &args.what {
        None => list_all(args),
        Some(ListCommand::Runs(more)) => list_runs(more, args.json || more.json),
    }
}

/// Lists the suite and the types of agents and evaluators. As `thunderdome`, lists the suite only.
fn list_all(args: &ListArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let suite = suite(args, &host)?;
    let listing = Personality::current().listing;
    if listing == Listing::Suite && suite.is_none() {
        return Err(CliError::NothingToRun);
    }
    if args.json {
        let mut listed = kinds_json();
        if let Some(suite) = &suite {
            listed["suite"] = suite_json(suite);
        }
        ui::print_json(&listed)?;
        return Ok(Exit::Success);
    }
    if let Some(suite) = &suite {
        ui::print(&suite_text(suite))?;
    }
    match listing {
        Listing::Everything => ui::print(&kinds_text())?,
        Listing::Suite => {}
        Listing::Evaluators => ui::print(&personality::evaluators())?,
    }
    Ok(Exit::Success)
}

/// The given suite, or else the one in the working directory. Only a given suite must be valid.
fn suite(args: &ListArgs, host: &Host) -> Result<Option<ResolvedSuite>, CliError> {
    let settings = super::settings(host)?;
    let is_named = args.config.is_some() || Personality::current().listing == Listing::Suite;
    let path = args.config.clone().or_else(|| super::default_suite(host));
    let Some(path) = path else { return Ok(None) };
    let file = SuiteFile::read(&path).map_err(|error| CliError::Config(vec![error]));
    match file.and_then(|file| super::resolve(file, host, &settings)) {
        Ok(suite) => Ok(Some(suite)),
        Err(error) if is_named => Err(error),
        Err(_) => {
            ui::note(&format!(
                "note: {path} is not valid: `proctor validate` shows the errors"
            ));
            Ok(None)
        }
    }
}

/// The type or script of an agent, and its image.
fn described(agent: &SuiteAgent) -> (String, Option<String>) {
    let text = |key: &str| agent.spec.config.get(key).and_then(Node::as_str);
    let kind = match &agent.spec.kind {
        AgentType::Named(kind) => kind.clone(),
        AgentType::Auto => "auto".to_owned(),
    };
    let kind = text("adapter").map_or(kind, str::to_owned);
    (kind, text("image").map(str::to_owned))
}

/// The aliases of a task that are not paths.
fn other_names(task: &Task) -> Vec<&str> {
    let aliases = task.aliases.iter().map(String::as_str);
    let is_path = |name: &str| name.contains(['/', '\\']);
    let mut names: Vec<&str> = aliases
        .filter(|name| *name != task.name && !is_path(name))
        .collect();
    names.dedup();
    names
}

fn suite_json(suite: &ResolvedSuite) -> Value {
    let agent = |agent: &SuiteAgent| {
        let (kind, image) = described(agent);
        json!({ "name": agent.name, "kind": kind, "image": image })
    };
    let task = |task: &Arc<Task>| {
        json!({
            "name": task.name, "also": other_names(task), "category": task.category,
            "description": task.description,
        })
    };
    json!({
        "file": suite.source.path(),
        "agents": suite.agents.iter().map(agent).collect::<Vec<_>>(),
        "tasks": suite.tasks.iter().map(task).collect::<Vec<_>>(),
    })
}

fn suite_text(suite: &ResolvedSuite) -> String {
    let title = if suite.is_thunderdome() {
        "Orchestrators"
    } else {
        "Agents"
    };
    let path = suite.source.path();
    let mut text = format!("{title} of {path}:\n");
    let agents = suite.agents.iter().map(|agent| {
        let (kind, image) = described(agent);
        [agent.name.clone(), kind, image.unwrap_or_default()]
    });
    text.push_str(&columns(&agents.collect::<Vec<_>>()));
    let _ = writeln!(text, "Tasks of {path}:");
    let tasks = suite.tasks.iter().map(|task| {
        let category = task.category.clone().unwrap_or_default();
        [task.name.clone(), category, other_names(task).join(", ")]
    });
    text.push_str(&columns(&tasks.collect::<Vec<_>>()));
    text
}

/// Rows in aligned columns, indented.
fn columns(rows: &[[String; 3]]) -> String {
    let table = ui::table(rows, 3);
    let mut text = String::new();
    for line in table.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn list_runs(args: &ListRunsArgs, as_json: bool) -> Result<Exit, CliError> {
    let host = host::host()?;
    let places = match &args.dir {
        Some(dir) => {
            let dir = host.cwd.join(dir);
            // Links such as `latest` are resolved.
            vec![platform::true_name(&dir).unwrap_or(dir)]
        }
        None => super::places(&host)?,
    };
    let mut found: Vec<RunListing> = places.iter().flat_map(|place| list::list(place)).collect();
    found.sort_by_key(|run| std::cmp::Reverse(run.started_at));
    if as_json {
        ui::print_json(&found)?;
        return Ok(Exit::Success);
    }
    if found.is_empty() {
        ui::print("no runs found\n")?;
        return Ok(Exit::Success);
    }
    let head = [
        "run", "started", "suite", "agents", "done", "passed", "failed", "excluded", "cost",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(found.iter().map(|run| row(run, &host.cwd)));
    let table = ui::table(&rows, 4);
    let labels = found.iter().map(labels);
    let labels = std::iter::once(String::new()).chain(labels);
    let lines = table.lines().zip(labels);
    let lines = lines.map(|(line, labels)| format!("{line}{labels}\n"));
    ui::print(&lines.collect::<String>())?;
    Ok(Exit::Success)
}

/// The labels of a run, after its row.
fn labels(run: &RunListing) -> String {
    let labels = run.labels.iter();
    let labels = labels.map(|(key, value)| format!("  {key}={value}"));
    ui::tame(&labels.collect::<String>())
}

fn row(run: &RunListing, cwd: &Utf8Path) -> [String; 9] {
    // Relative to the working directory; the JSON has the absolute path.
    let suite = run.suite.as_deref().map(Utf8Path::new);
    let suite = suite.map_or("–", |suite| {
        suite.strip_prefix(cwd).unwrap_or(suite).as_str()
    });
    let started = run
        .started_at
        .map(|at| at.strftime("%Y-%m-%d %H:%M").to_string());
    let agents: Vec<&str> = run.agents.iter().map(String::as_str).collect();
    let agents = match agents.as_slice() {
        [one, two, more @ ..] if !more.is_empty() => format!("{one}, {two} +{}", more.len()),
        few => few.join(", "),
    };
    let cost = run.cost_usd.map(|cost| format!("${:.4}", cost.dollars()));
    let cost = cost.unwrap_or_else(|| "–".to_owned());
    [
        run.name.clone(),
        started.unwrap_or_default(),
        ui::tame(suite),
        ui::tame(&agents),
        format!("{}/{}", run.done, run.trials),
        run.passed.to_string(),
        run.failed.to_string(),
        run.errors.to_string(),
        if run.is_running {
            format!("{cost}  running")
        } else {
            cost
        },
    ]
}

fn kinds() -> Vec<(&'static str, &'static str)> {
    let adapters = ADAPTERS.iter();
    adapters
        .map(|adapter| (adapter.name(), adapter.summary()))
        .collect()
}

fn kinds_json() -> Value {
    let named = |(name, summary): &(&str, &str)| json!({ "name": name, "summary": summary });
    json!({
        "agents": kinds().iter().map(named).collect::<Vec<_>>(),
        "evaluators": EVALUATORS.iter().map(named).collect::<Vec<_>>(),
    })
}

fn kinds_text() -> String {
    let mut text = String::new();
    for (title, entries) in [("Agents", kinds().as_slice()), ("Evaluators", &EVALUATORS)] {
        let _ = writeln!(text, "{title}:");
        for (name, summary) in entries {
            let _ = writeln!(text, "  {name:<16}{summary}");
        }
    }
    text
}
