//! Operations on directories: copying, moving, removing, walking. Symbolic links are never
//! followed, and names may be any bytes.

use std::{
    io::{ErrorKind, Read, Result, Write},
    path::Path,
    time::SystemTime,
};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::{fs::hex, platform};

/// Copies the directory `from` to `to`: files with their modes, links as links. Sockets, pipes and
/// devices are skipped.
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    copy_where(from.as_ref(), to.as_ref(), &|_| true)
}

/// Copies like [`copy`], without paths that `keep` refuses.
pub fn copy_where(from: &Path, to: &Path, keep: &dyn Fn(&Path) -> bool) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let path = entry.path();
        if !keep(&path) {
            continue;
        }
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if !kind.is_dir() && target.symlink_metadata().is_ok_and(|old| old.is_symlink()) {
            // An existing link is replaced, not written through.
            fs::remove_file(&target)?;
        }
        if kind.is_dir() {
            copy_where(&path, &target, keep)?;
        } else if kind.is_symlink() {
            platform::link(&fs::read_link(&path)?, &target)?;
        } else if kind.is_file() {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Copies the files of `from` over the directory `to`. No link is followed, and a file is replaced
/// by a directory.
pub fn copy_over(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        let is_folder = target.symlink_metadata().is_ok_and(|old| old.is_dir());
        if kind.is_dir() {
            if !is_folder {
                remove_one(&target)?;
                fs::create_dir(&target)?;
            }
            copy_over(&entry.path(), &target)?;
        } else if kind.is_file() {
            remove_one(&target)?;
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Removes a file, a link or a directory, if it exists.
fn remove_one(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(about) if about.is_dir() => remove(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Moves `from` to `to`, also between file systems.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    match platform::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            if from.is_dir() {
                copy(from, to)?;
                remove(from)
            } else {
                fs::copy(from, to)?;
                fs::remove_file(from)
            }
        }
        other => other,
    }
}

/// Changes the owner of a directory and its content; links themselves, not their targets.
pub fn give(root: &Path, owner: u32) -> Result<()> {
    platform::give(root, owner)?;
    if root.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(root)? {
            give(&entry?.path(), owner)?;
        }
    }
    Ok(())
}

/// Makes a directory and its content readable for all users, and executable where its owner may
/// execute.
pub fn open_to_all(root: &Path) -> Result<()> {
    let meta = root.symlink_metadata()?;
    if meta.is_symlink() {
        return Ok(());
    }
    let mode = platform::mode(&meta);
    let run = if mode & 0o100 == 0 { 0 } else { 0o111 };
    platform::set_mode(root, mode | 0o444 | run)?;
    if meta.is_dir() {
        for entry in fs::read_dir(root)? {
            open_to_all(&entry?.path())?;
        }
    }
    Ok(())
}

/// Removes set-user-id and set-group-id from all files below a directory that came from a
/// container.
pub fn remove_special_modes(root: &Path) -> Result<()> {
    walk(root, &mut |folder| {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let about = entry.path().symlink_metadata()?;
            let mode = platform::mode(&about);
            if about.is_file() && mode & 0o6000 != 0 {
                platform::set_mode(&entry.path(), mode & 0o1777)?;
            }
        }
        Ok(())
    })
}

/// Removes a directory with its content, including read-only files, if it exists.
pub fn remove(path: impl AsRef<Path>) -> Result<()> {
    platform::remove(path.as_ref())
}

/// Visits `folder` and all directories below it; each is visited before it is read.
fn walk(folder: &Path, visit: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    visit(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), visit)?;
        }
    }
    Ok(())
}

/// The time of the last change in a directory: of a file, or of the list of a directory. `.git` at
/// the top is ignored, because reading a repository already writes there; removed files are
/// ignored, too. It is the change time, which programs cannot set.
pub fn newest_change(root: &Path) -> Option<SystemTime> {
    let own = root.join(".git");
    let mut folders = vec![root.to_owned()];
    let mut newest = platform::changed(&fs::symlink_metadata(root).ok()?);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, Ok(meta)) = (entry.path(), entry.metadata()) else {
                continue;
            };
            if path == own {
                continue;
            }
            newest = newest.max(platform::changed(&meta));
            if meta.is_dir() {
                folders.push(path);
            }
        }
    }
    Some(newest)
}

/// The SHA-256 of a directory's content: names, contents, and executable bits.
pub fn hash(root: &Path) -> Result<String> {
    let mut files = Vec::new();
    walk(root, &mut |folder| {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                files.push(entry.path());
            }
        }
        Ok(())
    })?;
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let about = fs::symlink_metadata(&file)?;
        let name = file.strip_prefix(root).unwrap_or(&file);
        let content = if about.is_symlink() {
            Sha256::digest(platform::bytes_of(&fs::read_link(&file)?))
        } else if about.is_file() {
            Sha256::digest(fs::read(&file)?)
        } else {
            continue;
        };
        let kind = match (about.is_symlink(), platform::mode(&about) & 0o111) {
            (true, _) => 'l',
            (false, 0) => 'f',
            (false, _) => 'x',
        };
        hash.update(platform::bytes_of(name));
        hash.update([0, kind as u8]);
        hash.update(content);
    }
    Ok(hex(&hash.finalize()))
}

/// The SHA-256 of a file or of the content of a directory; `unreadable` if it cannot be read.
pub fn digest(path: &Utf8Path) -> String {
    let hash = if path.is_dir() {
        hash(path.as_std_path())
    } else {
        hash_file(path)
    };
    hash.unwrap_or_else(|_| "unreadable".to_owned())
}

/// The SHA-256 of a file of any size, in hexadecimal digits.
pub fn hash_file(path: &Utf8Path) -> Result<String> {
    let mut file = fs::File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// Writes a file atomically and durably.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    write_part(path, bytes)?;
    platform::sync_folder(folder_of(path))
}

/// The directory of a file; the working directory for a plain name.
fn folder_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    parent.unwrap_or(Path::new("."))
}

/// Writes a file atomically. Its name may be lost in a power cut until another file of the same
/// directory is written with [`write_atomically`].
pub fn write_part(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = NamedTempFile::new_in(folder_of(path))?;
    file.write_all(bytes)?;
    persist(file, path)
}

/// Renames a temporary file of the same file system, like [`write_part`].
pub fn persist(file: NamedTempFile, path: &Path) -> Result<()> {
    platform::set_mode(file.path(), 0o644)?;
    file.as_file().sync_data()?;
    let made = file.into_temp_path().keep()?;
    let named = platform::rename(&made, path);
    if named.is_err() {
        let _ = fs::remove_file(&made);
    }
    named
}

/// The directories in a directory, sorted by name. A directory that cannot be read has none.
pub fn subdirs(parent: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = parent.read_dir_utf8().into_iter().flatten().flatten();
    let mut found: Vec<Utf8PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(camino::Utf8DirEntry::into_path)
        .collect();
    found.sort();
    found
}

/// Makes a shared file system query its server about a directory instead of using its cache.
///
/// NFS revalidates when a directory is opened. A missing directory is reported by the caller's next access.
pub fn revalidate(dir: &Utf8Path) {
    let _ = std::fs::File::open(dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn files_that_leave_a_container_lose_special_modes_and_links_are_not_followed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("inside");
        fs::create_dir_all(inside.join("sub")).unwrap();
        let paths = [inside.join("sub/program"), dir.path().join("outside")];
        for path in &paths {
            fs::write(path, "x").unwrap();
            fs::set_permissions(path, std::fs::Permissions::from_mode(0o6755)).unwrap();
        }
        std::os::unix::fs::symlink(&paths[1], inside.join("link")).unwrap();
        std::os::unix::fs::symlink("/", inside.join("root")).unwrap();
        remove_special_modes(&inside).unwrap();
        let modes = paths.map(|path| path.metadata().unwrap().permissions().mode() & 0o7777);
        assert_eq!(modes, [0o755, 0o6755]);
    }

    // File modes exist on Unix only.
    #[cfg(unix)]
    #[test]
    fn copy_keeps_links_modes_and_unusual_names() {
        use std::os::unix::{ffi::OsStrExt, fs::PermissionsExt};
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        // File systems of macOS accept only UTF-8 names.
        let odd: &[u8] = if cfg!(target_os = "linux") {
            b"caf\xe9"
        } else {
            b"caf\xc3\xa9 \n"
        };
        let odd = std::ffi::OsStr::from_bytes(odd);
        std::fs::create_dir_all(from.join("sub")).unwrap();
        std::fs::write(from.join("sub").join(odd), "x").unwrap();
        std::fs::set_permissions(
            from.join("sub").join(odd),
            std::fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        std::os::unix::fs::symlink("nowhere", from.join("link")).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(
            std::fs::read_link(to.join("link")).unwrap(),
            Path::new("nowhere")
        );
        let copied = std::fs::metadata(to.join("sub").join(odd)).unwrap();
        assert_eq!(copied.permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn links_are_copied_as_links() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::create_dir_all(from.join("sub")).unwrap();
        std::fs::write(from.join("sub/file"), "x").unwrap();
        platform::link(Path::new("sub/file"), &from.join("link")).unwrap();
        copy(&from, &to).unwrap();
        let target = crate::fs::pointer::target(&to.join("link")).unwrap();
        assert_eq!(std::fs::read_to_string(target).unwrap(), "x");
        assert_ne!(std::fs::read_to_string(from.join("link")).unwrap(), "");
    }

    #[cfg(windows)]
    #[test]
    fn briefly_locked_file_is_removed_after_a_retry() {
        use std::os::windows::fs::OpenOptionsExt;
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("file"), "x").unwrap();
        // Like a virus scanner, without sharing.
        let mut options = std::fs::OpenOptions::new();
        let held = options
            .read(true)
            .share_mode(0)
            .open(folder.join("file"))
            .unwrap();
        let holding = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            drop(held);
        });
        remove(&folder).unwrap();
        assert!(!folder.exists());
        holding.join().unwrap();
    }

    #[test]
    fn read_only_and_missing_directories_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let locked = dir.path().join("locked");
        std::fs::create_dir_all(locked.join("in")).unwrap();
        std::fs::write(locked.join("in/file"), "x").unwrap();
        platform::set_mode(&locked.join("in/file"), 0o400).unwrap();
        platform::set_mode(&locked, 0o500).unwrap();
        remove(&locked).unwrap();
        assert!(!locked.exists());
        remove(&locked).unwrap();
    }
}
