//! `proctor validate`.

use proctor_harness::{
    config::{GatewayOverrides, PromptSource, is_suite, load_suite},
    plan::{SuitePlan, TrialPlan},
    task::{Task, find},
};

use crate::{
    args::{ModelArgs, ValidateArgs},
    error::{CliError, Exit},
    host, ui,
};

pub fn validate(args: &ValidateArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let paths = args.cases.paths.iter().chain(&args.cases.config);
    let (suites, cases): (Vec<_>, Vec<_>) = paths.partition(|path| is_suite(&host.cwd.join(path)));
    for path in suites {
        let mut suite = load_suite(path, &host.env, &settings).map_err(CliError::Config)?;
        GatewayOverrides::default().apply(&mut suite.execution.gateway, &settings);
        let plan = SuitePlan::make(&suite, &host, 0).map_err(CliError::Config)?;
        ui::print(&format!("{path}: ok, {} trials\n", plan.trials.len()))?;
    }
    let (folders, cases): (Vec<_>, Vec<_>) = cases
        .into_iter()
        .partition(|path| find::is_dataset(&host.cwd.join(path)));
    for path in folders {
        for task in super::load_folders(path, &host, &settings)? {
            ui::print(&validated(&task))?;
        }
    }
    for plan in super::load(cases, &host, &settings, &ModelArgs::default())? {
        ui::print(&format!("{}: ok\n", plan.task.config_file()))?;
        if args.verbose {
            ui::print(&resolved(&plan))?;
        }
    }
    Ok(Exit::Success)
}

/// A task folder that is in order, and whether it needs a container.
fn validated(task: &Task) -> String {
    match task.needs_container() {
        None => format!("{}: ok\n", task.config_file()),
        Some(why) => {
            let why = why.faults.first().map(|fault| fault.message.clone());
            let why = why.unwrap_or_default();
            format!(
                "{}: ok, needs `--sandbox docker` ({why})\n",
                task.config_file()
            )
        }
    }
}

/// What a test case resolves to.
fn resolved(plan: &TrialPlan) -> String {
    let task = &plan.task;
    let prompt = match plan.agent.prompt() {
        None => "none".to_owned(),
        Some(PromptSource::Text(text)) => format!("{} characters", text.chars().count()),
        Some(PromptSource::WorkspaceFile(file)) => format!("{file}, in the repo"),
    };
    let timeout = task.limits.timeout.map_or("none".to_owned(), |limit| {
        format!("{} ms", limit.as_millis())
    });
    let evaluators: Vec<&str> = task
        .evaluators
        .iter()
        .map(|evaluator| evaluator.name.as_str())
        .collect();
    format!(
        "  name        {}\n  agent       {}\n  model       {}\n  prompt      {prompt}\n  timeout     {timeout}\n  evaluators  {}\n",
        task.name,
        plan.adapter.name(),
        plan.agent.model().unwrap_or("the agent's default"),
        evaluators.join(", "),
    )
}
