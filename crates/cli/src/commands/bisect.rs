//! `proctor bisect`: finds the version since which fewer trials pass.

mod versions;

use std::ops::ControlFlow;

use proctor_harness::{config::Executor, plan::BisectionPlan, run::experiment::NoResult};
use proctor_report::{
    experiment::{BisectionResult, SearchVersion},
    read,
};
use serde_json::{Value, json};

use self::versions::VersionSource;
use super::{
    ab::BaseSuite,
    planning::{self, PlannedRun},
    run,
};
use crate::{
    args::BisectArgs,
    error::{CliError, Exit},
    host, ui,
};

/// The most trials of one version, unless --trials sets another number.
const MOST_OF_A_VERSION: usize = 40;

/// A version with the settings of its agent.
struct Candidate {
    version: SearchVersion,
    settings: Value,
}

pub fn bisect(args: &BisectArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let base = BaseSuite::read(&args.run, None, &host)?;
    let source = VersionSource::of(args, &base.agent)?;
    let candidates = source.candidates(args, &host)?;
    if candidates.len() < 2 {
        return Err(CliError::input(
            "there is nothing to search: fewer than two versions",
            "the bad version has to be later than the good one",
        ));
    }
    let variants = candidates.iter().map(|it| {
        let mut variant = it.settings.clone();
        variant["name"] = json!(it.version.agent);
        variant
    });
    let file = base.with_variants(variants.collect(), source.key())?;
    let versions = candidates.into_iter().map(|it| it.version).collect();
    let (planned, search) = plan(args, file, versions)?;
    let outline = outline(&search);
    let summary = match run::run_with_outline(&planned, &args.run, &outline, &|_| None)? {
        ControlFlow::Continue(summary) => summary,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    let trials = read(std::slice::from_ref(&summary.run_dir))?;
    let result = BisectionResult::new(search.request(&trials)).map_err(NoResult::from)?;
    if args.run.json {
        ui::print_json(&json!({"run": summary.run_dir, "result": result}))?;
    } else {
        ui::print(&result.text())?;
        ui::print(&ui::exclusion_reasons(&summary))?;
        if !result.is_decided {
            let more = 2 * args.max_trials;
            ui::print(&format!(
                "continue: the same command with --resume --max-trials {more}\n"
            ))?;
        }
        ui::print(&run::pointers(&summary.run_dir))?;
    }
    Ok(Exit::of_answer(result.exit_code()))
}

/// The plan has the most trials that a version can have; the search decides which of them run.
fn plan(
    args: &BisectArgs,
    file: proctor_harness::config::SuiteFile,
    versions: Vec<SearchVersion>,
) -> Result<(PlannedRun, BisectionPlan), CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let mut planned = planning::rounds(file, &args.run, (&host, &settings), |tasks| {
        u32::try_from(MOST_OF_A_VERSION.div_ceil(tasks)).unwrap_or(1)
    })?;
    if matches!(planned.execution.executor, Executor::Slurm(_)) {
        return Err(CliError::input(
            "`proctor bisect` is not supported with `executor: slurm`",
            "run it on this machine: each step depends on the results of the one before",
        ));
    }
    let mut tasks: Vec<String> = planned
        .plan
        .trials
        .iter()
        .map(|it| it.task.name.clone())
        .collect();
    tasks.sort_unstable();
    tasks.dedup();
    let search = BisectionPlan {
        versions,
        tasks,
        smallest_drop: args.drop,
        budget: args.max_trials,
    };
    planned.plan.search = Some(search.clone());
    Ok((planned, search))
}

/// The size of a search, before it starts.
fn outline(search: &BisectionPlan) -> String {
    let label = |it: Option<&SearchVersion>| it.map(|it| it.label.clone()).unwrap_or_default();
    let step = search.rounds() * search.tasks.len();
    format!(
        "{} from {} to {} on {}: {} at a time, at most {} in all\nthe search ends when one answer has a probability of 95 %; drops of the pass rate by less than {:.0} points are ignored\n",
        ui::counted(search.versions.len(), "version"),
        label(search.versions.first()),
        label(search.versions.last()),
        ui::counted(search.tasks.len(), "task"),
        ui::counted(step, "trial"),
        search.budget,
        100.0 * search.smallest_drop,
    )
}
