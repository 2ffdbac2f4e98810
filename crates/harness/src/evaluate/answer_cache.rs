//! A cache of answers by key, so that the same question is asked only once.

use std::time::{Duration, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::{fs::open_lock_file, record};
use serde::{Serialize, de::DeserializeOwned};

/// The interval between attempts to take a held lock.
const PAUSE: Duration = Duration::from_millis(50);

/// One entry of the cache. While it is locked, no other task asks the same question.
pub(super) struct CachedAnswer {
    path: Utf8PathBuf,
    _lock: std::fs::File,
}

impl CachedAnswer {
    /// Waits for the lock of the entry with this key in `folder`.
    pub(super) async fn lock(folder: &Utf8Path, key: &str) -> std::io::Result<CachedAnswer> {
        fs::create_dir_all(folder)?;
        let lock = open_lock_file(&folder.join(format!("{key}.lock")))?;
        while let Err(error) = lock.try_lock() {
            match error {
                std::fs::TryLockError::WouldBlock => tokio::time::sleep(PAUSE).await,
                std::fs::TryLockError::Error(error) => return Err(error),
            }
        }
        Ok(CachedAnswer {
            path: folder.join(format!("{key}.json")),
            _lock: lock,
        })
    }

    /// The cached answer, unless it is older than `since`. An unreadable entry counts as missing.
    pub(super) fn get<T: DeserializeOwned>(&self, since: Option<SystemTime>) -> Option<T> {
        if let Some(since) = since {
            let kept_at = fs::metadata(&self.path).and_then(|about| about.modified());
            kept_at.ok().filter(|kept_at| *kept_at >= since)?;
        }
        serde_json::from_slice(&fs::read(&self.path).ok()?).ok()
    }

    /// Stores an answer.
    pub(super) fn put(&self, kept: &impl Serialize) -> Result<(), record::StoreError> {
        record::write_json(&self.path, kept)
    }
}
