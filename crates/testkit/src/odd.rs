//! Everything that is odd in a workspace: a repository that has it, an agent that changes it, and the proof that
//! a patch tells all of the change.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use camino::Utf8Path;

use crate::repo::Repo;

/// The agent's changes to the files of [`commit_odd`], for any shell.
pub const CHANGES: &str = r#"
ln -sfn elsewhere dangling
rm absolute && echo plain > absolute
rm outside
ln -s /root/secret new-link
rm to-folder && mkdir to-folder && echo x > to-folder/file
printf 'real bytes\001\n' > model.bin
chmod +x folder/kept.txt && echo more >> folder/kept.txt
echo more >> "$(printf 'line\nbreak.txt')"
echo more >> latin-*.txt
echo new > "$(printf 'new\nname')"
echo bytes > "$(printf 'bytes-\377\376')"
echo private > private.txt && chmod 600 private.txt
mkfifo pipe
"#;

/// Says whether the work that [`CHANGES`] did is there, for any shell.
pub const JUDGE: &str = r#"test "$(readlink dangling)" = elsewhere && grep -qx plain absolute && test ! -L absolute && test ! -L outside && test "$(readlink new-link)" = /root/secret && grep -qx x to-folder/file && grep -q real model.bin && test -x folder/kept.txt && grep -qx more latin-*.txt && grep -qx private private.txt && test "$(ls bytes-* | wc -l)" = 1"#;

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

/// Commits links that lead nowhere, out and inwards, a pointer of LFS, and names of any bytes.
pub fn commit_odd(repo: &Repo) {
    let path = repo.path().as_std_path();
    for (target, name) in [
        ("nowhere", "dangling"),
        ("/etc/hostname", "absolute"),
        ("../../outside", "outside"),
        ("folder", "to-folder"),
    ] {
        symlink(target, path.join(name)).expect("a link");
    }
    for name in [&b"line\nbreak.txt"[..], b"latin-\xe4.txt"] {
        fs_err::write(path.join(OsStr::from_bytes(name)), "text\n").expect("a file");
    }
    let files = [
        ("folder/kept.txt", "kept\n"),
        ("model.bin", POINTER),
        (
            ".gitattributes",
            "*.bin filter=lfs diff=lfs merge=lfs -text\n",
        ),
    ];
    repo.commit("odd", &files);
}

/// Commits a submodule at `vendor/lib` that is not checked out.
pub fn commit_submodule(repo: &Repo) {
    let modules = "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = https://example.com/lib.git\n";
    fs_err::write(repo.path().join(".gitmodules"), modules).expect("a file");
    fs_err::create_dir_all(repo.path().join("vendor/lib")).expect("a folder");
    let link = format!("160000,{},vendor/lib", "1".repeat(40));
    repo.git(["add", ".gitmodules"]);
    repo.git(["update-index", "--add", "--cacheinfo", &link]);
    repo.git(["commit", "--quiet", "--message", "submodule"]);
}

/// Commits so many files in 100 folders to the branch `many`, which is not checked out.
pub fn commit_many(repo: &Repo, count: usize) {
    let mut stream = "blob\nmark :1\ndata 5\nsame\n\ncommit refs/heads/many\ncommitter Fixture <f@example.com> 1704067200 +0000\ndata 5\nmany\n\n".to_owned();
    for number in 0..count {
        let folder = number % 100;
        writeln!(stream, "M 100644 :1 d{folder}/f{number}.txt").expect("text takes text");
    }
    repo.git_with_input(&["fast-import", "--quiet"], stream.as_bytes());
}

/// Panics unless `patch` makes of the repository's files what the agent left in `left`.
#[track_caller]
pub fn assert_patch_is_complete(repo: &Repo, patch: &Utf8Path, left: &Utf8Path) {
    repo.git(["apply", "--index", "--binary", patch.as_str()]);
    let (mut patched, mut worked) = (BTreeMap::new(), BTreeMap::new());
    walk(repo.path().as_std_path(), Path::new(""), &mut patched);
    walk(left.as_std_path(), Path::new(""), &mut worked);
    assert_eq!(patched, worked);
}

/// The kind of a file or link.
#[derive(Debug, PartialEq, Eq)]
enum Thing {
    File { bytes: Vec<u8>, is_executable: bool },
    Link(PathBuf),
}

/// All files and links below a folder, `.git` at its top left out.
fn walk(root: &Path, below: &Path, found: &mut BTreeMap<PathBuf, Thing>) {
    for entry in std::fs::read_dir(root.join(below)).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = below.join(entry.file_name());
        let kind = entry.file_type().expect("a kind");
        if path == Path::new(".git") {
            continue;
        }
        if kind.is_dir() {
            walk(root, &path, found);
        } else if kind.is_symlink() {
            let target = std::fs::read_link(entry.path()).expect("a link");
            found.insert(path, Thing::Link(target));
        } else if kind.is_file() {
            let mode = entry.metadata().expect("metadata").permissions().mode();
            let thing = Thing::File {
                bytes: std::fs::read(entry.path()).expect("a file"),
                is_executable: mode & 0o100 != 0,
            };
            found.insert(path, thing);
        }
    }
}
