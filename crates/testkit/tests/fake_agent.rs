//! Drives the fake agent as a program, the way a harness does.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::time::{Duration, Instant};

use proctor_testkit::{Output, TestContext, processes_with};
use serde_json::{Value, json};

fn context() -> TestContext {
    // The fake agent lies beside itself, so it also does for the binary under test.
    TestContext::new(env!("CARGO_BIN_EXE_fake-agent"))
}

fn play(ctx: &TestContext, script: &Value) -> Output {
    let agent = ctx.install_fake("agent", script);
    ctx.program(&agent, []).run()
}

fn stdout(script: &Value) -> String {
    let output = play(&context(), script);
    output.assert_code(0);
    output.stdout
}

#[test]
fn output_is_exactly_that_of_the_script() {
    let script = json!([
        {"print": {"text": "ab", "repeat": 2}},
        {"print": {"base64": "CgA="}},
        {"line": {"type": "result", "n": 1}},
        {"print": {"text": "oops", "stream": "stderr"}},
        {"print": {"text": "no newline"}},
    ]);
    let output = play(&context(), &script);
    assert_eq!(
        output.stdout,
        "abab\n\0{\"n\":1,\"type\":\"result\"}\nno newline"
    );
    assert_eq!(output.stderr, "oops");
}

#[test]
fn floods_and_long_lines_have_the_size_they_should() {
    let out = stdout(&json!([{"flood": {"bytes": 1_000_001, "line_len": 100}}]));
    assert_eq!(out.len(), 1_000_001);
    assert_eq!(out.lines().count(), 10_001);
    let out = stdout(&json!([{"long_line": {"bytes": 300_000}}]));
    assert_eq!((out.len(), out.lines().count()), (300_001, 1));
}

#[test]
fn a_character_broken_in_two_arrives_whole_and_late() {
    let began = Instant::now();
    let out = stdout(&json!([{"split_utf8": {"text": "aüb\n", "pause_ms": 120}}]));
    assert_eq!(out, "aüb\n");
    assert!(began.elapsed() >= Duration::from_millis(120));
}

#[test]
fn invalid_utf8_is_invalid() {
    let out = stdout(&json!(["invalid_utf8"]));
    assert!(out.contains('\u{fffd}'), "{out:?}");
}

#[test]
fn it_ends_as_the_script_says() {
    let ctx = context();
    assert_eq!(
        play(&ctx, &json!([{"exit": 3}, {"line": "never"}])).code,
        Some(3)
    );
}

#[cfg(unix)]
#[test]
fn signals_end_it_as_the_script_says() {
    let ctx = context();
    assert_eq!(play(&ctx, &json!([{"kill_self": "KILL"}])).signal, Some(9));
    assert_eq!(play(&ctx, &json!([{"kill_self": "SEGV"}])).signal, Some(11));
    assert_eq!(play(&ctx, &json!(["crash"])).signal, Some(11));
    let survivor = json!(["ignore_term", {"kill_self": "TERM"}]);
    assert_eq!(play(&ctx, &survivor).code, Some(96));
}

/// The parent sees the code of an access violation.
#[cfg(windows)]
#[test]
fn a_crash_has_the_code_of_the_system() {
    let code = play(&context(), &json!(["crash"])).code;
    assert_eq!(code, Some(0xC000_0005_u32.cast_signed()));
}

/// A script that cannot be played here is refused by name, not played in part.
#[cfg(windows)]
#[test]
fn steps_of_unix_are_refused_by_name() {
    use proctor_testkit::fake::FakeScript;
    for (step, name) in [
        (json!({"kill_self": "TERM"}), "kill_self"),
        (json!("setsid"), "setsid"),
        (
            json!({"spawn_child": {"sleep_s": 1, "setsid": true}}),
            "setsid",
        ),
    ] {
        let refusal = FakeScript::parse(json!([{"line": "first"}, step])).unwrap_err();
        assert!(
            refusal.starts_with("entry 1: ") && refusal.contains(name),
            "{refusal}"
        );
    }
}

#[test]
fn a_bad_script_is_refused_with_a_reason() {
    let ctx = context();
    let agent = ctx.install_fake("agent", &json!([]));
    let file = ctx.bin().join("agent.script.json");
    for (script, reason) in [
        ("nonsense", "expected"),
        (r#"[{"prnt": {}}]"#, "unknown variant"),
        (r#"[{"print": {}}]"#, "exactly one"),
    ] {
        std::fs::write(&file, script).unwrap();
        let output = ctx.program(&agent, []).run();
        output.assert_code(97);
        assert!(output.stderr.contains(reason), "{}", output.stderr);
    }
    std::fs::remove_file(file).unwrap();
    let output = ctx.program(&agent, []).run();
    assert!(output.assert_code(97).stderr.contains("no script"));
}

#[test]
fn failing_step_is_reported() {
    let output = play(
        &context(),
        &json!([{"run": {"argv": ["git", "no-such-command"]}}]),
    );
    assert!(output.assert_code(96).stderr.contains("Run"));
}

#[test]
fn a_script_is_found_by_flag_and_by_variable() {
    let ctx = context();
    let agent = ctx.install_fake("agent", &json!([{"line": "beside"}]));
    let other = ctx.root().join("other.json");
    std::fs::write(&other, r#"[{"line": "other"}]"#).unwrap();
    let by_flag = ctx.program(&agent, ["--script", other.as_str()]).run();
    let by_variable = ctx
        .program(&agent, [])
        .env("FAKE_AGENT_SCRIPT", &other)
        .run();
    let said = [by_flag, by_variable].map(|output| output.stdout);
    assert_eq!(said, ["\"other\"\n", "\"other\"\n"]);
}

#[cfg(unix)]
#[test]
fn a_script_is_found_by_the_name_that_a_shell_called() {
    let ctx = context();
    let agent = ctx.install_fake("agent", &json!([{"line": "beside"}]));
    let on_path = ctx.program("/bin/sh".into(), ["-c", "agent"]).run();
    let link = ctx.root().join("bin/claude");
    std::os::unix::fs::symlink(&agent, &link).unwrap();
    std::fs::write(
        ctx.bin().join("claude.script.json"),
        r#"[{"line": "link"}]"#,
    )
    .unwrap();
    let by_link = ctx
        .program("/bin/sh".into(), ["-c", "env -i bin/claude"])
        .run();
    let said = [on_path, by_link].map(|output| output.stdout);
    assert_eq!(said, ["\"beside\"\n", "\"link\"\n"]);
}

#[test]
fn arguments_choose_what_is_played() {
    let ctx = context();
    let script = json!([
        {"when_args": ["--version"], "steps": [{"print": {"text": "2.1.0 (Claude Code)\n"}}]},
        {"when_args": ["auth", "status"], "steps": [{"line": {"loggedIn": false}}, {"exit": 1}]},
        {"line": "main"},
    ]);
    let agent = ctx.install_fake("agent", &script);
    let run = |args: &[&str]| ctx.program(&agent, args.iter().copied()).run();
    assert_eq!(run(&["--version"]).stdout, "2.1.0 (Claude Code)\n");
    assert_eq!(run(&["auth", "status"]).code, Some(1));
    assert_eq!(run(&["-p", "auth"]).stdout, "\"main\"\n");
}

#[test]
fn given_requests_are_saved() {
    let ctx = context();
    let script = json!([
        {"wait_for_stdin_line": {"contains": "go"}},
        {"save_stdin": "stdin.txt"}, {"save_argv": "argv.json"}, {"save_env": "env.json"},
    ]);
    let agent = ctx.install_fake("agent", &script);
    let program = ctx.program(&agent, ["-p", "x y"]).env("GREETING", "hello");
    program.stdin("wait\ngo\nrest\n").run().assert_code(0);
    let read = |name: &str| std::fs::read_to_string(ctx.root().join(name)).unwrap();
    assert_eq!(read("stdin.txt"), "rest\n");
    assert!(read("argv.json").ends_with(r#","-p","x y"]"#));
    let env: Value = serde_json::from_str(&read("env.json")).unwrap();
    assert_eq!(env["GREETING"], "hello");
    let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    assert_eq!(env[home], ctx.home().as_str());
}

#[test]
fn a_question_depends_on_whether_anyone_answers() {
    let ctx = context();
    let script = json!([{"ask": {
        "text": "ok? ", "answered": [{"print": {"text": "thanks"}}], "closed": [{"exit": 4}],
    }}, {"print": {"text": "!"}}]);
    let agent = ctx.install_fake("agent", &script);
    let answered = ctx.program(&agent, []).stdin("yes\n").run();
    assert_eq!(answered.stdout, "ok? thanks!");
    let closed = ctx.program(&agent, []).run();
    assert_eq!((closed.code, closed.stdout.as_str()), (Some(4), "ok? "));
    let silent = json!([{"wait_for_stdin_line": {}}]);
    assert_eq!(play(&ctx, &silent).code, Some(96));
}

#[test]
fn files_are_written_appended_deleted_emitted_and_committed() {
    let ctx = context();
    let script = json!([
        {"write_file": {"path": "src/a.txt", "text": "one\n"}},
        {"append": {"path": "src/a.txt", "text": "two\n"}},
        {"emit": {"path": "src/a.txt"}},
        {"delete": "README.md"},
        {"run": {"argv": ["git", "add", "--all"]}},
        {"run": {"argv": ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "work"]}},
    ]);
    let agent = ctx.install_fake("agent", &script);
    let output = ctx.program(&agent, []).current_dir(ctx.repo().path()).run();
    assert_eq!(output.assert_code(0).stdout, "one\ntwo\n");
    let changed = ctx
        .repo()
        .git(["show", "--format=%s", "--name-status", "HEAD"]);
    assert_eq!(changed, "work\n\nD\tREADME.md\nA\tsrc/a.txt");
}

#[test]
fn a_child_outlives_its_agent_and_is_found_by_its_marker() {
    let setsid = cfg!(unix);
    for extra in [
        json!({}),
        json!({"setsid": setsid, "clear_env": true}),
        json!({"double_fork": true, "setsid": setsid, "ignore_term": true}),
    ] {
        let ctx = context();
        let marker = format!("marker-{}", ctx.root().file_name().unwrap());
        let mut child = json!({"sleep_s": 60, "marker": marker});
        child
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        play(&ctx, &json!([{"spawn_child": child}])).assert_code(0);
        let alive = processes_with(&marker);
        assert_eq!(alive.len(), 1, "{alive:?}");
        let complaint = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            ctx.assert_nothing_left(&marker);
        }));
        assert!(complaint.is_err(), "the child was not noticed");
        end(&alive);
        ctx.assert_nothing_left(&marker);
    }
}

#[cfg(unix)]
#[test]
fn held_output_stays_open_after_the_agent_ended() {
    let ctx = context();
    let agent = ctx.install_fake("agent", &json!([{"hold_stdout": {"seconds": 1}}]));
    // The shell's substitution ends when the last holder of the pipe does.
    let command = format!("x=$('{agent}')");
    let began = Instant::now();
    ctx.program("/bin/sh".into(), ["-c", &command])
        .run()
        .assert_code(0);
    assert!(began.elapsed() >= Duration::from_secs(1));
    ctx.assert_nothing_left("");
}

#[cfg(unix)]
#[test]
fn an_agent_deaf_to_sigterm_has_to_be_killed() {
    let ctx = context();
    let script = json!(["ignore_term", {"line": "ready"}, {"sleep_ms": 60_000}]);
    let agent = ctx.install_fake("agent", &script);
    let mut running = ctx.program(&agent, []).spawn();
    let deadline = Duration::from_secs(20);
    proctor_testkit::wait_until(deadline, "it is ready", || {
        running.stdout_so_far().contains("ready")
    });
    running.signal(rustix::process::Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    assert!(running.is_running());
    running.signal(rustix::process::Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
}

/// Ends the processes that a test started, given as "pid: command line".
fn end(processes: &[String]) {
    for process in processes {
        let (pid, _) = process.split_once(':').unwrap();
        kill(pid);
    }
}

#[cfg(unix)]
fn kill(pid: &str) {
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[cfg(windows)]
#[expect(clippy::disallowed_methods, reason = "it ends before the test does")]
fn kill(pid: &str) {
    let mut taskkill = std::process::Command::new("taskkill");
    let done = taskkill.args(["/f", "/pid", pid]).status().unwrap();
    assert!(done.success());
}
