//! `proctor experiment`: runs a suite with an `experiment` section and prints its answer.

use std::fmt::Write as _;

use camino::Utf8PathBuf;
use proctor_harness::{
    config::SuiteFile,
    plan::ExperimentPlan,
    run::{RunSummary, experiment::results},
};
use proctor_record::record::TrialStatus;
use proctor_report::{
    experiment::ExperimentResult,
    stats::{Look, PlannedVariance},
};
use serde_json::json;

use super::{
    planning::{self, PlannedRun},
    run,
};
use crate::{
    args::{DecisionArgs, ExperimentArgs, RunArgs},
    error::{CliError, Exit},
    host, ui,
};

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
    let file =
        SuiteFile::read(&host.cwd.join(path)).map_err(|error| CliError::Config(vec![error]))?;
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
    if args.options.dry_run {
        ui::print(&outline(plan, planned))?;
        return run::dry_run(&planned.plan);
    }
    planned.show_notes();
    ui::note(outline(plan, planned).trim_end());
    let summary = run::execute(planned, args)?;
    if !summary.failed_starts.is_empty() || summary.status == TrialStatus::Interrupted {
        return run::print_result(&summary, planned, args);
    }
    let results = results(plan, &summary.run_dir)?;
    if args.json {
        let answer = json!({"run": summary.run_dir, "results": results});
        ui::print_json(&answer)?;
    } else {
        ui::print(&answer(&results, &summary, planned.plan.trials.len()))?;
    }
    Ok(exit(&results))
}

/// The size of an experiment, before it starts.
fn outline(plan: &ExperimentPlan, planned: &PlannedRun) -> String {
    let schedule = &plan.schedule;
    let trials = planned.plan.trials.len();
    let looks = schedule.looks.len();
    let mut text = format!(
        "{}: {} against {} on {}, {} each\n",
        ui::counted(trials, "trial"),
        plan.candidates.join(", "),
        plan.baseline,
        ui::counted(schedule.tasks.len(), "task"),
        ui::counted(schedule.trials, "trial"),
    );
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

/// The answer of each comparison, and where to look next.
fn answer(results: &[ExperimentResult], summary: &RunSummary, planned: usize) -> String {
    let mut text = String::new();
    for result in results {
        if results.len() > 1 {
            let _ = writeln!(text, "{} against {}", result.candidate, result.baseline);
        }
        text.push_str(&result.text());
        text.push('\n');
    }
    if summary.not_run > 0 {
        let ran = planned - summary.not_run;
        let _ = writeln!(
            text,
            "stopped after {ran} of {}",
            ui::counted(planned, "trial")
        );
    }
    let run = &summary.run_dir;
    let _ = writeln!(text, "run: {run}");
    let _ = writeln!(text, "page: proctor report {run} --output report.html");
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
