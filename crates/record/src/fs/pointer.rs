//! A name that leads to the newest of several folders: a symbolic link, or where that needs rights that we do not
//! have, a file that holds the path it leads to.

use std::{
    io,
    path::{Path, PathBuf},
};

use camino::{Utf8Path, Utf8PathBuf};

use crate::platform::{canonical, link, rename};

/// The longest path that such a file holds.
const LONGEST: u64 = 4096;

/// Let `pointer` lead to `target`, a path relative to where it is, wherever it led before.
pub fn point(pointer: &Path, target: &Path, fresh: &Path) -> io::Result<()> {
    link(target, fresh)?;
    if cfg!(windows) {
        // A link to a folder takes no other's place.
        unpoint(pointer);
    }
    let named = rename(fresh, pointer);
    if named.is_err() {
        unpoint(fresh);
    }
    named
}

/// Removes a pointer; a failure is harmless.
pub fn unpoint(pointer: &Path) {
    // On Windows a link to a directory is removed like a directory; a real one is not empty.
    let _ = std::fs::remove_file(pointer).or_else(|_| std::fs::remove_dir(pointer));
}

/// Where a pointer leads, whether anything is there or not; `None` when it is none.
pub fn target(pointer: &Path) -> Option<PathBuf> {
    let about = pointer.symlink_metadata().ok()?;
    let parent = pointer.parent()?;
    if about.is_symlink() {
        return Some(parent.join(std::fs::read_link(pointer).ok()?));
    }
    let is_text = cfg!(windows) && about.is_file() && about.len() <= LONGEST;
    let text = is_text.then(|| std::fs::read_to_string(pointer).ok())??;
    Some(parent.join(text))
}

/// The real path of a folder that may be named by a pointer.
pub fn real_folder(path: &Utf8Path) -> io::Result<Utf8PathBuf> {
    let led = target(path.as_std_path()).filter(|target| target.is_dir());
    let led = led.and_then(|target| Utf8PathBuf::try_from(target).ok());
    canonical(led.as_deref().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_to_the_newest_folder_until_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let pointer = root.join("latest");
        for name in ["one", "two"] {
            let folder = root.join("runs").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            let fresh = root.join(format!(".latest-{name}"));
            let target = Path::new("runs").join(name);
            point(pointer.as_std_path(), &target, fresh.as_std_path()).unwrap();
            assert_eq!(real_folder(&pointer).unwrap(), canonical(&folder).unwrap());
        }
        assert_eq!(root.read_dir_utf8().unwrap().count(), 2);
        unpoint(pointer.as_std_path());
        assert_eq!(target(pointer.as_std_path()), None);
        assert!(root.join("runs/two").is_dir());
    }
}
