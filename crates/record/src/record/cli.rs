//! The description of an agent's CLI, and the result of probing it.

use std::time::Duration;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

/// The program that an adapter drives, and how to probe it.
#[derive(Debug)]
pub struct Cli {
    /// Its name on PATH.
    pub program: &'static str,
    /// Its package, for configured versions.
    pub package: Registry,
    /// Arguments that make it print its version.
    pub version_args: &'static [&'static str],
    /// Arguments that make it print its options.
    pub help_args: &'static [&'static str],
    /// Arguments that print the login state. They are used only if its help lists the first of them
    /// as a command: an older version would treat them as a prompt.
    pub auth_args: &'static [&'static str],
    /// How to install it.
    pub install_hint: &'static str,
    /// How to log in.
    pub login_hint: &'static str,
    /// Variables with credentials or the API's address: the only ones that are taken from the host
    /// by default.
    pub credential_env: &'static [&'static str],
    /// Login files below HOME that are used if no credential variable is set.
    pub credential_files: &'static [&'static str],
    /// Variables with a directory for files that the CLI unpacks or downloads at its first start
    /// and never changes after that. All trials share a cache directory of this machine, so that it
    /// is filled once; containers get it read-only.
    pub shared_caches: &'static [&'static str],
    /// The timeout for probing version and options. A slower program counts as unknown: a hanging
    /// program must not delay the trial, whose own limit has not started.
    pub probe_limit: Duration,
    /// The code for "not installed" in the log.
    pub not_found_code: &'static str,
    /// The code for "not authenticated" in the log.
    pub auth_code: &'static str,
    /// The code for "ended by a time limit" in the log.
    pub timeout_code: &'static str,
    /// The code for "output was truncated" in the log.
    pub truncated_code: &'static str,
}

impl Cli {
    /// The message for a machine that does not have the program.
    pub fn not_installed(&self) -> String {
        let (program, hint) = (self.program, self.install_hint);
        format!("`{program}` is not installed, or not on PATH; {hint}")
    }
}

/// The registry of a CLI's package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// npm's registry, with this name.
    Npm(&'static str),
    /// In `PyPI`.
    PyPi {
        /// The name.
        name: &'static str,
        /// Undeclared requirements.
        with: &'static [&'static str],
    },
}

/// The probe timeout for a CLI that starts quickly: real ones answer in half a second.
pub const PROBE_LIMIT: Duration = Duration::from_secs(3);

/// The probe of an installed CLI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// The path.
    pub path: Utf8PathBuf,
    /// Its reported version.
    pub version: Option<String>,
    /// Its help text: the flags of this version. Empty if it printed none.
    pub help: String,
}

impl Installed {
    /// Whether this version lists `command` as a command in its help.
    pub fn has_command(&self, command: &str) -> bool {
        self.help
            .lines()
            .any(|line| line.starts_with(' ') && line.split_whitespace().next() == Some(command))
    }

    /// Whether this version lists `flag` in its help.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.help.match_indices(flag).any(|(at, _)| {
            let after = self.help[at + flag.len()..].chars().next();
            !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-')
        })
    }
}

/// The result of a CLI's own login check.
#[derive(Clone, Debug)]
pub struct AuthCheck {
    /// The output.
    pub stdout: String,
}
