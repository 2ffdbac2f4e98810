//! Finds the program to execute before anything is started, so that the caller learns what exactly is missing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::{Command, Error};

/// Where execvp looks when there is no `PATH`.
const DEFAULT_PATH: &str = "/usr/bin:/bin";

/// The file to execute for `command`, whose working directory is `cwd`.
pub(super) fn program(command: &Command, cwd: &Path) -> Result<PathBuf, Error> {
    let path = command.env.get(OsStr::new("PATH"));
    find(&command.program, path.map(OsString::as_os_str), cwd)
}

/// The file to execute for `program`, looked up in `path` as execvp does it.
pub(super) fn find(program: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, Error> {
    let mut not_executable = None;
    for path in candidates(Path::new(program), path, cwd) {
        if !path.is_file() {
            continue;
        }
        if access(&path, Access::EXEC_OK).is_ok() {
            return Ok(path);
        }
        not_executable.get_or_insert(path);
    }
    Err(match not_executable {
        Some(path) => Error::NotExecutable { path },
        None => Error::ProgramNotFound {
            program: program.to_owned(),
        },
    })
}

fn candidates(name: &Path, path: Option<&OsStr>, cwd: &Path) -> Vec<PathBuf> {
    if name.as_os_str().is_empty() {
        return Vec::new();
    }
    if name.as_os_str().as_bytes().contains(&b'/') {
        return vec![cwd.join(name)];
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    std::env::split_paths(path)
        .map(|folder| cwd.join(folder).join(name))
        .collect()
}
