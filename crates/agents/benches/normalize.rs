//! Compares the normalisation of a 100 MB session with a plain `serde_json::Value` pass over the
//! same lines, in MB per CPU second, and measures its peak memory.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::{
    fs::File,
    hint::black_box,
    io::{self, BufRead, BufReader, BufWriter, Seek, Write},
};

use proctor_agents as agents;
use proctor_record::{
    session::Session,
    transcript::{AgentContext, Recording, normalize},
};

const SESSION_BYTES: u64 = 100_000_000;
const BUFFER: usize = 64 << 10;
const ROUNDS: usize = 5;

/// Recorded sessions, repeated with fresh message ids up to the size.
fn session() -> io::Result<File> {
    let recorded = [
        include_str!("../tests/data/sessions/01-claude-ok-simple.jsonl"),
        include_str!("../tests/data/sessions/02-claude-ok-subagents-hooks.jsonl"),
    ];
    let mut out = BufWriter::new(tempfile::tempfile()?);
    let mut round = 0;
    while out.stream_position()? < SESSION_BYTES {
        round += 1;
        for line in recorded.iter().flat_map(|text| text.lines()) {
            let line = line.replace("\"msg_", &format!("\"msg_{round}_"));
            let line = line.replace("\"toolu_", &format!("\"toolu_{round}_"));
            writeln!(out, "{line}")?;
        }
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

#[cfg(unix)]
fn cpu_seconds() -> f64 {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Wall-clock time: there is no safe call for the CPU time.
#[cfg(windows)]
fn cpu_seconds() -> f64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START
        .get_or_init(std::time::Instant::now)
        .elapsed()
        .as_secs_f64()
}

/// CPU seconds of one pass over the session.
fn timed(
    mut file: &File,
    pass: impl FnOnce(BufReader<&File>) -> io::Result<()>,
) -> io::Result<f64> {
    file.rewind()?;
    let start = cpu_seconds();
    pass(BufReader::with_capacity(BUFFER, file))?;
    Ok(cpu_seconds() - start)
}

fn normalized(lines: BufReader<&File>, mut out: &File) -> io::Result<()> {
    out.rewind()?;
    let session = recorded_session();
    let agent = AgentContext {
        name: "claude-code",
        ..AgentContext::default()
    };
    let recording = Recording {
        exit_code: Some(0),
        agent,
        ..Recording::default()
    };
    normalize(session, lines, out, recording).map(drop)
}

fn parsed(lines: BufReader<&File>) -> io::Result<()> {
    for line in lines.lines() {
        let value: serde_json::Value = serde_json::from_str(&line?)?;
        black_box(value);
    }
    Ok(())
}

fn peak_memory_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1e3)
}

fn main() -> io::Result<()> {
    let file = session()?;
    let out = tempfile::tempfile()?;
    let mut best = [f64::MAX; 2];
    let mut memory = None;
    // Alternating, so that the load of the machine affects both alike.
    for _ in 0..ROUNDS {
        best[0] = best[0].min(timed(&file, |lines| normalized(lines, &out))?);
        memory = memory.or_else(peak_memory_megabytes);
        best[1] = best[1].min(timed(&file, parsed)?);
    }
    let megabytes = file.metadata()?.len() as f64 / 1e6;
    let written = out.metadata()?.len() as f64 / 1e6;
    println!("session             {megabytes:8.0} MB, log {written:.0} MB");
    println!(
        "normalize           {:8.0} MB per CPU second",
        megabytes / best[0]
    );
    println!(
        "serde_json::Value   {:8.0} MB per CPU second",
        megabytes / best[1]
    );
    println!("ratio               {:8.1}", best[1] / best[0]);
    if let Some(memory) = memory {
        println!("peak memory         {memory:8.1} MB after normalising");
    }
    Ok(())
}

/// The session of `proctor log normalize`.
fn recorded_session() -> Box<dyn Session> {
    let adapter = agents::find("claude-code").expect("the adapter exists");
    adapter
        .recorded_session()
        .expect("the adapter has a recorded session")
}
