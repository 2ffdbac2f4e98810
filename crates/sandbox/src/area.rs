//! The place where an agent works: a folder of its own below the system's temporary folder.
//! Not inside the run's folder, because that often lies in a user's project, and agents and
//! build tools look for settings (CLAUDE.md, Cargo.toml, package.json) in every folder above.

use std::{fs::File, io};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::{
    fs::{dir, new_id},
    platform,
};

const PREFIX: &str = "proctor-";
const LOCK: &str = "lock";

/// A trial's own folder. It is removed when it is dropped.
///
/// Its lock is a file next to it that is created before the directory and removed after it.
/// Therefore there is never a directory without a known owner, even if the owner is killed.
#[derive(Debug)]
pub struct Area {
    /// The folder.
    pub path: Utf8PathBuf,
    /// The agent's HOME.
    pub home: Utf8PathBuf,
    /// Files that the agent may read and that are not part of the workspace.
    pub scratch: Utf8PathBuf,
    lock: Utf8PathBuf,
    _held: File,
}

impl Area {
    /// Creates one below `temp`, after removing leftovers of dead runs.
    pub fn create(temp: &Utf8Path) -> io::Result<Area> {
        sweep(temp);
        let (path, held) = claim(temp)?;
        let area = Area {
            home: path.join("home"),
            scratch: path.join("scratch"),
            lock: path.with_extension(LOCK),
            path,
            _held: held,
        };
        platform::make_private_folder(area.path.as_std_path())?;
        area.furnish()?;
        fs::create_dir(&area.scratch)?;
        Ok(area)
    }

    /// Make HOME and scratch as they were at first. The folders stay: a container may see them.
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

    /// The folders that programs take for granted in a HOME.
    fn furnish(&self) -> io::Result<()> {
        let mut folders = platform::HOME_FOLDERS.iter();
        folders.try_for_each(|folder| fs::create_dir_all(self.home.join(folder)))
    }

    /// Copy a file into the HOME, if it is there, for the agent's eyes only.
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

impl Drop for Area {
    fn drop(&mut self) {
        discard(&self.lock);
    }
}

/// A name below `temp` and its lock. A sweep of another process may come between the making of
/// the lock's file and the locking: then the name is gone, and another one is tried.
fn claim(temp: &Utf8Path) -> io::Result<(Utf8PathBuf, File)> {
    loop {
        let path = temp.join(format!("{PREFIX}{}", new_id()));
        let lock = path.with_extension(LOCK);
        let file = File::create_new(&lock)?;
        if file.try_lock().is_ok() && lock.exists() {
            return Ok((path, file));
        }
    }
}

/// Remove areas whose owner is dead: it can no longer hold their lock.
fn sweep(temp: &Utf8Path) {
    for dead in dead(temp) {
        dead.discard();
    }
}

/// An area whose owner is dead. Its lock is held, so that two sweeps do not meet in it.
#[derive(Debug)]
pub struct Dead {
    lock: Utf8PathBuf,
    _held: File,
}

impl Dead {
    /// The area's folder.
    pub fn path(&self) -> Utf8PathBuf {
        self.lock.with_extension("")
    }

    /// Remove it.
    pub fn discard(&self) {
        discard(&self.lock);
    }
}

/// The areas below `temp` whose owner is dead, one after the other.
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
    fn an_area_goes_with_its_owner_and_spares_the_living() {
        let dir = tempfile::tempdir().unwrap();
        let temp = Utf8Path::from_path(dir.path()).unwrap();
        let living = Area::create(temp).unwrap();
        let dead = temp.join("proctor-dead");
        fs::create_dir_all(dead.join("home")).unwrap();
        fs::write(temp.join("proctor-dead.lock"), "").unwrap();
        // Killed before it had a folder, or after it had none any more.
        fs::write(temp.join("proctor-unborn.lock"), "").unwrap();
        let other = Area::create(temp).unwrap();
        assert!(living.path.exists());
        assert!(!dead.exists());
        drop(other);
        drop(living);
        assert_eq!(fs::read_dir(temp).unwrap().count(), 0);
    }
}
