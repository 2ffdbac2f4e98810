//! Recordings of the trials' model calls: `record`, `replay` and `on_miss` of `gateway`.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{Fault, Node};
use proctor_gateway::OnMiss;
use schemars::JsonSchema;
use serde::Deserialize;

/// Recordings of the trials' model calls, one file each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recordings {
    /// Whether calls are recorded or replayed.
    pub mode: RecordingMode,
    /// The directory of the recordings.
    pub folder: Utf8PathBuf,
}

impl Recordings {
    /// Whether calls are answered from recordings.
    pub fn replays(&self) -> bool {
        matches!(self.mode, RecordingMode::Replay(_))
    }
}

/// The use of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingMode {
    /// Calls are recorded.
    Record,
    /// Calls are answered from recordings. The value is the handling of calls that were not
    /// recorded.
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
pub(super) struct RecordingKeys<'a> {
    pub(super) record: Option<&'a str>,
    pub(super) replay: Option<&'a str>,
    pub(super) on_miss: Option<MissAsWritten>,
}

impl RecordingKeys<'_> {
    /// The resolved settings, with directories relative to the file.
    pub(super) fn read(&self, node: &Node, folder: &Utf8Path) -> Result<Option<Recordings>, Fault> {
        if self.on_miss.is_some() && self.replay.is_none() {
            let message = "`on_miss` has no effect without `replay`";
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
                let message = "`record` and `replay` cannot be combined";
                return Err(node
                    .fault("replay", message)
                    .with_hint("remove one of them"));
            }
        };
        Ok(recordings.map(|(mode, name)| Recordings {
            mode,
            folder: folder.join(name),
        }))
    }
}
