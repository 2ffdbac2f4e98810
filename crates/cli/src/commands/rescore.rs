//! `proctor rescore`.

use std::fmt::Write;

use proctor_harness::rescore::{Definitions, Rescore, RescoreSummary, Standing, Which};
use tokio_util::sync::CancellationToken;

use super::run::until_done;
use crate::{
    args::{Progress, RescoreArgs},
    error::{CliError, Exit},
    host, ui,
};

pub fn rescore(args: &RescoreArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let progress = ui::Progress::new(Progress::Quiet, &host);
    let cancel = CancellationToken::new();
    let rescore = Rescore {
        host: &host,
        settings: &settings,
        which: if args.errors_only {
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
    };
    let mut summaries = Vec::new();
    for named in &args.runs {
        let run = super::find_run(named, &host)?;
        let summary = until_done(rescore.run(&run, &cancel), &progress, &cancel)?;
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
    Ok(worst(&summaries))
}

/// Something failed, else something could not be judged, else all passed.
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
            "{} on {}, trial {}: not judged again: {}",
            trial.agent, trial.task, trial.trial, trial.reason
        );
    }
    let changed = summary.trials.iter().filter(|it| it.before != it.after);
    let _ = writeln!(
        text,
        "{} trials judged again, {} changed, {} not judged · {}",
        summary.trials.len(),
        changed.count(),
        summary.not_judged.len(),
        summary.run_dir,
    );
    text
}

fn standing(standing: Standing) -> String {
    match standing.score {
        Some(score) => format!("{} {score:.2}", standing.status.as_str()),
        None => standing.status.as_str().to_owned(),
    }
}
