//! Errors of `proctor ab`, and their hints.

use camino::Utf8PathBuf;

/// The arguments of `ab` are not valid.
#[derive(Debug, thiserror::Error)]
pub enum AbError {
    /// No setting is given.
    #[error("nothing to compare: A and B are the same")]
    Nothing,
    /// A setting that is not a key with a value.
    #[error("invalid setting `{setting}`: expected KEY=VALUE")]
    Setting {
        /// The setting.
        setting: String,
    },
    /// A setting names a file that does not exist.
    #[error("cannot read `{setting}`: {path} does not exist")]
    File {
        /// The setting.
        setting: String,
        /// The file.
        path: Utf8PathBuf,
        /// The known key that is most similar to that of the setting.
        meant: Option<&'static str>,
    },
    /// The variants have the same name.
    #[error("A and B have the same name: {name}")]
    SameNames {
        /// The name.
        name: String,
    },
    /// A path of tasks does not exist.
    #[error("no tasks: {path} does not exist")]
    NoTasks {
        /// The path.
        path: Utf8PathBuf,
    },
    /// More than one agent is given.
    #[error("both variants are made from one agent, and several are given")]
    SeveralAgents,
}

impl AbError {
    /// A suggestion for the user.
    pub fn hint(&self) -> String {
        let hint = match self {
            AbError::Nothing => {
                "change something in B: `--b CLAUDE.md=./new.md`, `--b model=NAME`, `--without CLAUDE.md`; `proctor ab --help` lists all keys"
            }
            AbError::Setting { .. } => {
                "write `CLAUDE.md=./new.md`, `model=NAME` or another key of `proctor ab --help`"
            }
            AbError::File {
                meant: Some(key), ..
            } => return format!("did you mean `{key}`?"),
            AbError::File { .. } => {
                "write the path of an existing file, `git:REVISION` or `text:…`"
            }
            AbError::SameNames { .. } => "choose two names with `--names A B`",
            AbError::NoTasks { .. } => "pass test cases, directories of tasks, or a suite",
            AbError::SeveralAgents => "choose one with `--agent NAME`",
        };
        hint.to_owned()
    }
}
