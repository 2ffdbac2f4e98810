//! Removes and renames files that another process may hold briefly: a virus scanner, an indexer, or
//! a dying process. This matters on Windows only.

use std::fmt::Display;
// Not `fs_err`: its errors hide the error code of a held file.
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::time::Duration;

use super::sys;

/// The number of retries, and the first pause; each pause is longer than the previous one.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(30);

/// Removes a directory with its content, including read-only files, if it exists.
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

/// Renames within a file system; an existing file is replaced.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    patiently(|| fs::rename(from, to)).map_err(|error| {
        let both = format!("{} to {}", from.display(), to.display());
        about(both, &error)
    })
}

/// The error with its path.
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
