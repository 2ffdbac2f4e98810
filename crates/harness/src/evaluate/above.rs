//! The directories above a clean copy. Test runners search them for settings, so a file in a shared
//! temporary directory would affect every later run.

use camino::{Utf8Path, Utf8PathBuf};
use globset::GlobSet;
use proctor_record::fs::beneath::UntrustedDir;
use proctor_sandbox::{host::Host, trial_dir::TrialDir};

use super::protect;

/// Folders of a home that installations fill.
const HOME_CACHES: [&str; 5] = [".cache", "_cacache", "registry", "mod", "node_modules"];

/// Creates a directory for clean copies without settings of runners or linters in any directory
/// above it.
pub(crate) fn private_dir(host: &Host) -> Result<TrialDir, String> {
    let of_cache = host.cache.as_ref().map(|cache| cache.join("judging"));
    let shared = cfg!(unix).then(|| Utf8PathBuf::from("/var/tmp"));
    let places = [Some(host.temp.clone()), of_cache, shared];
    let mut in_the_way = Vec::new();
    for folder in places.into_iter().flatten() {
        match settings_above(&folder.join("x")) {
            None => {
                let made = fs_err::create_dir_all(&folder).and_then(|()| TrialDir::create(&folder));
                return made.map_err(|error| {
                    format!("cannot create a directory for clean copies: {error}")
                });
            }
            Some(file) => in_the_way.push(file.into_string()),
        }
    }
    Err(format!(
        "cannot create a directory for clean copies: {} would change how tests run; remove it, or set TMPDIR to a directory without such files above it",
        in_the_way.join(" and ")
    ))
}

/// A settings file of a runner or linter in a directory above `path`.
pub(super) fn settings_above(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let path = path.parent()?;
    // The working directory of programs is a path without links.
    let real = path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    real.ancestors()
        .find_map(|folder| settings_in(folder, protect::settings()))
}

/// Settings in the home folder of commands, which the work wrote while they ran: programs that start later obey them.
pub(super) fn settings_of_home(home: &UntrustedDir) -> Vec<String> {
    let names = home.files(&HOME_CACHES).into_iter();
    let settings = names.filter(|name| protect::is_home_setting(name));
    settings.map(|name| format!("~/{name}")).collect()
}

fn settings_in(folder: &Utf8Path, settings: &GlobSet) -> Option<Utf8PathBuf> {
    let decides = |name: &str| settings.is_match(name) || protect::is_manifest(name);
    let entries = folder.read_dir_utf8().ok()?.flatten();
    let mut names = entries.map(|entry| entry.file_name().to_owned());
    let found = names.find(|name| match name.as_str() {
        ".cargo" => {
            folder.join(".cargo/config.toml").exists() || folder.join(".cargo/config").exists()
        }
        "node_modules" => true,
        name => decides(name),
    });
    found.map(|name| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runner_settings_above_a_copy_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path())
            .unwrap()
            .canonicalize_utf8()
            .unwrap();
        let copy = root.join("a/b/copy");
        fs_err::create_dir_all(&copy).unwrap();
        fs_err::write(copy.join("pytest.ini"), "").unwrap();
        fs_err::write(root.join("notes.txt"), "").unwrap();
        let found = |copy: &Utf8Path| settings_above(copy).filter(|file| file.starts_with(&root));
        assert_eq!(found(&copy), None);
        for name in [
            "pytest.ini",
            "conftest.py",
            "package.json",
            ".npmrc",
            "jest.config.js",
            "Cargo.toml",
        ] {
            fs_err::write(root.join(name), "").unwrap();
            assert_eq!(found(&copy), Some(root.join(name)));
            fs_err::remove_file(root.join(name)).unwrap();
        }
    }
}
