//! Files below a folder that an agent, or the code under test, can write to. Links are not
//! followed, and only regular files are opened: there may be a link to any file of this machine, a
//! pipe or a device.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Read},
    path::{Component, Path, PathBuf},
};

use camino::{Utf8Path, Utf8PathBuf};

use super::dir;
use crate::platform;

/// A folder with untrusted content. Its files are accessed only through this type.
#[derive(Clone, Debug)]
pub struct UntrustedDir {
    root: Utf8PathBuf,
}

impl UntrustedDir {
    /// Wraps a folder. The folder itself is trusted: links in its own path are followed.
    pub fn new(root: impl Into<Utf8PathBuf>) -> UntrustedDir {
        UntrustedDir { root: root.into() }
    }

    /// The path of the folder for a child process or a container, which resolves paths by itself.
    /// Opening a joined path in this process would follow links.
    pub fn path_for_child(&self) -> &Utf8Path {
        &self.root
    }

    /// Moves the folder.
    pub fn move_to(&self, to: &Utf8Path) -> io::Result<()> {
        dir::rename(&self.root, to)
    }

    /// Removes the content of the folder.
    pub fn clear(&self) -> io::Result<()> {
        dir::remove(&self.root)?;
        fs_err::create_dir(&self.root)
    }

    /// Visits every entry below the folder with its relative path. A folder is entered if `visit`
    /// returns true. Unreadable entries are skipped.
    pub fn walk(&self, visit: &mut dyn FnMut(&Path, &fs::DirEntry) -> bool) {
        let mut open = vec![PathBuf::new()];
        while let Some(inner) = open.pop() {
            let Ok(entries) = fs::read_dir(self.root.as_std_path().join(&inner)) else {
                continue;
            };
            for entry in entries.flatten() {
                let path = inner.join(entry.file_name());
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if visit(&path, &entry) && is_dir {
                    open.push(path);
                }
            }
        }
    }

    /// The paths of all files and links, with slashes and sorted. Folders with these names are
    /// skipped.
    pub fn files(&self, without: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        self.walk(&mut |path, entry| {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name();
                return !without.iter().any(|it| name == *it);
            }
            found.push(platform::slashed(&path.to_string_lossy()).into_owned());
            false
        });
        found.sort();
        found
    }

    /// The content of a regular file of up to `most` bytes.
    pub fn read(&self, path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path.as_ref())?;
        if file.metadata()?.len() > most {
            let message = match most >> 20 {
                0 => format!("larger than {most} bytes"),
                mebibytes => format!("larger than {mebibytes} MiB"),
            };
            return Err(io::Error::new(ErrorKind::FileTooLarge, message));
        }
        let mut bytes = Vec::new();
        // The file may grow while it is read.
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The names in a folder.
    pub fn names(&self, path: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        platform::names_beneath(self.root.as_std_path(), &parts(path.as_ref())?)
    }

    /// Removes a file, a link itself, or a folder with its content, if it exists.
    pub fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let parts = parts(path.as_ref())?;
        let Some((_, folders)) = parts.split_last() else {
            return Err(outside());
        };
        match platform::names_beneath(self.root.as_std_path(), folders) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => other.map(drop)?,
        }
        let path = self.at(path);
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(about) if about.is_dir() => platform::remove(&path),
            Ok(_) => fs_err::remove_file(&path),
        }
    }

    /// Replaces the existing entry with a file. Links and files in place of its directories are
    /// removed.
    pub fn write(&self, path: impl AsRef<Path>, content: &[u8]) -> io::Result<()> {
        let path = path.as_ref();
        let mut folder = self.root.clone().into_std_path_buf();
        let parts = parts(path)?;
        for part in parts.split_last().map_or(&[][..], |(_, folders)| folders) {
            folder.push(part);
            match folder.symlink_metadata() {
                Ok(about) if about.is_dir() => continue,
                Ok(_) => fs_err::remove_file(&folder)?,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            fs_err::create_dir(&folder)?;
        }
        self.remove(path)?;
        fs_err::write(self.at(path), content)
    }

    /// Replaces the content of a regular file, which keeps its mode.
    pub fn overwrite(&self, path: impl AsRef<Path>, content: &[u8]) -> io::Result<()> {
        let path = path.as_ref();
        if !self.metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        fs_err::write(self.at(path), content)
    }

    /// The metadata of a file, link or folder itself, without following links.
    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        let parts = parts(path.as_ref())?;
        let mut here = self.root.clone().into_std_path_buf();
        for part in parts.split_last().map_or(&[][..], |(_, folders)| folders) {
            here.push(part);
            if !here.symlink_metadata()?.is_dir() {
                return Err(ErrorKind::NotADirectory.into());
            }
        }
        self.at(path).symlink_metadata()
    }

    /// The target of a link.
    pub fn link(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        self.metadata(&path)?;
        self.at(path).read_link()
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.as_std_path().join(path)
    }

    /// Opens a regular file.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let file = platform::open_beneath(self.root.as_std_path(), &parts(path)?)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(file)
    }
}

/// The components of a path; an error if it leads out of its folder.
fn parts(path: &Path) -> io::Result<Vec<OsString>> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_owned()),
            Component::CurDir => {}
            _ => return Err(outside()),
        }
    }
    Ok(parts)
}

fn outside() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "not a path below the folder")
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folders() -> (tempfile::TempDir, UntrustedDir) {
        let dir = tempfile::tempdir().unwrap();
        let inside = Utf8Path::from_path(dir.path()).unwrap().join("inside");
        for folder in ["inside/real", "outside/deep"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for file in ["inside/real/file", "outside/deep/file"] {
            std::fs::write(dir.path().join(file), file).unwrap();
        }
        symlink("../outside/deep", inside.join("folder")).unwrap();
        symlink("../outside/deep/file", inside.join("file")).unwrap();
        let pipe = inside.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            pipe.as_std_path(),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        (dir, UntrustedDir::new(inside))
    }

    #[test]
    fn links_pipes_devices_and_large_files_are_not_read() {
        let (dir, beneath) = folders();
        assert_eq!(beneath.read("real/file", 100).unwrap(), b"inside/real/file");
        assert_eq!(beneath.read("./real/file", 16).unwrap().len(), 16);
        let absolute = dir.path().join("outside/deep/file");
        for path in [
            "file",
            "folder/file",
            "pipe",
            "real",
            "missing",
            "../outside/deep/file",
            "real/../real/file",
        ] {
            assert!(beneath.read(path, 100).is_err(), "{path}");
        }
        assert!(beneath.read(absolute, 100).is_err());
        assert!(beneath.read("real/file", 15).is_err());
    }

    #[test]
    fn file_replaces_links_and_is_not_written_through_them() {
        let (dir, beneath) = folders();
        for path in [
            "file",
            "folder/file",
            "pipe",
            "real/file",
            "real",
            "new/deep",
        ] {
            beneath.write(path, b"new").unwrap();
            assert_eq!(beneath.read(path, 3).unwrap(), b"new", "{path}");
        }
        assert!(beneath.write("../outside/deep/file", b"new").is_err());
        let kept = std::fs::read_to_string(dir.path().join("outside/deep/file")).unwrap();
        assert_eq!(kept, "outside/deep/file");
    }

    #[test]
    fn metadata_of_a_file_behind_a_link_is_refused() {
        let (_dir, beneath) = folders();
        assert!(beneath.metadata("real/file").unwrap().is_file());
        assert!(beneath.metadata("file").unwrap().is_symlink());
        for path in ["folder/file", "real/file/more", "missing", "../outside"] {
            assert!(beneath.metadata(path).is_err(), "{path}");
        }
    }

    #[test]
    fn nothing_outside_is_listed_or_removed() {
        let (dir, beneath) = folders();
        assert_eq!(beneath.names("real").unwrap(), ["file"]);
        assert!(beneath.names("folder").is_err());
        assert!(beneath.remove("folder/file").is_err());
        assert!(beneath.remove("../outside").is_err() && beneath.remove("").is_err());
        for path in ["folder", "file", "real", "missing", "missing/more"] {
            beneath.remove(path).unwrap();
        }
        let kept = std::fs::read_to_string(dir.path().join("outside/deep/file")).unwrap();
        assert_eq!(kept, "outside/deep/file");
        assert_eq!(beneath.names(".").unwrap(), ["pipe"]);
    }
}
