//! The value of `--keep-workspace`.

use clap::ValueEnum;
use proctor_harness::config::KeepWorkspace;

/// Which workspaces of finished trials are kept whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeepArg {
    /// Every workspace; the default of test cases
    All,
    /// Those of trials that did not pass, and those that the diff cannot restore
    Failed,
    /// Those that the diff cannot restore; the default of suites
    Needed,
    /// None
    None,
}

impl From<KeepArg> for KeepWorkspace {
    fn from(which: KeepArg) -> KeepWorkspace {
        match which {
            KeepArg::All => KeepWorkspace::All,
            KeepArg::Failed => KeepWorkspace::Failed,
            KeepArg::Needed => KeepWorkspace::Needed,
            KeepArg::None => KeepWorkspace::None,
        }
    }
}
