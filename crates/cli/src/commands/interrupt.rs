//! What Ctrl-C does to a run on a cluster: its jobs go on, or are cancelled. On a terminal the
//! user is asked.

use std::io::IsTerminal;

use proctor_harness::{
    cluster::OnEnd,
    config::{Execution, Executor},
    record::GatewayPlace,
};
use tokio::sync::oneshot;

use crate::{args::InterruptArg, error::CliError, ui};

/// What is done when the user wants to stop.
pub struct Interrupts {
    /// What becomes of the jobs.
    pub on_end: OnEnd,
    how: Option<InterruptArg>,
    jobs: Jobs,
}

/// Who runs the trials.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Jobs {
    /// We do.
    None,
    /// Jobs that get on without us.
    GoOn,
    /// Jobs whose gateway is ours: without us they are cancelled.
    NeedUs,
}

impl Interrupts {
    /// As the command line says.
    pub fn of(how: Option<InterruptArg>, execution: &Execution) -> Result<Interrupts, CliError> {
        let jobs = match &execution.executor {
            Executor::Slurm(slurm) if slurm.gateway == GatewayPlace::Head => Jobs::NeedUs,
            Executor::Slurm(_) => Jobs::GoOn,
            _ => Jobs::None,
        };
        if how.is_some() && jobs == Jobs::None {
            let option = "--on-interrupt";
            return Err(CliError::NeedsCluster { option });
        }
        Ok(Interrupts {
            on_end: OnEnd::default(),
            how,
            jobs,
        })
    }

    /// The user wants to stop.
    pub async fn stopping(&self, progress: &ui::Progress) {
        match (self.jobs, self.how) {
            (Jobs::None, _) => progress.interrupted(),
            (Jobs::NeedUs, _) => {
                ui::note(
                    "the jobs of this run are cancelled: its gateway is here, and ends with us",
                );
            }
            (Jobs::GoOn, Some(InterruptArg::Detach)) => {}
            (Jobs::GoOn, Some(InterruptArg::Cancel)) => self.on_end.cancel_jobs(),
            (Jobs::GoOn, None) => {
                if ask().await == InterruptArg::Cancel {
                    self.on_end.cancel_jobs();
                }
            }
        }
    }
}

/// Ask what is meant; where nobody can answer, nothing is lost.
async fn ask() -> InterruptArg {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return InterruptArg::Detach;
    }
    ui::note("the jobs of this run: cancel them (c), or leave them running (Enter)?");
    let (tell, answered) = oneshot::channel();
    // Reading a line cannot be given up: a thread waits for it, and a second Ctrl-C does not.
    std::thread::spawn(move || {
        let mut answer = String::new();
        // Who says nothing cancels nothing.
        let _ = std::io::stdin().read_line(&mut answer);
        let _ = tell.send(answer);
    });
    match answered.await {
        Ok(answer) if answer.trim().eq_ignore_ascii_case("c") => InterruptArg::Cancel,
        _ => InterruptArg::Detach,
    }
}
