//! Terminal output: progress on standard error, results on standard output.

mod progress;
mod report;
mod view;

pub use progress::Progress;
pub use report::{count, plural, replay as replay_report, report, suite_report};
pub use view::{Steering, View, clock, is_possible, line, replay, tame};

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use serde::Serialize;

use crate::{error::CliError, platform};

/// Prints to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if platform::reader_is_gone(&error) => Ok(()),
        other => other,
    }
}

/// Print one JSON value on one line.
pub fn print_json(value: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(value)?;
    print(&format!("{json}\n"))
}

/// Prints a line on standard error.
pub fn note(text: &str) {
    // A failure to write to standard error cannot be reported.
    let _ = anstream::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Prints an error with its causes and hint.
pub fn error(error: &CliError) {
    let mut text = format!("\x1b[1;31merror:\x1b[0m {error}\n");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let _ = writeln!(text, "  caused by: {error}");
        cause = error.source();
    }
    if let Some(hint) = error.hint() {
        let _ = writeln!(text, "\x1b[36mhint:\x1b[0m {hint}");
    }
    // A failure to write to standard error cannot be reported.
    let _ = anstream::stderr().write_all(text.as_bytes());
}
