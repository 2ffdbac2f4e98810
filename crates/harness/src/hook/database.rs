//! `database` of type `json-file`: a JSON list of results, one entry for each trial.

use std::time::Duration;

use camino::Utf8PathBuf;
use fs_err as fs;
use serde_json::{Value, json};

use super::{Did, HookStatus, Scene};
use crate::{
    fs::open_lock_file,
    record::{self, Results},
};

/// How often a lock that another trial holds is tried.
const PAUSE: Duration = Duration::from_millis(20);

/// A file of results.
#[derive(Clone, Debug)]
pub struct Database {
    /// The file.
    pub path: Utf8PathBuf,
    /// What goes into it.
    pub entry: Entry,
    /// What becomes of what it holds.
    pub earlier: Earlier,
}

/// What goes into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The whole results.
    Bundle,
    /// What was asked, how it ended, and the counts.
    Summary,
}

/// What becomes of earlier entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// They stay.
    Stay,
    /// They go.
    Go,
}

impl Database {
    pub(super) async fn run(&self, scene: &Scene<'_>) -> Did {
        match self.add(scene.results).await {
            Ok(entries) => {
                let message = format!("{} holds {entries} entries", self.path);
                Did::new(HookStatus::Passed, message)
            }
            Err(problem) => {
                let message = format!("{} could not be written: {problem}", self.path);
                Did::new(HookStatus::Failed, message)
            }
        }
    }

    async fn add(&self, results: Option<&Results>) -> Result<usize, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let folder = self.path.parent().unwrap_or(&self.path);
        fs::create_dir_all(folder).map_err(|error| text(&error))?;
        let lock = open_lock_file(&Utf8PathBuf::from(format!("{}.lock", self.path)));
        let lock = lock.map_err(|error| text(&error))?;
        // Trials of one run write to the same file.
        while let Err(error) = lock.try_lock() {
            match error {
                std::fs::TryLockError::WouldBlock => tokio::time::sleep(PAUSE).await,
                std::fs::TryLockError::Error(error) => return Err(text(&error)),
            }
        }
        let mut entries = self.entries()?;
        entries.push(self.entry(results).map_err(|error| text(&error))?);
        record::write_json(&self.path, &entries).map_err(|error| text(&error))?;
        Ok(entries.len())
    }

    /// What the file holds. One that is no list is left alone.
    fn entries(&self) -> Result<Vec<Value>, String> {
        if self.earlier == Earlier::Go || !self.path.exists() {
            return Ok(Vec::new());
        }
        let bytes = fs::read(&self.path).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| format!("it is no JSON list: {error}"))
    }

    fn entry(&self, results: Option<&Results>) -> serde_json::Result<Value> {
        let whole = serde_json::to_value(results)?;
        Ok(match self.entry {
            Entry::Bundle => whole,
            Entry::Summary => json!({
                "test_case": whole["test_case"],
                "execution": whole["execution"],
                "agent": whole["agent"],
                "summary": whole["summary"],
            }),
        })
    }
}
