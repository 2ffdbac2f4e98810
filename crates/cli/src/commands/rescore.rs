//! `proctor rescore`.

use std::fmt::Write;

use camino::Utf8PathBuf;
use proctor_harness::rescore::{Answers, Definitions, Rating, Rescore, RescoreSummary, Which};
use proctor_sandbox::host::Host;
use tokio_util::sync::CancellationToken;

use super::run::until_done;
use crate::{
    args::{ProgressStyle, RescoreArgs},
    error::{CliError, Exit},
    host, ui,
};

pub fn rescore(args: &RescoreArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let suite = args.config.clone().or_else(|| super::default_suite(&host));
    let rescore = Rescore {
        host: &host,
        settings: &settings,
        which: if args.verdicts.errors_only {
            Which::Errors
        } else {
            Which::All
        },
        definitions: if args.current {
            Definitions::Current
        } else {
            Definitions::Recorded
        },
        parallel: args.parallel.into(),
        answers: if args.verdicts.full {
            Answers::New
        } else {
            Answers::Kept
        },
        suite_file: suite.as_deref(),
    };
    let runs = runs(args, &host)?;
    let progress = ui::Progress::new(ProgressStyle::Quiet, &host);
    let cancel = CancellationToken::new();
    let mut summaries = Vec::new();
    let mut failed = 0;
    for run in &runs {
        let summary = match until_done(rescore.run(run, &cancel), &progress, &cancel) {
            Ok(summary) => summary,
            // The other runs are still judged.
            Err(error) if runs.len() > 1 => {
                ui::note(&format!("could not judge {run} again:"));
                ui::error(&error);
                failed += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        if !args.json {
            ui::print(&shown(&summary))?;
        }
        summaries.push(summary);
        if cancel.is_cancelled() {
            return Ok(Exit::Interrupted);
        }
    }
    if args.json {
        ui::print_json(&summaries)?;
    }
    match failed {
        0 => Ok(worst(&summaries)),
        count => {
            // The JSON of the other runs is already printed.
            let error = CliError::NotRescored { count };
            ui::error(&error);
            Ok(error.exit())
        }
    }
}

/// The given runs, or else all runs.
fn runs(args: &RescoreArgs, host: &Host) -> Result<Vec<Utf8PathBuf>, CliError> {
    let places = super::results_places(host, args.config.as_deref())?;
    let named = args.runs.iter();
    let named: Vec<Utf8PathBuf> = named
        .map(|run| super::run_in(run, &places, host))
        .collect::<Result<_, _>>()?;
    let runs = if named.is_empty() {
        super::all_runs(&places)
    } else {
        named
    };
    if runs.is_empty() {
        return Err(CliError::NoRuns);
    }
    Ok(runs)
}

/// The worst result: failed, else excluded, else passed.
fn worst(summaries: &[RescoreSummary]) -> Exit {
    let exits: Vec<Exit> = summaries.iter().map(|it| it.status.into()).collect();
    let order = [Exit::Failed, Exit::Infrastructure];
    let found = order.into_iter().find(|exit| exits.contains(exit));
    found.unwrap_or(Exit::Success)
}

fn shown(summary: &RescoreSummary) -> String {
    let mut text = String::new();
    for trial in &summary.trials {
        let change = if trial.before == trial.after {
            standing(trial.after)
        } else {
            format!("{} → {}", standing(trial.before), standing(trial.after))
        };
        let _ = writeln!(
            text,
            "{} on {}, trial {}: {change}",
            trial.agent, trial.task, trial.trial
        );
    }
    for trial in &summary.not_judged {
        let _ = writeln!(
            text,
            "{} on {}, trial {}: not rescored: {}",
            trial.agent, trial.task, trial.trial, trial.reason
        );
    }
    let changed = summary.trials.iter().filter(|it| it.before != it.after);
    let _ = writeln!(
        text,
        "{} rescored, {} changed, {} not rescored · {}",
        ui::counted(summary.trials.len(), "trial"),
        changed.count(),
        summary.not_judged.len(),
        summary.run_dir,
    );
    text
}

fn standing(standing: Rating) -> String {
    match standing.score {
        Some(score) => format!("{} {score:.2}", standing.status.as_str()),
        None => standing.status.as_str().to_owned(),
    }
}
