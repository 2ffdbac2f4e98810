//! Scans all files of the agent before git reads them: a pipe would block git.

use std::{
    ffi::OsStr,
    fs::DirEntry,
    path::{Path, PathBuf},
};

use proctor_record::fs::beneath::UntrustedDir;

use super::large::LargeFile;

/// Files that git must not read directly.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Large regular files, including ignored ones.
    pub(super) large: Vec<LargeFile>,
    /// `.git` of nested repositories.
    pub(super) nested: Vec<PathBuf>,
}

impl Survey {
    /// Scans the files of a workspace. Pipes, sockets and devices are removed: git does not track
    /// them, but opens those with the names of its own files.
    pub(super) fn of(workspace: &UntrustedDir) -> Survey {
        let mut survey = Survey::default();
        workspace.walk(&mut |path, entry| survey.note(path, entry));
        survey
    }

    /// Handles one entry. Returns whether to descend into it.
    fn note(&mut self, path: &Path, entry: &DirEntry) -> bool {
        let Ok(kind) = entry.file_type() else {
            return false;
        };
        if path.file_name() == Some(OsStr::new(".git")) {
            let is_nested = path.components().count() > 1;
            self.nested.extend(is_nested.then(|| entry.path()));
            return false;
        }
        if kind.is_file() {
            let bytes = entry.metadata().map_or(0, |about| about.len());
            let large = path.to_str().and_then(|path| LargeFile::new(path, bytes));
            self.large.extend(large);
        } else if cfg!(unix) && !kind.is_symlink() && !kind.is_dir() {
            // If it cannot be removed, git cannot read its folder either.
            let _ = std::fs::remove_file(entry.path());
        }
        true
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn special_files_are_removed_and_repositories_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = camino::Utf8Path::from_path(dir.path()).unwrap();
        fs_err::create_dir_all(root.join("a/.git")).unwrap();
        fs_err::create_dir_all(root.join(".git")).unwrap();
        fs_err::write(root.join("kept"), "x").unwrap();
        for name in [".gitignore", "a/.gitattributes"] {
            std::os::unix::net::UnixListener::bind(root.join(name)).unwrap();
        }
        let survey = Survey::of(&UntrustedDir::new(root));
        assert_eq!(survey.nested, [root.join("a/.git")]);
        assert!(root.join("kept").exists() && survey.large.is_empty());
        assert!(!root.join(".gitignore").exists() && !root.join("a/.gitattributes").exists());
    }
}
