//! `proctor watch`: shows a run from another terminal.

use std::{collections::BTreeMap, time::Duration};

use proctor_harness::run::{self, RunError};
use proctor_record::record::follow::{RunWatch, TrialState};

use crate::{
    args::WatchArgs,
    error::{CliError, Exit},
    host,
    platform::StopSignals,
    ui,
};

const LOOK: Duration = Duration::from_millis(250);

pub fn watch(args: &WatchArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let run = super::one_run(args.run.as_deref(), &host)?;
    let watch = RunWatch::open(&run).map_err(RunError::from)?;
    if !args.no_tui && ui::is_possible() {
        in_view(watch)?;
    } else {
        in_lines(watch)?;
    }
    // Runs of older versions have no plan, and so no table.
    if let Ok(status) = run::status(&run) {
        ui::suite_report(&status.summary)?;
    }
    Ok(Exit::Success)
}

fn in_view(watch: RunWatch) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        let view = ui::View::start(watch, None)?;
        tokio::select! {
            () = view.left() => {}
            () = signals.next() => {}
        }
        Ok(())
    })
}

/// A line for each change, until the run ends.
fn in_lines(mut watch: RunWatch) -> Result<(), CliError> {
    let mut seen: BTreeMap<usize, TrialState> = BTreeMap::new();
    loop {
        for trial in &watch.view().trials {
            let is_new = seen.insert(trial.number, trial.state) != Some(trial.state);
            if is_new && trial.state != TrialState::Waiting {
                let state = word(trial.state);
                let name = format!("{} on {}, trial {}", trial.agent, trial.task, trial.trial);
                ui::print(&format!("{state:<12} {}\n", ui::tame(&name)))?;
            }
        }
        if !watch.view().is_running || ui::reader_is_gone() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
        watch.refresh();
    }
}

fn word(state: TrialState) -> &'static str {
    match state {
        TrialState::Waiting => "waiting",
        TrialState::Active(phase) => phase.as_str(),
        TrialState::Dead => "killed",
        TrialState::Ended(status, _) => status.as_str(),
    }
}
