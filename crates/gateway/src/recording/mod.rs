//! Recordings: stored model traffic that is replayed without the providers.

mod exchange;
mod fingerprint;
#[expect(clippy::module_inception, reason = "the main type of the module")]
mod recording;

pub use exchange::Pace;
pub use fingerprint::Difference;
pub(crate) use fingerprint::RequestFingerprint;
pub(crate) use recording::{AnswerRecorder, Recording};
pub use recording::{Miss, OnMiss, RecordingReport, RecordingSpec};
