//! `database` of type `json-file`: the results of trials in one file. A file that ends in `.jsonl` has
//! one JSON object per line, any other file is a JSON list.

use std::{
    fs::{File, TryLockError},
    io::{Read, Write},
    time::Duration,
};

use camino::Utf8PathBuf;
use fs_err as fs;
use proctor_record::{
    fs::open_lock_file,
    record::{self, HookStatus, Results},
    text::counted,
};
use serde_json::{Value, json};

use super::{HookContext, HookResult};
use crate::config::DatabaseHook;

/// The interval between attempts to take a held lock.
const PAUSE: Duration = Duration::from_millis(20);

impl DatabaseHook {
    pub(super) async fn run(&self, context: &HookContext<'_>) -> HookResult {
        match self.add(context.results).await {
            Ok(entries) => {
                let message = format!("{} holds {}", self.output_path, counted(entries, "result"));
                HookResult::new(HookStatus::Passed, message)
            }
            Err(problem) => {
                let message = format!("cannot write {}: {problem}", self.output_path);
                HookResult::new(HookStatus::Failed, message)
            }
        }
    }

    async fn add(&self, results: Option<&Results>) -> Result<usize, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let folder = self.output_path.parent().unwrap_or(&self.output_path);
        fs::create_dir_all(folder).map_err(|error| text(&error))?;
        let entry = self.entry(results).map_err(|error| text(&error))?;
        // Several trials of a run may write to the same file.
        if self.output_path.extension() == Some("jsonl") {
            let mut options = File::options();
            let file = options
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&self.output_path);
            let file = locked(file).await.map_err(|error| text(&error))?;
            return self.add_line(file, &entry).map_err(|error| text(&error));
        }
        // This file is replaced as a whole, so that it cannot be the lock.
        let lock = open_lock_file(&Utf8PathBuf::from(format!("{}.lock", self.output_path)));
        let _lock = locked(lock).await.map_err(|error| text(&error))?;
        let mut entries = self.entries()?;
        entries.push(entry);
        record::write_json(&self.output_path, &entries).map_err(|error| text(&error))?;
        Ok(entries.len())
    }

    /// Adds a line to a file of JSON Lines. A last line without its end, of a process that was
    /// killed, stays apart from the new one.
    fn add_line(&self, mut file: File, entry: &Value) -> std::io::Result<usize> {
        if !self.append {
            file.set_len(0)?;
        }
        let mut before = Vec::new();
        file.read_to_end(&mut before)?;
        let mut line = Vec::new();
        if before.last().is_some_and(|byte| *byte != b'\n') {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, entry)?;
        line.push(b'\n');
        file.write_all(&line)?;
        let is_entry = |line: &&[u8]| !line.trim_ascii().is_empty();
        let entries = before.split(|byte| *byte == b'\n').filter(is_entry);
        Ok(entries.count() + 1)
    }

    /// Reads the file. A file that is not a list is not changed.
    fn entries(&self) -> Result<Vec<Value>, String> {
        if !self.append || !self.output_path.exists() {
            return Ok(Vec::new());
        }
        let bytes = fs::read(&self.output_path).map_err(|error| error.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| format!("it is not a JSON list: {error}"))
    }

    fn entry(&self, results: Option<&Results>) -> serde_json::Result<Value> {
        let mut whole = serde_json::to_value(results)?;
        let exported_at = jiff::Timestamp::now().to_string();
        if self.include_full_bundle {
            if let Value::Object(members) = &mut whole {
                members.insert("exported_at".to_owned(), exported_at.into());
            }
            return Ok(whole);
        }
        Ok(json!({
            "exported_at": exported_at,
            "test_case": whole["test_case"],
            "execution": whole["execution"],
            "agent": whole["agent"],
            "summary": whole["summary"],
        }))
    }
}

/// Waits for the lock of a file. It ends when the file is dropped.
async fn locked(file: std::io::Result<File>) -> std::io::Result<File> {
    let file = file?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
