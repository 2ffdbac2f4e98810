//! Names of variables and the search for programs. On Windows `Path` is `PATH`, and `npm` is
//! `npm.cmd`.

use std::{collections::BTreeMap, path::Path};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::startable_names;

type SearchVariables = BTreeMap<String, String>;

/// Whether two names refer to the same variable.
pub fn is_same_name(one: &str, other: &str) -> bool {
    if cfg!(windows) {
        one.eq_ignore_ascii_case(other)
    } else {
        one == other
    }
}

/// The existing name of a variable in `env`, else the given one.
pub fn environment_name(env: &SearchVariables, name: &str) -> String {
    let known = env.keys().find(|known| is_same_name(known, name));
    known.map_or(name, String::as_str).to_owned()
}

/// The value of a variable.
pub fn variable<'a>(env: &'a SearchVariables, name: &str) -> Option<&'a str> {
    let plain = env.get(name);
    let found = plain.or_else(|| {
        let mut pairs = env.iter();
        let found = pairs.find(|(known, _)| is_same_name(known, name));
        found.map(|(_, value)| value)
    });
    found.map(String::as_str)
}

/// Finds a program on the PATH of `env`; relative directories start at `cwd`.
pub fn find_program(env: &SearchVariables, cwd: &Utf8Path, name: &str) -> Option<Utf8PathBuf> {
    let path = variable(env, "PATH")?;
    let names = names(name, variable(env, "PATHEXT"));
    let folders = std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty());
    folders
        .filter_map(|folder| Utf8PathBuf::try_from(folder).ok())
        .flat_map(|folder| {
            let folder = cwd.join(folder);
            names.iter().map(move |name| folder.join(name))
        })
        .find(|candidate| is_executable(candidate.as_std_path()))
}

/// The file names for a program name.
fn names(name: &str, path_ext: Option<&str>) -> Vec<String> {
    if !cfg!(windows) {
        return vec![name.to_owned()];
    }
    let names = startable_names(name.as_ref(), path_ext.map(AsRef::as_ref));
    names
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .collect()
}

/// Whether a file can be started as a program.
pub fn is_executable(path: &Path) -> bool {
    let may_run = |about: &std::fs::Metadata| cfg!(windows) || super::mode(about) & 0o111 != 0;
    path.metadata()
        .is_ok_and(|about| about.is_file() && may_run(&about))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_the_extensions_of_the_system() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8PathBuf::try_from(dir.path().join("a b")).unwrap();
        std::fs::create_dir(&folder).unwrap();
        let name = if cfg!(windows) { "tool.cmd" } else { "tool" };
        let program = folder.join(name);
        std::fs::write(&program, "").unwrap();
        // There is also a shell script, and a directory of the same name earlier in PATH.
        std::fs::create_dir_all(dir.path().join("first").join(name)).unwrap();
        super::super::set_mode(program.as_std_path(), 0o755).unwrap();
        let path = std::env::join_paths([Path::new("first"), folder.as_std_path()]).unwrap();
        let cwd = Utf8Path::from_path(dir.path()).unwrap();
        let spelled = if cfg!(windows) { "Path" } else { "PATH" };
        let env = BTreeMap::from([(spelled.to_owned(), path.into_string().unwrap())]);
        assert_eq!(find_program(&env, cwd, "tool"), Some(program));
        assert_eq!(find_program(&env, cwd, "other"), None);
        assert_eq!(environment_name(&env, "PATH"), spelled);
    }
}
