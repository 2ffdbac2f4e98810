//! The program that the tests of this crate start: as supervisor, or as a small driver whose death, memory and
//! descriptors they watch.
#![allow(clippy::print_stdout, reason = "the tests read what this prints")]

use std::fs::read_dir;
use std::process::ExitCode;

use proctor_process::{Command, Event, Process, Report, Supervisor};

fn main() -> ExitCode {
    if let Some(code) = proctor_process::supervise_if_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    match arguments[..] {
        ["drive", script] => runtime.block_on(drive(script)),
        ["peak-memory", script] => runtime.block_on(peak_memory(script)),
        ["repeat", script] => runtime.block_on(repeat(script)),
        _ => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}

async fn start(script: &str) -> Process {
    let mut command = Command::new("/bin/sh", "/");
    command.args = vec!["-c".into(), script.into()];
    command.env = [("PATH".into(), "/usr/bin:/bin".into())].into();
    Process::spawn(command, &Supervisor::this_executable())
        .await
        .expect("sh starts")
}

async fn finish(process: &mut Process) -> Report {
    loop {
        if let Event::Ended(report) = process.next().await {
            return report;
        }
    }
}

/// Says when the script runs, and stays until it is done.
async fn drive(script: &str) {
    let mut process = start(script).await;
    println!("{}", process.id());
    finish(&mut process).await;
}

/// Prints the bytes of output, and the most memory this process held, in KiB.
async fn peak_memory(script: &str) {
    let report = finish(&mut start(script).await).await;
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.split_whitespace().next());
    println!("{} {}", report.stdout_bytes, peak.expect("VmHWM in KiB"));
}

/// Runs the script a hundred times, and prints the descriptors and children before and after.
async fn repeat(script: &str) {
    finish(&mut start(script).await).await;
    let before = possessions();
    for _ in 0..100 {
        finish(&mut start(script).await).await;
    }
    println!("{} {}", before, possessions());
}

fn possessions() -> usize {
    let descriptors = read_dir("/proc/self/fd").expect("/proc is there").count();
    let this = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{this}/task/{this}/children"));
    let children = children.expect("the kernel lists children");
    descriptors + children.split_whitespace().count()
}
