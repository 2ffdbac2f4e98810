//! Repositories inside a workspace: git would treat them as links and omit their files.

use std::path::PathBuf;

use camino::Utf8Path;
use fs_err as fs;
use proctor_record::fs::dir;

/// Repositories inside the workspace, hidden while their files are added.
pub(super) struct NestedRepos {
    moved: Vec<(PathBuf, PathBuf)>,
}

impl NestedRepos {
    /// Moves these `.git` files and folders to `place`.
    pub(super) fn hide(nested: Vec<PathBuf>, place: &Utf8Path) -> std::io::Result<NestedRepos> {
        fs::create_dir_all(place)?;
        let mut repos = NestedRepos { moved: Vec::new() };
        for git in nested {
            let aside = place.as_std_path().join(repos.moved.len().to_string());
            dir::rename(&git, &aside)?;
            repos.moved.push((git, aside));
        }
        Ok(repos)
    }

    pub(super) fn restore(self) -> std::io::Result<()> {
        self.moved
            .into_iter()
            .try_for_each(|(git, aside)| dir::rename(&aside, &git))
    }
}
