//! `proctor eval`: judge a directory as it is. No agent runs, and the directory is not touched.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    config::{Execution, Settings},
    control::Control,
    event::RunEvent,
    host::Host,
    plan::TrialPlan,
    runner::{Run, Workspaces},
    task::{Files, Task, existing},
};
use tokio_util::sync::CancellationToken;

use super::run::{DEFAULT_WORKSPACE_DIR, until_done};
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
    let workspace_dir = place(&task, &host, &settings)?;
    let plan = TrialPlan::of_existing(&task).map_err(config)?;
    let control = Control::default();
    let run = Run {
        control: &control,
        plans: &[plan],
        workspace_dir,
        workspaces: Workspaces::Delete,
        host: &host,
        execution: &Execution::default(),
    };
    let cancel = CancellationToken::new();
    let progress = ui::Progress::new(args.progress, &host);
    let listener = |event: &RunEvent<'_>| progress.show(event);
    let summary = until_done(run.run(&listener, &cancel), &progress, &cancel)?;
    if args.json {
        ui::print_json(&summary)?;
    } else {
        ui::report(&progress, &summary)?;
    }
    Ok(summary.status.into())
}

/// Where the results go: where runs go, unless that is in the directory that is judged.
fn place(task: &Task, host: &Host, settings: &Settings) -> Result<Utf8PathBuf, CliError> {
    let usual = settings
        .workspace_dir
        .clone()
        .unwrap_or_else(|| host.cwd.join(DEFAULT_WORKSPACE_DIR));
    let Files::Existing { directory, .. } = &task.files else {
        return Ok(usual);
    };
    if task.run_folder.parent.is_some() || !is_in(&usual, directory) {
        return Ok(usual);
    }
    let aside = host.cache.as_ref().map(|cache| cache.join("evals"));
    aside
        .filter(|aside| !is_in(aside, directory))
        .ok_or_else(|| CliError::NoPlaceForResults {
            directory: directory.clone(),
        })
}

/// Whether a folder, which need not be there yet, would be in another.
fn is_in(folder: &Utf8Path, other: &Utf8Path) -> bool {
    let there = folder
        .ancestors()
        .find_map(|path| platform::true_name(path).ok());
    there.is_some_and(|there| there.starts_with(other))
}
