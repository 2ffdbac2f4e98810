//! The files in a test case's folder that a judging command can read: listed files and files that
//! the command names, never the reference solution.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_document::Fault;
use proctor_record::{fs::dir, platform};

use crate::config::{EvaluatorSpec, Reference};

/// The variable with the path of these files.
pub(super) const CASE_DIR: &str = "PROCTOR_CASE_DIR";

/// The selected files.
#[derive(Clone, Debug)]
pub(super) struct CaseFiles {
    folder: Utf8PathBuf,
    /// Files and folders, relative to the folder.
    paths: Vec<Utf8PathBuf>,
}

impl CaseFiles {
    /// Selects the files of `files` and those that the command names; `None` if there are none.
    pub(super) fn read(
        spec: &EvaluatorSpec,
        folder: &Utf8Path,
        listed: &[String],
        argv: &[String],
    ) -> Result<Option<CaseFiles>, Fault> {
        let mut paths = Vec::new();
        for path in listed.iter().map(Utf8PathBuf::from) {
            if !is_below(&path) {
                let message = format!("`{path}` is outside of the test case's folder");
                return Err(spec.config.fault("files", message));
            }
            if folder.join(&path).symlink_metadata().is_err() {
                let message = format!("file not found: {}", folder.join(&path));
                return Err(spec.config.fault("files", message));
            }
            paths.push(path);
        }
        for path in named(argv) {
            if !path.as_str().is_empty() {
                paths.push(path);
            } else if listed.is_empty() {
                let message = format!("`command` uses {CASE_DIR} without a file name");
                let fault = spec.config.fault("command", message);
                return Err(fault
                    .with_hint("list the files that it needs, such as `files: [hidden-test.sh]`"));
            }
        }
        let folder = folder.to_owned();
        Ok((!paths.is_empty()).then_some(CaseFiles { folder, paths }))
    }

    /// Their names and paths.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Utf8Path, Utf8PathBuf)> {
        let paths = self.paths.iter();
        paths.map(|path| (path.as_path(), self.folder.join(path)))
    }

    /// The file names of the selected files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().filter_map(|path| path.file_name())
    }

    /// Copies the files to a folder. Missing files that only the command names are ignored: the
    /// command reports them.
    pub(super) fn copy_to(
        &self,
        to: &Utf8Path,
        reference: Option<&Reference>,
    ) -> std::io::Result<()> {
        let hidden = match reference {
            Some(Reference::Patch(path) | Reference::Folder(path)) => path.canonicalize_utf8().ok(),
            _ => None,
        };
        let keep = |path: &std::path::Path| {
            hidden.is_none() || path.canonicalize().ok() != hidden.clone().map(Into::into)
        };
        for path in &self.paths {
            let (from, target) = (self.folder.join(path), to.join(path));
            let Ok(about) = from.metadata() else {
                continue;
            };
            if !keep(from.as_std_path()) {
                continue;
            }
            fs::create_dir_all(target.parent().unwrap_or(to))?;
            if about.is_dir() {
                dir::copy_where(from.as_std_path(), target.as_std_path(), &keep)?;
            } else {
                fs::copy(&from, &target)?;
            }
        }
        Ok(())
    }
}

fn is_below(path: &Utf8Path) -> bool {
    let leaves = path.components().any(|part| part.as_str() == "..");
    !leaves && !platform::is_rooted(path.as_str())
}

/// The paths below the folder that a command names; an empty path for the folder itself. For a
/// pattern, the folder of the pattern.
fn named(argv: &[String]) -> Vec<Utf8PathBuf> {
    let text = argv.join("\n");
    let mut found = Vec::new();
    for (at, _) in text.match_indices(CASE_DIR) {
        let rest = &text[at + CASE_DIR.len()..];
        let rest = rest.trim_start_matches(['}', '%']);
        let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
        let end = rest.find(|c: char| c.is_whitespace() || "\"'`;|&()<>$%".contains(c));
        let path = &rest[..end.unwrap_or(rest.len())];
        let path = path.replace('\\', "/");
        let path = path.trim_matches('/');
        let path = match path.find(['*', '?', '[', '{']) {
            Some(pattern) => path[..pattern]
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder),
            None => path,
        };
        let path = Utf8PathBuf::from(path);
        found.push(if is_below(&path) {
            path
        } else {
            Utf8PathBuf::new()
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let argv = ["sh", "-c", line].map(str::to_owned);
        assert_eq!(named(&argv), expected, "{line}");
    }

    #[test]
    fn files_that_a_command_names_are_found() {
        check("sh \"$PROCTOR_CASE_DIR/more.sh\" x", &["more.sh"]);
        check(
            "sh \"${PROCTOR_CASE_DIR}\"/a/b.sh; cat $PROCTOR_CASE_DIR/c",
            &["a/b.sh", "c"],
        );
        check("cp -r $PROCTOR_CASE_DIR/hidden/*.py .", &["hidden"]);
        check("true", &[]);
    }

    #[test]
    fn folder_is_distinguished_from_its_files() {
        check("ls $PROCTOR_CASE_DIR", &[""]);
        check("cp $PROCTOR_CASE_DIR/* .", &[""]);
        check("cat $PROCTOR_CASE_DIR/../secret", &[""]);
    }
}
