//! Finds tasks: test cases in a folder, task folders in Harbor's format, and matches of a pattern.
//! All commands use this module.

use std::io::Read;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::fs::{
    expand::{Hidden, entries, expand},
    glob,
};

use crate::config::is_suite;

/// The part of a file that shows its format.
const MAX_START: u64 = 1 << 20;

/// The file that makes a folder a task.
pub const TASK_FILE: &str = "task.toml";

/// The file of a task of Terminal-Bench 1.
pub const TERMINAL_BENCH_FILE: &str = "task.yaml";

/// Whether a folder is a task: in Harbor's format, or of Terminal-Bench 1.
pub fn is_task_folder(path: &Utf8Path) -> bool {
    path.join(TASK_FILE).is_file() || is_terminal_bench(path)
}

/// Whether a folder is a task, or contains some.
pub fn is_dataset(path: &Utf8Path) -> bool {
    path.is_dir() && !task_folders(path).is_empty()
}

/// Whether a folder is a task of Terminal-Bench 1.
pub fn is_terminal_bench(path: &Utf8Path) -> bool {
    let has = |name: &str| path.join(name).is_file();
    let has_parts = has("run-tests.sh") || has("docker-compose.yaml");
    has(TERMINAL_BENCH_FILE) && has_parts && !has(TASK_FILE)
}

/// A task folder, the task folders in a folder, or the matches of a pattern.
pub fn task_folders(path: &Utf8Path) -> Vec<Utf8PathBuf> {
    if glob::is_pattern(path.as_str()) {
        let mut found = expand(path, Hidden::Skipped);
        found.retain(|folder| is_task_folder(folder));
        return found;
    }
    if is_task_folder(path) {
        return vec![path.to_owned()];
    }
    let mut found = children(path);
    found.retain(|folder| is_task_folder(folder));
    found
}

/// Whether a file has instances in the format of SWE-bench: JSON or JSONL.
pub fn is_instances(path: &Utf8Path) -> bool {
    let is_json = matches!(path.extension(), Some("json" | "jsonl"));
    let start = || {
        let mut start = Vec::new();
        let file = fs_err::File::open(path).ok()?;
        file.take(MAX_START).read_to_end(&mut start).ok()?;
        Some(start)
    };
    is_json
        && path.is_file()
        && start().is_some_and(|start| {
            let has = |key: &[u8]| memchr::memmem::find(&start, key).is_some();
            has(b"\"instance_id\"") || has(b"\"FAIL_TO_PASS\"")
        })
}

/// A file, the test cases of a folder, or the matches of a pattern.
pub fn case_files(path: &Utf8Path) -> Vec<Utf8PathBuf> {
    let mut found = if glob::is_pattern(path.as_str()) && !path.exists() {
        expand(path, Hidden::Skipped)
    } else if path.is_dir() {
        children(path)
    } else {
        return path
            .is_file()
            .then(|| path.to_owned())
            .into_iter()
            .collect();
    };
    found.retain(|file| {
        let is_named_like_one = matches!(file.extension(), Some("yaml" | "yml" | "json"));
        is_named_like_one && file.is_file() && !is_suite(file)
    });
    found
}

/// The entries of a directory, sorted, without hidden names.
fn children(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let mut found = entries(folder);
    found.retain(|path| !path.file_name().is_some_and(|name| name.starts_with('.')));
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_files_and_patterns_are_found_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        for name in ["set/b", "set/a", "set/.hidden", "other/c"] {
            fs_err::create_dir_all(root.join(name)).unwrap();
            fs_err::write(root.join(name).join(TASK_FILE), "").unwrap();
        }
        fs_err::create_dir(root.join("set/none")).unwrap();
        for (name, text) in [
            ("set/x.yaml", "name: x"),
            ("set/s.yaml", "agents: []"),
            ("set/.rc.yaml", ""),
        ] {
            fs_err::write(root.join(name), text).unwrap();
        }
        let names = |found: Vec<Utf8PathBuf>| -> Vec<String> {
            let below = |path: &Utf8PathBuf| {
                let below = path.strip_prefix(root).unwrap();
                proctor_record::platform::slashed(below.as_str()).into_owned()
            };
            found.iter().map(below).collect()
        };
        assert_eq!(names(task_folders(&root.join("set"))), ["set/a", "set/b"]);
        assert_eq!(names(task_folders(&root.join("set/a"))), ["set/a"]);
        assert_eq!(
            names(task_folders(&root.join("*/[bc]"))),
            ["other/c", "set/b"]
        );
        assert_eq!(names(case_files(&root.join("set"))), ["set/x.yaml"]);
        assert_eq!(names(case_files(&root.join("s*/*.yaml"))), ["set/x.yaml"]);
        assert!(!is_dataset(&root.join("set/none")));
    }
}
