//! `proctor run` of a suite.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    config::{
        Executor, GatewaySettings, ResolvedSuite, SandboxKind, Settings, load_suite,
        suite_of_folder,
    },
    control::Control,
    event::RunEvent,
    host::Host,
    plan::{Filter, SuitePlan},
    suite::SuiteRun,
};
use tokio_util::sync::CancellationToken;

use super::{
    interrupt::Interrupts,
    models,
    run::{exit, progress, until_stopped},
};
use crate::{
    args::{RunArgs, SandboxArg},
    error::{CliError, Exit},
    ui,
};

/// Run a suite's file.
pub fn run(
    path: &Utf8Path,
    args: &RunArgs,
    host: &Host,
    settings: &Settings,
) -> Result<Exit, CliError> {
    let suite = load_suite(path, &host.env, settings).map_err(CliError::Config)?;
    run_suite(suite, &args.suite.agent, args, (host, settings))
}

/// Run the tasks of a folder with the agents of the command line.
pub fn run_folder(
    path: &Utf8Path,
    args: &RunArgs,
    host: &Host,
    settings: &Settings,
) -> Result<Exit, CliError> {
    let folder = host.cwd.join(path);
    let suite = suite_of_folder(&folder, &args.suite.agent, &host.env, settings);
    run_suite(
        suite.map_err(CliError::Config)?,
        &[],
        args,
        (host, settings),
    )
}

fn run_suite(
    mut suite: ResolvedSuite,
    agents: &[String],
    args: &RunArgs,
    (host, settings): (&Host, &Settings),
) -> Result<Exit, CliError> {
    let options = &args.suite;
    let filter = Filter {
        agents: agents.to_vec(),
        tasks: options.task.clone(),
        categories: options.category.clone(),
    };
    filter.apply(&mut suite)?;
    suite.trials = options.trials.unwrap_or(suite.trials);
    match options.sandbox {
        Some(SandboxArg::Docker) => suite.execution.use_containers(),
        Some(SandboxArg::Local) => suite.execution.sandbox = SandboxKind::Local,
        None => {}
    }
    let overrides = models::overrides(&args.models, host)?;
    if let (Executor::Slurm(_), Some(option)) = (&suite.execution.executor, args.models.here_only())
    {
        return Err(CliError::NotOnCluster { option });
    }
    overrides.apply(&mut suite.execution.gateway, settings);
    models::check_prices(&args.models, suite.execution.gateway.as_ref())?;
    if let Some(network) = options.network {
        suite.execution.network = Some(network.into());
    }
    if let Some(setting) = suite.execution.idle_setting() {
        return Err(CliError::NeedsContainers { setting });
    }
    // Keys of a file are as good as those of the environment.
    let host = &host.with_env(suite.env.clone(), &suite.secret_names);
    let gateway = suite.execution.gateway.as_ref();
    if let Some(why) = gateway.and_then(GatewaySettings::conflict) {
        return Err(CliError::LiteLlm { why });
    }
    let seed = options.seed.unwrap_or(0);
    let plan = SuitePlan::make(&suite, host, seed).map_err(CliError::Config)?;
    if options.dry_run {
        return dry_run(&plan);
    }
    super::show_notes(&suite);
    warn_of_secrets(&suite);
    let control = Arc::new(Control::default());
    let is_cluster = matches!(suite.execution.executor, Executor::Slurm(_));
    let interrupts = Interrupts::of(options.on_interrupt, &suite.execution)?;
    let run = SuiteRun {
        control: &control,
        on_end: &interrupts.on_end,
        plan: &plan,
        suite_file: suite.source.path(),
        suite_text: suite.source.text(),
        host,
        results_dir: &suite.results_dir,
        execution: &suite.execution,
        parallel: options.parallel.map_or(suite.parallel, usize::from),
        retries: options.retry_infra,
    };
    let cancel = CancellationToken::new();
    // The head of a cluster sees trials begin and end: lines show that as well as a view.
    let shown = if is_cluster { 1 } else { plan.trials.len() };
    let progress = progress(args, host, shown, &control, &cancel)?;
    let stopping = async || interrupts.stopping(&progress).await;
    let listener = |trial: usize, event: &RunEvent<'_>| progress.show_trial(trial, event);
    let summary = match &options.resume {
        None => {
            let running = run.run(&listener, &cancel);
            until_stopped(running, &progress, &cancel, stopping)?
        }
        Some(run_dir) => {
            let run_dir = resumed(run_dir, &suite, host);
            let running = run.resume(&run_dir, &listener, &cancel);
            until_stopped(running, &progress, &cancel, stopping)?
        }
    };
    tell(&summary, args)
}

/// Print what a run came to.
fn tell(summary: &proctor_harness::runner::RunSummary, args: &RunArgs) -> Result<Exit, CliError> {
    if args.json {
        ui::print_json(summary)?;
    } else {
        ui::suite_report(summary)?;
    }
    if summary.detached {
        let hint = "`proctor status` tells how far they are, `proctor run SUITE --resume` takes the run up again";
        ui::note(&format!("left: its jobs go on; {hint}"));
    }
    for lost in &summary.lost_engines {
        ui::note(&format!(
            "warning: {}: {}; its trials were done by others",
            lost.address, lost.reason
        ));
    }
    Ok(exit(summary))
}

/// Agents may print what they get: whoever asked for that is told once.
fn warn_of_secrets(suite: &ResolvedSuite) {
    let names = &suite.execution.pass_through;
    if !names.is_empty() {
        ui::note(&format!(
            "warning: agents get {} as they are (secrets.unsafe_pass_through): they can use, print and leak them",
            names.join(", ")
        ));
    }
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
            trial.name, trial.task.name, trial.number
        ))?;
    }
    let count = plan.trials.len();
    ui::print(&format!(
        "{count} trials, seed {}; nothing was run\n",
        plan.seed
    ))?;
    Ok(Exit::Success)
}
