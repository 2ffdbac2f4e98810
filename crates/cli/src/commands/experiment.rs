//! `proctor experiment`: runs a suite with an `experiment` section and prints its answer.

mod estimate;

use std::{fmt::Write as _, ops::ControlFlow};

use camino::Utf8PathBuf;
use proctor_harness::{
    config::SuiteFile,
    plan::ExperimentPlan,
    run::{RunSummary, experiment::NoResult},
};
use proctor_record::record::Event;
use proctor_report::{
    self as report, Basis, PageSize, Report,
    experiment::{ExperimentResult, results_of},
    stats::{Look, PlannedVariance},
};
use serde_json::json;

use self::estimate::FirstTrials;
use super::{
    planning::{self, PlannedRun},
    report::write_page,
    run,
};
use crate::{
    args::{DecisionArgs, ExperimentArgs, RunArgs},
    error::{CliError, Exit},
    host, ui,
};

/// The page of a run, in its directory.
const PAGE_FILE: &str = "report.html";

pub fn experiment(args: &ExperimentArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let mut paths: Vec<&Utf8PathBuf> = args.run.paths.iter().chain(&args.run.config).collect();
    let default = super::default_suite(&host);
    if paths.is_empty() {
        paths.extend(&default);
    }
    let [path] = paths.as_slice() else {
        return Err(CliError::NothingToRun);
    };
    let suite = host.cwd.join(path);
    let file = SuiteFile::read(&suite).map_err(|error| CliError::Config(vec![error]))?;
    // A test case: its keys are not faults of a suite.
    if SuiteFile::open(&suite).is_none() {
        return Err(CliError::NoExperiment { suite });
    }
    run_file(file, &args.run.options.agent, &args.run, &args.decision)
}

/// Plans and runs the experiment of a suite. `agents` are the names of the agents that
/// take part; none stands for all.
pub(super) fn run_file(
    file: SuiteFile,
    agents: &[String],
    args: &RunArgs,
    decision: &DecisionArgs,
) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let planned = planning::experiment(file, agents, (args, decision), &host, &settings)?;
    run_planned(&planned, args)
}

/// Runs an experiment and prints its answer.
pub(super) fn run_planned(planned: &PlannedRun, args: &RunArgs) -> Result<Exit, CliError> {
    let Some(plan) = &planned.plan.experiment else {
        return run::run_planned(planned, args);
    };
    let earlier = estimate::from_earlier_runs(planned);
    let outline = outline(plan, planned, earlier.as_deref());
    let first = FirstTrials::new(planned);
    let note_of = |event: &Event| match earlier {
        Some(_) => None,
        None => first.note(event),
    };
    let summary = match run::run_with_outline(planned, args, &outline, &note_of)? {
        ControlFlow::Continue(summary) => summary,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    let trials = report::read(std::slice::from_ref(&summary.run_dir))?;
    let results = results_of(&trials).transpose();
    let results = results.map_err(NoResult::Experiment)?.unwrap_or_default();
    let page = summary.run_dir.join(PAGE_FILE);
    write_page(
        &Report::new(&trials, Basis::default()),
        &trials,
        PageSize::default(),
        Some(&page),
    )?;
    if args.json {
        let answer = json!({
            "run": summary.run_dir,
            "page": page,
            "trials": summary.trials.len(),
            "planned_trials": planned.plan.budget(),
            "stopped": summary.stopped,
            "results": results,
        });
        ui::print_json(&answer)?;
    } else {
        ui::print(&answer(&results, &summary, planned.plan.budget()))?;
        ui::print(&format!("page: {page}\n"))?;
    }
    Ok(exit(&results))
}

/// The size of an experiment, before it starts.
fn outline(plan: &ExperimentPlan, planned: &PlannedRun, estimate: Option<&str>) -> String {
    let schedule = &plan.schedule;
    let looks = schedule.looks.len();
    let mut text = format!(
        "{}: {} against {} on {}, {} each\n",
        ui::counted(planned.plan.budget(), "trial"),
        plan.candidates.join(", "),
        plan.baseline,
        ui::counted(schedule.tasks.len(), "task"),
        ui::counted(schedule.trials, "trial"),
    );
    let _ = match estimate {
        Some(estimate) => writeln!(text, "estimate: {estimate}"),
        None => writeln!(
            text,
            "time and cost: unknown before the first trials, because there are no earlier ones"
        ),
    };
    if looks > 1 {
        let _ = writeln!(
            text,
            "analyses: {looks}; the run stops when the answer is clear"
        );
    }
    let level = schedule.looks.last().and_then(Look::levels);
    let detectable = level.and_then(|level| {
        let variance = PlannedVariance::default();
        variance.detectable(schedule.tasks.len(), schedule.trials, level.difference)
    });
    let _ = match detectable.filter(|_| schedule.can_decide()) {
        Some(share) if share <= 1.0 => writeln!(
            text,
            "this size usually detects a difference of {:.0} points or more",
            100.0 * share
        ),
        _ => writeln!(
            text,
            "too small to decide about scores: use more tasks, or more trials with --trials"
        ),
    };
    text
}

/// The answer of each comparison.
fn answer(results: &[ExperimentResult], summary: &RunSummary, planned: usize) -> String {
    let mut text = String::new();
    for result in results {
        if results.len() > 1 {
            let _ = writeln!(text, "{} against {}", result.candidate, result.baseline);
        }
        text.push_str(&result.text());
        text.push('\n');
    }
    let ran = summary.trials.len();
    if ran < planned {
        let planned = ui::counted(planned, "trial");
        let why = summary.stopped.as_ref();
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        let _ = writeln!(text, "stopped after {ran} of {planned}{why}");
    }
    text.push_str(&ui::exclusion_reasons(summary));
    let _ = writeln!(text, "run: {}", summary.run_dir);
    text
}

/// The worst answer of all candidates: worse, then nothing to compare, then undecided.
fn exit(results: &[ExperimentResult]) -> Exit {
    let has = |code: u8| results.iter().any(|result| result.exit_code() == code);
    match (has(1), has(3), has(4)) {
        (true, _, _) => Exit::Failed,
        (_, true, _) => Exit::Infrastructure,
        (_, _, true) => Exit::Undecided,
        _ => Exit::Success,
    }
}
