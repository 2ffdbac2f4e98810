//! Finds the program to execute before anything is started: `PATH` and `PATHEXT` of its own environment, drive
//! letters, names without extension.

use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf, Prefix};

use super::environment::Variables;
use super::spawn::system_folder;
use crate::Error;

/// What Windows itself can start, in the order in which `cmd.exe` looks for it. `PATHEXT` may leave some out or order
/// them otherwise; what else it lists is opened by other programs, not started.
const STARTABLE: [&str; 4] = ["COM", "EXE", "BAT", "CMD"];

/// The file to execute for `program`. Relative paths start at `cwd`.
pub(super) fn find(program: &OsStr, env: &Variables, cwd: &Path) -> Result<PathBuf, Error> {
    let name = Path::new(program);
    let mut not_executable = None;
    for folder in folders(name, env, cwd) {
        let path = folder.join(name);
        for candidate in candidates(&path, env) {
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
        // An empty entry would be the working directory, which the agent has a say in.
        Some(path) => std::env::split_paths(path)
            .filter(|folder| !folder.as_os_str().is_empty())
            .map(|folder| cwd.join(folder))
            .collect(),
        None => system_folder().into_iter().collect(),
    }
}

/// The file itself if its extension says that it can be started, then the file with each such extension added.
fn candidates(path: &Path, env: &Variables) -> Vec<PathBuf> {
    let extensions = extensions(env.get("PATHEXT"));
    let own = path.extension().and_then(OsStr::to_str);
    let is_startable = own.is_some_and(|own| {
        STARTABLE
            .iter()
            .any(|known| known.eq_ignore_ascii_case(own))
    });
    let with = |extension: &&str| {
        let mut name = OsString::from(path);
        name.push(".");
        name.push(extension.to_lowercase());
        PathBuf::from(name)
    };
    let itself = is_startable.then(|| path.to_owned());
    itself
        .into_iter()
        .chain(extensions.iter().map(with))
        .collect()
}

fn extensions(list: Option<&OsStr>) -> Vec<&'static str> {
    let Some(list) = list.and_then(OsStr::to_str) else {
        return STARTABLE.to_vec();
    };
    let known = |entry: &str| {
        let entry = entry.trim().strip_prefix('.')?;
        STARTABLE
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(entry))
    };
    list.split(';').filter_map(known).collect()
}

/// Without the prefix that turns off the reading of a path, as far as the path means the same without it: `cmd.exe` and
/// many other programs do not take such a path, or such a working directory.
pub(super) fn plain(path: &Path) -> PathBuf {
    const LONGEST: usize = 259;
    let mut components = path.components();
    let Some(Component::Prefix(prefix)) = components.next() else {
        return path.to_owned();
    };
    let Prefix::VerbatimDisk(_) = prefix.kind() else {
        return path.to_owned();
    };
    let units: Vec<u16> = path.as_os_str().encode_wide().skip(r"\\?\".len()).collect();
    let is_odd = |component: Component<'_>| {
        let name = component.as_os_str().to_string_lossy();
        name.ends_with(['.', ' ']) || name.contains('/')
    };
    if units.len() > LONGEST || components.any(is_odd) {
        return path.to_owned();
    }
    OsString::from_wide(&units).into()
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

    #[test]
    fn a_path_that_is_read_as_it_stands_loses_its_prefix_where_it_may() {
        let check =
            |path: &str, expect: &str| assert_eq!(plain(Path::new(path)), Path::new(expect));
        check(r"\\?\C:\a b\c", r"C:\a b\c");
        check(r"C:\a", r"C:\a");
        check(r"\\?\C:\dot.\c", r"\\?\C:\dot.\c");
        check(r"\\?\UNC\server\share", r"\\?\UNC\server\share");
        let long = format!(r"\\?\C:\{}", "x".repeat(260));
        check(&long, &long);
    }
}
