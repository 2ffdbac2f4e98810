//! `proctor eval`: judges an existing directory. No agent runs, and the directory is not changed.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    config::{Execution, KeepWorkspace, Settings},
    host::Host,
    plan::{RunPlan, TrialPlan},
    record::run_event::RunEvent,
    run::{OnEnd, Runner, control::Control},
    task::{Files, Task, existing},
};
use tokio_util::sync::CancellationToken;

use super::run::until_done;
use crate::{
    args::EvalArgs,
    error::{CliError, Exit},
    host, platform, ui,
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
    let runner = Runner {
        plan: &RunPlan::of_cases(vec![plan], 1, None)?,
        host: &host,
        results_dir: &results_dir,
        execution: &Execution {
            keep_workspace: KeepWorkspace::None,
            ..Execution::default()
        },
        parallel: 1,
        retries: 0,
        control: &Control::default(),
        on_end: &OnEnd::default(),
        run_jobs: None,
    };
    let cancel = CancellationToken::new();
    let progress = ui::Progress::new(args.progress, &host);
    let listener = |_, event: &RunEvent<'_>| progress.show(event);
    let summary = until_done(runner.run(&listener, &cancel), &progress, &cancel)?;
    if args.json {
        ui::print_json(&summary)?;
    } else {
        ui::report(&summary)?;
    }
    Ok(summary.status.into())
}

/// The results directory: that of runs, unless it is inside the directory being evaluated.
fn place(task: &Task, host: &Host, settings: &Settings) -> Result<Utf8PathBuf, CliError> {
    let usual = super::runs_dir(host, settings);
    let Files::Existing { directory, .. } = &task.files else {
        return Ok(usual);
    };
    if task.run_folder.parent.is_some() || !is_in(&usual, directory) {
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
