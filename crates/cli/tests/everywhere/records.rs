//! The same test case leaves the same record on every system, but for what belongs to the machine and the moment.

use serde_json::{Value, json};

use crate::support::{case_that_wants, context, install_agent, print, run, write};

/// Values that differ between machines and runs.
const OWN: [&str; 19] = [
    "/run_id",
    "/started_at",
    "/completed_at",
    "/duration_ms",
    "/host",
    "/agent/definition",
    "/agent/program",
    "/task/config_file",
    "/task/definition",
    "/task/evaluators",
    "/task/repo",
    "/process/argv",
    "/process/duration_ms",
    "/process/resources",
    "/proctor_version",
    "/verdicts/0/duration_ms",
    "/verdicts/0/timestamp",
    "/verdicts/1/duration_ms",
    "/verdicts/1/timestamp",
];

/// As it is written on Linux.
const EXPECTED: &str = include_str!("record.json");

#[test]
fn a_record_is_the_same_on_every_system() {
    let context = context();
    install_agent(
        &context,
        &[
            write("src/new.txt", "x\n"),
            json!({"delete": "README.md"}),
            print("done\n"),
        ],
    );
    let mut case = case_that_wants(&context, "src/new.txt");
    case["evaluators"]
        .as_array_mut()
        .unwrap()
        .push(json!("git-diff"));
    run(&context, &case).assert_code(0);
    let mut record = context.record();
    for place in OWN {
        if let Some(value) = record.pointer_mut(place) {
            *value = json!("[OWN]");
        }
    }
    let expected: Value = serde_json::from_str(EXPECTED).unwrap();
    assert!(record == expected, "{record:#}");
}

/// Paths in what was changed are written with slashes.
#[test]
fn paths_in_a_record_have_slashes() {
    let context = context();
    install_agent(&context, &[write("a/b/new.txt", "x\n")]);
    let case = crate::support::case();
    run(&context, &case).assert_code(0);
    let changed = context.record()["verdicts"].to_string();
    assert!(!changed.contains("\\\\"), "{changed}");
    let patch = fs_err::read_to_string(context.artifact("git-diff.patch")).unwrap();
    assert!(patch.contains("+++ b/a/b/new.txt\n"), "{patch}");
}
