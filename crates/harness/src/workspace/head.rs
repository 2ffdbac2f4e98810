//! Where HEAD of an agent's repository is, read as git keeps it in the plain case, without a process.

use std::path::{Component, Path};

/// The commit, if HEAD is one, or a branch that is a file of its own. Anything else is for git to tell.
pub(super) fn plain(git_dir: &Path) -> Option<String> {
    let head = read(&git_dir.join("HEAD"))?;
    let Some(branch) = head.strip_prefix("ref: ") else {
        return commit(&head);
    };
    let is_inside = Path::new(branch)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !is_inside || !branch.starts_with("refs/") {
        return None;
    }
    commit(&read(&git_dir.join(branch))?)
}

/// A small file's text. The agent may have put anything in its place, a pipe for instance.
fn read(path: &Path) -> Option<String> {
    let about = path.symlink_metadata().ok()?;
    if !about.is_file() || about.len() > 4096 {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
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
}
