//! Arguments for the project settings and for youBencha's helper commands.

use camino::Utf8PathBuf;
use clap::{Parser, Subcommand};

/// `proctor config`.
#[derive(Debug, Parser)]
pub struct ConfigArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// Subcommand.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Write a settings file with all keys, commented out
    Init {
        #[command(flatten)]
        level: Level,
        /// Overwrite an existing file
        #[arg(long)]
        force: bool,
    },
    /// Print the settings in effect
    List,
    /// Print one setting
    Get {
        /// Key, such as `agent.model`
        key: String,
    },
    /// Change one setting; comments in the file are not kept
    Set {
        /// Key, such as `agent.model`
        key: String,
        /// New value
        value: String,
        #[command(flatten)]
        level: Level,
    },
    /// Remove one setting; comments in the file are not kept
    Unset {
        /// Key, such as `agent.model`
        key: String,
        #[command(flatten)]
        level: Level,
    },
}

/// Selects the settings file.
#[derive(Clone, Copy, Debug, Parser)]
pub struct Level {
    /// Use the settings in HOME instead of those in the working directory
    #[arg(long)]
    pub global: bool,
}

/// `proctor install-agents`.
#[derive(Debug, Parser)]
pub struct InstallAgentsArgs {
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
}

/// `proctor suggest-testcase`.
#[derive(Debug, Parser)]
pub struct SuggestTestcaseArgs {
    /// Agent to start: copilot-cli, claude-code or aider [default: `agent.type` of the settings]
    #[arg(long, value_name = "TYPE")]
    pub agent: Option<String>,
    /// Directory with the finished work
    #[arg(long, value_name = "DIR")]
    pub output_dir: Utf8PathBuf,
    /// Instructions for the agent [default: agents/suggest-testcase.agent.md if it exists, else
    /// built-in instructions]
    #[arg(long, value_name = "FILE")]
    pub agent_file: Option<Utf8PathBuf>,
}
