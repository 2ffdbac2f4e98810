//! Waits until a container is ready for its job: a command is tried until it succeeds.

use std::fs;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Pid;

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

/// Waits until a service runs its command, as an entry point does after its preparations. One that
/// ends or never runs the command is waited for as long as this.
const LONGEST_ENTRY: Duration = Duration::from_secs(10);

/// Waits until the service runs `command`, or has ended.
pub(super) fn wait_for_command(service: Pid, command: &[String]) {
    if command.is_empty() {
        return;
    }
    let until = Instant::now() + LONGEST_ENTRY;
    while !is_running(command) && !has_ended(service) && Instant::now() < until {
        sleep(TICK);
    }
}

/// Whether a process runs `command`. A shell that gets one program with `-c` may become that program.
fn is_running(command: &[String]) -> bool {
    let whole = command.iter().map(String::as_str);
    let program = command.last().map(|line| line.split_whitespace());
    let wanted = [joined(whole), joined(program.into_iter().flatten())];
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| wanted.contains(&line))
}

/// Arguments as in `/proc/PID/cmdline`.
fn joined<'a>(args: impl Iterator<Item = &'a str>) -> Vec<u8> {
    args.flat_map(|arg| arg.bytes().chain([0])).collect()
}

fn has_ended(process: Pid) -> bool {
    let path = format!("/proc/{}/stat", process.as_raw_nonzero());
    let stat = fs::read_to_string(path).unwrap_or_default();
    // The state follows the name, which is in parentheses.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_none_or(|state| state.starts_with('Z'))
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
