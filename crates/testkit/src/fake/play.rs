//! Plays the steps of a fake agent.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use super::{Child, FAILED_STEP, Print, STEPS_FLAG, Step, Stream, TextFile};
use crate::platform;

/// The size of one write of a flood.
const FLOOD_WRITE: usize = 64 * 1024;

/// Plays the steps to the end or to the first that exits or fails.
pub(super) fn play(steps: &[Step]) -> ExitCode {
    match play_all(steps) {
        Ok(Flow::Exit(code)) => ExitCode::from(code),
        Ok(Flow::GoOn) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::from(FAILED_STEP)
        }
    }
}

/// Says on stderr what is wrong. When even that fails, the exit code has to do.
pub(super) fn complain(error: &str) {
    let _ = writeln!(io::stderr(), "fake-agent: {error}");
}

/// Whether there is a next step.
enum Flow {
    GoOn,
    Exit(u8),
}

fn play_all(steps: &[Step]) -> Result<Flow, String> {
    for step in steps {
        let flow = play_one(step).map_err(|error| format!("{step:?}: {error}"))?;
        if let Flow::Exit(code) = flow {
            return Ok(Flow::Exit(code));
        }
    }
    Ok(Flow::GoOn)
}

fn play_one(step: &Step) -> Result<Flow, String> {
    let done = match step {
        Step::Exit(code) => return Ok(Flow::Exit(*code)),
        Step::Ask {
            text,
            answered,
            closed,
        } => {
            write_to(Stream::Stdout, text.as_bytes()).map_err(|error| error.to_string())?;
            let line = read_line().map_err(|error| error.to_string())?;
            return play_all(if line.is_some() { answered } else { closed });
        }
        Step::Print(print) => return print_out(print).map(|()| Flow::GoOn),
        Step::Line(value) => write_to(Stream::Stdout, format!("{value}\n").as_bytes()),
        Step::Emit { path, stream } => fs::read(path).and_then(|text| write_to(*stream, &text)),
        Step::Flood {
            bytes,
            line_len,
            stream,
        } => flood(*bytes, (*line_len).max(1), *stream),
        Step::LongLine { bytes } => flood(bytes + 1, bytes + 1, Stream::Stdout),
        Step::SplitUtf8 { text, pause_ms } => split_utf8(text, *pause_ms),
        Step::InvalidUtf8 => write_to(Stream::Stdout, b"\xff\xfe \xc3( invalid\n"),
        Step::SleepMs(time) => {
            thread::sleep(Duration::from_millis(*time));
            Ok(())
        }
        Step::Crash => platform::crash(),
        Step::KillSelf(signal) => platform::kill_self(*signal),
        Step::IgnoreTerm => platform::ignore_term(),
        Step::Setsid => platform::start_session(),
        Step::HoldStdout { seconds } => hold_stdout(*seconds),
        Step::SpawnChild(child) => spawn_child(child),
        Step::WriteFile(file) => write_file(file),
        Step::Append(file) => append(file),
        Step::Delete(path) => delete(path),
        Step::Run { argv } => run(argv),
        Step::SaveStdin(path) => save_stdin(path),
        Step::SaveArgv(path) => save_argv(path),
        Step::SaveEnv(path) => save_env(path),
        Step::WaitForStdinLine { contains } => wait_for_line(contains),
    };
    done.map(|()| Flow::GoOn).map_err(|error| error.to_string())
}

fn write_to(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Stdout => {
            let mut out = io::stdout().lock();
            out.write_all(bytes)?;
            out.flush()
        }
        Stream::Stderr => io::stderr().write_all(bytes),
    }
}

fn print_out(print: &Print) -> Result<(), String> {
    let bytes = print.bytes()?;
    for _ in 0..print.repeat {
        write_to(print.stream, &bytes).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn flood(bytes: u64, line_len: u64, stream: Stream) -> io::Result<()> {
    let mut written = 0;
    let mut buffer = Vec::with_capacity(FLOOD_WRITE);
    while written < bytes {
        buffer.clear();
        while written < bytes && buffer.len() < FLOOD_WRITE {
            written += 1;
            let ends = written % line_len == 0 || written == bytes;
            buffer.push(if ends { b'\n' } else { b'x' });
        }
        write_to(stream, &buffer)?;
    }
    Ok(())
}

fn split_utf8(text: &str, pause_ms: u64) -> io::Result<()> {
    let wide = text.char_indices().find(|(_, c)| c.len_utf8() > 1);
    let middle = wide.map_or(text.len(), |(index, _)| index + 1);
    let (before, after) = text.as_bytes().split_at(middle);
    write_to(Stream::Stdout, before)?;
    thread::sleep(Duration::from_millis(pause_ms));
    write_to(Stream::Stdout, after)
}

/// A command that plays these steps in a process of its own.
fn play_in_child(steps: &[Step], marker: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(STEPS_FLAG).arg(serde_json::to_string(steps)?);
    command.arg(marker).stdin(Stdio::null());
    Ok(command)
}

fn hold_stdout(seconds: u64) -> io::Result<()> {
    let steps = [Step::SleepMs(seconds * 1000)];
    play_in_child(&steps, "hold-stdout")?.spawn().map(drop)
}

fn spawn_child(child: &Child) -> io::Result<()> {
    if child.double_fork {
        let inner = Child {
            double_fork: false,
            ..child.clone()
        };
        let mut between = play_in_child(&[Step::SpawnChild(inner)], &child.marker)?;
        let status = between.stdout(Stdio::null()).status()?;
        return if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("the child between: {status}")))
        };
    }
    let mut steps = Vec::new();
    steps.extend(child.setsid.then_some(Step::Setsid));
    steps.extend(child.ignore_term.then_some(Step::IgnoreTerm));
    steps.push(Step::SleepMs(child.sleep_s * 1000));
    let mut command = play_in_child(&steps, &child.marker)?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if child.clear_env {
        command.env_clear();
    }
    command.spawn().map(drop)
}

fn write_file(file: &TextFile) -> io::Result<()> {
    make_parent(&file.path)?;
    fs::write(&file.path, &file.text)
}

fn append(file: &TextFile) -> io::Result<()> {
    make_parent(&file.path)?;
    let mut options = OpenOptions::new();
    let mut open = options.append(true).create(true).open(&file.path)?;
    open.write_all(file.text.as_bytes())
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn delete(path: &Path) -> io::Result<()> {
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

fn run(argv: &[String]) -> io::Result<()> {
    let (program, rest) = argv
        .split_first()
        .expect("checked when the script was read");
    let output = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{}: {stderr}", output.status)))
}

fn save_stdin(path: &PathBuf) -> io::Result<()> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    fs::write(path, bytes)
}

fn save_argv(path: &PathBuf) -> io::Result<()> {
    let args: Vec<String> = std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    fs::write(path, serde_json::to_vec(&args)?)
}

fn save_env(path: &PathBuf) -> io::Result<()> {
    let variables: BTreeMap<String, String> = std::env::vars_os()
        .map(|(name, value)| {
            let text = |part: std::ffi::OsString| part.to_string_lossy().into_owned();
            (text(name), text(value))
        })
        .collect();
    fs::write(path, serde_json::to_vec(&variables)?)
}

/// The next line of stdin, or none at its end. The buffer is that of the process, so nothing that
/// was read ahead is lost to the next step.
fn read_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line)?;
    Ok((read > 0).then_some(line))
}

fn wait_for_line(contains: &str) -> io::Result<()> {
    while let Some(line) = read_line()? {
        if line.contains(contains) {
            return Ok(());
        }
    }
    Err(io::Error::other("stdin ended before the line came"))
}
