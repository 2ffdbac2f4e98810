//! A build context: the files of a directory that are sent to the engine, and their digest.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use proctor_record::{
    fs::glob::{Ignore, IgnoreSyntax},
    platform,
};
use sha2::{Digest, Sha256};

/// The rules for files that are not sent, and the end of the name of a Dockerfile's own rules.
const IGNORE: &str = ".dockerignore";

/// The files of a build context, sorted by name.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    /// Relative to the root, with `/` between parts.
    paths: Vec<String>,
    /// Files with replaced text, by path.
    replaced: BTreeMap<String, String>,
}

impl Files {
    /// All files in `root` that its `.dockerignore` does not exclude, and `dockerfile` in any case.
    /// A file of rules with the name of the Dockerfile takes precedence.
    pub(super) fn find(root: &Path, dockerfile: &str) -> io::Result<Self> {
        let mut rules = root.join(format!("{dockerfile}{IGNORE}"));
        if !rules.exists() {
            rules = root.join(IGNORE);
        }
        let ignored = Ignore::read(&rules, IgnoreSyntax::Docker)?;
        let mut paths = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let name = entry.file_name();
                let name = name.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
                let path = match folder.as_str() {
                    "" => name.to_owned(),
                    folder => format!("{folder}/{name}"),
                };
                // An exception may include files of an excluded folder.
                let is_folder = entry.file_type()?.is_dir();
                let is_left_out = path != dockerfile && ignored.has(&path);
                if is_folder && (!is_left_out || ignored.has_exceptions()) {
                    folders.push(path.clone());
                }
                if !is_left_out {
                    paths.push(path);
                }
            }
        }
        paths.sort();
        Ok(Self {
            root: root.to_owned(),
            paths,
            replaced: BTreeMap::new(),
        })
    }

    /// Replaces the text of a file, or adds a file.
    pub(super) fn replace(&mut self, path: String, text: String) {
        self.replaced.insert(path, text);
    }

    /// Adds a rule to `.dockerignore`, which engines read, too.
    pub(super) fn keep(&mut self, rule: &str) {
        let rules = std::fs::read_to_string(self.root.join(IGNORE));
        if let Ok(rules) = rules {
            self.replace(IGNORE.to_owned(), format!("{rules}\n{rule}\n"));
        }
    }

    /// A digest of names, modes and contents; times do not matter.
    pub(super) fn digest(&self, into: &mut Sha256) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        for path in &self.paths {
            let (full, data) = self.look(path)?;
            into.update(path.as_bytes());
            into.update(platform::mode(&data).to_le_bytes());
            if data.is_symlink() {
                let target = std::fs::read_link(&full)?;
                into.update(target.as_os_str().as_encoded_bytes());
            } else if let Some(text) = self.replaced.get(path) {
                into.update(text.as_bytes());
            } else if data.is_file() {
                into.update(data.len().to_le_bytes());
                let mut file = std::fs::File::open(&full)?;
                loop {
                    match file.read(&mut buffer)? {
                        0 => break,
                        count => into.update(&buffer[..count]),
                    }
                }
            }
            into.update([0]);
        }
        Ok(())
    }

    /// Appends all files to an archive, owned by root.
    pub(super) fn pack<W: io::Write>(&self, archive: &mut tar::Builder<W>) -> io::Result<()> {
        for path in &self.paths {
            let (full, data) = self.look(path)?;
            let mut header = tar::Header::new_gnu();
            header.set_metadata(&data);
            if !platform::HAS_MODES {
                // Like `docker` if the executable bits are unknown.
                header.set_mode(0o755);
            }
            header.set_uid(0);
            header.set_gid(0);
            if data.is_symlink() {
                header.set_size(0);
                archive.append_link(&mut header, path, std::fs::read_link(&full)?)?;
            } else if data.is_dir() {
                header.set_size(0);
                archive.append_data(&mut header, path, io::empty())?;
            } else if let Some(text) = self.replaced.get(path) {
                header.set_size(text.len() as u64);
                archive.append_data(&mut header, path, text.as_bytes())?;
            } else if data.is_file() {
                archive.append_data(&mut header, path, std::fs::File::open(&full)?)?;
            }
        }
        let is_added = |path: &&String| !self.paths.contains(path);
        for path in self.replaced.keys().filter(is_added) {
            let text = &self.replaced[path];
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(text.len() as u64);
            archive.append_data(&mut header, path, text.as_bytes())?;
        }
        Ok(())
    }

    fn look(&self, path: &str) -> io::Result<(PathBuf, Metadata)> {
        let full = self.root.join(path);
        let data = std::fs::symlink_metadata(&full)?;
        Ok((full, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_contents_and_modes_but_not_times() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let digest = || {
            let mut digest = Sha256::new();
            let files = Files::find(folder.path(), "Dockerfile").unwrap();
            files.digest(&mut digest).unwrap();
            digest.finalize()
        };
        std::fs::write(&file, "1").unwrap();
        let first = digest();
        std::fs::write(&file, "1").unwrap();
        assert_eq!(digest(), first);
        std::fs::write(&file, "2").unwrap();
        let second = digest();
        assert_ne!(second, first);
        platform::set_mode(&file, 0o555).unwrap();
        assert_ne!(digest(), second);
        platform::set_mode(&file, 0o755).unwrap();
        assert_eq!(digest() == second, !platform::HAS_MODES);
    }

    #[test]
    fn dockerfile_is_sent_even_if_it_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["Dockerfile", "a"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::write(folder.path().join(".dockerignore"), "*\n").unwrap();
        let files = Files::find(folder.path(), "Dockerfile").unwrap();
        assert_eq!(files.paths, ["Dockerfile"]);
        let own = folder.path().join("Dockerfile.dockerignore");
        std::fs::write(own, "*ignore\n").unwrap();
        let files = Files::find(folder.path(), "Dockerfile").unwrap();
        assert_eq!(files.paths, ["Dockerfile", "a"]);
    }
}
