//! `database` of type `json-file`: a JSON list of results, one entry for each trial.

use std::time::Duration;

use camino::Utf8PathBuf;
use fs_err as fs;
use serde_json::{Value, json};

use super::{HookContext, HookResult, HookStatus};
use crate::{
    config::DatabaseHook,
    fs::open_lock_file,
    record::{self, Results},
};

/// How often a lock that another trial holds is tried.
const PAUSE: Duration = Duration::from_millis(20);

impl DatabaseHook {
    pub(super) async fn run(&self, context: &HookContext<'_>) -> HookResult {
        match self.add(context.results).await {
            Ok(entries) => {
                let message = format!("{} holds {entries} entries", self.output_path);
                HookResult::new(HookStatus::Passed, message)
            }
            Err(problem) => {
                let message = format!("{} could not be written: {problem}", self.output_path);
                HookResult::new(HookStatus::Failed, message)
            }
        }
    }

    async fn add(&self, results: Option<&Results>) -> Result<usize, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let folder = self.output_path.parent().unwrap_or(&self.output_path);
        fs::create_dir_all(folder).map_err(|error| text(&error))?;
        let lock = open_lock_file(&Utf8PathBuf::from(format!("{}.lock", self.output_path)));
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
        record::write_json(&self.output_path, &entries).map_err(|error| text(&error))?;
        Ok(entries.len())
    }

    /// What the file holds. A file that is not a list is left unchanged.
    fn entries(&self) -> Result<Vec<Value>, String> {
        if !self.append || !self.output_path.exists() {
            return Ok(Vec::new());
        }
        let bytes = fs::read(&self.output_path).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| format!("it is not a JSON list: {error}"))
    }

    fn entry(&self, results: Option<&Results>) -> serde_json::Result<Value> {
        let whole = serde_json::to_value(results)?;
        if self.include_full_bundle {
            return Ok(whole);
        }
        Ok(json!({
            "test_case": whole["test_case"],
            "execution": whole["execution"],
            "agent": whole["agent"],
            "summary": whole["summary"],
        }))
    }
}
