//! Answers that are kept under a key, so that the same question is asked once.

use std::time::{Duration, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::{Serialize, de::DeserializeOwned};

use crate::{fs::open_lock_file, record};

/// How often a lock that another holds is tried.
const PAUSE: Duration = Duration::from_millis(50);

/// One answer of the cache. While it is locked, no other task asks the same question.
pub(super) struct CachedAnswer {
    path: Utf8PathBuf,
    _lock: std::fs::File,
}

impl CachedAnswer {
    /// Wait for the lock of the answer with this key in `folder`.
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

    /// The kept answer, unless it is older than `since`. One that cannot be read counts as missing.
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
