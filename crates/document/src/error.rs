//! Complaints about config files: what is wrong, where, and what to do, shown with the line.

use std::{fmt, io};

use camino::{Utf8Path, Utf8PathBuf};

use crate::{node::Span, snippet};

/// Something wrong in a config file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub span: Span,
    /// The error.
    pub message: String,
    /// A suggestion for the user.
    pub hint: Option<String>,
    /// The kind, for code that handles some faults in its own way.
    pub kind: FaultKind,
}

/// The kind of a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FaultKind {
    /// The type that was read has no such key.
    UnknownKey(String),
    /// Any other fault.
    #[default]
    Other,
}

impl Fault {
    /// A fault without a hint.
    pub fn new(span: Span, message: impl Into<String>) -> Fault {
        Fault {
            span,
            message: message.into(),
            hint: None,
            kind: FaultKind::Other,
        }
    }

    /// The same fault with a kind.
    #[must_use]
    pub fn with_kind(mut self, kind: FaultKind) -> Fault {
        self.kind = kind;
        self
    }

    /// The same fault with what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }
}

/// Everything wrong with one config file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, as the user named it.
    pub path: Utf8PathBuf,
    /// Its text; `None` when it could not be read, and then faults have no place.
    pub text: Option<String>,
    /// The faults, at least one.
    pub faults: Vec<Fault>,
}

impl ConfigError {
    /// A file that could not be read at all.
    pub fn unreadable(path: &Utf8Path, error: &io::Error) -> ConfigError {
        let fault = match error.kind() {
            io::ErrorKind::NotFound => Fault::new(Span::default(), "no such file")
                .with_hint("check the path; `proctor init` writes a test case to start from"),
            io::ErrorKind::IsADirectory => {
                Fault::new(Span::default(), "this is a folder, not a file")
                    .with_hint("name the file in it, such as `testcase.yaml`")
            }
            _ => Fault::new(Span::default(), format!("the file cannot be read: {error}")),
        };
        ConfigError {
            path: path.to_owned(),
            text: None,
            faults: vec![fault],
        }
    }

    /// A file that is wrong as a whole.
    pub fn whole(path: &Utf8Path, fault: Fault) -> ConfigError {
        ConfigError {
            path: path.to_owned(),
            text: None,
            faults: vec![fault],
        }
    }

    /// One fault as the user sees it: place and message, the line with a mark, the hint.
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
