//! Removing and renaming files that another process may hold for a moment: a virus scanner, an
//! indexer, or a dying process. This matters on Windows only.

use std::fmt::Display;
// Not `fs_err`: its errors hide the number by which a held file is known.
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::time::Duration;

use super::sys;

/// How often it is tried again, and how long the first pause is; each is longer than the one before.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(30);

/// Remove a folder with all it holds, also what its owner made read-only; it may be gone already.
pub fn remove(path: &Path) -> Result<()> {
    let done = |removed: Result<()>| match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    };
    let removed = match done(fs::remove_dir_all(path)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            sys::make_removable(path)?;
            patiently(|| done(fs::remove_dir_all(path)))
        }
        Err(error) if sys::is_held(&error) => patiently(|| done(fs::remove_dir_all(path))),
        other => other,
    };
    removed.map_err(|error| about(path.display(), &error))
}

/// Move within a file system; what has the new name is replaced, if it is a file.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    patiently(|| fs::rename(from, to)).map_err(|error| {
        let both = format!("{} to {}", from.display(), to.display());
        about(both, &error)
    })
}

/// The error with the path that it is about.
fn about(path: impl Display, error: &Error) -> Error {
    Error::new(error.kind(), format!("{path}: {error}"))
}

/// Retries while another process holds the file.
fn patiently<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    for number in 1..=TRIES {
        match work() {
            Err(error) if sys::is_held(&error) => std::thread::sleep(PAUSE * number),
            other => return other,
        }
    }
    work()
}
