//! Arguments of `show`.

use camino::Utf8PathBuf;
use clap::Parser;

/// `proctor show`.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
#[command(
    after_help = "A trial is named AGENT/TASK#N, such as claude/fix-parser#2; the start of a name is enough if it is unique."
)]
pub struct ShowArgs {
    /// Trial or its directory, or a run, whose trials are listed [default: the latest run]
    #[arg(value_name = "TRIAL|RUN")]
    pub name: Option<String>,
    /// Directory or id of the trial's run [default: the latest run]
    #[arg(long, value_name = "RUN")]
    pub run: Option<Utf8PathBuf>,
    /// Print only the agent's change
    #[arg(long, group = "part")]
    pub diff: bool,
    /// Print only the session
    #[arg(long, group = "part")]
    pub session: bool,
    /// Print only the prompt
    #[arg(long, group = "part")]
    pub prompt: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "part")]
    pub json: bool,
}

/// A part of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowPart {
    /// The agent's change.
    Diff,
    /// The session.
    Session,
    /// The prompt.
    Prompt,
}

impl ShowArgs {
    /// The only part to print.
    pub fn part(&self) -> Option<ShowPart> {
        match (self.diff, self.session, self.prompt) {
            (true, _, _) => Some(ShowPart::Diff),
            (_, true, _) => Some(ShowPart::Session),
            (_, _, true) => Some(ShowPart::Prompt),
            _ => None,
        }
    }
}
