//! The attributes that git uses: those of the base. An agent's `.gitattributes` would change how
//! judged files are written and which lines a diff shows.

use std::fmt::Write;

use fs_err as fs;

use super::{Workspace, WorkspaceError};

/// The attributes file with the highest precedence.
pub(super) const FILE: &str = "info/attributes";

/// The name of attribute files in a workspace.
const NAME: &str = ".gitattributes";

/// Resets every attribute that git acts on, and any redefinition of the built-in macro.
const RESET: &str = "[attr]binary -diff -merge -text
* !text !eol !crlf !ident !filter !working-tree-encoding !diff !merge !whitespace !delta !encoding !export-ignore !export-subst !conflict-marker-size
";

impl Workspace {
    /// Makes git use the attributes of the base, which is in the index now.
    pub(super) async fn fix_attributes(&self) -> Result<(), WorkspaceError> {
        let path = self.git.dir().join(FILE);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(path, together(self.attribute_files().await?))?;
        Ok(())
    }

    /// The attribute files of the index: their folders and their text.
    async fn attribute_files(&self) -> Result<Vec<(String, String)>, WorkspaceError> {
        // Most repositories have none: reading the index takes less time than starting git.
        let index = fs::read(self.git.dir().join("index")).unwrap_or_default();
        if memchr::memmem::find(&index, NAME.as_bytes()).is_none() {
            return Ok(Vec::new());
        }
        let list = [
            "ls-files",
            "--stage",
            "-z",
            "--",
            ":(glob)**/.gitattributes",
        ];
        let listed = self.git.run(list).await?;
        let mut files = Vec::new();
        // `100644 <blob> 0 TAB <path> NUL`
        for line in String::from_utf8_lossy(&listed).split_terminator('\0') {
            let Some((about, path)) = line.split_once('\t') else {
                continue;
            };
            let Some(blob) = about
                .strip_prefix("100")
                .and_then(|rest| rest.split(' ').nth(1))
            else {
                continue;
            };
            let text = self.git.run(["cat-file", "blob", blob]).await?;
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            files.push((
                folder.to_owned(),
                String::from_utf8_lossy(&text).into_owned(),
            ));
        }
        Ok(files)
    }
}

/// Merges attribute files of several folders into one for the top folder. Deeper ones come later
/// and take precedence.
fn together(mut files: Vec<(String, String)>) -> String {
    files.sort_by_key(|(folder, _)| folder.split('/').filter(|it| !it.is_empty()).count());
    let mut text = RESET.to_owned();
    for (folder, lines) in &files {
        let lines = lines.trim_start_matches('\u{feff}').lines();
        for line in lines.filter_map(|line| below(folder, line.trim())) {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Converts a line of a folder's attributes for the top folder.
fn below(folder: &str, line: &str) -> Option<String> {
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    if folder.is_empty() {
        return Some(line.to_owned());
    }
    // Macros are valid in the top folder only.
    if line.starts_with("[attr]") {
        return None;
    }
    let (pattern, attributes) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => line.split_once([' ', '\t'])?,
    };
    let folder: String = folder
        .chars()
        .flat_map(|c| {
            ['*', '?', '[', '\\']
                .contains(&c)
                .then_some('\\')
                .into_iter()
                .chain([c])
        })
        .collect();
    let is_of_folder = pattern.trim_end_matches('/').contains('/');
    let pattern = if is_of_folder {
        format!("/{folder}/{}", pattern.trim_start_matches('/'))
    } else {
        format!("/{folder}/**/{pattern}")
    };
    if pattern.contains([' ', '\t']) {
        let quoted = pattern.replace('\\', "\\\\");
        return Some(format!("\"{quoted}\" {attributes}"));
    }
    Some(format!("{pattern} {attributes}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(folder: &str, line: &str, expected: Option<&str>) {
        assert_eq!(below(folder, line).as_deref(), expected);
    }

    #[test]
    fn attributes_of_folders_apply_below_them() {
        check("", "*.txt text eol=crlf", Some("*.txt text eol=crlf"));
        check("", "[attr]mine -diff", Some("[attr]mine -diff"));
        check("a", "*.txt -text", Some("/a/**/*.txt -text"));
        check("a/b", "/c/*.x binary", Some("/a/b/c/*.x binary"));
        check("a b", "x -diff", Some("\"/a b/**/x\" -diff"));
        check("a", "[attr]mine -diff", None);
        check("a", "# text", None);
    }

    #[test]
    fn deeper_files_come_later() {
        let files = vec![
            ("a/b".to_owned(), "x 3".to_owned()),
            (String::new(), "x 1".to_owned()),
            ("a".to_owned(), "x 2".to_owned()),
        ];
        let text = together(files);
        let rest = text.strip_prefix(RESET).unwrap();
        assert_eq!(rest, "x 1\n/a/**/x 2\n/a/b/**/x 3\n");
    }
}
