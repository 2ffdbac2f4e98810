//! Writes the commit that a workspace starts from, as `git commit-tree` does. A process of git would
//! take more time than the rest of this step.

use std::io::{self, Write};

use camino::Utf8Path;
use flate2::{Compression, write::ZlibEncoder};
use fs_err as fs;
use proctor_record::fs::hex;
use sha1::{Digest, Sha1};

/// The author and committer. The time is fixed, so that equal trees are equal commits.
const IDENTITY: &str = "proctor <proctor@localhost> 946684800 +0000";

/// Writes a commit of `tree` to a git directory. Returns its id.
pub(super) fn write_commit(
    git_dir: &Utf8Path,
    tree: &str,
    parent: Option<&str>,
    message: &str,
) -> io::Result<String> {
    let parent = parent.map_or_else(String::new, |parent| format!("parent {parent}\n"));
    let commit =
        format!("tree {tree}\n{parent}author {IDENTITY}\ncommitter {IDENTITY}\n\n{message}\n");
    let object = format!("commit {}\0{commit}", commit.len());
    let id = hex(&Sha1::digest(&object));
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(object.as_bytes())?;
    let (folder, name) = id.split_at(2);
    let folder = git_dir.join("objects").join(folder);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), packed.finish()?)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_that_of_git_commit_tree() {
        let dir = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(dir.path()).unwrap();
        let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let first = write_commit(dir, tree, None, "Base of the trial: a folder").unwrap();
        assert_eq!(first, "b044e7333c8a936692cb2393b27ae35f623ffdc4");
        let second = write_commit(dir, tree, Some(&first), "next").unwrap();
        assert_eq!(second, "beb86fc968608ab36c90ce7941977940c104057b");
        assert!(
            dir.join("objects")
                .join(&first[..2])
                .join(&first[2..])
                .is_file()
        );
    }
}
