//! The program that the tests of this crate start: as supervisor, as a child that plays a script, or as a small driver
//! whose death, memory and possessions they watch.
#![allow(clippy::print_stdout, reason = "the tests read what this prints")]

mod play;

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
        ["play", script, ..] => play::play(script),
        ["drive", script] => runtime.block_on(drive(shell(script))),
        ["drive-player", script] => runtime.block_on(drive(player(script))),
        ["peak-memory", script] => runtime.block_on(peak_memory(shell(script))),
        ["repeat", script] => runtime.block_on(repeat(100, || shell(script))),
        ["repeat-player", script] => runtime.block_on(repeat(40, || player(script))),
        _ => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh", "/");
    command.args = vec!["-c".into(), script.into()];
    command.env = [("PATH".into(), "/usr/bin:/bin".into())].into();
    command
}

/// This program, as a child that plays a script.
fn player(script: &str) -> Command {
    let this = std::env::current_exe().expect("this program has a file");
    let folder = this.parent().expect("in a folder").to_owned();
    let mut command = Command::new(this, folder);
    command.args = vec!["play".into(), script.into()];
    command.env = std::env::vars_os().collect();
    command
}

async fn start(command: Command) -> Process {
    Process::spawn(command, &Supervisor::this_executable())
        .await
        .expect("the command starts")
}

async fn finish(process: &mut Process) -> Report {
    loop {
        if let Event::Ended(report) = process.next().await {
            return report;
        }
    }
}

/// Says when the script runs, and stays until it is done.
async fn drive(command: Command) {
    let mut process = start(command).await;
    println!("{}", process.id());
    finish(&mut process).await;
}

/// Prints the bytes of output, and the most memory this process held, in KiB.
async fn peak_memory(command: Command) {
    let report = finish(&mut start(command).await).await;
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.split_whitespace().next());
    println!("{} {}", report.stdout_bytes, peak.expect("VmHWM in KiB"));
}

/// Runs the script that often, and prints what this process possesses before and after.
async fn repeat(times: u32, command: impl Fn() -> Command) {
    // The first ones make what is kept for all.
    for _ in 0..3 {
        finish(&mut start(command()).await).await;
    }
    let before = possessions();
    for _ in 0..times {
        finish(&mut start(command()).await).await;
    }
    println!("{} {}", before, possessions());
}

/// Descriptors and children.
#[cfg(target_os = "linux")]
fn possessions() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc is there");
    let this = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{this}/task/{this}/children"));
    let children = children.expect("the kernel lists children");
    descriptors.count() + children.split_whitespace().count()
}

/// Descriptors.
#[cfg(target_os = "macos")]
fn possessions() -> usize {
    std::fs::read_dir("/dev/fd")
        .expect("descriptors are listed")
        .count()
}

/// Handles, of processes, pipes and jobs among others. Those of threads that are about to end are waited for.
#[cfg(windows)]
fn possessions() -> usize {
    use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessHandleCount};
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut count = 0;
    #[expect(unsafe_code, reason = "the standard library does not count")]
    // SAFETY: the pseudo-handle of this process is always open; one number is written.
    let answer = unsafe { GetProcessHandleCount(GetCurrentProcess(), &raw mut count) };
    assert_ne!(answer, 0, "handles are counted");
    count as usize
}
