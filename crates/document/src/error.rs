//! All faults of one configuration file, shown with their lines.

use std::{fmt, io};

use camino::{Utf8Path, Utf8PathBuf};

use crate::{fault::Fault, snippet, span::Span};

/// All faults of one config file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, as given by the user.
    pub path: Utf8PathBuf,
    /// Its text; `None` if it could not be read: then faults have no position.
    pub text: Option<String>,
    /// The faults, at least one.
    pub faults: Vec<Fault>,
}

impl ConfigError {
    /// The error of a file that could not be read.
    pub fn unreadable(path: &Utf8Path, error: &io::Error) -> ConfigError {
        let fault = match error.kind() {
            io::ErrorKind::NotFound => {
                Fault::new(Span::default(), "file not found").with_hint("check the path")
            }
            io::ErrorKind::IsADirectory => {
                Fault::new(Span::default(), "expected a file, found a directory")
                    .with_hint("pass the file in it, such as `testcase.yaml`")
            }
            _ => Fault::new(Span::default(), format!("cannot read the file: {error}")),
        };
        ConfigError {
            path: path.to_owned(),
            text: None,
            faults: vec![fault],
        }
    }

    /// An error about a whole file.
    pub fn whole(path: &Utf8Path, fault: Fault) -> ConfigError {
        ConfigError {
            path: path.to_owned(),
            text: None,
            faults: vec![fault],
        }
    }

    /// The line and the column of a fault, both from 1; `None` if the file could not be read.
    pub fn position(&self, fault: &Fault) -> Option<(usize, usize)> {
        let text = self.text.as_deref()?;
        Some(snippet::position(text, fault.span))
    }

    /// The first fault on one line, for a message about another file.
    pub fn first_line(&self) -> String {
        let shown = self.to_string();
        shown.lines().next().unwrap_or_default().to_owned()
    }

    /// One fault for display: position and message, the line with a marker, the hint.
    pub fn render(&self, fault: &Fault) -> String {
        let mut shown = match &self.text {
            Some(text) => snippet::render(&self.path, text, fault),
            None => format!("{}: {}", self.path, snippet::clean(&fault.message)),
        };
        if let Some(hint) = &fault.hint {
            shown.push_str("\nhint: ");
            shown.push_str(&snippet::clean(hint));
        }
        shown
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            f.write_str(&self.render(fault))?;
        }
        Ok(())
    }
}
