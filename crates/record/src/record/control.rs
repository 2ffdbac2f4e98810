//! `control.json`: requests of other processes to a run that goes on. Its presence in the directory of a run says that
//! the run reads it.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::{StoreError, write_part};

/// The requests, in the directory of a run.
pub const CONTROL_FILE: &str = "control.json";

/// The requests to a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRequests {
    /// Whether no more trials are to be started.
    pub paused: bool,
    /// Whether the run is to be stopped.
    pub stop: bool,
    /// The trials to cancel, by their directories below the run's.
    pub cancelled: BTreeSet<String>,
    /// How often each trial was requested to run again, by its directory.
    pub retried: BTreeMap<String, u32>,
}

impl RunRequests {
    /// Reads the requests; `None` if the run accepts none.
    pub fn read(run: &Utf8Path) -> Option<RunRequests> {
        let bytes = fs::read(run.join(CONTROL_FILE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Replaces the requests.
    pub fn write(&self, run: &Utf8Path) -> Result<(), StoreError> {
        write_part(&run.join(CONTROL_FILE), self)
    }

    /// Requests a trial again. It can be cancelled once more afterwards.
    pub fn retry(&mut self, folder: String) {
        self.cancelled.remove(&folder);
        *self.retried.entry(folder).or_default() += 1;
    }

    /// Accepts no more requests.
    pub fn close(run: &Utf8Path) {
        // A file that stays is not read again.
        let _ = fs::remove_file(run.join(CONTROL_FILE));
    }
}
