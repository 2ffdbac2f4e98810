//! The files with the gateway's account of the calls of each trial.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{record::StoreError, usage::Usd};

/// The file with one line for each call.
pub(crate) const CALLS_FILE: &str = "calls.ndjson";

/// The known cost of the calls in the logs below a directory: those of the agent, of earlier
/// iterations and of judges.
pub(crate) fn spent_in(folder: &Utf8Path) -> Usd {
    #[derive(serde::Deserialize)]
    struct Spent {
        cost_nano_usd: Option<i64>,
        /// Set for an interrupted call: budgets count its maximum cost.
        at_most_nano_usd: Option<i64>,
    }
    let known = calls_below::<Spent>(folder)
        .into_iter()
        .filter_map(|call| call.at_most_nano_usd.or(call.cost_nano_usd));
    known.map(Usd::from_nanos).sum()
}

/// The calls in the logs below a directory. Files in workspaces belong to agents and are skipped.
pub(crate) fn calls_below<T: serde::de::DeserializeOwned>(folder: &Utf8Path) -> Vec<T> {
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name() != "src-modified" {
            found.extend(calls_below::<T>(entry.path()));
        } else if entry.file_name() == CALLS_FILE {
            let text = fs_err::read_to_string(entry.path()).unwrap_or_default();
            // The last line may be truncated if a process was killed.
            let calls = text.lines().map(serde_json::from_str);
            found.extend(calls.filter_map(Result::ok));
        }
    }
    found
}

/// Copies the call logs of trials from their paths below `trials` to the same paths below `target`.
/// Earlier iterations and judges have their own logs.
pub(crate) fn copy_calls(
    trials: &Utf8Path,
    target: &Utf8Path,
    paths: impl Iterator<Item = Utf8PathBuf>,
) -> Result<(), StoreError> {
    for trial in paths {
        let logs = call_logs(&trials.join(&trial).join("artifacts"));
        for (number, log) in logs.iter().enumerate() {
            let ending = match number {
                0 => ".ndjson".to_owned(),
                more => format!(".{}.ndjson", more + 1),
            };
            let path = target.join(format!("{trial}{ending}"));
            let folder = path.parent().unwrap_or(target);
            let made = fs_err::create_dir_all(folder);
            let copied = made.and_then(|()| fs_err::copy(log, &path).map(drop));
            copied.map_err(|source| StoreError { path, source })?;
        }
    }
    Ok(())
}

/// The call logs in a trial's artifacts, the agent's first.
fn call_logs(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let mut folders = Vec::new();
    let mut found = Vec::new();
    for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.into_path());
        } else if entry.file_name() == CALLS_FILE {
            found.push(entry.into_path());
        }
    }
    folders.sort();
    for folder in folders {
        found.extend(call_logs(&folder));
    }
    found
}
