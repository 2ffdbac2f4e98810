//! `proctor validate`.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::agent::PromptSource;
use proctor_document::ConfigError;
use proctor_harness::{
    config::{Execution, GatewayOverrides, Settings, SuiteFile},
    plan::{CaseOptions, RunPlan, TrialPlan},
    run::{Preflight, RunError},
    task::Task,
};
use proctor_record::record::{self, list};
use proctor_report::foreign;
use proctor_sandbox::host::Host;

use crate::{
    args::ValidateArgs,
    error::{CliError, Exit},
    host, ui,
};

pub fn validate(args: &ValidateArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let paths = args.cases.paths.iter().chain(&args.cases.config).cloned();
    let mut paths: Vec<Utf8PathBuf> = super::pinned(paths, &host, &settings)?;
    if paths.is_empty() {
        paths.push(super::default_suite(&host).ok_or(CliError::NothingToRun)?);
    }
    if let Some(folder) = paths.iter().find(|path| is_run(&host.cwd.join(path))) {
        return Err(CliError::RunInsteadOfTask {
            folder: folder.clone(),
        });
    }
    let mut cases = Vec::new();
    let mut exit = Exit::Success;
    for path in &paths {
        match SuiteFile::open(path) {
            Some(file) => {
                if !validate_suite(path, file, &host, &settings)? {
                    exit = Exit::Usage;
                }
            }
            None => cases.push(path),
        }
    }
    let (folders, cases): (Vec<_>, Vec<_>) = cases
        .into_iter()
        .partition(|path| super::is_dataset(path, &host));
    for path in folders {
        let (tasks, refused) = super::load_folders(path, &host, &settings)?;
        for task in tasks {
            ui::print(&validated(&task))?;
        }
        super::show_refused(&refused);
        if !refused.is_empty() {
            exit = Exit::Usage;
        }
    }
    let execution = Execution::default();
    for plan in super::load(cases, &host, &settings, &CaseOptions::default())? {
        let plans = std::slice::from_ref(&plan);
        if !is_accepted(plans, &execution, &host)? {
            exit = Exit::Usage;
            continue;
        }
        ui::print(&format!("{}: ok\n", plan.task.config_file()))?;
        ask([plan.task.as_ref()])?;
        if args.verbose {
            ui::print(&resolved(&plan))?;
        }
    }
    Ok(exit)
}

/// Whether no trial would refuse its input. Prints the errors, and notes about missing programs.
pub(super) fn is_accepted(
    plans: &[TrialPlan],
    execution: &Execution,
    host: &Host,
) -> Result<bool, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let found = runtime.block_on(Preflight::of(plans, execution, host));
    for note in &found.notes {
        ui::note(&format!("note: {note}"));
    }
    let is_accepted = found.errors.is_empty();
    for error in found.errors {
        ui::error(&CliError::Run(RunError::Trial(error)));
    }
    Ok(is_accepted)
}

/// Whether a folder holds the results of a run.
fn is_run(folder: &Utf8Path) -> bool {
    let folder = record::run_folder(folder).unwrap_or_else(|_| folder.to_owned());
    list::is_run(&folder) || foreign::is_run(&folder)
}

/// Validates a suite, and returns whether it can be run. Unset variables are notes here; they are
/// errors only when agents run.
fn validate_suite(
    path: &Utf8Path,
    file: SuiteFile,
    host: &Host,
    settings: &Settings,
) -> Result<bool, CliError> {
    let mut suite = super::resolve(file, host, settings)?;
    GatewayOverrides::default().apply(&mut suite.execution.gateway, settings);
    let unset = suite.take_unset();
    suite.notes.extend(unset);
    for note in super::notes(&suite) {
        ui::note(&note);
    }
    let plan = RunPlan::make(&suite, host, 0).map_err(CliError::Config)?;
    let refused: Vec<ConfigError> = suite.refused.iter().map(|it| it.error.clone()).collect();
    super::show_refused(&refused);
    if !is_accepted(&plan.trials, &suite.execution, host)? {
        return Ok(false);
    }
    ui::print(&format!(
        "{path}: ok, {}\n",
        ui::counted(plan.trials.len(), "trial")
    ))?;
    ask(plan.trials.iter().map(|trial| trial.task.as_ref()))?;
    Ok(refused.is_empty())
}

/// Prints the open questions for task authors, each once.
fn ask<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Result<(), CliError> {
    let mut asked = BTreeSet::new();
    for task in tasks {
        for question in task.questions() {
            let line = format!("  note: {}: {question}\n", task.name);
            if asked.insert(line.clone()) {
                ui::print(&line)?;
            }
        }
    }
    Ok(())
}

/// The result for a valid task directory, with the reason if it requires a container, and notes.
fn validated(task: &Task) -> String {
    let mut text = match task.needs_container() {
        None => format!("{}: ok\n", task.config_file()),
        Some(why) => {
            let why = why.faults.first().map(|fault| fault.message.clone());
            let why = why.unwrap_or_default();
            format!(
                "{}: ok, requires `--sandbox docker` ({why})\n",
                task.config_file()
            )
        }
    };
    for note in &task.notes {
        text.extend(["  note: ", note, "\n"]);
    }
    for unset in &task.unset {
        text.extend([
            "  note: `",
            &unset.name,
            "` is not set: the task cannot run\n",
        ]);
    }
    text
}

/// The resolved values of a test case.
fn resolved(plan: &TrialPlan) -> String {
    let task = &plan.task;
    let prompt = match plan.agent.prompt() {
        None => "none".to_owned(),
        Some(PromptSource::Text(text)) => ui::counted(text.chars().count(), "character"),
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
