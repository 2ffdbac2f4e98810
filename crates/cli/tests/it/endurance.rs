//! Runs survive being killed at any instant, and a full disk.

use std::{io::Write, time::Duration};

use camino::Utf8PathBuf;
use proctor_testkit::{Kills, Start, TestContext};
use serde_json::{Value, json};

use crate::{
    suites::{json_of, suite, two_agents},
    support::context,
};

/// No process and no temporary folder is there.
#[track_caller]
fn assert_tidy(context: &TestContext) {
    context.assert_nothing_left("");
    let tmp = context.root().join("tmp");
    let left: Vec<_> = tmp.read_dir_utf8().unwrap().flatten().collect();
    assert!(left.is_empty(), "left in the temporary folder: {left:?}");
}

#[test]
fn a_run_that_is_killed_at_fifty_instants_loses_nothing_and_leaves_nothing() {
    let context = context();
    let more = json!({"trials": 5, "parallel": 3});
    let path = suite(&context, &two_agents(&context), &more);
    let kills = Kills {
        count: 50,
        seed: 20_240_229,
        within: Duration::from_millis(700),
    };
    kills.survive(&context.root().join(".proctor"), |start| {
        let resume = (start == Start::Resume).then_some("--resume");
        let program = context.proctor(["run", path.as_str()].into_iter().chain(resume));
        program.deadline(Duration::from_mins(3))
    });
    assert_tidy(&context);
}

/// A file system of one megabyte, which is full after a few trials. It is mounted in a separate
/// mount namespace, so that nothing stays mounted.
const FULL: &str = r#"
mkdir .proctor && mount -t tmpfs -o size=1m none .proctor || exit 99
"$1" run suite/proctor.json --parallel 2 > first.out 2> first.err; echo $? > first.code
cp -r .proctor first
mount -o remount,size=200m .proctor || exit 99
"$1" run suite/proctor.json --resume > second.out 2> second.err; echo $? > second.code
cp -r .proctor second
"#;

/// Whether this user may mount here. Under `CI` it must be so.
fn may_mount(context: &TestContext) -> bool {
    let mount = "mkdir try && mount -t tmpfs none try";
    let tried = context.program("unshare".into(), ["-m", "sh", "-ec", mount]);
    let may = tried.run().code == Some(0);
    if !may {
        #[expect(
            clippy::disallowed_methods,
            reason = "tests are configured by the environment"
        )]
        let is_ci = std::env::var_os("CI").is_some();
        assert!(!is_ci, "the tests must run as a user who may mount");
        // Not a reason to fail: the line is only for those who look.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED full_disk_ends_the_run_and_resume_continues_it: no right to mount"
        );
    }
    may
}

fn records(folder: &Utf8PathBuf, found: &mut Vec<Utf8PathBuf>) {
    for entry in folder.read_dir_utf8().unwrap().flatten() {
        let path = entry.path().to_owned();
        if entry.file_type().unwrap().is_dir() {
            records(&path, found);
        } else if entry.file_name() == "record.json" {
            found.push(path);
        }
    }
}

#[test]
fn full_disk_ends_the_run_and_resume_continues_it() {
    let context = context();
    if !may_mount(&context) {
        return;
    }
    let path = suite(&context, &two_agents(&context), &json!({"trials": 10}));
    assert_eq!(path, context.root().join("suite/proctor.json"));
    let proctor = env!("CARGO_BIN_EXE_proctor");
    let args = ["-m", "sh", "-c", FULL, "sh", proctor];
    let script = context.program("unshare".into(), args);
    script.deadline(Duration::from_mins(4)).run().assert_code(0);
    let read = |name: &str| fs_err::read_to_string(context.root().join(name)).unwrap();
    let reported = read("first.out") + &read("first.err");
    assert_eq!(read("first.code"), "3\n", "{reported}");
    assert!(reported.contains("No space left on device"), "{reported}");
    let mut first = Vec::new();
    records(&context.root().join("first/runs"), &mut first);
    for path in &first {
        // Panics where one is half written.
        json_of(path);
    }
    assert!(first.len() < 40, "it was not full");
    assert_eq!(
        read("second.code"),
        "0\n",
        "{}{}",
        read("second.out"),
        read("second.err")
    );
    let runs = context.root().join("second/runs");
    let run = runs.read_dir_utf8().unwrap().next().unwrap().unwrap();
    let summary: Value = json_of(&run.path().join("summary.json"));
    let trials = summary["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 40, "{summary:#}");
    assert!(
        trials.iter().all(|trial| trial["outcome"] == "completed"),
        "{summary:#}"
    );
    assert_tidy(&context);
}
