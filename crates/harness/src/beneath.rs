//! Files below a folder that an agent has written to. No link on the way is followed, and only regular
//! files are opened: an agent may have put a link to any file of this machine, a pipe or a device there.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, ErrorKind, Read},
    path::{Component, Path, PathBuf},
};

use crate::platform;

/// A folder whose content is not trusted.
#[derive(Clone, Debug)]
pub(crate) struct Beneath {
    root: PathBuf,
}

impl Beneath {
    /// The folder itself is ours: links on the way to it are followed.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Beneath {
        Beneath { root: root.into() }
    }

    /// The content of a regular file of up to so many bytes.
    pub(crate) fn read(&self, path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path.as_ref())?;
        if file.metadata()?.len() > most {
            let message = match most >> 20 {
                0 => format!("larger than {most} bytes"),
                mebibytes => format!("larger than {mebibytes} MiB"),
            };
            return Err(io::Error::new(ErrorKind::FileTooLarge, message));
        }
        let mut bytes = Vec::new();
        // It may grow while it is read.
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The names in a folder.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        platform::names_beneath(&self.root, &parts(path.as_ref())?)
    }

    /// Remove a file, a link itself, or a folder with all it holds, if it is there.
    pub(crate) fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let parts = parts(path.as_ref())?;
        let Some((_, folders)) = parts.split_last() else {
            return Err(outside());
        };
        match platform::names_beneath(&self.root, folders) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => other.map(drop)?,
        }
        let path = self.root.join(path);
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(about) if about.is_dir() => platform::remove(&path),
            Ok(_) => fs_err::remove_file(&path),
        }
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let file = platform::open_beneath(&self.root, &parts(path)?)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(file)
    }
}

/// The names that a path consists of; one that leads out of its folder has none.
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

    fn folders() -> (tempfile::TempDir, Beneath) {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("inside");
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
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        (dir, Beneath::new(inside))
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
