//! Seals: protected files must not change while a command runs in the copy.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Read},
    path::Path,
    time::SystemTime,
};

use proctor_record::{
    fs::{beneath::UntrustedDir, hex},
    platform,
};
use sha2::{Digest, Sha256};

/// Folders of installed packages and build products, which commands fill while they run.
pub(super) const UNSEALED: [&str; 4] = ["node_modules", "target", ".venv", ".git"];

/// The state of protected files at one time.
#[derive(Debug, Default)]
pub(super) struct Seals {
    files: BTreeMap<String, Stamp>,
    /// Runner settings that existed.
    decisive: BTreeSet<String>,
    /// Whether change times are reliable: the command uses the same files as this process.
    has_times: bool,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    content: String,
    /// The change time (ctime), which programs cannot set: it reveals a file that was changed and
    /// restored.
    changed: SystemTime,
}

/// The rules for sealed files.
pub(super) struct Rules<'a> {
    /// Files that must not change.
    pub(super) is_sealed: &'a (dyn Fn(&str) -> bool + Sync),
    /// Files that must not appear.
    pub(super) is_decisive: &'a (dyn Fn(&str) -> bool + Sync),
    /// Whether change times are reliable.
    pub(super) has_times: bool,
}

impl Seals {
    /// Seals the files of a copy.
    pub(super) fn take(copy: &UntrustedDir, rules: &Rules<'_>) -> io::Result<Seals> {
        let mut seals = Seals {
            has_times: rules.has_times,
            ..Seals::default()
        };
        for name in copy.files(&UNSEALED) {
            if (rules.is_decisive)(&name) {
                seals.decisive.insert(name.clone());
            }
            if (rules.is_sealed)(&name) {
                let stamp = stamp(copy, &name)?;
                seals.files.insert(name, stamp);
            }
        }
        Ok(seals)
    }

    /// The names of the sealed files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Sealed files that changed, and new runner settings.
    pub(super) fn broken(&self, copy: &UntrustedDir, rules: &Rules<'_>) -> Vec<String> {
        let is_broken = |name: &str, before: &Stamp| match stamp(copy, name) {
            Err(_) => true,
            Ok(now) => now.content != before.content || (self.has_times && now != *before),
        };
        let mut broken: Vec<String> = self
            .files
            .iter()
            .filter(|(name, before)| is_broken(name, before))
            .map(|(name, _)| name.clone())
            .collect();
        let here = copy.files(&UNSEALED).into_iter();
        let is_new = |name: &String| (rules.is_decisive)(name) && !self.decisive.contains(name);
        broken.extend(here.filter(is_new));
        broken
    }
}

/// The state of one file. A parent folder that became a link is an error.
fn stamp(root: &UntrustedDir, name: &str) -> io::Result<Stamp> {
    let about = root.metadata(name)?;
    let content = if about.is_symlink() {
        format!("link {}", root.link(name)?.display())
    } else if about.is_file() {
        digest(root.open(Path::new(name))?)?
    } else {
        "no file".to_owned()
    };
    Ok(Stamp {
        content,
        changed: platform::changed(&about),
    })
}

fn digest(mut file: File) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut part = vec![0; 1 << 16];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hex(&hash.finalize())),
            length => hash.update(&part[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use fs_err as fs;

    use super::*;

    fn is_test(name: &str) -> bool {
        name.starts_with("tests/")
    }

    fn is_setting(name: &str) -> bool {
        name.ends_with("conftest.py")
    }

    const RULES: Rules<'static> = Rules {
        is_sealed: &is_test,
        is_decisive: &is_setting,
        has_times: true,
    };

    #[test]
    fn changed_restored_removed_and_new_files_break_seals() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let copy = UntrustedDir::new(camino::Utf8Path::from_path(dir.path()).unwrap());
        fs::create_dir_all(path("tests/node_modules")).unwrap();
        for name in [
            "tests/kept",
            "tests/changed",
            "tests/restored",
            "tests/gone",
            "src",
        ] {
            fs::write(path(name), "x").unwrap();
        }
        let seals = Seals::take(&copy, &RULES).unwrap();
        assert_eq!(seals.broken(&copy, &RULES), Vec::<String>::new());
        // File times have the resolution of the kernel's clock.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(path("src"), "y").unwrap();
        fs::write(path("tests/output"), "y").unwrap();
        fs::write(path("tests/node_modules/conftest.py"), "").unwrap();
        assert_eq!(seals.broken(&copy, &RULES), Vec::<String>::new());
        fs::write(path("tests/changed"), "y").unwrap();
        fs::write(path("tests/restored"), "y").unwrap();
        fs::write(path("tests/restored"), "x").unwrap();
        fs::remove_file(path("tests/gone")).unwrap();
        fs::write(path("conftest.py"), "").unwrap();
        fs::rename(path("tests"), path("moved")).unwrap();
        let broken = seals.broken(&copy, &RULES);
        assert_eq!(broken.len(), 5, "{broken:?}");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("moved", path("tests")).unwrap();
            // The same files behind a link do not count as the same.
            assert_eq!(seals.broken(&copy, &RULES), broken);
            fs::remove_file(path("tests")).unwrap();
        }
        fs::rename(path("moved"), path("tests")).unwrap();
        let broken = seals.broken(&copy, &RULES);
        assert_eq!(
            broken,
            [
                "tests/changed",
                "tests/gone",
                "tests/restored",
                "conftest.py"
            ]
        );
    }
}
