//! Which workspaces of finished trials are kept: `keep_workspace` of suites and settings.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Which workspaces of finished trials are kept whole. The diff is always kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeepWorkspace {
    /// Every workspace.
    #[default]
    All,
    /// Workspaces of trials that did not pass, and those that the diff cannot restore.
    Failed,
    /// Workspaces that the diff cannot restore.
    Needed,
    /// No workspace.
    None,
}

/// Reads `keep_workspace` of the settings. youBencha writes `true` or `false`.
pub(super) fn word_or_flag<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<KeepWorkspace>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum WordOrFlag {
        Flag(bool),
        Word(KeepWorkspace),
    }
    Ok(match Option::deserialize(deserializer)? {
        None => None,
        Some(WordOrFlag::Flag(true)) => Some(KeepWorkspace::All),
        Some(WordOrFlag::Flag(false)) => Some(KeepWorkspace::None),
        Some(WordOrFlag::Word(word)) => Some(word),
    })
}
