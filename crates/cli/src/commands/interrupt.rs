//! What Ctrl-C does to a run on a cluster: its jobs go on, or are cancelled. On a terminal the
//! user is asked.

use std::io::{BufRead, IsTerminal};

use proctor_harness::cluster::OnEnd;

use crate::{args::InterruptArg, error::CliError, ui};

/// What is done when the user wants to stop.
pub struct Interrupts {
    /// What becomes of the jobs.
    pub on_end: OnEnd,
    how: Option<InterruptArg>,
    is_cluster: bool,
}

impl Interrupts {
    /// As the command line says.
    pub fn of(how: Option<InterruptArg>, is_cluster: bool) -> Result<Interrupts, CliError> {
        if how.is_some() && !is_cluster {
            let option = "--on-interrupt";
            return Err(CliError::NeedsCluster { option });
        }
        Ok(Interrupts {
            on_end: OnEnd::default(),
            how,
            is_cluster,
        })
    }

    /// The user wants to stop.
    pub fn stopping(&self, progress: &ui::Progress) {
        if !self.is_cluster {
            progress.interrupted();
            return;
        }
        let how = self.how.unwrap_or_else(ask);
        if how == InterruptArg::Cancel {
            self.on_end.cancel_jobs();
        }
    }
}

/// Ask what is meant; where nobody can answer, nothing is lost.
fn ask() -> InterruptArg {
    let input = std::io::stdin();
    if !input.is_terminal() || !std::io::stderr().is_terminal() {
        return InterruptArg::Detach;
    }
    ui::note("the jobs of this run: cancel them (c), or leave them running (Enter)?");
    let mut answer = String::new();
    // Who says nothing cancels nothing.
    let _ = input.lock().read_line(&mut answer);
    if answer.trim().eq_ignore_ascii_case("c") {
        InterruptArg::Cancel
    } else {
        InterruptArg::Detach
    }
}
