//! Files and lines that an agent's tools write to its workspace and that are not its work.

use fs_err as fs;

use super::{Workspace, WorkspaceError};

/// The maximum size of a file that such a tool writes.
const LONGEST: u64 = 1 << 20;

impl Workspace {
    /// Excludes files with these names from the agent's work.
    pub fn leave_out(&self, patterns: &[&str]) -> std::io::Result<()> {
        let info = self.git.dir().join("info");
        fs::create_dir_all(&info)?;
        fs::write(info.join("exclude"), patterns.join("\n") + "\n")?;
        self.seal();
        Ok(())
    }

    /// Removes lines that are not the agent's work, if a file has only them in addition to the
    /// base.
    pub async fn remove_lines(&self, file: &str, lines: &[&str]) -> Result<(), WorkspaceError> {
        let files = &self.files;
        let read = files.read(file, LONGEST);
        let Some(now) = read.ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
            return Ok(());
        };
        self.unseal().await?;
        let base = self.text_of(&self.base_tree, file.into()).await?;
        let before = base.as_deref().unwrap_or_default();
        let kept = now.lines().filter(|line| !lines.contains(line));
        let base_lines = before.lines().filter(|line| !lines.contains(line));
        if !kept.eq(base_lines) {
            return Ok(());
        }
        match &base {
            None => files.remove(file)?,
            Some(text) => files.write(file, text.as_bytes())?,
        }
        Ok(())
    }
}
