//! The local sandbox: an agent gains nothing by killing its supervisor, reading the environment of Proctor or of its
//! helpers, or putting a record in the place of another one.

use std::os::unix::fs::PermissionsExt;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{TestContext, processes_with};
use serde_json::{Value, json};

use crate::{
    attacks::{check, clear},
    judging::{case_of, standing},
    suites::{json_of, suite, two_agents},
    support::{context, proctor_run, run},
    table::{
        Expect::{Fails, Passes, Tampered},
        row,
    },
};

/// A value that is in the environment of Proctor only.
const CANARY: &str = "canary-5d1f0c7e";

#[test]
fn killed_supervisor_is_an_infrastructure_failure() {
    let context = context();
    context.repo().commit("base", &[("a.txt", "a\n")]);
    let passes = json!([{"name": "command", "config": {"command": ["true"]}}]);
    let daemon = format!(
        "(setsid sleep 3000.{}1 >/dev/null 2>&1 &)",
        std::process::id()
    );
    for (name, line) in [
        ("at once", "kill -9 $PPID; sleep 5".to_owned()),
        (
            "with a daemon",
            format!("{daemon}; sleep 0.2; kill -9 $PPID; sleep 5"),
        ),
        (
            "by a process in another session",
            format!("{daemon}; (setsid kill -9 $PPID &); sleep 5"),
        ),
        ("as its last act", "echo done; kill -9 $PPID".to_owned()),
    ] {
        clear(&context);
        run(&context, &case_of(&line, &passes)).assert_code(3);
        let record = context.record();
        assert_eq!(record["outcome"], "sandbox", "{name}: {record:#}");
        assert_eq!(record["process"]["ended_by"], "supervisor_lost", "{name}");
        assert_eq!(standing(&record), ("error", None), "{name}: {record:#}");
        let marker = format!("3000.{}1", std::process::id());
        assert_eq!(processes_with(&marker), Vec::<String>::new(), "{name}");
    }
    // The death of the agent alone is its own.
    clear(&context);
    run(&context, &case_of("kill -9 $$", &passes));
    assert_eq!(context.record()["outcome"], "agent_error");
}

#[test]
fn a_judged_command_that_loses_its_supervisor_is_not_judged() {
    let context = context();
    context.repo().commit("base", &[("a.txt", "a\n")]);
    for config in [
        json!({"command": ["sh", "-c", "kill -9 $PPID; sleep 5"]}),
        json!({"command": ["sh", "-c", "(setsid sh -c \"sleep 0.1; kill -9 $PPID\" &); sleep 5"]}),
    ] {
        clear(&context);
        let evaluators = json!([{"name": "command", "config": config}]);
        run(&context, &case_of("echo b > a.txt", &evaluators)).assert_code(3);
        let record = context.record();
        assert_eq!(record["outcome"], "completed", "{record:#}");
        assert_eq!(standing(&record), ("error", None), "{record:#}");
        let message = record["verdicts"][0]["message"].as_str().unwrap();
        assert!(message.contains("was killed"), "{message}");
    }
}

/// Runs an agent with secrets in the environment of Proctor, and gives what it printed.
fn printed(context: &TestContext, line: &str) -> String {
    let evaluators = json!([{"name": "command", "config": {"command": ["true"]}}]);
    let program = proctor_run(context, &case_of(line, &evaluators));
    program
        .env("ANTHROPIC_API_KEY", CANARY)
        .env("MY_TOKEN", CANARY)
        .env("DATABASE_URL", format!("db://user:{CANARY}@host"))
        .run()
        .assert_code(0);
    fs_err::read_to_string(context.artifact("raw/stdout")).unwrap()
}

#[test]
fn no_process_that_an_agent_can_see_has_a_secret_in_its_environment() {
    let context = context();
    let scan = "for f in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f; done 2>/dev/null | grep -c anary-5d1f0c7e || :";
    assert_eq!(printed(&context, scan), "0\n");
}

#[test]
fn helper_programs_get_no_secrets() {
    let context = context();
    let seen = context.root().join("seen");
    for name in ["git", "python3", "npm"] {
        let script = format!(
            "#!/bin/sh\nenv >> {seen}\necho {name} >> {seen}.names\nPATH=${{PATH#*:}} exec {name} \"$@\"\n"
        );
        let path = context.bin().join(name);
        fs_err::write(&path, script).unwrap();
        fs_err::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    printed(&context, "echo x > new.txt");
    let names = fs_err::read_to_string(format!("{seen}.names")).unwrap();
    assert!(names.contains("git"), "{names}");
    let seen = fs_err::read_to_string(&seen).unwrap();
    assert!(seen.contains("PATH=") && seen.contains("HOME="), "{seen}");
    assert!(!seen.contains(CANARY), "{seen}");
}

#[test]
fn hidden_tests_are_safe_from_processes_of_the_agent_and_of_the_work() {
    let context = context();
    let files = [
        ("answer.sh", "echo 0\n"),
        ("check.sh", "test \"$(sh answer.sh)\" = 42\n"),
    ];
    context.repo().commit("base", &files);
    let tests =
        json!([{"name": "command", "config": {"command": "sh check.sh", "protect": ["check.sh"]}}]);
    let overwrite = format!(
        "while :; do for f in $(find {} -name check.sh); do echo exit 0 > $f; done; sleep 0.01; done",
        context.root()
    );
    let daemon = format!("(setsid sh -c '{overwrite}' >/dev/null 2>&1 </dev/null &)");
    let good = "echo echo 42 > answer.sh";
    // Alone, because trials of this machine that run at the same time can change the files of each other.
    check(
        &context,
        &tests,
        &[row("a process that outlives the agent", Fails, &*daemon)],
    );
    clear(&context);
    check(
        &context,
        &tests,
        &[
            row("honest work", Passes, good),
            row(
                "the program under test",
                Tampered,
                "echo 'echo exit 0 > check.sh; echo 0' > answer.sh",
            ),
            row(
                "a process of the program under test",
                Tampered,
                "echo '(setsid sh -c \"sleep 0.1; echo exit 0 > check.sh\" >/dev/null 2>&1 &); sleep 0.3; echo 42' > answer.sh",
            ),
            row(
                "a test that is overwritten and restored",
                Tampered,
                "echo 'cp check.sh old; echo exit 0 > check.sh; sleep 0.1; cat old > check.sh; rm old; echo 42' > answer.sh",
            ),
        ],
    );
}

fn latest(context: &TestContext) -> Utf8PathBuf {
    context.root().join(".proctor/latest")
}

fn record_in(trial: &Utf8Path) -> Value {
    json_of(&trial.join("artifacts/record.json"))
}

/// Runs the suite, with these arguments besides.
fn run_suite(context: &TestContext, path: &Utf8Path, args: &[&str]) {
    let all = ["run", path.as_str()].into_iter();
    context
        .proctor(all.chain(args.iter().copied()))
        .run()
        .assert_code(0);
}

#[test]
fn misplaced_record_is_not_accepted() {
    let context = context();
    let path = suite(&context, &two_agents(&context), &json!({"trials": 2}));
    run_suite(&context, &path, &[]);
    let first_run = fs_err::canonicalize(latest(&context)).unwrap();
    run_suite(&context, &path, &[]);
    let trials = latest(&context).join("trials");
    let trial = |name: &str| trials.join(name);
    let (good, bad) = (trial("writer/one/trial-1"), trial("floor/one/trial-1"));
    let aside = trials.join("aside");
    for (from, to) in [(&good, &aside), (&bad, &good), (&aside, &bad)] {
        fs_err::rename(from, to).unwrap();
    }
    // The record of the same trial in another run.
    let other = "trials/writer/two/trial-2/artifacts/record.json";
    fs_err::copy(first_run.join(other), latest(&context).join(other)).unwrap();
    let untouched = record_in(&trial("writer/two/trial-1"));

    let report = context.proctor(["report", latest(&context).as_str()]).run();
    let reported = "unreadable or misplaced records: trials/floor/one/trial-1";
    assert!(report.stdout.contains(reported), "{report}");
    let status = context.proctor(["status", latest(&context).as_str()]).run();
    assert!(status.stdout.contains("3 not run"), "{status}");
    let rescored = context
        .proctor(["rescore", latest(&context).as_str()])
        .run();
    let reported = "its record belongs to trial 1 of writer on one";
    assert!(rescored.stdout.contains(reported), "{rescored}");

    run_suite(&context, &path, &["--resume"]);
    for (name, agent, task, number) in [
        ("writer/one/trial-1", "writer", "one", 1),
        ("floor/one/trial-1", "floor", "one", 1),
        ("writer/two/trial-2", "writer", "two", 2),
    ] {
        let record = record_in(&trial(name));
        assert_eq!(record["agent"]["name"], agent, "{record:#}");
        assert_eq!(record["task"]["name"], task, "{record:#}");
        assert_eq!(record["trial"], number, "{record:#}");
        let notes = record["notes"].to_string();
        assert!(notes.contains("and set aside"), "{name}: {notes}");
        assert!(trial(&format!("{name}.attempt-1")).is_dir(), "{name}");
    }
    let now = record_in(&trial("writer/two/trial-1"));
    assert_eq!(now["started_at"], untouched["started_at"]);
}

#[test]
fn a_run_whose_folder_was_renamed_is_resumed_without_running_anything_again() {
    let context = context();
    let path = suite(&context, &two_agents(&context), &json!({}));
    run_suite(&context, &path, &[]);
    let run = fs_err::canonicalize(latest(&context)).unwrap();
    let renamed = run.with_file_name("kept");
    fs_err::rename(&run, &renamed).unwrap();
    let renamed = Utf8PathBuf::try_from(renamed).unwrap();
    let record = || record_in(&renamed.join("trials/writer/one/trial-1"));
    let before = record();
    let resume = ["run", path.as_str(), "--resume", renamed.as_str()];
    context.proctor(resume).run().assert_code(0);
    assert_eq!(record(), before);
    assert!(!renamed.join("trials/writer/one/trial-1.attempt-1").exists());
}
