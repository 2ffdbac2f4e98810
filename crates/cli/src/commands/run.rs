//! `proctor run`.

use std::sync::Arc;

use camino::Utf8PathBuf;
use proctor_harness::{
    config::{Execution, Settings, is_suite},
    control::Control,
    event::RunEvent,
    host::Host,
    runner::{Run, RunSummary, Workspaces},
    task::find,
};
use tokio_util::sync::CancellationToken;

use crate::{
    args::{Progress, RunArgs, SuiteArgs},
    error::{CliError, Exit},
    host,
    platform::{StopSignals, can_draw},
    ui,
};

/// Where runs go when nobody says where.
pub(super) const DEFAULT_WORKSPACE_DIR: &str = ".proctor";

pub fn run(args: &RunArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let mut paths: Vec<Utf8PathBuf> = args.paths.iter().chain(&args.config).cloned().collect();
    if paths.is_empty() {
        paths.push(super::default_suite(&host).ok_or(CliError::NothingToRun)?);
    }
    if args.cleanup_aggressive {
        ui::note(
            "note: --cleanup-aggressive has no effect: containers and networks are removed after each trial, and images are kept",
        );
    }
    match paths.as_slice() {
        [path] if is_suite(&host.cwd.join(path)) => super::suite::run(path, args, &host, &settings),
        [path] if find::is_dataset(&host.cwd.join(path)) => {
            super::suite::run_folder(path, args, &host, &settings)
        }
        _ if args.suite != SuiteArgs::default() => {
            // A file that cannot be read says so first: it may have been meant for a suite.
            super::load(&paths, &host, &settings, &args.models)?;
            Err(CliError::NotASuite)
        }
        _ => run_cases(&paths, args, &host, &settings),
    }
}

fn run_cases(
    paths: &[Utf8PathBuf],
    args: &RunArgs,
    host: &Host,
    settings: &Settings,
) -> Result<Exit, CliError> {
    let plans = super::load(paths, host, settings, &args.models)?;
    let keeps = settings.keep_workspace.unwrap_or(true) && !args.delete_workspace;
    let control = Arc::new(Control::default());
    let run = Run {
        control: &control,
        plans: &plans,
        workspace_dir: settings
            .workspace_dir
            .clone()
            .unwrap_or_else(|| host.cwd.join(DEFAULT_WORKSPACE_DIR)),
        workspaces: if keeps {
            Workspaces::Keep
        } else {
            Workspaces::Delete
        },
        host,
        execution: &Execution::default(),
    };
    let cancel = CancellationToken::new();
    let progress = progress(args, host, plans.len(), &control, &cancel)?;
    let listener = |event: &RunEvent<'_>| progress.show(event);
    let summary = until_done(run.run(&listener, &cancel), &progress, &cancel)?;
    if args.json {
        ui::print_json(&summary)?;
    } else {
        ui::report(&progress, &summary)?;
    }
    Ok(exit(&summary))
}

/// What a run comes to, with trials told that were given something bad.
pub(super) fn exit(summary: &RunSummary) -> Exit {
    for failed in &summary.failed_starts {
        ui::error(&CliError::FailedStart(failed.clone()));
    }
    if summary.failed_starts.is_empty() {
        summary.status.into()
    } else {
        Exit::Usage
    }
}

/// How a run is shown: in the view where somebody looks and there is more than one trial.
pub(super) fn progress(
    args: &RunArgs,
    host: &Host,
    trials: usize,
    control: &Arc<Control>,
    cancel: &CancellationToken,
) -> Result<ui::Progress, CliError> {
    let progress = ui::Progress::new(args.progress, host);
    let term = host.env.get("TERM").map(String::as_str);
    let is_smart = !host.env.contains_key("CI") && can_draw(term);
    let is_usual = trials > 1 && is_smart && args.progress == Progress::Auto && !args.view.no_tui;
    if !args.view.tui && !is_usual {
        return Ok(progress);
    }
    if ui::is_possible() {
        return Ok(progress.in_view(ui::Steering {
            control: Arc::clone(control),
            cancel: cancel.clone(),
        }));
    }
    if args.view.tui {
        return Err(CliError::NoTerminal);
    }
    Ok(progress)
}

/// See a run through: show progress, and stop it when a signal asks for that.
pub(super) fn until_done<T, E: Into<CliError>>(
    running: impl Future<Output = Result<T, E>>,
    progress: &ui::Progress,
    cancel: &CancellationToken,
) -> Result<T, CliError> {
    until_stopped(running, progress, cancel, async || progress.interrupted())
}

/// The same, with what is to be done first when a signal asks to stop.
pub(super) fn until_stopped<T, E: Into<CliError>>(
    running: impl Future<Output = Result<T, E>>,
    progress: &ui::Progress,
    cancel: &CancellationToken,
    stopping: impl AsyncFn(),
) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        tokio::pin!(running);
        loop {
            tokio::select! {
                done = &mut running => return done.map_err(Into::into),
                () = signals.next() => {
                    let is_again = cancel.is_cancelled() || tokio::select! {
                        () = stopping() => false,
                        () = signals.next() => true,
                    };
                    if is_again {
                        // Asked twice: the supervisors see us go and take the agents along.
                        progress.finish();
                        std::process::exit(130);
                    }
                    cancel.cancel();
                }
                () = progress.tick() => {}
            }
        }
    });
    progress.finish();
    done
}
