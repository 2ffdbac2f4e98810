//! The trees that judges see: the agent's work made again from patches, and with what is protected as
//! the task has it.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;

use super::{Change, Origin, Workspace, WorkspaceError, parse_numstat};

impl Workspace {
    /// Do again what was done once: bring the installation's patch and then the agent's into the
    /// workspace. The change is the agent's alone.
    pub async fn redo(
        &mut self,
        install: Option<&Utf8Path>,
        agent: &Utf8Path,
    ) -> Result<Change, WorkspaceError> {
        if let Some(patch) = install {
            self.base_tree = self.patched(&self.base_tree, patch).await?;
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
        })
    }

    /// The tree that a patch makes of another one.
    async fn patched(&self, tree: &str, patch: &Utf8Path) -> Result<String, WorkspaceError> {
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
            patch.as_str(),
        ];
        git.run(apply).await?;
        let patched = git.line(["write-tree"]).await?;
        fs::remove_file(&index)?;
        Ok(patched)
    }

    /// The name of an index of our own.
    fn fresh_index(&self) -> Utf8PathBuf {
        let name = format!("index-{}", uuid::Uuid::now_v7());
        self.git.dir().join(name)
    }

    /// The tree with what is protected as it is in the base, and what the agent had changed of it.
    pub async fn guarded(
        &self,
        tree: &str,
        is_protected: &(dyn Fn(&str, Origin) -> bool + Send + Sync),
    ) -> Result<(String, Vec<String>), WorkspaceError> {
        let raw = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            &self.base_tree,
            tree,
        ];
        let raw = self.git.run(raw).await?;
        let mut fields = raw.split(|byte| *byte == 0);
        let mut touched = Vec::new();
        let mut input = Vec::new();
        while let (Some(about), Some(path)) = (fields.next(), fields.next()) {
            let about = String::from_utf8_lossy(about);
            let mut words = about.trim_start_matches(':').split(' ');
            let (Some(mode), Some(_), Some(blob)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let origin = match mode {
                "000000" => Origin::Agent,
                _ => Origin::Base,
            };
            let name = String::from_utf8_lossy(path);
            if !is_protected(&name, origin) {
                continue;
            }
            let mode = match origin {
                Origin::Base => mode,
                // Told so, `update-index` takes the file out.
                Origin::Agent => "0",
            };
            input.extend_from_slice(format!("{mode} {blob}\t").as_bytes());
            input.extend_from_slice(path);
            input.push(0);
            touched.push(name.into_owned());
        }
        if touched.is_empty() {
            return Ok((tree.to_owned(), touched));
        }
        let index = self.fresh_index();
        let git = self
            .git
            .clone()
            .with_env(&[("GIT_INDEX_FILE", index.as_str())]);
        git.run(["read-tree", tree]).await?;
        // A link in the place of a folder of tests gives way.
        let update = ["update-index", "-z", "--replace", "--index-info"];
        git.run_with_input(update, input).await?;
        let guarded = git.line(["write-tree"]).await?;
        fs::remove_file(&index)?;
        Ok((guarded, touched))
    }
}
