//! Directories of Terminal-Bench 1, read directly and imported into Harbor's format.

use camino::Utf8PathBuf;
use proctor_testkit::TestContext;

use crate::support::context;

const RUN_TESTS: &str = "sh \"$TEST_DIR/check.sh\"\n";
/// Prints what pytest prints with `-rA`.
const CHECK: &str = "echo FAILED before the summary\necho '==== short test summary info ===='\necho 'SKIPPED [1] t.py:1: not here'\nif grep -qx hello greeting.txt; then echo 'PASSED t.py::a'; else echo 'FAILED t.py::a - no'; exit 1; fi\n";

/// Writes a task of Terminal-Bench 1.
fn terminal_bench(context: &TestContext, files: &[(&str, &str)]) -> Utf8PathBuf {
    let folder = context.root().join("old/hello");
    let usual = [
        (
            "task.yaml",
            "instruction: |\n  Greet.\ndifficulty: easy\nparser_name: pytest\nmax_agent_timeout_sec: 60.0\n",
        ),
        ("Dockerfile", "FROM a\nWORKDIR /app\nCOPY readme ./\n"),
        ("readme", "read me\n"),
        (
            "docker-compose.yaml",
            "services:\n  client:\n    build:\n      dockerfile: Dockerfile\n    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}\n    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}\n    command: [sh, -c, sleep infinity]\n    environment:\n      - WORD=hello\n    volumes:\n      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}\n",
        ),
        ("run-tests.sh", RUN_TESTS),
        ("tests/check.sh", CHECK),
        ("solution.sh", "echo \"$WORD\" > greeting.txt\n"),
    ];
    for (name, text) in usual.iter().chain(files) {
        let path = folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    folder
}

#[test]
fn task_of_terminal_bench_1_is_proved() {
    let context = context();
    terminal_bench(&context, &[]);
    context.proctor(["validate", "old"]).run().assert_code(0);
    let check = ["task", "check", "old", "--sandbox", "local", "--times", "1"];
    let output = context.proctor(check).run();
    output.assert_code(0);
    assert!(output.stdout.starts_with("hello: ok"), "{output}");
}

#[test]
fn commands_of_a_solution_yaml_are_the_reference() {
    let context = context();
    let folder = terminal_bench(
        &context,
        &[(
            "solution.yaml",
            "- command: echo \"$WORD\" > greeting.txt\n  min_timeout_sec: 1\n",
        )],
    );
    fs_err::remove_file(folder.join("solution.sh")).unwrap();
    let check = [
        "task",
        "check",
        "old/hello",
        "--sandbox",
        "local",
        "--times",
        "1",
    ];
    context.proctor(check).run().assert_code(0);
}

#[test]
fn unsupported_task_of_terminal_bench_1_is_refused_by_name() {
    let context = context();
    for (file, text, message) in [
        (
            "task.yaml",
            "instruction: x\nparser_name: swebench\n",
            "the parser `swebench` is not supported",
        ),
        ("task.yaml", "difficulty: easy\n", "instruction"),
        (
            "docker-compose.yaml",
            "services: {client: {build: ., privileged: true}}\n",
            "`privileged`",
        ),
    ] {
        terminal_bench(&context, &[(file, text)]);
        let output = context.proctor(["validate", "old"]).run();
        output.assert_code(2);
        assert!(output.stderr.contains(message), "{message}: {output}");
        assert!(!output.stderr.contains("test case"), "{output}");
    }
    terminal_bench(&context, &[]);
    let output = context.proctor(["validate", "old/hello/task.yaml"]).run();
    output.assert_code(2);
    assert!(output.stderr.contains("Terminal-Bench 1"), "{output}");
}

#[test]
fn imported_task_of_terminal_bench_1_has_the_verdicts_of_its_source() {
    let context = context();
    let bad = terminal_bench(
        &context,
        &[("task.yaml", "instruction: x\nparser_name: swebench\n")],
    );
    fs_err::rename(&bad, bad.with_file_name("bad")).unwrap();
    let source = terminal_bench(&context, &[]);
    let import = ["task", "import", "old", "--out", "new"];
    let output = context.proctor(import).run();
    output.assert_code(2);
    let expected = "bad: refused: the parser `swebench` is not supported, only `pytest`\nhello: written\nwrote 1 task, refused 1";
    assert!(output.stdout.starts_with(expected), "{output}");
    let folder = context.root().join("new/hello");
    for (name, expected) in [
        ("instruction.md", "Greet.\n"),
        (
            "environment/Dockerfile",
            "FROM a\nWORKDIR /app\nCOPY readme ./\n",
        ),
        ("environment/readme", "read me\n"),
        ("tests/run-tests.sh", RUN_TESTS),
        ("tests/check.sh", CHECK),
        ("solution/solve.sh", "echo \"$WORD\" > greeting.txt\n"),
    ] {
        let text = fs_err::read_to_string(folder.join(name)).unwrap();
        assert_eq!(text, expected, "{name}");
    }
    for name in ["tests", "solution.sh", "docker-compose.yaml", "task.yaml"] {
        assert!(source.join(name).exists());
        assert!(!folder.join("environment").join(name).exists(), "{name}");
    }
    context.proctor(["validate", "new"]).run().assert_code(0);
    let check = ["task", "check", "new", "--sandbox", "local", "--times", "1"];
    let output = context.proctor(check).run();
    output.assert_code(0);
    assert!(output.stdout.starts_with("hello: ok"), "{output}");
    // The directory is not empty now.
    let output = context.proctor(import).run();
    output.assert_code(2);
    assert!(output.stderr.contains("not an empty directory"), "{output}");
}

#[test]
fn part_of_the_tasks_is_imported() {
    let context = context();
    for name in ["a", "b", "c"] {
        let folder = terminal_bench(&context, &[]);
        fs_err::rename(&folder, folder.with_file_name(name)).unwrap();
    }
    let select = ["--exclude", "b", "--limit", "1"];
    let import = ["task", "import", "old", "--out", "new"];
    let output = context.proctor(import.into_iter().chain(select)).run();
    output.assert_code(0);
    assert!(
        output
            .stdout
            .starts_with("a: written\nwrote 1 task, refused 0"),
        "{output}"
    );
    assert!(!context.root().join("new/c").exists());
}

#[test]
fn task_with_several_services_is_not_imported() {
    let context = context();
    let services = "services: {client: {build: .}, db: {image: x}}\n";
    terminal_bench(&context, &[("docker-compose.yaml", services)]);
    let import = ["task", "import", "old", "--out", "new"];
    let output = context.proctor(import).run();
    output.assert_code(2);
    let expected = "hello: refused: its compose file";
    assert!(output.stdout.starts_with(expected), "{output}");
    assert!(!context.root().join("new/hello").exists());
}
