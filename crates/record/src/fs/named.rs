//! Files that a test case names: they lie in its folder (or in the workspace) and nowhere else,
//! also when a symlink says otherwise.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::platform;

/// Why a named file is refused.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// It is written in a way that could lead out of the folder.
    #[error("{0}")]
    Written(&'static str),
    /// A symlink leads out of the folder.
    #[error("it leads out of {folder} through a symlink")]
    Escapes {
        /// The folder it should stay in.
        folder: Utf8PathBuf,
    },
    /// It is not there.
    #[error("there is no such file in {folder}")]
    Missing {
        /// The folder where it was looked for.
        folder: Utf8PathBuf,
    },
    /// It is something else than a file.
    #[error("it is not a regular file")]
    NotAFile,
    /// The system says no.
    #[error("it cannot be read: {0}")]
    Io(io::Error),
}

/// The path from the root, without `.` in it: agents and evaluators work in other folders, and
/// what a test case names has to be found from there.
pub fn absolute(path: &Utf8Path) -> Utf8PathBuf {
    let named = if path.as_str().is_empty() {
        Utf8Path::new(".")
    } else {
        path
    };
    camino::absolute_utf8(named).unwrap_or_else(|_| path.to_owned())
}

/// Whether `path` is relative and stays below where it starts, judged by its text alone.
/// Backslashes count as separators, so that a test case means the same on every system.
pub fn check_written(path: &str) -> Result<(), PathError> {
    let mut parts = path.split(['/', '\\']);
    if path.is_empty() {
        Err(PathError::Written("it is empty"))
    } else if path.contains('\0') {
        Err(PathError::Written("it contains a NUL character"))
    } else if path.starts_with(['/', '\\']) || platform::is_rooted(path) {
        Err(PathError::Written("it must be a relative path"))
    } else if parts.any(|part| part == "..") {
        Err(PathError::Written("it must not contain `..`"))
    } else {
        Ok(())
    }
}

/// The real path of the file `path` in `folder`.
pub fn file_in(folder: &Utf8Path, path: &str) -> Result<Utf8PathBuf, PathError> {
    check_written(path)?;
    let folder = if folder.as_str().is_empty() {
        ".".into()
    } else {
        folder
    };
    let root = platform::canonical(folder).map_err(PathError::Io)?;
    let file = match platform::canonical(&root.join(path)) {
        Ok(file) => file,
        Err(error) if is_missing(&error) => {
            return Err(PathError::Missing {
                folder: folder.to_owned(),
            });
        }
        Err(error) => return Err(PathError::Io(error)),
    };
    if !file.starts_with(&root) {
        return Err(PathError::Escapes {
            folder: folder.to_owned(),
        });
    }
    let about = std::fs::metadata(&file).map_err(PathError::Io)?;
    if about.is_file() {
        Ok(file)
    } else {
        Err(PathError::NotAFile)
    }
}

/// The same, with what is wrong in words.
pub fn file_beside(folder: &Utf8Path, path: &str) -> Result<Utf8PathBuf, String> {
    file_in(folder, path).map_err(|error| error.to_string())
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
