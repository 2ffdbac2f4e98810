//! Processes as `/proc` shows them, with all their descendants.

use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long something may take to answer.
const PATIENCE: Duration = Duration::from_mins(5);
/// The kernel's clock ticks in a second, on every Linux there is.
const TICKS: u64 = 100;

/// Starts a command, waits until it accepts connections at `address`, waits until it is idle, and
/// stops it. The result is a row of the table.
pub fn start(name: &str, address: &str, command: &[&str]) {
    let began = Instant::now();
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while TcpStream::connect(address).is_err() {
        assert!(began.elapsed() < PATIENCE, "{name} does not answer");
        thread::sleep(Duration::from_micros(500));
    }
    let took = began.elapsed();
    thread::sleep(Duration::from_secs(2));
    let megabytes = resident_kb(child.id()) as f64 / 1024.0;
    println!(
        "| {name} | {:.1} | {megabytes:.1} |",
        took.as_secs_f64() * 1e3
    );
    let _ = Command::new("kill").arg(child.id().to_string()).status();
    let _ = child.wait();
}

/// Processor time of a process and its descendants.
pub fn cpu(pid: u32) -> Duration {
    let ticks: u64 = tree(pid).iter().filter_map(|pid| ticks(*pid)).sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

fn ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

fn resident_kb(pid: u32) -> u64 {
    let of = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tree(pid).iter().filter_map(of).sum()
}

/// A process and its descendants.
fn tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let children = children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok());
        all.extend(children.flat_map(tree));
    }
    all
}
