//! Files that a test case names: they must be in its folder (or in the workspace), even through
//! symlinks.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::platform;

/// Why a named file is refused.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The path could lead out of the folder.
    #[error("{0}")]
    Written(&'static str),
    /// A symlink leads out of the folder.
    #[error("it is a symlink to a file outside of {folder}")]
    Escapes {
        /// The folder.
        folder: Utf8PathBuf,
    },
    /// The file does not exist.
    #[error("file not found in {folder}")]
    Missing {
        /// The folder.
        folder: Utf8PathBuf,
    },
    /// It is not a regular file.
    #[error("it is not a regular file")]
    NotAFile,
    /// The file is not readable.
    #[error("cannot read it: {0}")]
    Io(io::Error),
}

/// An absolute path without `.`: agents and evaluators run in other folders, where relative paths
/// of a test case would be wrong.
pub fn absolute(path: &Utf8Path) -> Utf8PathBuf {
    let named = if path.as_str().is_empty() {
        Utf8Path::new(".")
    } else {
        path
    };
    camino::absolute_utf8(named).unwrap_or_else(|_| path.to_owned())
}

/// Checks that `path` is relative and does not leave its start, by its text only. Backslashes are
/// separators, so that a test case means the same on every system.
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

/// The canonical path of the file `path` in `folder`.
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

/// The same, with the error as text.
pub fn file_beside(folder: &Utf8Path, path: &str) -> Result<Utf8PathBuf, String> {
    file_in(folder, path).map_err(|error| error.to_string())
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
