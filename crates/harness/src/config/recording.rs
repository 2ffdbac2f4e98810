//! Recordings of the calls that trials make to models: `record`, `replay` and `on_miss` of `gateway`.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{Fault, Node};
use proctor_gateway::OnMiss;
use schemars::JsonSchema;
use serde::Deserialize;

/// Recordings of the calls of trials, a file for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recordings {
    /// Whether they are made or played.
    pub mode: RecordingMode,
    /// Their folder.
    pub folder: Utf8PathBuf,
}

impl Recordings {
    /// Whether calls are answered from them.
    pub fn replays(&self) -> bool {
        matches!(self.mode, RecordingMode::Replay(_))
    }
}

/// The use of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingMode {
    /// Calls are recorded.
    Record,
    /// Calls are answered from recordings; this is what becomes of one that was not recorded.
    Replay(OnMiss),
}

/// `gateway.on_miss`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MissAsWritten {
    Strict,
    FallThrough,
}

/// The recording settings of a section.
pub(super) struct Written<'a> {
    pub(super) record: Option<&'a str>,
    pub(super) replay: Option<&'a str>,
    pub(super) on_miss: Option<MissAsWritten>,
}

impl Written<'_> {
    /// The resolved settings, with directories relative to the file.
    pub(super) fn read(&self, node: &Node, folder: &Utf8Path) -> Result<Option<Recordings>, Fault> {
        if self.on_miss.is_some() && self.replay.is_none() {
            let message = "`on_miss` does nothing without `replay`";
            return Err(Fault::new(node.key_span_of("on_miss"), message));
        }
        let on_miss = match self.on_miss {
            None | Some(MissAsWritten::Strict) => OnMiss::Refuse,
            Some(MissAsWritten::FallThrough) => OnMiss::PassOn,
        };
        let recordings = match (self.record, self.replay) {
            (None, None) => None,
            (Some(name), None) => Some((RecordingMode::Record, name)),
            (None, Some(name)) => Some((RecordingMode::Replay(on_miss), name)),
            (Some(_), Some(_)) => {
                let message = "both `record` and `replay` are given";
                return Err(node.fault("replay", message).with_hint("keep one"));
            }
        };
        Ok(recordings.map(|(mode, name)| Recordings {
            mode,
            folder: folder.join(name),
        }))
    }
}
