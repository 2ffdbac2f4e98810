//! The first-parent history of a repository: commits and merges, each with its difference from its
//! first parent.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_sandbox::{
    git::{Git, GitError},
    host::Host,
};

use crate::error::MineError;

/// The number of commits that are read at once.
pub(crate) const PAGE: usize = 500;

/// The fields of a commit. The first byte starts a commit, the second separates fields.
const FORMAT: &str = "--format=%x01%H%x02%P%x02%T%x02%cI%x02%B%x02";

/// Git's mode of a submodule.
const SUBMODULE: &str = "160000";

/// A commit with its difference from its first parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) commit: String,
    /// The first parent; `None` for a root commit.
    pub(crate) parent: Option<String>,
    pub(crate) tree: String,
    pub(crate) date: String,
    pub(crate) message: String,
    pub(crate) files: Vec<FileDiff>,
}

impl Unit {
    /// The first line of the message.
    pub(crate) fn subject(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }
}

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileDiff {
    pub(crate) path: String,
    pub(crate) old: Option<FileEntry>,
    pub(crate) new: Option<FileEntry>,
    /// Added and deleted lines; `None` for a binary file.
    pub(crate) lines: Option<u64>,
}

/// A file in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileEntry {
    pub(crate) mode: String,
    pub(crate) blob: String,
}

impl FileEntry {
    pub(crate) fn is_submodule(&self) -> bool {
        self.mode == SUBMODULE
    }
}

/// A local repository.
pub(crate) struct Repository {
    pub(crate) path: Utf8PathBuf,
    pub(crate) git: Git,
    /// The directory of its objects.
    pub(crate) objects: Utf8PathBuf,
    pub(crate) head: String,
}

impl Repository {
    pub(crate) async fn open(path: &Utf8Path, host: &Host) -> Result<Repository, MineError> {
        let not_one = || MineError::NotARepository {
            path: path.to_owned(),
        };
        let inside = path.join(".git");
        let dir = if inside.exists() {
            inside
        } else {
            path.to_owned()
        };
        let git = Git::new(host, &dir);
        let objects = [
            "rev-parse",
            "--path-format=absolute",
            "--git-path",
            "objects",
        ];
        let objects = git.line(objects).await.map_err(|_| not_one())?;
        let head = git.line(["rev-parse", "--verify", "HEAD^{commit}"]).await;
        Ok(Repository {
            path: path.to_owned(),
            objects: objects.into(),
            head: head.map_err(|_| not_one())?,
            git,
        })
    }

    /// The commit of a revision.
    pub(crate) async fn commit(&self, revision: &str) -> Option<String> {
        let wanted = format!("{revision}^{{commit}}");
        let parse = ["rev-parse", "--verify", "--end-of-options", &wanted];
        self.git.line(parse).await.ok()
    }
}

/// The contents of blobs.
pub(crate) async fn blobs<'a>(
    git: &Git,
    ids: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, Vec<u8>>, GitError> {
    let mut input = String::new();
    for id in ids {
        input.extend([id, "\n"]);
    }
    if input.is_empty() {
        return Ok(BTreeMap::new());
    }
    let batch = ["cat-file", "--batch"];
    let output = git.run_with_input(batch, input.into_bytes()).await?;
    Ok(read_batch(&output))
}

/// The output of `cat-file --batch`: a line `ID blob SIZE`, the content, and a line break.
fn read_batch(mut output: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    while let Some(end) = output.iter().position(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(&output[..end]).into_owned();
        output = &output[end + 1..];
        let mut words = line.split(' ');
        let (id, kind, size) = (words.next(), words.next(), words.next());
        let size: Option<usize> = size.and_then(|size| size.parse().ok());
        if let (Some(id), Some("blob"), Some(size)) = (id, kind, size)
            && let Some(content) = output.get(..size)
        {
            found.insert(id.to_owned(), content.to_vec());
            output = output.get(size + 1..).unwrap_or_default();
        }
    }
    found
}

/// The part of the history to read, newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    /// The newest commit.
    pub(crate) from: String,
    /// The commit to stop at.
    pub(crate) until: Option<String>,
    /// The earliest date.
    pub(crate) since: Option<String>,
    /// Patterns of changed files.
    pub(crate) paths: Vec<String>,
}

impl Walk {
    /// Reads `--since`: a revision, or a date.
    pub(crate) async fn limit(&mut self, since: &str, repo: &Repository) -> Result<(), MineError> {
        if let Some(commit) = repo.commit(since).await {
            self.until = Some(commit);
            return Ok(());
        }
        let is_date =
            since.parse::<jiff::civil::Date>().is_ok() || since.parse::<jiff::Timestamp>().is_ok();
        if !is_date {
            return Err(MineError::Since {
                text: since.to_owned(),
            });
        }
        self.since = Some(since.to_owned());
        Ok(())
    }

    /// The commits of one page.
    pub(crate) async fn page(&self, repo: &Repository, page: usize) -> Result<Vec<Unit>, GitError> {
        let skip = format!("--skip={}", page * PAGE);
        let count = format!("--max-count={PAGE}");
        let mut args: Vec<String> = [
            "log",
            "--first-parent",
            "--diff-merges=first-parent",
            "--no-renames",
            "--full-diff",
            "--raw",
            "--numstat",
            "--no-abbrev",
            "-z",
            FORMAT,
            &skip,
            &count,
        ]
        .map(str::to_owned)
        .into();
        args.extend(self.since.iter().map(|date| format!("--since={date}")));
        args.push(self.from.clone());
        args.extend(self.until.iter().map(|commit| format!("^{commit}")));
        args.push("--".to_owned());
        args.extend(self.paths.iter().map(|path| format!(":(glob){path}")));
        let output = repo.git.run(args.iter().map(String::as_str)).await?;
        Ok(read_log(&String::from_utf8_lossy(&output)))
    }
}

/// The commits of `git log -z --raw --numstat`.
fn read_log(text: &str) -> Vec<Unit> {
    text.split('\u{1}').skip(1).filter_map(read_unit).collect()
}

fn read_unit(text: &str) -> Option<Unit> {
    let mut fields = text.splitn(6, '\u{2}');
    let mut field = || fields.next();
    let (commit, parents, tree, date, message) = (field()?, field()?, field()?, field()?, field()?);
    Some(Unit {
        commit: commit.to_owned(),
        parent: parents
            .split(' ')
            .next()
            .filter(|it| !it.is_empty())
            .map(str::to_owned),
        tree: tree.to_owned(),
        date: date.to_owned(),
        message: message.trim().to_owned(),
        files: read_files(field()?),
    })
}

/// The files of a commit: `:MODE MODE BLOB BLOB STATUS`, the path, and later `ADDED DELETED PATH`.
pub(crate) fn read_files(text: &str) -> Vec<FileDiff> {
    let mut files: Vec<FileDiff> = Vec::new();
    let mut parts = text.split('\0').map(|part| part.trim_start_matches('\n'));
    while let Some(part) = parts.next() {
        if let Some(raw) = part.strip_prefix(':') {
            let words: Vec<&str> = raw.split(' ').collect();
            let (&[old, new, old_blob, new_blob, _], Some(path)) = (&words[..], parts.next())
            else {
                continue;
            };
            let entry = |mode: &str, blob: &str| {
                (mode != "000000").then(|| FileEntry {
                    mode: mode.to_owned(),
                    blob: blob.to_owned(),
                })
            };
            files.push(FileDiff {
                path: path.to_owned(),
                old: entry(old, old_blob),
                new: entry(new, new_blob),
                lines: None,
            });
        } else if let [added, deleted, path] = part.splitn(3, '\t').collect::<Vec<_>>()[..] {
            let count = |text: &str| text.parse::<u64>().ok();
            let lines = count(added).zip(count(deleted)).map(|(a, d)| a + d);
            if let Some(file) = files.iter_mut().find(|file| file.path == path) {
                file.lines = lines;
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_read_with_its_files() {
        let text = "\u{1}c1\u{2}p1 p2\u{2}t1\u{2}2025-01-01T00:00:00Z\u{2}Fix it\n\nBody\n\u{2}\0\n:100644 100644 b1 b2 M\0src/a b.py\0:000000 100755 0 b3 A\0x.bin\x003\t1\tsrc/a b.py\0-\t-\tx.bin\0\0\u{1}c0\u{2}\u{2}t0\u{2}d\u{2}first\n\u{2}\0";
        let units = read_log(text);
        assert_eq!(units.len(), 2);
        assert_eq!(units[0].parent.as_deref(), Some("p1"));
        assert_eq!(units[0].subject(), "Fix it");
        assert_eq!(units[0].files.len(), 2);
        assert_eq!(units[0].files[0].path, "src/a b.py");
        assert_eq!(units[0].files[0].lines, Some(4));
        assert_eq!(units[0].files[1].old, None);
        assert_eq!(units[0].files[1].lines, None);
        assert_eq!(units[1].parent, None);
        assert!(units[1].files.is_empty());
    }

    #[test]
    fn batch_of_blobs_is_read() {
        let found = read_batch(b"a1 blob 3\nx\ny\nb2 missing\nc3 blob 0\n\n");
        assert_eq!(found["a1"], b"x\ny");
        assert_eq!(found["c3"], b"");
        assert_eq!(found.len(), 2);
    }
}
