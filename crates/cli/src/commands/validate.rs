//! `proctor validate`.

use proctor_harness::config::PromptSource;

use crate::{
    args::ValidateArgs,
    error::{CliError, Exit},
    host, ui,
};

pub fn validate(args: &ValidateArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    for plan in super::load(
        args.cases.paths.iter().chain(&args.cases.config),
        &host,
        &settings,
    )? {
        let case = &plan.case;
        ui::print(&format!("{}: ok\n", case.config_file()))?;
        if args.verbose {
            let prompt = match plan.agent.prompt() {
                None => "none".to_owned(),
                Some(PromptSource::Text(text)) => format!("{} characters", text.chars().count()),
                Some(PromptSource::WorkspaceFile(file)) => format!("{file}, in the repo"),
            };
            let timeout = case.timeout.map_or("none".to_owned(), |limit| {
                format!("{} ms", limit.as_millis())
            });
            let evaluators: Vec<&str> = plan
                .evaluators
                .iter()
                .map(|evaluator| evaluator.name.as_str())
                .collect();
            ui::print(&format!(
                "  name        {}\n  agent       {}\n  model       {}\n  prompt      {prompt}\n  timeout     {timeout}\n  evaluators  {}\n",
                case.name,
                plan.adapter.name(),
                plan.agent.model().unwrap_or("the agent's default"),
                evaluators.join(", "),
            ))?;
        }
    }
    Ok(Exit::Success)
}
