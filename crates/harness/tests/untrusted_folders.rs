//! Files below folders that agents write to are opened through `UntrustedDir` only. The type keeps the path of a
//! workspace and of a clean copy to itself; this test finds the calls that take the path for child processes, or a
//! folder that has no such type, and open a file with it.
#![allow(clippy::unwrap_used, reason = "a test says so by panicking")]

use std::path::{Path, PathBuf};

/// Modules that read nothing but files of agents.
const UNTRUSTED: [&str; 8] = [
    "record/src/record/metrics_file.rs",
    "harness/src/workspace/head.rs",
    "harness/src/workspace/pristine.rs",
    "harness/src/evaluate/clean_copy.rs",
    "harness/src/evaluate/fill.rs",
    "harness/src/evaluate/reward.rs",
    "harness/src/evaluate/seal.rs",
    "harness/src/evaluate/tests/trace.rs",
];

/// The crates that handle files of agents.
const CRATES: [&str; 4] = ["record", "sandbox", "agents", "harness"];

/// Calls that follow links, or wait for the other end of a pipe.
const CALLS: [&str; 12] = [
    "fs::read(",
    "fs::read_to_string(",
    "fs::write(",
    "fs::copy(",
    "fs::metadata(",
    "fs::remove_file(",
    "fs::File::",
    "File::open(",
    "File::create(",
    "fs_err::read(",
    "fs_err::write(",
    "fs_err::copy(",
];

/// Expressions for a path in a folder that an agent, or the work of an agent, writes to.
const PLACES: [&str; 8] = [
    "path_for_child()",
    "workspace.path()",
    "working_dir().join(",
    "copy.join(",
    "copy_inside().join(",
    "trial_dir.home.join(",
    "home.join(",
    "src_modified.join(",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The statements of a file that are not its tests, each on one line, with the number of its first line.
fn statements(path: &Path) -> Vec<(usize, String)> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"));
    let mut found = vec![(1, String::new())];
    for (number, line) in lines.enumerate() {
        let line = line.trim();
        let (start, statement) = found.last_mut().unwrap();
        if statement.is_empty() {
            *start = number + 1;
        }
        statement.push_str(line);
        if line.ends_with([';', '{', '}', ',']) {
            found.push((number + 2, String::new()));
        }
    }
    found
}

#[test]
fn files_of_agents_are_opened_beneath_their_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in UNTRUSTED {
        assert!(root.join(name).is_file(), "{name} is not there any more");
    }
    let mut wrong = Vec::new();
    let crates = CRATES.map(|name| sources(&root.join(name).join("src")));
    for path in crates.into_iter().flatten() {
        let below = path.strip_prefix(&root).unwrap();
        let name = below.to_string_lossy().replace('\\', "/");
        let is_untrusted = UNTRUSTED.contains(&name.as_str());
        for (number, statement) in statements(&path) {
            let calls = CALLS.iter().any(|call| statement.contains(call));
            let names_place = PLACES.iter().any(|place| statement.contains(place));
            if calls && (is_untrusted || names_place) {
                wrong.push(format!("{name}:{number}: {statement}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "use `UntrustedDir` to open these files:\n{}",
        wrong.join("\n")
    );
}
