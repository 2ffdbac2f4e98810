//! The trees that are judged: the agent's work restored from patches, and with protected files of
//! the task.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;

use super::{Change, Origin, Workspace, WorkspaceError, numstat::parse_numstat, trees};
use crate::workspace::source::Source;

impl Workspace {
    /// Applies the installation's patch and then the agent's patch to the workspace. The change
    /// contains the agent's patch only.
    pub async fn redo(
        &mut self,
        install: Option<&Utf8Path>,
        agent: &Utf8Path,
    ) -> Result<Change, WorkspaceError> {
        if let Some(patch) = install {
            self.base_tree = self.patched(&self.base_tree, patch).await?;
            self.git.run(["read-tree", &self.base_tree]).await?;
            self.fix_attributes().await?;
        }
        let tree = self.patched(&self.base_tree, agent).await?;
        self.git.run(["read-tree", "-u", "--reset", &tree]).await?;
        let numstat = [
            "diff",
            "--find-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--numstat",
            "-z",
            &self.base_tree,
            &tree,
        ];
        let files = parse_numstat(&self.git.run(numstat).await?);
        Ok(Change {
            tree,
            files,
            head: None,
            notes: Vec::new(),
            left_out: None,
        })
    }

    /// The tree that results from applying a patch to another tree.
    pub async fn patched(&self, tree: &str, patch: &Utf8Path) -> Result<String, WorkspaceError> {
        self.apply(tree, patch.as_str(), "").await
    }

    /// The tree that results from applying the text of a patch to another tree.
    pub async fn patched_by(&self, tree: &str, text: &str) -> Result<String, WorkspaceError> {
        self.apply(tree, "-", text).await
    }

    async fn apply(&self, tree: &str, patch: &str, text: &str) -> Result<String, WorkspaceError> {
        let index = self.fresh_index();
        let git = self
            .git
            .clone()
            .with_env(&[("GIT_INDEX_FILE", index.as_str())]);
        git.run(["read-tree", tree]).await?;
        let apply = [
            "apply",
            "--cached",
            "--allow-empty",
            "--whitespace=nowarn",
            patch,
        ];
        git.run_with_input(apply, text.into()).await?;
        let patched = git.line(["write-tree"]).await?;
        fs::remove_file(&index)?;
        Ok(patched)
    }

    /// The name of a temporary index.
    fn fresh_index(&self) -> Utf8PathBuf {
        let name = format!("index-{}", uuid::Uuid::now_v7());
        self.git.dir().join(name)
    }

    /// Copies the files in which `revision` differs from the source's commit over the directory
    /// `to`. Returns their names.
    pub async fn copy_over(
        &self,
        revision: &str,
        to: &Utf8Path,
    ) -> Result<Vec<String>, WorkspaceError> {
        let tree = self.base.tree_of(revision).await?;
        let Source::Git {
            git: from,
            tree: source_tree,
            ..
        } = &self.base.source
        else {
            return Ok(Vec::new());
        };
        self.git.copy_tree_from(from, &tree).await?;
        self.git.copy_tree_from(from, source_tree).await?;
        self.copy_differing(source_tree, &tree, to).await
    }

    /// Copies the files that a patch of the base changes or adds over the directory `to`. Returns
    /// their names.
    pub async fn copy_patched_over(
        &self,
        patch: &str,
        to: &Utf8Path,
    ) -> Result<Vec<String>, WorkspaceError> {
        let tree = self.patched_by(&self.base_tree, patch).await?;
        self.copy_differing(&self.base_tree, &tree, to).await
    }

    /// Copies the files of `tree` that differ from those of `base` over the directory `to`.
    async fn copy_differing(
        &self,
        base: &str,
        tree: &str,
        to: &Utf8Path,
    ) -> Result<Vec<String>, WorkspaceError> {
        let differing = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--diff-filter=d",
            "--name-only",
            base,
            tree,
        ];
        let names = self.git.run(differing).await?;
        let index = self.fresh_index();
        let git = self
            .git
            .with_files(to)
            .with_env(&[("GIT_INDEX_FILE", index.as_str())]);
        git.run(["read-tree", tree]).await?;
        let checkout = ["checkout-index", "--force", "-z", "--stdin"];
        git.run_with_input(checkout, names.clone()).await?;
        fs::remove_file(&index)?;
        Ok(trees::names(&names))
    }

    /// The files in which a tree differs from the base.
    pub async fn changed_files(&self, tree: &str) -> Result<Vec<ChangedFile>, WorkspaceError> {
        self.changed_between(&self.base_tree, tree).await
    }

    /// The files in which a tree differs from another one.
    pub(super) async fn changed_between(
        &self,
        base: &str,
        tree: &str,
    ) -> Result<Vec<ChangedFile>, WorkspaceError> {
        if tree == base {
            return Ok(Vec::new());
        }
        let raw = ["diff-tree", "-r", "-z", "--no-renames", base, tree];
        let raw = self.git.run(raw).await?;
        let mut fields = raw.split(|byte| *byte == 0);
        let mut changed = Vec::new();
        while let (Some(about), Some(path)) = (fields.next(), fields.next()) {
            let about = String::from_utf8_lossy(about);
            let words: Vec<&str> = about.trim_start_matches(':').split(' ').collect();
            let [mode, new_mode, blob, new_blob, ..] = words.as_slice() else {
                continue;
            };
            changed.push(ChangedFile {
                path: String::from_utf8_lossy(path).into_owned(),
                name: path.to_vec(),
                origin: match *mode {
                    "000000" => Origin::Agent,
                    _ => Origin::Base,
                },
                base: TreeEntry::new(mode, blob),
                work: TreeEntry::new(new_mode, new_blob),
            });
        }
        Ok(changed)
    }

    /// The paths that are files or folders of a tree.
    pub async fn existing(
        &self,
        tree: &str,
        paths: &[String],
    ) -> Result<Vec<String>, WorkspaceError> {
        /// The work decides how many paths there are, and the system how long a command line may be.
        const AT_ONCE: usize = 400;
        let mut found = Vec::new();
        for part in paths.chunks(AT_ONCE) {
            let list = ["ls-tree", "-z", "--full-tree", "--name-only", tree, "--"];
            let list = list.into_iter().chain(part.iter().map(String::as_str));
            found.extend(trees::names(&self.git.run(list).await?));
        }
        Ok(found)
    }

    /// The content of a file.
    pub async fn blob(&self, entry: &TreeEntry) -> Result<Vec<u8>, WorkspaceError> {
        Ok(self.git.run(["cat-file", "blob", &entry.blob]).await?)
    }

    /// The same entry with other content.
    pub async fn with_content(
        &self,
        entry: &TreeEntry,
        content: Vec<u8>,
    ) -> Result<TreeEntry, WorkspaceError> {
        let write = ["hash-object", "-w", "--no-filters", "--stdin"];
        let blob = self.git.run_with_input(write, content).await?;
        Ok(TreeEntry {
            mode: entry.mode.clone(),
            blob: String::from_utf8_lossy(&blob).trim().to_owned(),
        })
    }

    /// A tree with these entries replaced; `None` removes one.
    pub async fn with_entries(
        &self,
        tree: &str,
        entries: &[(Vec<u8>, Option<TreeEntry>)],
    ) -> Result<String, WorkspaceError> {
        if entries.is_empty() {
            return Ok(tree.to_owned());
        }
        let mut input = Vec::new();
        for (name, entry) in entries {
            let about = match entry {
                Some(entry) => format!("{} {}\t", entry.mode, entry.blob),
                // With the mode 0 `update-index` removes the file.
                None => format!("0 {}\t", "0".repeat(40)),
            };
            input.extend_from_slice(about.as_bytes());
            input.extend_from_slice(name);
            input.push(0);
        }
        let index = self.fresh_index();
        let git = self
            .git
            .clone()
            .with_env(&[("GIT_INDEX_FILE", index.as_str())]);
        git.run(["read-tree", tree]).await?;
        // A link that replaces a folder of tests is removed.
        let update = ["update-index", "-z", "--replace", "--index-info"];
        git.run_with_input(update, input).await?;
        let made = git.line(["write-tree"]).await?;
        fs::remove_file(&index)?;
        Ok(made)
    }
}

/// A file of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    mode: String,
    blob: String,
}

impl TreeEntry {
    /// An entry; `None` for a missing file.
    fn new(mode: &str, blob: &str) -> Option<TreeEntry> {
        (mode != "000000").then(|| TreeEntry {
            mode: mode.to_owned(),
            blob: blob.to_owned(),
        })
    }

    /// Whether it is a regular file, not a link or a submodule.
    pub fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }
}

/// A file that differs from the base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path, as text.
    pub path: String,
    /// Its path as bytes, as in git.
    pub name: Vec<u8>,
    /// Whether the base has it.
    pub origin: Origin,
    /// The base's version.
    pub base: Option<TreeEntry>,
    /// The version of the work; `None` if it was removed.
    pub work: Option<TreeEntry>,
}

impl ChangedFile {
    /// Whether the work has something other than a regular file there, which may lead to a folder.
    pub(crate) fn is_link(&self) -> bool {
        self.work.as_ref().is_some_and(|entry| !entry.is_file())
    }
}

#[cfg(test)]
impl ChangedFile {
    /// The same as a link.
    pub(crate) fn into_link(self) -> ChangedFile {
        let work = TreeEntry::new("120000", "0");
        ChangedFile { work, ..self }
    }

    /// A file with only a path.
    pub(crate) fn example(path: &str, origin: Origin) -> ChangedFile {
        ChangedFile {
            path: path.to_owned(),
            name: path.as_bytes().to_vec(),
            origin,
            base: None,
            work: None,
        }
    }
}
