//! Task files that Harbor's own parser accepts are accepted here, too. The files come from
//! `scripts/harbor-corpus.py`, which asks Harbor.

use std::collections::BTreeMap;

use camino::Utf8Path;
use proctor_harness::{config::Settings, task::harbor};

const ACCEPTED_BY_HARBOR: &str = include_str!("data/harbor-accepts.jsonl");
/// The share that must be accepted.
const ENOUGH: f64 = 0.99;

#[test]
fn files_that_harbor_accepts_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Utf8Path::from_path(dir.path()).unwrap();
    for (name, text) in [
        ("instruction.md", "Do it.\n"),
        ("environment/Dockerfile", "FROM debian:12\nWORKDIR /app\n"),
        ("tests/test.sh", "true\n"),
    ] {
        let path = folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    let mut refused = Vec::new();
    let mut count = 0;
    for line in ACCEPTED_BY_HARBOR.lines() {
        let text: String = serde_json::from_str(line).unwrap();
        fs_err::write(folder.join("task.toml"), &text).unwrap();
        let loaded = harbor::load(folder, &BTreeMap::new(), &Settings::default());
        refused.extend(loaded.err().map(|error| error.to_string()));
        count += 1;
    }
    assert!(count >= 500, "{count}");
    let share = 1.0 - refused.len() as f64 / f64::from(count);
    let reasons = refused.join("\n");
    assert!(share >= ENOUGH, "accepted: {share}, refused:\n{reasons}");
}
