//! Names of signals, also where the system has none.

use serde::{Deserialize, Serialize};

/// The signals that a fake agent may send itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the names say it")]
pub enum SignalName {
    Abrt,
    Hup,
    Int,
    Kill,
    Segv,
    Term,
}
