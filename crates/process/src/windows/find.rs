//! Finds the program to execute before anything is started: `PATH` and `PATHEXT` of its own environment, drive
//! letters, names without extension.

use std::ffi::OsStr;
use std::os::windows::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::environment::Variables;
use super::spawn::system_folder;
use crate::Error;
use crate::names::{plain_path, startable_names};

/// The file to execute for `program`. Relative paths start at `cwd`.
pub(super) fn find(program: &OsStr, env: &Variables, cwd: &Path) -> Result<PathBuf, Error> {
    let name = Path::new(program);
    let mut not_executable = None;
    for folder in folders(name, env, cwd) {
        let path = folder.join(name);
        for candidate in startable_names(path.as_os_str(), env.get("PATHEXT")) {
            let candidate = PathBuf::from(candidate);
            if is_there(&candidate) {
                return Ok(plain(&candidate));
            }
        }
        if is_path(name) && path.is_file() {
            not_executable.get_or_insert(path);
        }
    }
    Err(match not_executable {
        Some(path) => Error::NotExecutable { path },
        None => Error::ProgramNotFound {
            program: program.to_owned(),
        },
    })
}

/// Whether there is such a file. The aliases of programs from the store can be started, but not looked into.
fn is_there(path: &Path) -> bool {
    let is_alias = |it: std::fs::Metadata| !it.is_dir() && !it.is_symlink();
    path.is_file() || path.symlink_metadata().is_ok_and(is_alias)
}

fn is_path(name: &Path) -> bool {
    let is_separator = |unit| [b'/', b'\\', b':'].map(u16::from).contains(&unit);
    name.as_os_str().encode_wide().any(is_separator)
}

fn folders(name: &Path, env: &Variables, cwd: &Path) -> Vec<PathBuf> {
    if name.as_os_str().is_empty() {
        return Vec::new();
    }
    if is_path(name) {
        return vec![cwd.to_owned()];
    }
    match env.get("PATH") {
        // An empty entry would mean the working directory, which the agent controls.
        Some(path) => std::env::split_paths(path)
            .filter(|folder| !folder.as_os_str().is_empty())
            .map(|folder| cwd.join(folder))
            .collect(),
        None => system_folder().into_iter().collect(),
    }
}

/// The path as other programs take it.
pub(super) fn plain(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) => plain_path(text).into_owned().into(),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(folder: &Path, extensions: Option<&str>) -> Variables {
        let mut pairs = vec![("Path".into(), folder.into())];
        pairs.extend(extensions.map(|list| ("PATHEXT".into(), list.into())));
        Variables::new(pairs)
    }

    fn found(name: &str, folder: &Path, extensions: Option<&str>) -> Option<String> {
        let path = find(OsStr::new(name), &env(folder, extensions), folder).ok()?;
        Some(path.file_name()?.to_str()?.to_lowercase())
    }

    #[test]
    fn names_without_extension_are_found_in_the_order_of_pathext() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for name in [
            "tool.cmd",
            "tool.exe",
            "tool",
            "only.bat",
            "page.js",
            "dotted.v1.exe",
        ] {
            std::fs::write(at.join(name), "").unwrap();
        }
        assert_eq!(found("tool", at, None).as_deref(), Some("tool.exe"));
        assert_eq!(
            found("tool", at, Some(".CMD;.EXE")).as_deref(),
            Some("tool.cmd")
        );
        assert_eq!(found("tool", at, Some(".cmd")).as_deref(), Some("tool.cmd"));
        assert_eq!(found("tool.CMD", at, None).as_deref(), Some("tool.cmd"));
        assert_eq!(found("only", at, None).as_deref(), Some("only.bat"));
        assert_eq!(
            found("dotted.v1", at, None).as_deref(),
            Some("dotted.v1.exe")
        );
        assert_eq!(found("page", at, Some(".JS;.EXE")), None);
        assert_eq!(found("missing", at, None), None);
        assert_eq!(found("", at, None), None);
    }

    #[test]
    fn paths_start_at_the_working_directory_and_are_not_searched_for() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("my bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("tool.exe"), "").unwrap();
        std::fs::write(bin.join("notes.txt"), "").unwrap();
        let env = env(&bin, None);
        let find = |name: &str| find(OsStr::new(name), &env, folder.path());
        assert!(find(r"my bin\tool").unwrap().is_file());
        assert!(find("my bin/tool.exe").unwrap().is_file());
        assert!(matches!(
            find(r".\tool"),
            Err(Error::ProgramNotFound { .. })
        ));
        assert!(matches!(
            find(r"my bin\notes.txt"),
            Err(Error::NotExecutable { .. })
        ));
        let whole = bin.join("tool");
        assert!(find(whole.to_str().unwrap()).unwrap().is_file());
    }

    #[test]
    fn an_empty_entry_of_path_is_not_the_working_directory() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for at in [folder.path(), &bin] {
            std::fs::write(at.join("tool.exe"), "").unwrap();
        }
        std::fs::write(folder.path().join("planted.exe"), "").unwrap();
        let path = format!(";{};;", bin.display());
        let env = Variables::new([("PATH".into(), path.into())]);
        let find = |name: &str| find(OsStr::new(name), &env, folder.path());
        assert_eq!(find("tool").unwrap(), bin.join("tool.exe"));
        assert!(matches!(
            find("planted"),
            Err(Error::ProgramNotFound { .. })
        ));
    }
}
