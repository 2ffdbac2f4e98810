//! Mined tasks as directories in Harbor's format: mined, checked and judged in containers.

use std::os::unix::fs::PermissionsExt;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_testkit::{BUSYBOX, Output};
use serde_json::{Value, json};

use super::{Rig, shell};

/// A runner of shell tests that prints its results in the Test Anything Protocol.
const RUN: &str = "echo TAP version 13\nn=0\nfor t in tests/*.sh; do\n  n=$((n+1))\n  if sh \"$t\"; then echo \"ok $n - $t\"; else echo \"not ok $n - $t\"; fi\ndone\necho \"1..$n\"\n";
const ADD: &str = "add() { echo $(($1 + $2)); }\n";
const TEST_ADD: &str = ". ./lib.sh\ntest \"$(add 1 2)\" = 3\n";
const TEST_SUB: &str =
    ". ./lib.sh\ntest \"$(sub 3 2)\" = 1 && test ! -e old.sh && test -x bin/tool\n";

/// `proctor task mine` with an image.
fn mine(rig: &Rig, args: &[&str]) -> Output {
    let out = rig.context.root().join("mined");
    let repo = rig.context.repo().path();
    let all = ["task", "mine", repo.as_str(), "--out", out.as_str()];
    let own = ["--test-cmd", "sh run.sh", "--times", "1"];
    let all = all.into_iter().chain(own).chain(args.iter().copied());
    let program = rig.context.proctor(all);
    program.env("DOCKER_HOST", &rig.host).run()
}

/// A repository whose last commit changes, adds and removes files. Archives of it would have no
/// tests.
fn make_repository(rig: &Rig) {
    let repo = rig.context.repo();
    repo.commit(
        "Start",
        &[
            (".gitattributes", "tests export-ignore\n"),
            ("run.sh", RUN),
            ("lib.sh", ADD),
            ("old.sh", "# old\n"),
            ("tests/add.sh", TEST_ADD),
        ],
    );
    repo.git(["rm", "--quiet", "old.sh"]);
    let path = repo.path().join("bin/tool");
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(&path, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let sub = format!("{ADD}sub() {{ echo $(($1 - $2)); }}\n");
    repo.commit(
        "Subtract numbers",
        &[("lib.sh", &sub), ("tests/sub.sh", TEST_SUB)],
    );
}

fn only_folder(tasks: &Utf8Path) -> Utf8PathBuf {
    let mut folders = tasks.read_dir_utf8().unwrap();
    let folder = folders.next().unwrap().unwrap().into_path();
    assert!(folders.next().is_none());
    folder
}

#[test]
fn mined_task_is_a_directory_that_judges_out_of_the_agents_reach() {
    let Some(rig) = Rig::new() else { return };
    make_repository(&rig);
    let refused = mine(&rig, &["--format", "harbor"]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("--image"), "{refused}");

    let args = ["--from-commit", "HEAD", "--format", "harbor"];
    let output = mine(&rig, &[&args[..], &["--image", BUSYBOX]].concat());
    output.assert_code(0);
    assert!(output.stdout.contains("1 accepted"), "{output}");
    let out = rig.context.root().join("mined");
    let folder = only_folder(&out.join("tasks"));
    let manifest = fs_err::read_to_string(folder.join("task.toml")).unwrap();
    let commit = rig.context.repo().git(["rev-parse", "HEAD"]);
    for line in [
        format!("source_commit = \"{}\"", commit.trim()),
        "prompt_tier = \"both\"".to_owned(),
        "strength = { hunks = 3, undone = 3, noticed = 3 }".to_owned(),
    ] {
        assert!(manifest.contains(&line), "{line}: {manifest}");
    }
    let suite = out.join("proctor.yaml");
    let check = ["task", "check", suite.as_str(), "--times", "1"];
    let check = rig.context.proctor(check).env("DOCKER_HOST", &rig.host);
    let output = check.run();
    output.assert_code(0);
    assert!(output.stdout.contains("the null agent failed 1 of 1"));
    judge_solutions(&rig, &folder);
}

/// An honest solution passes. Wrong ones, and those that change the tests, fail.
fn judge_solutions(rig: &Rig, folder: &Utf8Path) {
    let sub = "echo 'sub() { echo $(($1 - $2)); }' >> lib.sh";
    let rest = "rm old.sh; mkdir -p bin; touch bin/tool; chmod +x bin/tool";
    let leak = "if grep -rq 'test -x bin/[t]ool' / --exclude-dir=proc --exclude-dir=sys 2>/dev/null; then touch /logs/artifacts/leaked; fi";
    let agents: Vec<Value> = vec![
        shell("honest", &format!("{sub}; {rest}")),
        shell("partial", sub),
        shell(
            "wrong",
            &format!("{}; {rest}", sub.replace("$1 - $2", "1 + 2")),
        ),
        shell(
            "breaks",
            &format!("{sub}; {rest}; sed -i s/add/plus/ lib.sh"),
        ),
        shell(
            "forges",
            "for t in tests/add.sh tests/sub.sh; do echo true > $t; done",
        ),
        shell(
            "links",
            "mkdir /app/t2; echo true > t2/sub.sh; rm -r tests; ln -s t2 tests",
        ),
        shell("searches", leak),
    ];
    let more = json!({"tasks": [{"folder": folder}], "sandbox": {"type": "docker"}});
    let path = rig.suite(&json!(agents), &more);
    rig.run(&path, &[]);
    for agent in &agents {
        let name = agent["name"].as_str().unwrap();
        let record = rig.record(name);
        assert_eq!(record["outcome"], "completed", "{record:#}");
        let reward = &record["verdicts"][0]["metrics"]["reward"];
        let expected = f64::from(u8::from(name == "honest"));
        assert_eq!(*reward, expected, "{name}: {record:#}");
    }
    let leaked = rig
        .trial("searches")
        .join("artifacts/collected/logs/artifacts/leaked");
    assert!(!leaked.exists());
}
