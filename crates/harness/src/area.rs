//! The place where an agent works: a folder of its own below the system's temporary folder.
//! Not inside the run's folder, because that often lies in a user's project, and agents and
//! build tools look for settings (CLAUDE.md, Cargo.toml, package.json) in every folder above.

use std::{fs::File, io, os::unix::fs::PermissionsExt};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;

use crate::{store, tree};

const PREFIX: &str = "proctor-";

/// A trial's own folder. It is removed when it is dropped.
#[derive(Debug)]
pub struct Area {
    /// The folder.
    pub path: Utf8PathBuf,
    /// The agent's HOME.
    pub home: Utf8PathBuf,
    /// Files that the agent may read and that are not part of the workspace.
    pub scratch: Utf8PathBuf,
    _lock: File,
}

impl Area {
    /// Make one below `temp`. What dead runs left there is removed first.
    pub fn create(temp: &Utf8Path) -> io::Result<Area> {
        sweep(temp);
        let path = temp.join(format!("{PREFIX}{}", store::new_id()));
        fs::create_dir(&path)?;
        fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
        let lock = store::lock(&path)?;
        let area = Area {
            home: path.join("home"),
            scratch: path.join("scratch"),
            path,
            _lock: lock,
        };
        fs::create_dir_all(area.home.join("tmp"))?;
        fs::create_dir(&area.scratch)?;
        Ok(area)
    }

    /// Copy a file into the HOME, if it is there, for the agent's eyes only.
    pub fn bring_in(&self, from: &Utf8Path, to: &str) -> io::Result<()> {
        let to = self.home.join(to);
        match fs::read(from) {
            Ok(bytes) => {
                fs::create_dir_all(to.parent().unwrap_or(&self.home))?;
                fs::write(&to, bytes)?;
                fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next run.
        let _ = tree::remove(&self.path);
    }
}

/// Remove areas whose owner is dead: it can no longer hold their lock.
fn sweep(temp: &Utf8Path) {
    let entries = temp.read_dir_utf8().into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().starts_with(PREFIX)) {
        if !store::is_locked(entry.path()) {
            let _ = tree::remove(entry.path());
        }
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
        drop(store::lock(&dead).unwrap());
        let other = Area::create(temp).unwrap();
        assert!(living.path.exists());
        assert!(!dead.exists());
        let path = other.path.clone();
        drop(other);
        assert!(!path.exists());
    }
}
