//! Tasks that are folders in Harbor's format, run without a container: the workspace comes from
//! the Dockerfile, the verifier judges afterwards, and only a reward that is a number is one.

use camino::Utf8PathBuf;
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::{context, print, write};

const TOML: &str = "[task]\nname = \"org/greet\"\n[metadata]\ncategory = \"files/small\"\n[agent]\ntimeout_sec = 60\n";
const DOCKERFILE: &str = "FROM a\nENV WORD=hello\nWORKDIR /app\nCOPY files/ ./\n";
/// Passes when the word that the Dockerfile names is in the file.
const TEST: &str = "logs=\"${LOGS_DIR:-/logs}/verifier\"\nif grep -qx \"$WORD\" greeting.txt; then echo 1; else echo 0; fi > \"$logs/reward.txt\"\n";
const SOLVE: &str =
    "test -f \"$SOLUTION_DIR/word\" || exit 9\ncp \"$SOLUTION_DIR/word\" greeting.txt\n";

/// Writes a task's folder; these files are in place of the usual ones or beside them.
fn task(context: &TestContext, files: &[(&str, &str)]) -> Utf8PathBuf {
    let folder = context.root().join("tasks/greet");
    let usual = [
        ("task.toml", TOML),
        ("instruction.md", "Greet.\n"),
        ("environment/Dockerfile", DOCKERFILE),
        ("environment/files/readme", "read me\n"),
        ("tests/test.sh", TEST),
        ("solution/solve.sh", SOLVE),
        ("solution/word", "hello\n"),
    ];
    for (name, text) in usual.iter().chain(files) {
        let path = folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    folder
}

fn run(context: &TestContext, folder: &Utf8PathBuf, args: &[&str]) -> Output {
    let all = ["run", folder.as_str(), "--sandbox", "local"];
    context
        .proctor(all.into_iter().chain(args.iter().copied()))
        .run()
}

fn record(context: &TestContext, agent: &str) -> Value {
    let path = format!(".proctor/latest/trials/{agent}/org-greet/trial-1/artifacts/record.json");
    let bytes = fs_err::read(context.root().join(path)).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// The verdict on who applies the solution, with these tests.
fn verdict(context: &TestContext, test: &str) -> Value {
    let folder = task(context, &[("tests/test.sh", test)]);
    run(context, &folder, &["--agent", "oracle"]);
    let record = record(context, "oracle");
    assert_eq!(record["outcome"], "completed", "{record:#}");
    record["verdicts"][0].clone()
}

#[test]
fn a_folder_is_run_judged_and_recorded() {
    let context = context();
    let folder = task(&context, &[]);
    let output = run(&context, &folder, &["--agent", "oracle", "--agent", "null"]);
    output.assert_code(1);
    let oracle = record(&context, "oracle");
    assert_eq!(oracle["status"], "passed");
    assert_eq!(oracle["task"]["kind"], "folder");
    assert_eq!(oracle["task"]["category"], "files/small");
    assert_eq!(oracle["task"]["config_hash"].as_str().unwrap().len(), 64);
    let metrics = &oracle["verdicts"][0]["metrics"];
    assert_eq!(metrics["reward"], 1.0);
    assert_eq!(metrics["mode"], "shared");
    assert_eq!(oracle["diff"]["files_changed"], 1);
    let notes = oracle["notes"].to_string();
    assert!(notes.contains("without a container"), "{notes}");
    let null = record(&context, "null");
    assert_eq!(null["status"], "failed");
    assert_eq!(null["verdicts"][0]["metrics"]["reward"], 0.0);
    context.assert_nothing_left("");
}

#[test]
fn an_agent_gets_the_instruction_and_the_files_and_nothing_of_the_tests() {
    let context = context();
    let seen = context.root().join("seen");
    let look = format!(
        "cat > {seen}; ls -A >> {seen}; echo $WORD >> {seen}; env | grep -c -e TESTS_DIR -e SOLUTION_DIR >> {seen}; echo hello > greeting.txt"
    );
    context.install_fake("agent", &json!([{"run": {"argv": ["sh", "-c", look]}}]));
    task(&context, &[]);
    let suite = context.root().join("proctor.yaml");
    let text = "agents: [{name: a, type: command, config: {command: [sh, -c, LOOK]}}]\ntasks: [{folder: 'tasks/*'}]\nsandbox: local\n";
    fs_err::write(&suite, text.replace("LOOK", &format!("{look:?}"))).unwrap();
    context.proctor(["run"]).run().assert_code(0);
    let seen = fs_err::read_to_string(seen).unwrap();
    assert_eq!(seen, "Greet.\n.git\nreadme\nhello\n0\n");
}

#[test]
fn reward_decides_and_exit_code_of_the_verifier_is_ignored() {
    let context = context();
    let reward = "cd \"$LOGS_DIR/verifier\"; ";
    for (test, status, message) in [
        ("echo 1 > reward.txt; exit 1", "passed", "reward 1"),
        ("echo 0.5 > reward.txt", "failed", "reward 0.5, required: 1"),
        (
            "echo '{\"reward\": 1.5}' > reward.json",
            "passed",
            "reward 1.5",
        ),
        (
            "echo 1 > reward.txt; echo 0 > reward.json",
            "failed",
            "reward 0",
        ),
        ("exit 0", "error", "neither reward.json nor reward.txt"),
        ("exit 1", "error", "exit code 1"),
        (": > reward.txt", "error", "reward.txt is empty"),
        ("echo nan > reward.txt", "error", "not finite"),
        (
            "echo all passed > reward.txt",
            "error",
            "does not contain a number",
        ),
        (
            "ln -s /etc/hostname reward.txt",
            "error",
            "not a regular file",
        ),
        ("mkdir reward.json", "error", "not a regular file"),
        ("kill -9 $$", "error", "exit code 137"),
        (
            "rm -rf ../verifier",
            "error",
            "neither reward.json nor reward.txt",
        ),
    ] {
        let verdict = verdict(&context, &format!("{reward}{test}\n"));
        assert_eq!(verdict["status"], status, "{test}: {verdict:#}");
        let reported = verdict["message"].as_str().unwrap();
        assert!(reported.contains(message), "{test}: {reported}");
        let is_number = verdict["metrics"]["reward"].is_number();
        assert_eq!(is_number, status != "error", "{test}: never a number");
    }
}

#[test]
fn a_verifier_that_hangs_is_ended_and_scores_0() {
    let context = context();
    let toml = format!("{TOML}[verifier]\ntimeout_sec = 0.5\n");
    let test = "echo 1 > $LOGS_DIR/verifier/reward.txt; sleep 600";
    let folder = task(&context, &[("task.toml", &toml), ("tests/test.sh", test)]);
    run(&context, &folder, &["--agent", "oracle"]).assert_code(1);
    let record = record(&context, "oracle");
    let verdict = &record["verdicts"][0];
    let reported = verdict["message"].as_str().unwrap();
    assert!(reported.contains("its time limit of 0.5 s"), "{reported}");
    assert_eq!(verdict["status"], "failed", "{verdict:#}");
    assert_eq!(record["score"]["value"], 0.0, "{record:#}");
    context.assert_nothing_left("");
}

#[test]
fn a_separate_verifier_sees_the_work_and_not_the_workspace() {
    let context = context();
    // Ignored files are not part of the work: shared tests see them, separate ones do not.
    let solve = "echo junk > left.o; echo '*.o' > .gitignore; echo hello > greeting.txt\n";
    let test = "cd \"${WORK:-.}\"; test -f greeting.txt && test ! -f left.o && r=1 || r=0; echo $r > $LOGS_DIR/verifier/reward.txt\n";
    for (mode, status) in [("shared", "failed"), ("separate", "passed")] {
        let toml = format!("{TOML}[verifier]\nenvironment_mode = \"{mode}\"\n");
        let files = [
            ("task.toml", toml.as_str()),
            ("tests/test.sh", test),
            ("solution/solve.sh", solve),
        ];
        let folder = task(&context, &files);
        run(&context, &folder, &["--agent", "oracle"]);
        let record = record(&context, "oracle");
        assert_eq!(record["status"], status, "{mode}: {record:#}");
        assert_eq!(record["verdicts"][0]["metrics"]["mode"], mode);
    }
}

#[test]
fn verifier_has_its_own_variables_without_ignored_files() {
    let context = context();
    let toml = format!("{TOML}[verifier.env]\nTOKEN = \"${{SECRET}}\"\n");
    let test = "test \"$TOKEN\" = s3cret && test ! -e \"$TESTS_DIR/big.tmp\" && test \"$HOME\" != \"$OLD_HOME\" && echo 1 > \"$LOGS_DIR/verifier/reward.txt\"\n";
    let files = [
        ("task.toml", toml.as_str()),
        ("tests/test.sh", test),
        ("tests/.harborignore", "*.tmp\n"),
        ("tests/big.tmp", "x"),
    ];
    let folder = task(&context, &files);
    let local = ["--sandbox", "local"];
    let args = ["run", folder.as_str(), "--agent", "oracle"];
    let args = [args.as_slice(), &local].concat();
    let home = context.home();
    let program = context.proctor(args.clone()).env("OLD_HOME", home.as_str());
    program.env("SECRET", "s3cret").run().assert_code(0);
    // A missing variable is a note until the task runs.
    let dry = [args.as_slice(), &["--dry-run"]].concat();
    for args in [vec!["validate", folder.as_str()], dry] {
        let output = context.proctor(args).run();
        output.assert_code(0);
        let all = format!("{}{}", output.stdout, output.stderr);
        assert!(
            all.contains("note:") && all.contains("`SECRET`"),
            "{output}"
        );
    }
    let output = context.proctor(args).run();
    output.assert_code(2);
    assert!(output.stderr.contains("SECRET"), "{output}");
    assert!(output.stderr.contains("task.toml:"), "{output}");
}

#[test]
fn an_instruction_that_needs_docker_is_refused_with_its_line() {
    let context = context();
    let dockerfile = "FROM a\nWORKDIR /app\nRUN apt-get update\n";
    let folder = task(&context, &[("environment/Dockerfile", dockerfile)]);
    let output = run(&context, &folder, &["--agent", "oracle"]);
    output.assert_code(2);
    for part in ["Dockerfile:3:1", "RUN apt-get update", "`--sandbox docker`"] {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    assert!(!context.root().join(".proctor").exists());
    let valid = context.proctor(["validate", folder.as_str()]).run();
    valid.assert_code(0);
    assert!(
        valid.stdout.contains("requires `--sandbox docker`"),
        "{valid}"
    );
}

#[test]
fn categories_and_names_select_tasks() {
    let context = context();
    task(&context, &[]);
    for (name, category) in [("other", "web/large"), ("third", "files/large")] {
        let folder = context.root().join("tasks").join(name);
        let copy = ["-r", "tasks/greet", folder.as_str()];
        context.program("/bin/cp".into(), copy).run().assert_code(0);
        let toml = format!("[metadata]\ncategory = \"{category}\"\n");
        fs_err::write(folder.join("task.toml"), toml).unwrap();
    }
    let planned = |args: &[&str]| -> Vec<String> {
        let all = ["run", "tasks", "--agent", "null", "--dry-run"];
        let output = context
            .proctor(all.into_iter().chain(args.iter().copied()))
            .run();
        output.assert_code(0);
        let lines = output.stdout.lines().filter_map(|line| {
            let task = line.strip_prefix("null on ")?.split(',').next()?;
            Some(task.to_owned())
        });
        let mut tasks: Vec<String> = lines.collect();
        tasks.sort();
        tasks
    };
    assert_eq!(planned(&[]), ["org/greet", "other", "third"]);
    assert_eq!(planned(&["--category", "files/*"]), ["org/greet", "third"]);
    assert_eq!(planned(&["--category", "web/large"]), ["other"]);
    assert_eq!(planned(&["--task", "greet"]), ["org/greet"]);
    for (args, reported) in [
        (
            ["--category", "files"],
            "files/small, web/large, files/large",
        ),
        (["--task", "nope"], "org/greet, other, third"),
    ] {
        let all = ["run", "tasks", "--agent", "null"].into_iter().chain(args);
        let output = context.proctor(all).run();
        output.assert_code(2);
        assert!(output.stderr.contains(reported), "{output}");
    }
}

#[test]
fn a_folder_without_an_installed_agent_names_the_kinds() {
    let context = context();
    let folder = task(&context, &[]);
    let output = run(&context, &folder, &[]);
    output.assert_code(2);
    assert!(output.stderr.contains("oracle"), "{output}");
}

#[test]
fn new_tasks_are_valid_and_check_reports_missing_parts() {
    let context = context();
    for (kind, config) in [
        ("folder", "new"),
        ("testcase", "new"),
        ("repo", "new/proctor.yaml"),
    ] {
        let made = context
            .proctor(["task", "new", "new", "--kind", kind])
            .run();
        made.assert_code(0);
        if kind == "repo" {
            let script = context.root().join("new/make-repo.sh");
            let shell = context.program("/bin/sh".into(), [script.as_str()]);
            shell.run().assert_code(0);
        }
        context.proctor(["validate", config]).run().assert_code(0);
        let check = context
            .proctor([
                "task",
                "check",
                config,
                "--times",
                "1",
                "--sandbox",
                "local",
            ])
            .run();
        check.assert_code(1);
        assert!(check.stdout.contains("fill in"), "{kind}: {check}");
        let again = context.proctor(["task", "new", "new"]).run();
        again.assert_code(2);
        fs_err::remove_dir_all(context.root().join("new")).unwrap();
    }
}

#[test]
fn valid_folder_passes_the_check_and_an_invalid_one_does_not() {
    let context = context();
    let check = |files: &[(&str, &str)]| {
        let folder = task(&context, files);
        let args = [
            "task",
            "check",
            folder.as_str(),
            "--times",
            "2",
            "--sandbox",
            "local",
        ];
        context.proctor(args).run()
    };
    let sound = check(&[]);
    sound.assert_code(0);
    assert_eq!(
        sound.stdout,
        "org/greet: ok (the null agent failed 2 of 2, the reference solution passed 2 of 2)\n"
    );
    let always = "echo 1 > \"$LOGS_DIR/verifier/reward.txt\"\n";
    let lying = check(&[("tests/test.sh", always)]);
    lying.assert_code(1);
    assert!(
        lying
            .stdout
            .contains("the null agent does not fail the task: verifier: reward 1")
    );
    let silent = check(&[("tests/test.sh", "exit 1\n")]);
    silent.assert_code(1);
    assert!(silent.stdout.contains("no reward"), "{silent}");
    let folder = task(&context, &[]);
    fs_err::remove_dir_all(folder.join("solution")).unwrap();
    let args = ["task", "check", folder.as_str(), "--sandbox", "local"];
    let unsolved = context.proctor(args).run();
    unsolved.assert_code(1);
    assert!(
        unsolved
            .stdout
            .contains("the task has no reference solution"),
        "{unsolved}"
    );
}

/// A usage error of one trial ends that trial only.
#[test]
fn bad_input_of_one_trial_does_not_end_the_others() {
    let context = context();
    task(&context, &[]);
    context.install_fake(
        "agent",
        &json!([write("greeting.txt", "hello\n"), print("done\n")]),
    );
    let suite = context.root().join("proctor.yaml");
    let bad = "{id: bad, repo: ./repo, tag: no-such-tag, test_cmd: 'true', time_limit_minutes: 1}";
    let agents = "[{name: a, type: command, config: {command: [agent]}}]";
    let text = format!("agents: {agents}\ntasks: [{bad}, {{folder: tasks}}]\nsandbox: local\n");
    fs_err::write(&suite, text).unwrap();
    let output = context.proctor(["run", "--json"]).run();
    output.assert_code(2);
    assert!(output.stderr.contains("no-such-tag"), "{output}");
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(summary["trials"][0]["task"], "org/greet");
    assert_eq!(summary["trials"][0]["status"], "passed");
    assert_eq!(summary["failed_starts"][0]["task"], "bad");
    assert_eq!(summary["not_run"], 1);
}

/// The scripts of a task folder are not the user's own.
#[test]
fn scripts_of_a_task_folder_run_on_this_machine_only_if_that_is_chosen() {
    let context = context();
    let ran = context.root().join("ran");
    let script = format!("touch {ran}\n{TEST}");
    let folder = task(&context, &[("tests/test.sh", &script)]);
    let folder = folder.as_str();
    // Containers are the default, and there is no engine.
    for args in [
        &["task", "check", folder, "--times", "1"][..],
        &["run", folder, "--agent", "null"],
    ] {
        let program = context.proctor(args.iter().copied());
        let output = program.env("DOCKER_HOST", "unix:///no/engine.sock").run();
        output.assert_code(3);
        assert!(output.stderr.contains("--sandbox local"), "{output}");
    }
    let suite = context.root().join("proctor.yaml");
    let text = "agents: [{type: 'null', name: a}]\ntasks: [{folder: tasks}]\n";
    fs_err::write(&suite, text).unwrap();
    for args in [&["run"][..], &["validate"]] {
        let output = context.proctor(args.iter().copied()).run();
        output.assert_code(2);
        for part in ["task.toml", "`--sandbox docker`", "`--sandbox local`"] {
            assert!(output.stderr.contains(part), "{part}: {output}");
        }
    }
    assert!(!ran.exists());
    let chosen = ["run", "--sandbox", "local"];
    context.proctor(chosen).run().assert_code(1);
    assert!(ran.exists());
    // A suite says where its tasks are checked.
    fs_err::remove_file(&ran).unwrap();
    fs_err::write(&suite, format!("{text}sandbox: local\n")).unwrap();
    let check = ["task", "check", "proctor.yaml", "--times", "1"];
    context.proctor(check).run().assert_code(0);
    assert!(ran.exists());
    let idle = [check.as_slice(), &["--network", "none"]].concat();
    let output = context.proctor(idle).run();
    output.assert_code(2);
    assert!(output.stderr.contains("--network"), "{output}");
}

/// The error of one task says nothing about the others of its folder.
#[test]
fn a_refused_task_does_not_block_its_folder() {
    let context = context();
    task(&context, &[]);
    for (name, toml) in [
        ("gpu", "[environment]\ngpus = 1\n"),
        ("secret", "[verifier.env]\nKEY = \"${NOT_SET}\"\n"),
    ] {
        let folder = context.root().join("tasks").join(name);
        let copy = ["-r", "tasks/greet", folder.as_str()];
        context.program("/bin/cp".into(), copy).run().assert_code(0);
        fs_err::write(folder.join("task.toml"), toml).unwrap();
    }
    let run = ["run", "tasks", "--agent", "oracle", "--sandbox", "local"];
    let output = context.proctor(run).run();
    output.assert_code(2);
    for part in ["`gpus`", "NOT_SET", "cannot run 2 tasks"] {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    assert_eq!(record(&context, "oracle")["status"], "passed");
    let one = [run.as_slice(), &["--task", "greet"]].concat();
    let output = context.proctor(one).run();
    output.assert_code(0);
    assert!(!output.stderr.contains("gpus"), "{output}");
    let refused = [run.as_slice(), &["--task", "gpu"]].concat();
    let output = context.proctor(refused).run();
    output.assert_code(2);
    assert!(output.stderr.contains("`gpus`"), "{output}");
    let output = context.proctor(["validate", "tasks"]).run();
    output.assert_code(2);
    for part in [
        "greet/task.toml: ok",
        "secret/task.toml: ok",
        "`NOT_SET` is not set",
    ] {
        assert!(output.stdout.contains(part), "{part}: {output}");
    }
    let check = [
        "task",
        "check",
        "tasks",
        "--times",
        "1",
        "--sandbox",
        "local",
    ];
    let output = context.proctor(check).run();
    output.assert_code(2);
    assert!(output.stdout.contains("org/greet: ok"), "{output}");
}
