//! What was found out once and is kept by what was asked: asking the same again costs nothing.

use std::time::{Duration, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::{Serialize, de::DeserializeOwned};

use crate::{fs::open_lock_file, record};

/// How often a lock that another holds is tried.
const PAUSE: Duration = Duration::from_millis(50);

/// The place of one answer. While it is held nobody else asks the same.
pub(super) struct Slot {
    path: Utf8PathBuf,
    _lock: std::fs::File,
}

impl Slot {
    /// Wait for the place of the answer with this key in `folder`.
    pub(super) async fn claim(folder: &Utf8Path, key: &str) -> std::io::Result<Slot> {
        fs::create_dir_all(folder)?;
        let lock = open_lock_file(&folder.join(format!("{key}.lock")))?;
        while let Err(error) = lock.try_lock() {
            match error {
                std::fs::TryLockError::WouldBlock => tokio::time::sleep(PAUSE).await,
                std::fs::TryLockError::Error(error) => return Err(error),
            }
        }
        Ok(Slot {
            path: folder.join(format!("{key}.json")),
            _lock: lock,
        })
    }

    /// What is kept there, unless it is older than `since`. What cannot be read is as good as nothing:
    /// it is asked again.
    pub(super) fn get<T: DeserializeOwned>(&self, since: Option<SystemTime>) -> Option<T> {
        if let Some(since) = since {
            let kept_at = fs::metadata(&self.path).and_then(|about| about.modified());
            kept_at.ok().filter(|kept_at| *kept_at >= since)?;
        }
        serde_json::from_slice(&fs::read(&self.path).ok()?).ok()
    }

    /// Keep an answer.
    pub(super) fn put(&self, kept: &impl Serialize) -> Result<(), record::StoreError> {
        record::write_json(&self.path, kept)
    }
}
