//! Locks that the operating system releases when their holder dies.

use std::{
    fs::{File, TryLockError},
    io::{Error, ErrorKind, Result},
    time::{Duration, Instant},
};

use camino::Utf8Path;

/// The lock file of a run's directory, and of a trial's directory for temporary files.
pub const LOCK_FILE: &str = ".lock";

/// How long to wait for a lock. After its holder was killed, a child that the holder had just forked keeps the lock until
/// the child starts its program, which takes a while on a busy machine.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Opens a file that is only ever locked.
///
/// The file is not truncated: Windows refuses that while another process holds the lock.
pub fn open_lock_file(path: &Utf8Path) -> Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true).open(path)
}

/// Locks a directory of ours until the returned file is dropped.
pub fn lock_dir(dir: &Utf8Path) -> Result<File> {
    let file = open_lock_file(&dir.join(LOCK_FILE))?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_WAIT => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(TryLockError::WouldBlock) => break,
        }
    }
    let reason = "another process holds the lock";
    Err(Error::new(ErrorKind::ResourceBusy, reason))
}

/// Whether a live process holds the lock of a directory.
///
/// A directory without a lock file counts as locked: either it is being created, or it is not ours.
pub fn is_locked(dir: &Utf8Path) -> bool {
    !File::open(dir.join(LOCK_FILE)).is_ok_and(|file| file.try_lock_shared().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_held_while_its_file_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap();
        let lock = lock_dir(path).unwrap();
        assert!(is_locked(path));
        let refused = lock_dir(path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
        drop(lock);
        assert!(!is_locked(path));
    }

    #[test]
    fn lock_that_is_released_late_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap();
        let lock = lock_dir(path).unwrap();
        let late = std::thread::spawn(move || {
            std::thread::sleep(LOCK_WAIT / 4);
            drop(lock);
        });
        lock_dir(path).unwrap();
        late.join().unwrap();
    }

    #[test]
    fn directory_without_a_lock_file_counts_as_locked() {
        let dir = tempfile::tempdir().unwrap();
        assert!(is_locked(Utf8Path::from_path(dir.path()).unwrap()));
    }
}
