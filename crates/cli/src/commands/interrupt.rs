//! The effect of Ctrl-C on a run on a cluster: its jobs keep running or are cancelled. On a
//! terminal there is a prompt.

use std::io::IsTerminal;

use proctor_harness::{
    config::{Execution, Executor},
    run::OnEnd,
};
use proctor_record::record::GatewayPlace;
use tokio::sync::oneshot;

use crate::{args::InterruptArg, error::CliError, ui};

/// Handles the first interrupt of a run.
pub struct Interrupts {
    /// Whether jobs are cancelled.
    pub on_end: OnEnd,
    how: Option<InterruptArg>,
    jobs: TrialHost,
}

/// Where trials run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TrialHost {
    /// In this process.
    None,
    /// In jobs that do not depend on this process.
    GoOn,
    /// In jobs that use the gateway of this process. They are cancelled when it exits.
    NeedUs,
}

impl Interrupts {
    /// The behaviour for an option and an executor.
    pub fn of(how: Option<InterruptArg>, execution: &Execution) -> Result<Interrupts, CliError> {
        let jobs = match &execution.executor {
            Executor::Slurm(slurm) if slurm.gateway == GatewayPlace::Head => TrialHost::NeedUs,
            Executor::Slurm(_) => TrialHost::GoOn,
            _ => TrialHost::None,
        };
        if how.is_some() && jobs == TrialHost::None {
            let option = "--on-interrupt";
            return Err(CliError::NeedsCluster { option });
        }
        Ok(Interrupts {
            on_end: OnEnd::default(),
            how,
            jobs,
        })
    }

    /// Handles an interrupt.
    pub async fn stopping(&self, progress: &ui::Progress) {
        match (self.jobs, self.how) {
            (TrialHost::None, _) => progress.interrupted(),
            (TrialHost::NeedUs, _) => {
                ui::note("cancelling the jobs of this run: they use the gateway of this process");
            }
            (TrialHost::GoOn, Some(InterruptArg::Detach)) => {}
            (TrialHost::GoOn, Some(InterruptArg::Cancel)) => self.on_end.cancel_jobs(),
            (TrialHost::GoOn, None) => {
                if ask().await == InterruptArg::Cancel {
                    self.on_end.cancel_jobs();
                }
            }
        }
    }
}

/// Prompts the user. Without a terminal, jobs keep running.
async fn ask() -> InterruptArg {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return InterruptArg::Detach;
    }
    ui::note("cancel the jobs of this run (c), or keep them running (Enter)?");
    let (tell, answered) = oneshot::channel();
    // Reading a line cannot be cancelled, so a thread does it. A second Ctrl-C does not wait for
    // the thread.
    std::thread::spawn(move || {
        let mut answer = String::new();
        // End of file means no answer.
        let _ = std::io::stdin().read_line(&mut answer);
        let _ = tell.send(answer);
    });
    match answered.await {
        Ok(answer) if answer.trim().eq_ignore_ascii_case("c") => InterruptArg::Cancel,
        _ => InterruptArg::Detach,
    }
}
