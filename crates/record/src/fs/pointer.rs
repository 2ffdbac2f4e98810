//! A name for the newest of several folders: a symbolic link, or without the required privileges a
//! file with the target path.

use std::{
    io,
    path::{Path, PathBuf},
};

use camino::{Utf8Path, Utf8PathBuf};

use crate::platform::{canonical, link, rename};

/// The maximum length of a path in such a file.
const LONGEST: u64 = 4096;

/// Points `pointer` to `target`, a path relative to it.
pub fn point(pointer: &Path, target: &Path, fresh: &Path) -> io::Result<()> {
    link(target, fresh)?;
    if cfg!(windows) {
        // A link to a folder cannot replace another.
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

/// The target of a pointer, whether it exists or not; `None` if it is not a pointer.
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

/// The canonical path of a folder that may be given by a pointer.
pub fn real_folder(path: &Utf8Path) -> io::Result<Utf8PathBuf> {
    let led = target(path.as_std_path()).filter(|target| target.is_dir());
    let led = led.and_then(|target| Utf8PathBuf::try_from(target).ok());
    canonical(led.as_deref().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_leads_to_the_newest_folder_until_it_is_removed() {
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
