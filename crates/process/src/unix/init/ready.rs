//! Waits until a container is ready for its job: a command is tried until it succeeds.

use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{JobFailure, Readiness};

/// How often a try is looked at.
const TICK: Duration = Duration::from_millis(10);

/// Tries the command that `make` makes until it succeeds, or has failed too often.
pub(super) fn wait(
    readiness: &Readiness,
    make: impl Fn() -> Result<Command, JobFailure>,
) -> Result<(), JobFailure> {
    let began = Instant::now();
    let mut failures = 0;
    loop {
        let tried = make()?.spawn();
        let failed = match tried.map(|child| finish(child, readiness.timeout)) {
            Ok(None) => return Ok(()),
            Ok(Some(failed)) => failed,
            Err(error) => error.to_string(),
        };
        let is_early = began.elapsed() < readiness.start_period;
        failures += u32::from(!is_early);
        if failures >= readiness.retries.max(1) {
            return Err(JobFailure::NotReady { reason: failed });
        }
        sleep(if is_early {
            readiness.start_interval
        } else {
            readiness.interval
        });
    }
}

/// How a try failed; `None` if it did not.
fn finish(mut child: Child, timeout: Duration) -> Option<String> {
    let until = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return None,
            Ok(Some(status)) => return Some(status.to_string()),
            Ok(None) if Instant::now() < until => sleep(TICK),
            Ok(None) => {
                // Its other processes end with the job.
                let _ = child.kill();
                let _ = child.wait();
                return Some(format!("it took longer than {timeout:?}"));
            }
            Err(error) => return Some(error.to_string()),
        }
    }
}
