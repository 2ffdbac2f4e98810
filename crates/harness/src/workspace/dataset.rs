//! The files of a commit of a git repository with tasks, kept in the user's cache.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_record::fs::hex;
use proctor_sandbox::{git::Git, host::Host};
use sha2::{Digest, Sha256};

use super::source::{Source, SourceError};
use crate::config::{History, Repo};

/// The length of the name of a repository's directory in the cache.
const NAME_LENGTH: usize = 16;

/// A git repository with tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitDataset {
    /// The repository.
    pub repo: Repo,
    /// The repository as the suite names it.
    pub git: String,
    /// The branch, tag or commit.
    pub revision: String,
}

impl GitDataset {
    /// The revision, if it is the full id of a commit.
    pub fn commit(&self) -> Option<&str> {
        let is_id = matches!(self.revision.len(), 40 | 64);
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (is_id && self.revision.bytes().all(is_hex)).then_some(&self.revision)
    }

    /// The directory of the files of a commit.
    pub fn files(&self, cache: &Utf8Path, commit: &str) -> Utf8PathBuf {
        let digest = hex(&Sha256::digest(self.repo.to_string().as_bytes()));
        cache.join(&digest[..NAME_LENGTH]).join(commit)
    }

    /// Fetches the files of a revision, unless they are in the cache. Returns the commit.
    pub async fn fetch(
        &self,
        revision: &str,
        cache: &Utf8Path,
        host: &Host,
    ) -> Result<String, SourceError> {
        fs::create_dir_all(cache)?;
        let private = tempfile::Builder::new()
            .prefix("fetch-")
            .tempdir_in(cache)?;
        let private = Utf8Path::from_path(private.path()).expect("the cache is UTF-8");
        let source = Source::open(&self.repo, Some(revision), History::None, host, private).await?;
        let Source::Git {
            git, commit, tree, ..
        } = source
        else {
            return Err(SourceError::NotARepository {
                path: self.repo.to_string().into(),
                revision: revision.to_owned(),
            });
        };
        let place = self.files(cache, &commit);
        if place.is_dir() {
            return Ok(commit);
        }
        let files = private.join("files");
        write_files(&git, &tree, &files, &private.join("index")).await?;
        fs::create_dir_all(place.parent().expect("it is in the cache"))?;
        match fs::rename(&files, &place) {
            // Another process was faster.
            Err(_) if place.is_dir() => Ok(commit),
            renamed => Ok(renamed.map(|()| commit)?),
        }
    }
}

/// Writes the files of a tree, without touching the index of the repository.
async fn write_files(
    git: &Git,
    tree: &str,
    files: &Utf8Path,
    index: &Utf8Path,
) -> Result<(), SourceError> {
    fs::create_dir_all(files)?;
    let git = git.with_files(files);
    let git = git.with_env(&[("GIT_INDEX_FILE", index.as_str())]);
    git.run(["read-tree", tree]).await?;
    git.run(["checkout-index", "--all", "--force"]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_ids_are_commits() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        for (revision, expected) in [
            (id, Some(id)),
            ("main", None),
            ("0123456", None),
            (&id.to_uppercase(), None),
            (&id.repeat(2)[..64], Some(&id.repeat(2)[..64])),
        ] {
            let dataset = GitDataset {
                repo: Repo::Url("https://host/set".to_owned()),
                git: "https://host/set".to_owned(),
                revision: revision.to_owned(),
            };
            assert_eq!(dataset.commit(), expected, "{revision}");
        }
    }
}
