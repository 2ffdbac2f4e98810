//! A look at all files that the agent left, before git reads any of them: a pipe that git opens would block it.

use std::{
    ffi::OsStr,
    fs::DirEntry,
    path::{Path, PathBuf},
};

use super::large::LargeFile;
use crate::fs::beneath::UntrustedDir;

/// Files that git must not meet as they are.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Large regular files, ignored ones included.
    pub(super) large: Vec<LargeFile>,
    /// `.git` of repositories inside the workspace.
    pub(super) nested: Vec<PathBuf>,
}

impl Survey {
    /// Look at the files of a workspace. Pipes, sockets and devices are removed: git does not track them, but opens
    /// those that are named as one of its own files.
    pub(super) fn of(workspace: &UntrustedDir) -> Survey {
        let mut survey = Survey::default();
        workspace.walk(&mut |path, entry| survey.note(path, entry));
        survey
    }

    /// Note one entry; whether it is to be entered.
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
            // One that cannot be removed is in a folder that git cannot read either.
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
