//! The folders above a clean copy. Runners look there for settings too, so that a file in a shared folder for
//! temporary files would judge every later run.

use camino::{Utf8Path, Utf8PathBuf};
use globset::GlobSet;

use super::protect;
use crate::{area::Area, host::Host};

/// Make a place for clean copies: one that has no settings of runners or linters in any folder above it.
pub(crate) fn place(host: &Host) -> Result<Area, String> {
    let of_cache = host.cache.as_ref().map(|cache| cache.join("judging"));
    let shared = cfg!(unix).then(|| Utf8PathBuf::from("/var/tmp"));
    let places = [Some(host.temp.clone()), of_cache, shared];
    let mut in_the_way = Vec::new();
    for folder in places.into_iter().flatten() {
        match settings_above(&folder.join("x")) {
            None => {
                let made = fs_err::create_dir_all(&folder).and_then(|()| Area::create(&folder));
                return made.map_err(|error| format!("there is no place to judge in: {error}"));
            }
            Some(file) => in_the_way.push(file.into_string()),
        }
    }
    Err(format!(
        "there is no place to judge in: {} would decide how tests run; remove one, or set TMPDIR to a folder without such files above it",
        in_the_way.join(" and ")
    ))
}

/// A file in one of the folders above `path` that decides how tests are found or run.
pub(super) fn settings_above(path: &Utf8Path) -> Option<Utf8PathBuf> {
    let path = path.parent()?;
    // As programs see it: their working directory has no links in it.
    let real = path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    real.ancestors()
        .find_map(|folder| settings_in(folder, protect::settings()))
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
    fn settings_of_runners_above_a_copy_are_found() {
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
