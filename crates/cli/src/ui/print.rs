//! Prints results, notes and errors.

use std::{
    fmt::Write as _,
    io::{self, BufWriter, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use anstream::adapter::strip_str;
use ratatui::{crossterm::terminal, text::Span};
use serde::Serialize;

use crate::{
    error::{CliError, FaultReport},
    personality::{Personality, Style},
    platform,
};

const STREAM_BUFFER: usize = 1 << 18;

/// Whether the reader of standard output has closed the pipe.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

/// Whether further output would have no reader.
pub fn reader_is_gone() -> bool {
    READER_IS_GONE.load(Ordering::Relaxed)
}

/// Prints to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    unless_gone(written)
}

/// Prints text whose long lines are wrapped between words, with a deeper indentation, if standard output is a terminal.
pub fn print_wrapped(text: &str) -> io::Result<()> {
    let size = io::stdout().is_terminal().then(terminal::size);
    match size.and_then(Result::ok) {
        Some((columns, _)) => print(&wrapped(text, usize::from(columns))),
        None => print(text),
    }
}

fn wrapped(text: &str, columns: usize) -> String {
    let visible = |text: &str| Span::raw(strip_str(text).to_string()).width();
    let mut all = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let indent = line.len() - line.trim_start().len() + 2;
        let mut used = 0;
        for word in line.split_inclusive(' ') {
            if used > indent && used + visible(word.trim_end()) > columns {
                all.truncate(all.trim_end_matches(' ').len());
                let _ = write!(all, "\n{:indent$}", "");
                used = indent;
            }
            all.push_str(word);
            used += visible(word);
        }
        all.push('\n');
    }
    all
}

/// Writes a stream to standard output. A closed pipe ends the stream and is not an error.
pub fn stream<E>(write: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<(), E>
where
    E: From<io::Error>,
{
    let mut out = BufWriter::with_capacity(STREAM_BUFFER, Stream(io::stdout().lock()));
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    if reader_is_gone() { Ok(()) } else { written }
}

/// Standard output that notices when its reader is gone.
struct Stream(io::StdoutLock<'static>);

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        note_reader(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        note_reader(self.0.flush())
    }
}

fn note_reader<T>(written: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &written
        && platform::reader_is_gone(error)
    {
        READER_IS_GONE.store(true, Ordering::Relaxed);
    }
    written
}

fn unless_gone(written: io::Result<()>) -> io::Result<()> {
    match note_reader(written) {
        Err(_) if reader_is_gone() => Ok(()),
        other => other,
    }
}

/// Print one JSON value on one line.
pub fn print_json(value: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(value)?;
    print(&format!("{json}\n"))
}

/// With `--json`, prints an error as one JSON object on standard output.
pub fn json_error(code: u8, message: &str, hint: Option<&str>, faults: &[FaultReport]) {
    let is_json = std::env::args_os()
        .take_while(|word| word != "--")
        .any(|word| word == "--json");
    if is_json {
        let message = strip_str(message).to_string();
        let error = serde_json::json!({
            "status": "error",
            "exit_code": code,
            "error": { "message": message.trim_end(), "hint": hint, "faults": faults },
        });
        // A failure to write cannot be reported.
        let _ = print_json(&error);
    }
}

/// Prints a line on standard error.
pub fn note(text: &str) {
    // A failure to write to standard error cannot be reported.
    let _ = anstream::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Prints an error with its causes and hint.
pub fn error(error: &CliError) {
    let mut text = String::new();
    let personality = Personality::current();
    if let CliError::Config(_) = error
        && personality.style == Style::YouBencha
    {
        text.push_str("configuration validation failed\n");
    }
    let _ = writeln!(text, "\x1b[1;31merror:\x1b[0m {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let _ = writeln!(text, "  caused by: {error}");
        cause = error.source();
    }
    if let Some(hint) = error.hint() {
        let _ = writeln!(text, "\x1b[36mhint:\x1b[0m {hint}");
    }
    let text = personality.in_own_name(&text);
    // A failure to write to standard error cannot be reported.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_between_words() {
        let text = "short line\n  \x1b[31m✗\x1b[0m one two three\na /very/long/path/without/spaces end\n\nlast";
        let expect = "short line\n  \x1b[31m✗\x1b[0m one two\n    three\na /very/long/path/without/spaces\n  end\n\nlast\n";
        assert_eq!(wrapped(text, 14), expect);
        assert_eq!(wrapped("a b\n", 80), "a b\n");
    }
}
