//! Plans a run from the paths and options of `proctor run`. Test cases, suites and task directories
//! take the same options.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use proctor_agents::ADAPTERS;
use proctor_document::ConfigError;
use proctor_harness::{
    config::{
        Execution, Executor, GateSettings, GatewaySettings, KeepWorkspace, LogLevel, Settings,
        SuiteFile,
    },
    plan::{
        CaseOptions, Filter, Input, NoMatch, ResolvedSuite, RunPlan, Selection, TrialPlan,
        suite_of_folders,
    },
};
use proctor_record::usage::Usd;
use proctor_report::stats::{Schedule, ScheduleOptions};
use proctor_sandbox::{SandboxKind, host::Host};

use super::models;
use crate::{
    args::{DecisionArgs, PlanArgs, RunArgs, TaskSelectionArgs},
    error::CliError,
    ui,
};

/// The number of trials of each task if it is chosen.
const FEWEST_TRIALS: u32 = 3;
const MOST_TRIALS: u32 = 10;

/// A plan with its execution settings from the command line and the files.
pub struct PlannedRun {
    /// The plan.
    pub plan: RunPlan,
    /// The machine, with the variables of a suite.
    pub host: Host,
    /// Where and how trials execute.
    pub execution: Execution,
    /// The folder of runs.
    pub results_dir: Utf8PathBuf,
    /// The number of trials at the same time.
    pub parallel: usize,
    /// How much the settings show of the progress.
    pub log_level: Option<LogLevel>,
    /// The rules of the suite.
    pub gate: Option<GateSettings>,
    /// Notes about settings that have no effect.
    notes: Vec<String>,
    /// The errors of tasks that are not in the plan because they cannot be run.
    pub refused: Vec<ConfigError>,
}

impl PlannedRun {
    /// Whether the plan is of test cases.
    pub fn is_cases(&self) -> bool {
        matches!(self.plan.input, Input::Cases)
    }

    /// Print notes and warnings.
    pub fn show_notes(&self) {
        for note in &self.notes {
            ui::note(note);
        }
        super::show_refused(&self.refused);
        let names = &self.execution.pass_through;
        if !names.is_empty() {
            ui::note(&format!(
                "warning: agents receive the real values of {} (secrets.unsafe_pass_through) and can use, print and leak them",
                names.join(", ")
            ));
        }
    }
}

/// Plans a suite. `agents` are the names of the agents that take part; none stands for all.
pub fn suite(
    file: SuiteFile,
    agents: &[String],
    args: &RunArgs,
    (host, settings): (&Host, &Settings),
) -> Result<PlannedRun, CliError> {
    let suite = super::resolve(file, host, settings)?;
    plan_suite(suite, agents, args, (host, settings))
}

/// Plans the experiment of a suite. `agents` are the names of the agents that take part; none stands
/// for all.
pub fn experiment(
    file: SuiteFile,
    agents: &[String],
    (args, decision): (&RunArgs, &DecisionArgs),
    host: &Host,
    settings: &Settings,
) -> Result<PlannedRun, CliError> {
    let mut suite = super::resolve(file, host, settings)?;
    let Some(experiment) = &mut suite.experiment else {
        let suite = suite.source.path().to_owned();
        return Err(CliError::NoExperiment { suite });
    };
    decision.apply(experiment);
    if decision.chooses_trials {
        suite.trials = enough_trials(suite.tasks.len());
    }
    plan_suite(suite, agents, args, (host, settings))
}

/// The number of trials of each task for a comparison of two agents: 3, or more if fewer could not
/// decide anything.
fn enough_trials(tasks: usize) -> u32 {
    let names: Vec<String> = (0..tasks).map(|task| task.to_string()).collect();
    let can_decide = |trials: &u32| {
        let trials = usize::try_from(*trials).unwrap_or(usize::MAX);
        Schedule::new(&names, trials, ScheduleOptions::default()).can_decide()
    };
    (FEWEST_TRIALS..MOST_TRIALS)
        .find(can_decide)
        .unwrap_or(MOST_TRIALS)
}

/// Plans variants of one agent, with a number of trials that depends on the number of tasks.
pub fn rounds(
    file: SuiteFile,
    args: &RunArgs,
    (host, settings): (&Host, &Settings),
    trials: impl Fn(usize) -> u32,
) -> Result<PlannedRun, CliError> {
    let mut suite = super::resolve(file, host, settings)?;
    suite.trials = trials(suite.tasks.len());
    plan_suite(suite, &[], args, (host, settings))
}

/// Plans the tasks in directories with the agents of the command line.
pub fn folders(
    paths: &[Utf8PathBuf],
    args: &RunArgs,
    host: &Host,
    settings: &Settings,
) -> Result<PlannedRun, CliError> {
    let paths = paths
        .iter()
        .map(|path| super::inputs::dataset_path(path, host));
    let paths: Vec<Utf8PathBuf> = paths.collect();
    let suite = suite_of_folders(&paths, &args.options.agent, &host.env, settings);
    let mut suite = suite.map_err(CliError::Config)?;
    // Scripts of a folder are not the user's own.
    suite.execution.use_containers();
    plan_suite(suite, &[], args, (host, settings))
}

/// The tasks, or names of tasks, that the options select, in their order.
pub fn selected<T>(
    args: &TaskSelectionArgs,
    items: Vec<T>,
    is_called: impl Fn(&T, &dyn Fn(&str) -> bool) -> bool,
) -> Result<Vec<T>, CliError> {
    let selection = Selection {
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        limit: args.limit.map(|limit| limit as usize),
        sample_seed: args.sample_seed,
    };
    let found = selection.apply(items, is_called);
    found.map_err(|(key, message)| {
        CliError::input(
            format!("--{}: {message}", key.replace('_', "-")),
            "`proctor list` and `--dry-run` show the names of tasks",
        )
    })
}

fn plan_suite(
    mut suite: ResolvedSuite,
    agents: &[String],
    args: &RunArgs,
    (host, settings): (&Host, &Settings),
) -> Result<PlannedRun, CliError> {
    let options = &args.options;
    if options.dry_run {
        let unset = suite.take_unset();
        suite.notes.extend(unset);
    } else {
        suite.refuse_unset();
    }
    let refused = refused(&mut suite, options)?;
    let filter = Filter {
        agents: agents.to_vec(),
        tasks: options.task.clone(),
        categories: options.category.clone(),
    };
    filter.apply(&mut suite)?;
    let names = suite.tasks.iter().map(|task| task.name.clone());
    let names = selected(
        &options.selection,
        names.collect::<Vec<String>>(),
        |name, matches| matches(name),
    )?;
    suite.tasks.retain(|task| names.contains(&task.name));
    suite.trials = options.trials.unwrap_or(suite.trials);
    apply_sandbox(&mut suite.execution, args)?;
    apply_keep_workspace(&mut suite.execution, args);
    let mut overrides = models::overrides(&args.models, host)?;
    if let Some(experiment) = &mut suite.experiment {
        // The gateway would end trials in the middle, and they would count as failed.
        let limit = overrides.run_budget_usd.take().map(Usd::dollars);
        experiment.max_cost_usd = limit.or(experiment.max_cost_usd);
    }
    if let (Executor::Slurm(_), Some(option)) = (&suite.execution.executor, args.models.here_only())
    {
        return Err(CliError::NotOnCluster { option });
    }
    overrides.apply(&mut suite.execution.gateway, settings);
    models::check_prices(&args.models, suite.execution.gateway.as_ref())?;
    apply_network(&mut suite.execution, args)?;
    // API keys can come from a file as well as from the environment.
    let host = host.with_env(suite.env.clone(), &suite.secret_names);
    let gateway = suite.execution.gateway.as_ref();
    if let Some(why) = gateway.and_then(GatewaySettings::conflict) {
        return Err(CliError::LiteLlm { why });
    }
    let seed = options.seed.unwrap_or(0);
    let mut plan = RunPlan::make(&suite, &host, seed).map_err(CliError::Config)?;
    plan.labels = labels(options)?;
    Ok(PlannedRun {
        log_level: settings.log_level,
        notes: super::notes(&suite),
        refused,
        results_dir: suite
            .results_dir
            .unwrap_or_else(|| super::runs_dir(&host, settings)),
        parallel: options.parallel.map_or(suite.parallel, usize::from),
        execution: suite.execution,
        gate: suite.gate,
        plan,
        host,
    })
}

/// Plan test cases.
pub fn cases(
    paths: &[Utf8PathBuf],
    args: &RunArgs,
    host: &Host,
    settings: &Settings,
) -> Result<PlannedRun, CliError> {
    let options = &args.options;
    check_kinds(&options.agent)?;
    let mut execution = Execution {
        keep_workspace: settings.keep_workspace.unwrap_or_default(),
        ..Execution::default()
    };
    apply_sandbox(&mut execution, args)?;
    apply_keep_workspace(&mut execution, args);
    apply_network(&mut execution, args)?;
    let case_options = CaseOptions {
        agents: options.agent.clone(),
        sandbox: execution.sandbox,
        gateway: models::overrides(&args.models, host)?,
    };
    let plans = super::load(paths, host, settings, &case_options)?;
    for plan in &plans {
        let gateway = plan.gateway.as_ref().or(execution.gateway.as_ref());
        models::check_prices(&args.models, gateway)?;
    }
    let mut plans = select(plans, &options.task, &options.category)?;
    let mut names: Vec<String> = plans.iter().map(|plan| plan.task.name.clone()).collect();
    names.dedup();
    let names = selected(&options.selection, names, |name, matches| matches(name))?;
    plans.retain(|plan| names.contains(&plan.task.name));
    let trials = options.trials.unwrap_or(1);
    let mut plan = RunPlan::of_cases(plans, trials, options.seed, &execution, host)?;
    plan.labels = labels(options)?;
    Ok(PlannedRun {
        log_level: settings.log_level,
        plan,
        host: host.clone(),
        execution,
        results_dir: super::runs_dir(host, settings),
        parallel: options.parallel.map_or(1, usize::from),
        gate: None,
        notes: Vec::new(),
        refused: Vec::new(),
    })
}

/// The errors of the selected tasks that cannot be run, next to those that can. An experiment needs
/// all of its tasks.
fn refused(suite: &mut ResolvedSuite, options: &PlanArgs) -> Result<Vec<ConfigError>, CliError> {
    let mut refused = std::mem::take(&mut suite.refused);
    let wanted = &options.task;
    refused.retain(|it| wanted.is_empty() || wanted.iter().any(|name| it.is_called(name)));
    let is_all = suite.tasks.is_empty();
    let is_named = !wanted.is_empty() && !refused.is_empty();
    let errors: Vec<ConfigError> = refused.into_iter().map(|it| it.error).collect();
    if !errors.is_empty() && (is_all || is_named || suite.experiment.is_some()) {
        return Err(CliError::Config(errors));
    }
    Ok(errors)
}

/// The labels of the run, each key once.
fn labels(options: &PlanArgs) -> Result<BTreeMap<String, String>, CliError> {
    let mut labels = BTreeMap::new();
    for (key, value) in &options.labels {
        if labels.insert(key.clone(), value.clone()).is_some() {
            return Err(CliError::input(
                format!("--label {key} is given twice"),
                "use another key for the second value",
            ));
        }
    }
    Ok(labels)
}

/// Keep the test cases that the command line names.
fn select(
    mut plans: Vec<TrialPlan>,
    tasks: &[String],
    categories: &[String],
) -> Result<Vec<TrialPlan>, CliError> {
    if let Some(category) = categories.first() {
        return Err(no_match("category", category, Vec::new()));
    }
    let is_known = |name: &&String| plans.iter().any(|plan| plan.task.is_called(name));
    if let Some(name) = tasks.iter().find(|name| !is_known(name)) {
        let known = plans.iter().map(|plan| plan.task.name.clone());
        return Err(no_match("task", name, known.collect()));
    }
    let is_meant = |plan: &TrialPlan| tasks.iter().any(|name| plan.task.is_called(name));
    plans.retain(|plan| tasks.is_empty() || is_meant(plan));
    Ok(plans)
}

/// Check that the agents of the command line are kinds of agents.
fn check_kinds(kinds: &[String]) -> Result<(), CliError> {
    let known: Vec<String> = ADAPTERS.iter().map(|it| it.name().to_owned()).collect();
    match kinds.iter().find(|kind| !known.contains(kind)) {
        Some(kind) => Err(no_match("agent type", kind, known)),
        None => Ok(()),
    }
}

fn no_match(what: &'static str, name: &str, known: Vec<String>) -> CliError {
    CliError::NoMatch(NoMatch {
        what,
        name: name.to_owned(),
        known,
    })
}

fn apply_sandbox(execution: &mut Execution, args: &RunArgs) -> Result<(), CliError> {
    if let Some(kind) = args.options.sandbox {
        execution.choose_sandbox(kind.into());
    }
    match &args.options.image {
        Some(_) if execution.sandbox == SandboxKind::Local => {
            return Err(CliError::NeedsContainers { setting: "--image" });
        }
        Some(image) => execution.image = Some(image.clone()),
        None => {}
    }
    Ok(())
}

fn apply_keep_workspace(execution: &mut Execution, args: &RunArgs) {
    if args.delete_workspace {
        execution.keep_workspace = KeepWorkspace::None;
    }
    if let Some(which) = args.keep_workspace {
        execution.keep_workspace = which.into();
    }
}

fn apply_network(execution: &mut Execution, args: &RunArgs) -> Result<(), CliError> {
    if let Some(network) = &args.options.network {
        execution.network = Some(network.clone());
    }
    match execution.idle_setting() {
        Some(setting) => Err(CliError::NeedsContainers { setting }),
        None => Ok(()),
    }
}
