//! `proctor run` of a suite.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    config::{ResolvedSuite, Settings, load_suite},
    control::Control,
    event::RunEvent,
    host::Host,
    plan::{Filter, SuitePlan},
    suite::SuiteRun,
};
use tokio_util::sync::CancellationToken;

use super::run::{progress, until_done};
use crate::{
    args::RunArgs,
    error::{CliError, Exit},
    ui,
};

pub fn run(
    path: &Utf8Path,
    args: &RunArgs,
    host: &Host,
    settings: &Settings,
) -> Result<Exit, CliError> {
    let options = &args.suite;
    let mut suite = load_suite(path, &host.env, settings).map_err(CliError::Config)?;
    let filter = Filter {
        agents: options.agent.clone(),
        tasks: options.task.clone(),
    };
    filter.apply(&mut suite)?;
    suite.trials = options.trials.unwrap_or(suite.trials);
    let seed = options.seed.unwrap_or(0);
    let plan = SuitePlan::make(&suite, host, seed).map_err(CliError::Config)?;
    if options.dry_run {
        return dry_run(&plan);
    }
    let text = fs_err::read_to_string(host.cwd.join(path))?;
    let control = Arc::new(Control::default());
    let run = SuiteRun {
        control: &control,
        plan: &plan,
        suite_file: path,
        suite_text: &text,
        host,
        results_dir: &suite.results_dir,
        parallel: options.parallel.map_or(suite.parallel, usize::from),
        retries: options.retry_infra,
    };
    let cancel = CancellationToken::new();
    let progress = progress(args, host, plan.trials.len(), &control, &cancel)?;
    let listener = |trial: usize, event: &RunEvent<'_>| progress.show_trial(trial, event);
    let summary = match &options.resume {
        None => until_done(run.run(&listener, &cancel), &progress, &cancel)?,
        Some(run_dir) => {
            let run_dir = resumed(run_dir, &suite, host);
            until_done(run.resume(&run_dir, &listener, &cancel), &progress, &cancel)?
        }
    };
    if args.json {
        ui::print_json(&summary)?;
    } else {
        ui::suite_report(&summary)?;
    }
    Ok(summary.status.into())
}

/// `latest`, the id of a run, or its folder.
fn resumed(run: &Utf8Path, suite: &ResolvedSuite, host: &Host) -> Utf8PathBuf {
    if run == "latest" {
        return suite.results_dir.join("latest");
    }
    let by_id = suite.results_dir.join("runs").join(run);
    if by_id.is_dir() {
        by_id
    } else {
        host.cwd.join(run)
    }
}

fn dry_run(plan: &SuitePlan) -> Result<Exit, CliError> {
    for trial in &plan.trials {
        ui::print(&format!(
            "{} on {}, trial {}\n",
            trial.name, trial.case.name, trial.number
        ))?;
    }
    let count = plan.trials.len();
    ui::print(&format!(
        "{count} trials, seed {}; nothing was run\n",
        plan.seed
    ))?;
    Ok(Exit::Success)
}
