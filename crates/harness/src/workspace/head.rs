//! Where HEAD of an agent's repository is, read as git keeps it in the plain case, without a process.

use std::path::{Component, Path};

use crate::fs::beneath::Beneath;

/// The most bytes of a file that names a commit or a branch.
const LONGEST: u64 = 4096;

/// The commit, if HEAD is one, or a branch that is a file of its own. Anything else is for git to tell.
pub(super) fn plain(git_dir: &Path) -> Option<String> {
    let head = read(git_dir, Path::new("HEAD"))?;
    let Some(branch) = head.strip_prefix("ref: ") else {
        return commit(&head);
    };
    let is_inside = Path::new(branch)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !is_inside || !branch.starts_with("refs/") {
        return None;
    }
    commit(&read(git_dir, Path::new(branch))?)
}

/// A small file's text. The agent may have put anything in its place or in that of its folders.
fn read(git_dir: &Path, file: &Path) -> Option<String> {
    let below = Path::new(git_dir.file_name()?).join(file);
    let bytes = Beneath::new(git_dir.parent()?).read(below, LONGEST).ok()?;
    Some(String::from_utf8(bytes).ok()?.trim_end().to_owned())
}

fn commit(text: &str) -> Option<String> {
    let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expect: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("refs/heads")).unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        assert_eq!(plain(dir.path()).as_deref(), expect, "{files:?}");
    }

    #[test]
    fn a_head_is_read_where_it_is_plain_and_nowhere_else() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let line = format!("{id}\n");
        check(&[("HEAD", &line)], Some(id));
        let branch = ("refs/heads/main", line.as_str());
        check(&[("HEAD", "ref: refs/heads/main\n"), branch], Some(id));
        check(&[("HEAD", "ref: refs/heads/gone\n"), branch], None);
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
        std::fs::create_dir_all(path("work/.git")).unwrap();
        let id = "0123456789abcdef0123456789abcdef01234567";
        std::fs::write(path("outside/HEAD"), id).unwrap();
        std::fs::write(path("outside/refs/heads/main"), id).unwrap();
        symlink("../outside", path("work/linked")).unwrap();
        assert_eq!(plain(&path("work/linked")), None);
        symlink("../../outside/refs", path("work/.git/refs")).unwrap();
        std::fs::write(path("work/.git/HEAD"), "ref: refs/heads/main").unwrap();
        assert_eq!(plain(&path("work/.git")), None);
        assert_eq!(plain(&path("outside")).as_deref(), Some(id));
    }
}
