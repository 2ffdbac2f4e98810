//! The directory of an agent, below the system's temporary directory. It is not in the run's
//! directory, which is often inside a user's project: agents and build tools look for settings
//! (CLAUDE.md, Cargo.toml, package.json) in all parent directories.

use std::{fs::File, io};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::{
    fs::{dir, new_id},
    platform,
};

const PREFIX: &str = "proctor-";
const LOCK: &str = "lock";

/// A trial's own directory, removed when it is dropped.
///
/// Its lock is a file next to it that is created before the directory and removed after it.
/// Therefore there is never a directory without a known owner, even if the owner is killed.
#[derive(Debug)]
pub struct TrialDir {
    /// The folder.
    pub path: Utf8PathBuf,
    /// The agent's HOME.
    pub home: Utf8PathBuf,
    /// Files for the agent that are not part of the workspace.
    pub scratch: Utf8PathBuf,
    lock: Utf8PathBuf,
    _held: File,
}

impl TrialDir {
    /// Creates a directory below `temp`, after removing leftovers of dead runs.
    pub fn create(temp: &Utf8Path) -> io::Result<TrialDir> {
        sweep(temp);
        let (path, held) = claim(temp)?;
        let trial_dir = TrialDir {
            home: path.join("home"),
            scratch: path.join("scratch"),
            lock: path.with_extension(LOCK),
            path,
            _held: held,
        };
        platform::make_private_folder(trial_dir.path.as_std_path())?;
        trial_dir.furnish()?;
        fs::create_dir(&trial_dir.scratch)?;
        Ok(trial_dir)
    }

    /// Empties HOME and scratch. The directories are kept, because a container may have mounted
    /// them.
    pub fn empty(&self) -> io::Result<()> {
        for folder in [&self.home, &self.scratch] {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    dir::remove(entry.path())?;
                } else {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        self.furnish()
    }

    /// Creates the directories that programs expect in a HOME.
    fn furnish(&self) -> io::Result<()> {
        let mut folders = platform::HOME_FOLDERS.iter();
        folders.try_for_each(|folder| fs::create_dir_all(self.home.join(folder)))
    }

    /// Copies a file into the HOME, if it exists, readable only for the agent.
    pub fn bring_in(&self, from: &Utf8Path, to: &str) -> io::Result<()> {
        let to = self.home.join(to);
        match fs::read(from) {
            Ok(bytes) => {
                fs::create_dir_all(to.parent().unwrap_or(&self.home))?;
                fs::write(&to, bytes)?;
                platform::set_mode(to.as_std_path(), 0o600)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for TrialDir {
    fn drop(&mut self) {
        discard(&self.lock);
    }
}

/// Creates a name below `temp` and its lock. The sweep of another process may remove the lock file
/// before it is locked: then another name is tried.
fn claim(temp: &Utf8Path) -> io::Result<(Utf8PathBuf, File)> {
    loop {
        let path = temp.join(format!("{PREFIX}{}", new_id()));
        let lock = path.with_extension(LOCK);
        let file = File::create_new(&lock).map_err(|error| {
            let message = format!("cannot write to {temp}: {error}");
            io::Error::new(error.kind(), message)
        })?;
        if file.try_lock().is_ok() && lock.exists() {
            return Ok((path, file));
        }
    }
}

/// Removes trial directories whose owner is dead and no longer holds the lock.
fn sweep(temp: &Utf8Path) {
    for dead in dead(temp) {
        dead.discard();
    }
}

/// A trial directory whose owner is dead. Its lock is held, so that two sweeps do not conflict.
#[derive(Debug)]
pub struct Dead {
    lock: Utf8PathBuf,
    _held: File,
}

impl Dead {
    /// The trial directory's folder.
    pub fn path(&self) -> Utf8PathBuf {
        self.lock.with_extension("")
    }

    /// Removes it.
    pub fn discard(&self) {
        discard(&self.lock);
    }
}

/// The trial directories below `temp` whose owner is dead, one after the other.
pub fn dead(temp: &Utf8Path) -> impl Iterator<Item = Dead> {
    let entries = temp.read_dir_utf8().into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let lock = entry.into_path();
        let name = lock.file_name()?;
        if !name.starts_with(PREFIX) || lock.extension() != Some(LOCK) {
            return None;
        }
        let held = File::open(&lock).ok()?;
        held.try_lock().ok()?;
        Some(Dead { lock, _held: held })
    })
}

/// Removes a directory, and then its lock. Leftovers are removed by the next run.
fn discard(lock: &Utf8Path) {
    if dir::remove(lock.with_extension("")).is_ok() {
        let _ = fs::remove_file(lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_that_cannot_be_written_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let temp = Utf8Path::from_path(file.path()).unwrap().join("below");
        let error = TrialDir::create(&temp).unwrap_err();
        assert!(error.to_string().contains(temp.as_str()), "{error}");
    }

    #[test]
    fn only_directories_of_dead_owners_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let temp = Utf8Path::from_path(dir.path()).unwrap();
        let living = TrialDir::create(temp).unwrap();
        let dead = temp.join("proctor-dead");
        fs::create_dir_all(dead.join("home")).unwrap();
        fs::write(temp.join("proctor-dead.lock"), "").unwrap();
        // The owner was killed before the directory was created, or after it was removed.
        fs::write(temp.join("proctor-unborn.lock"), "").unwrap();
        let other = TrialDir::create(temp).unwrap();
        assert!(living.path.exists());
        assert!(!dead.exists());
        drop(other);
        drop(living);
        assert_eq!(fs::read_dir(temp).unwrap().count(), 0);
    }
}
