//! `proctor list`.

use proctor_harness::{agents::ADAPTERS, evaluate::EVALUATORS};
use serde_json::json;

use crate::{
    args::ListArgs,
    error::{CliError, Exit},
    ui,
};

pub fn list(args: &ListArgs) -> Result<Exit, CliError> {
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
