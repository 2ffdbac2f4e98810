//! Reads HEAD of an agent's repository without git: a pipe instead of one of its files would block
//! git.

use std::path::{Component, Path};

use proctor_record::fs::beneath::UntrustedDir;

/// The maximum size of a file that names a commit or a branch.
const LONGEST: u64 = 4096;

/// The maximum size of the list of packed refs.
const LONGEST_LIST: u64 = 16 << 20;

/// The commit, if HEAD is a commit, or a branch with its own file or in the list of packed refs.
pub(super) fn read(files: &UntrustedDir) -> Option<String> {
    let head = text(files, "HEAD", LONGEST)?;
    let Some(branch) = head.strip_prefix("ref: ") else {
        return commit(&head);
    };
    let is_inside = Path::new(branch)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !is_inside || !branch.starts_with("refs/") {
        return None;
    }
    let own = text(files, branch, LONGEST);
    own.and_then(|own| commit(&own))
        .or_else(|| packed(&text(files, "packed-refs", LONGEST_LIST)?, branch))
}

/// The commit of a branch in the list of packed refs: `<commit> <branch>`.
fn packed(list: &str, branch: &str) -> Option<String> {
    let mut lines = list.lines().filter_map(|line| line.split_once(' '));
    let (id, _) = lines.find(|(_, name)| *name == branch)?;
    commit(id)
}

/// The text of a small file. The agent may have replaced it or its folders by anything.
fn text(files: &UntrustedDir, file: &str, most: u64) -> Option<String> {
    let bytes = files.read(Path::new(".git").join(file), most).ok()?;
    Some(String::from_utf8(bytes).ok()?.trim_end().to_owned())
}

fn commit(text: &str) -> Option<String> {
    let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn files(dir: &tempfile::TempDir) -> UntrustedDir {
        UntrustedDir::new(camino::Utf8Path::from_path(dir.path()).unwrap())
    }

    fn check(files_of_git: &[(&str, &str)], expect: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        std::fs::create_dir_all(git.join("refs/heads")).unwrap();
        for (name, text) in files_of_git {
            std::fs::write(git.join(name), text).unwrap();
        }
        assert_eq!(read(&files(&dir)).as_deref(), expect, "{files_of_git:?}");
    }

    #[test]
    fn head_is_a_commit_or_a_branch_inside_the_repository() {
        let line = format!("{ID}\n");
        check(&[("HEAD", &line)], Some(ID));
        let branch = ("refs/heads/main", line.as_str());
        check(&[("HEAD", "ref: refs/heads/main\n"), branch], Some(ID));
        check(&[("HEAD", "ref: refs/heads/gone\n"), branch], None);
        let list = format!("# pack-refs with: peeled\n{ID} refs/heads/old\n^{ID}\n");
        let old = ("HEAD", "ref: refs/heads/old\n");
        check(&[old, ("packed-refs", &list)], Some(ID));
        check(&[("HEAD", "ref: refs/../refs/heads/main\n"), branch], None);
        check(&[("HEAD", "ref: /etc/passwd\n")], None);
        check(&[("HEAD", "not a commit\n")], None);
        check(&[], None);
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_read_through_links() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(path("outside/refs/heads")).unwrap();
        std::fs::write(path("outside/HEAD"), ID).unwrap();
        std::fs::write(path("outside/refs/heads/main"), ID).unwrap();
        symlink("outside", path(".git")).unwrap();
        assert_eq!(read(&files(&dir)), None);
        std::fs::remove_file(path(".git")).unwrap();
        std::fs::create_dir(path(".git")).unwrap();
        symlink("../outside/refs", path(".git/refs")).unwrap();
        std::fs::write(path(".git/HEAD"), "ref: refs/heads/main").unwrap();
        assert_eq!(read(&files(&dir)), None);
        std::fs::remove_file(path(".git/refs")).unwrap();
        std::fs::rename(path("outside/refs"), path(".git/refs")).unwrap();
        assert_eq!(read(&files(&dir)).as_deref(), Some(ID));
    }
}
