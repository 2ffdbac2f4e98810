//! Normalisation of a 100 MB session beside a plain `serde_json::Value` pass over the same
//! lines, in MB per CPU second, and the peak memory of the former.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::{
    fs::File,
    hint::black_box,
    io::{self, BufRead, BufReader, BufWriter, Seek, Write},
};

use proctor_harness::{
    agents::claude_code::{AfterResult, ClaudeSession, Form},
    log::{Contender, Recording, normalize},
};
use rustix::time::{ClockId, clock_gettime};

const SESSION_BYTES: u64 = 100_000_000;
const BUFFER: usize = 64 << 10;
const ROUNDS: usize = 3;

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

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// MB per CPU second, the best of a few rounds.
fn rate(
    file: &mut File,
    mut pass: impl FnMut(BufReader<&File>) -> io::Result<()>,
) -> io::Result<f64> {
    let megabytes = file.metadata()?.len() as f64 / 1e6;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        file.rewind()?;
        let start = cpu_seconds();
        pass(BufReader::with_capacity(BUFFER, file))?;
        best = best.min(cpu_seconds() - start);
    }
    Ok(megabytes / best)
}

fn peak_memory_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1e3)
}

fn main() -> io::Result<()> {
    let mut file = match std::env::args().nth(2) {
        Some(p) => File::open(p)?,
        None => session()?,
    };
    if std::env::args().any(|a| a == "gen") {
        io::copy(
            &mut {
                file.rewind()?;
                file
            },
            &mut File::create("/tmp/stream/100.jsonl")?,
        )?;
        return Ok(());
    }
    let out = tempfile::tempfile()?;
    let normalized = rate(&mut file, |lines| {
        (&out).rewind()?;
        let session = ClaudeSession::new(Form::Auto, AfterResult::EndSoon);
        let contender = Contender {
            name: "claude-code",
            ..Contender::default()
        };
        let recording = Recording {
            exit_code: Some(0),
            contender,
        };
        normalize(Box::new(session), lines, &out, recording)
    })?;
    let memory = peak_memory_megabytes();
    let written = out.metadata()?.len() as f64 / 1e6;
    if std::env::args().any(|a| a == "only") {
        println!("{normalized:.0} {memory:?}");
        return Ok(());
    }
    let plain = rate(&mut file, |lines| {
        for line in lines.lines() {
            let value: serde_json::Value = serde_json::from_str(&line?)?;
            black_box(value);
        }
        Ok(())
    })?;
    println!(
        "normalize           {normalized:8.0} MB per CPU second (log of {written:.0} MB written)"
    );
    println!("serde_json::Value   {plain:8.0} MB per CPU second");
    println!("ratio               {:8.1}", normalized / plain);
    if let Some(memory) = memory {
        println!("peak memory         {memory:8.1} MB while normalising");
    }
    Ok(())
}
