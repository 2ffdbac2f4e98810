//! `proctor list`.

use std::fmt::Write;

use camino::Utf8Path;
use proctor_harness::{
    agents::ADAPTERS,
    evaluate::EVALUATORS,
    runs::{self, RunListing},
};
use serde_json::json;

use crate::{
    args::{ListArgs, ListCommand, ListRunsArgs},
    error::{CliError, Exit},
    host, platform, ui,
};

pub fn list(args: &ListArgs) -> Result<Exit, CliError> {
    match &args.what {
        None => list_kinds(args),
        Some(ListCommand::Runs(more)) => list_runs(more, args.json || more.json),
    }
}

fn list_runs(args: &ListRunsArgs, as_json: bool) -> Result<Exit, CliError> {
    let host = host::host()?;
    let places = match &args.dir {
        Some(dir) => {
            let dir = host.cwd.join(dir);
            // A link such as `latest` is the run that it leads to.
            vec![platform::true_name(&dir).unwrap_or(dir)]
        }
        None => super::places(&host)?,
    };
    let mut found: Vec<RunListing> = places.iter().flat_map(|place| runs::list(place)).collect();
    found.sort_by_key(|run| std::cmp::Reverse(run.started_at));
    if as_json {
        ui::print_json(&found)?;
        return Ok(Exit::Success);
    }
    if found.is_empty() {
        ui::print("there is no run on record here\n")?;
        return Ok(Exit::Success);
    }
    let mut text = format!(
        "{:<28} {:<16} {:<20} {:<24} {:>11} {:>6} {:>6} {:>10} {:>9}\n",
        "run", "started", "suite", "agents", "done", "passed", "failed", "not judged", "cost"
    );
    for run in &found {
        row(&mut text, run, &host.cwd);
    }
    ui::print(&text)?;
    Ok(Exit::Success)
}

fn row(text: &mut String, run: &RunListing, cwd: &Utf8Path) {
    // As it would be named from here; the whole path is in the JSON.
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
    let _ = writeln!(
        text,
        "{:<28} {:<16} {:<20} {:<24} {:>11} {:>6} {:>6} {:>10} {:>9}{}",
        run.name,
        started.unwrap_or_default(),
        suite,
        agents,
        format!("{}/{}", run.done, run.trials),
        run.passed,
        run.failed,
        run.errors,
        cost.unwrap_or_else(|| "–".to_owned()),
        if run.is_running { "  running" } else { "" },
    );
}

fn list_kinds(args: &ListArgs) -> Result<Exit, CliError> {
    let agents: Vec<(&str, &str)> = ADAPTERS
        .iter()
        .map(|adapter| (adapter.name(), adapter.summary()))
        .collect();
    if args.json {
        let named = |(name, summary): &(&str, &str)| json!({ "name": name, "summary": summary });
        ui::print_json(&json!({
            "agents": agents.iter().map(named).collect::<Vec<_>>(),
            "evaluators": EVALUATORS.iter().map(named).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Success);
    }
    for (title, entries) in [("Agents", agents.as_slice()), ("Evaluators", &EVALUATORS)] {
        ui::print(&format!("{title}:\n"))?;
        for (name, summary) in entries {
            ui::print(&format!("  {name:<16}{summary}\n"))?;
        }
    }
    Ok(Exit::Success)
}
