//! `proctor eval`: judges an existing directory. No agent runs, and the directory is not changed.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    config::{Execution, KeepWorkspace, Settings},
    plan::{RunPlan, TrialPlan},
    run::{OnChange, OnEnd, Runner, control::Control},
    task::{Files, Task, existing},
};
use proctor_record::record::Event;
use proctor_sandbox::host::Host;
use tokio_util::sync::CancellationToken;

use super::run::until_done;
use crate::{
    args::EvalArgs,
    error::{CliError, Exit},
    host,
    personality::{self, Personality, Style},
    platform, ui,
};

pub fn eval(args: &EvalArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let config = |error| CliError::Config(vec![error]);
    let directory = args.dir.as_ref().map(|dir| host.cwd.join(dir));
    let task = existing::load(&args.config, directory.as_deref(), &host.env, &settings);
    let task = Arc::new(task.map_err(config)?);
    let results_dir = place(&task, &host, &settings)?;
    let plan = TrialPlan::of_existing(&task).map_err(config)?;
    let execution = Execution {
        keep_workspace: KeepWorkspace::None,
        ..Execution::default()
    };
    let runner = Runner {
        plan: &RunPlan::of_cases(vec![plan], 1, None, &execution, &host)?,
        host: &host,
        results_dir: &results_dir,
        execution: &execution,
        parallel: 1,
        retries: 0,
        control: &Control::default(),
        on_change: OnChange::Refuse,
        on_end: &OnEnd::default(),
        run_jobs: None,
    };
    let cancel = CancellationToken::new();
    let wanted = super::wanted_progress(args.progress, settings.log_level);
    let progress = ui::Progress::new(wanted, &host);
    let listener = |_, event: &Event| progress.show(event);
    let summary = until_done(runner.run(&listener, &cancel), &progress, &cancel)?;
    let personality = Personality::current();
    let mut text = String::new();
    if personality.style == Style::YouBencha {
        text = personality::completed(&summary, personality.program)?;
    }
    if args.json {
        ui::print_json(&summary)?;
    } else {
        ui::report(&summary)?;
        ui::print(&text)?;
    }
    Ok(super::run::exit(&summary))
}

/// The results directory. Only youBencha writes results into the directory that it judges.
fn place(task: &Task, host: &Host, settings: &Settings) -> Result<Utf8PathBuf, CliError> {
    let personality = Personality::current();
    let by_name = || Some(host.cwd.join(personality.evals_dir?));
    let chosen = settings.output_dir.clone().or_else(by_name);
    let usual = chosen.unwrap_or_else(|| super::runs_dir(host, settings));
    let Files::Existing { directory, .. } = &task.files else {
        return Ok(usual);
    };
    let is_set = task.run_folder.parent.is_some() || personality.style == Style::YouBencha;
    if is_set || !is_in(&usual, directory) {
        return Ok(usual);
    }
    let aside = host.cache.as_ref().map(|cache| cache.join("evals"));
    aside
        .filter(|aside| !is_in(aside, directory))
        .ok_or_else(|| CliError::ResultsInsideEvaluated {
            directory: directory.clone(),
        })
}

/// Whether a directory, which may not exist yet, is inside another.
fn is_in(folder: &Utf8Path, other: &Utf8Path) -> bool {
    let there = folder
        .ancestors()
        .find_map(|path| platform::true_name(path).ok());
    there.is_some_and(|there| there.starts_with(other))
}
