//! `proctor run`: plans what the paths name, runs it and reports it.

use std::{ops::ControlFlow, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    cluster,
    config::{Executor, SuiteFile},
    plan::RunPlan,
    run::{FailedStart, OnChange, RunSummary, Runner, control::Control},
};
use proctor_record::record::{Event, TrialStatus};
use tokio_util::sync::CancellationToken;

use super::{
    experiment, gate,
    interrupt::Interrupts,
    planning::{self, PlannedRun},
    validate::is_accepted,
};
use crate::{
    args::{GatedRunArgs, ProgressStyle, RunArgs},
    error::{CliError, Exit},
    host,
    personality::{self, Personality, Style},
    platform::{StopSignals, can_draw},
    ui,
};

/// The maximum number of different problems of trials that could not be started.
const MOST_FAILED_STARTS: usize = 3;

pub fn run(command: &GatedRunArgs) -> Result<Exit, CliError> {
    let args = &command.run;
    if let (false, Some(option)) = (command.gate, command.options.given()) {
        let message = format!("{option} has no effect without --gate");
        return Err(CliError::input(message, "add --gate"));
    }
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let paths = args.paths.iter().chain(&args.config).cloned();
    let mut paths = super::pinned(paths, &host, &settings)?;
    if paths.is_empty() {
        paths.push(super::default_suite(&host).ok_or(CliError::NothingToRun)?);
    }
    if args.cleanup_aggressive {
        ui::note(
            "note: --cleanup-aggressive has no effect: containers and networks are removed after each trial, and images are kept",
        );
    }
    let suite = paths
        .iter()
        .find_map(|path| Some((path, SuiteFile::open(path)?)));
    let is_dataset = |path: &&Utf8PathBuf| super::is_dataset(path, &host);
    let planned = match suite {
        Some((_, file)) if paths.len() == 1 => {
            planning::suite(file, &args.options.agent, args, (&host, &settings))?
        }
        Some((suite, _)) => {
            return Err(CliError::SuiteAmongOthers {
                suite: suite.clone(),
            });
        }
        None if paths.iter().all(|path| is_dataset(&path)) => {
            planning::folders(&paths, args, &host, &settings)?
        }
        None => planning::cases(&paths, args, &host, &settings)?,
    };
    if command.gate || !command.report.is_empty() {
        return gate::run_gated(&planned, command);
    }
    experiment::run_planned(&planned, args)
}

/// Runs a plan that is not an experiment, and prints its results.
pub(super) fn run_planned(planned: &PlannedRun, args: &RunArgs) -> Result<Exit, CliError> {
    planned.show_notes();
    let exit = if args.options.dry_run {
        dry_run(&planned.plan)?
    } else {
        let summary = execute(planned, args, &|_| None)?;
        print_result(&summary, planned, args)?
    };
    Ok(match exit {
        Exit::Interrupted => exit,
        // The other tasks ran.
        _ if !planned.refused.is_empty() => Exit::Usage,
        _ => exit,
    })
}

/// Makes a line of an event, to be shown with the progress.
pub(super) type EventNote<'a> = dyn Fn(&Event) -> Option<String> + Send + Sync + 'a;

/// Runs a plan to its end, or only shows it. `outline` is its size. Otherwise breaks with the exit
/// code, after the summary of an incomplete run.
pub(super) fn run_with_outline(
    planned: &PlannedRun,
    args: &RunArgs,
    outline: &str,
    note_of: &EventNote<'_>,
) -> Result<ControlFlow<Exit, RunSummary>, CliError> {
    if args.options.dry_run {
        ui::print(outline)?;
        return dry_run(&planned.plan).map(ControlFlow::Break);
    }
    planned.show_notes();
    // A variant that cannot start must not cost the trials of the others. A search skips it.
    let is_search = planned.plan.search.is_some();
    if !is_search && !is_accepted(&planned.plan.trials, &planned.execution, &planned.host)? {
        return Ok(ControlFlow::Break(Exit::Usage));
    }
    ui::note(outline.trim_end());
    let summary = execute(planned, args, note_of)?;
    if !summary.failed_starts.is_empty() || summary.status == TrialStatus::Interrupted {
        return print_result(&summary, planned, args).map(ControlFlow::Break);
    }
    Ok(ControlFlow::Continue(summary))
}

/// Runs a plan, shows its progress, and stops it at a signal.
pub(super) fn execute(
    planned: &PlannedRun,
    args: &RunArgs,
    note_of: &EventNote<'_>,
) -> Result<RunSummary, CliError> {
    let options = &args.options;
    let plan = &planned.plan;
    let control = Arc::new(Control::default());
    let is_cluster = matches!(planned.execution.executor, Executor::Slurm(_));
    let interrupts = Interrupts::of(options.on_interrupt, &planned.execution)?;
    let runner = Runner {
        plan,
        host: &planned.host,
        results_dir: &planned.results_dir,
        execution: &planned.execution,
        parallel: planned.parallel,
        retries: options.retry_infra,
        control: &control,
        on_change: if options.accept_changes {
            OnChange::Accept
        } else {
            OnChange::Refuse
        },
        on_end: &interrupts.on_end,
        run_jobs: Some(cluster::run_jobs),
    };
    let cancel = CancellationToken::new();
    // The coordinator of a cluster only sees trials start and end, which lines show as well as a
    // view.
    let shown = if is_cluster { 1 } else { plan.trials.len() };
    let progress = progress(args, planned, shown, &control, &cancel)?;
    let stopping = async || interrupts.stopping(&progress).await;
    let is_single = plan.trials.len() == 1 && planned.is_cases();
    let listener = |trial: usize, event: &Event| {
        if is_single {
            progress.show(event);
        } else {
            progress.show_trial(trial, event);
        }
        if let Some(note) = note_of(event) {
            progress.note(&note);
        }
    };
    match &options.resume {
        None => {
            let running = runner.run(&listener, &cancel);
            until_stopped(running, &progress, &cancel, stopping)
        }
        Some(run) => {
            let run = resumed(run, &runner)?;
            let running = runner.resume(&run, &listener, &cancel);
            until_stopped(running, &progress, &cancel, stopping)
        }
    }
}

/// Print the summary of a run: each trial of test cases, or a table.
pub(super) fn print_result(
    summary: &RunSummary,
    planned: &PlannedRun,
    args: &RunArgs,
) -> Result<Exit, CliError> {
    let is_refused = summary.failed_starts.len() == planned.plan.trials.len();
    if args.json {
        ui::print_json(summary)?;
    } else if is_refused {
        // Its directory is removed: there is nothing to show.
    } else if planned.is_cases() && planned.plan.trials.iter().all(|plan| plan.number == 1) {
        ui::report(summary)?;
    } else {
        ui::suite_report(summary)?;
    }
    let personality = Personality::current();
    if personality.style == Style::YouBencha {
        let text = personality::completed(summary, personality.program)?;
        if !args.json {
            ui::print(&text)?;
        }
    }
    if summary.detached {
        let hint =
            "show progress with `proctor status`, continue with `proctor run SUITE --resume`";
        ui::note(&format!("detached: jobs keep running; {hint}"));
    }
    for lost in &summary.lost_engines {
        ui::note(&format!(
            "warning: {}: {}; its trials ran on other engines",
            lost.address, lost.reason
        ));
    }
    Ok(exit(summary))
}

/// The run to resume: an id, a folder, or `latest` for the newest run of the plan.
fn resumed(run: &Utf8Path, runner: &Runner<'_>) -> Result<Utf8PathBuf, CliError> {
    let results_dir = runner.results_dir;
    if run == "latest" {
        let suite = runner.plan.suite_file();
        let places = super::results_places(runner.host, suite)?;
        let runs = super::all_runs(&[vec![results_dir.to_owned()], places].concat());
        let started = runner.find_started(&runs);
        return Ok(started.unwrap_or_else(|| results_dir.join(run)));
    }
    let by_id = [results_dir.join("runs").join(run), results_dir.join(run)];
    let by_id = by_id.into_iter().find(|folder| folder.is_dir());
    Ok(by_id.unwrap_or_else(|| runner.host.cwd.join(run)))
}

pub(super) fn dry_run(plan: &RunPlan) -> Result<Exit, CliError> {
    for trial in &plan.trials {
        ui::print(&format!(
            "{} on {}, trial {}\n",
            trial.name, trial.task.name, trial.number
        ))?;
    }
    ui::print(&format!(
        "{}, seed {}; nothing was run\n",
        ui::counted(plan.trials.len(), "trial"),
        plan.seed
    ))?;
    Ok(Exit::Success)
}

/// Where to look at a run next.
pub(super) fn pointers(run: &Utf8Path) -> String {
    format!("run: {run}\npage: proctor report {run} --output report.html\n")
}

/// The exit code of a run. Trials whose input is not valid are reported first.
pub(super) fn exit(summary: &RunSummary) -> Exit {
    show_failed_starts(&summary.failed_starts);
    let is_youbencha = Personality::current().style == Style::YouBencha;
    match summary.status {
        _ if !summary.failed_starts.is_empty() => Exit::Usage,
        TrialStatus::Error if is_youbencha && personality::reached_end(summary) => Exit::Failed,
        status => status.into(),
    }
}

/// Prints each problem once, and the first few only.
fn show_failed_starts(failed: &[FailedStart]) {
    let mut shown: Vec<&str> = Vec::new();
    for one in failed {
        if shown.contains(&one.message.as_str()) {
            continue;
        }
        if shown.len() == MOST_FAILED_STARTS {
            let trials = ui::counted(failed.len(), "trial");
            ui::note(&format!("{trials} could not be started"));
            break;
        }
        shown.push(&one.message);
        ui::error(&CliError::FailedStart(one.clone()));
    }
}

/// How a run is shown: in the live view, on a terminal with more than one trial.
pub(super) fn progress(
    args: &RunArgs,
    planned: &PlannedRun,
    trials: usize,
    control: &Arc<Control>,
    cancel: &CancellationToken,
) -> Result<ui::Progress, CliError> {
    let host = &planned.host;
    let wanted = super::wanted_progress(args.progress, planned.log_level);
    let progress = ui::Progress::new(wanted, host);
    let term = host.env.get("TERM").map(String::as_str);
    let is_smart = !host.env.contains_key("CI") && can_draw(term);
    let is_usual = trials > 1 && is_smart && wanted == ProgressStyle::Auto && !args.view.no_tui;
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

/// Wait for a run: show progress, and stop it at a signal.
pub(super) fn until_done<T, E: Into<CliError>>(
    running: impl Future<Output = Result<T, E>>,
    progress: &ui::Progress,
    cancel: &CancellationToken,
) -> Result<T, CliError> {
    until_stopped(running, progress, cancel, async || progress.interrupted())
}

/// Waits for a run. When a signal stops it, `stopping` runs first.
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
                        // Second signal: when this process exits, the supervisors kill the agents.
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
