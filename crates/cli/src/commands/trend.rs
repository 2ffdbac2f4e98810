//! `proctor trend`: the scores of labelled runs over time, with an alarm if they drop.

use camino::Utf8PathBuf;
use proctor_harness::plan::NoMatch;
use proctor_record::record::PlanFile;
use proctor_report::{read, trends};

use crate::{
    args::TrendArgs,
    error::{CliError, Exit},
    host, ui,
};

pub fn trend(args: &TrendArgs) -> Result<Exit, CliError> {
    let runs = runs(args)?;
    let trials = read(&runs)?;
    let report = trends(&trials, args.agent.as_deref());
    if report.agents.is_empty() {
        let mut known: Vec<String> = trials.agents.iter().map(|it| it.agent.clone()).collect();
        known.dedup();
        return Err(CliError::NoMatch(NoMatch {
            what: "agent",
            name: args.agent.clone().unwrap_or_default(),
            known,
        }));
    }
    if args.json {
        ui::print_json(&report)?;
    } else {
        ui::print(&report.text())?;
    }
    Ok(Exit::of_answer(report.exit_code()))
}

/// The runs with all labels, the oldest first.
fn runs(args: &TrendArgs) -> Result<Vec<Utf8PathBuf>, CliError> {
    let host = host::host()?;
    let suite = args.config.as_deref();
    let mut runs = if args.runs.is_empty() {
        super::all_runs(&super::results_places(&host, suite)?)
    } else {
        let mut named = super::named_runs(&args.runs, suite, &host)?;
        super::sort_by_start(&mut named);
        named
    };
    if runs.is_empty() {
        return Err(CliError::NoRuns);
    }
    let has_all = |run: &Utf8PathBuf| {
        let labels = PlanFile::read(run).map(|plan| plan.labels);
        let labels = labels.unwrap_or_default();
        let mut wanted = args.labels.iter();
        wanted.all(|(key, value)| labels.get(key) == Some(value))
    };
    if !args.labels.is_empty() {
        runs.retain(has_all);
    }
    if runs.is_empty() {
        let wanted = args.labels.iter();
        let wanted: Vec<String> = wanted
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        return Err(CliError::input(
            format!("no run has the label {}", wanted.join(" and ")),
            "label runs with `proctor run --label KEY=VALUE`; `proctor list runs` shows the labels",
        ));
    }
    Ok(runs)
}
