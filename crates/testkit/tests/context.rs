//! The test context's own promises.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::time::Duration;

use proctor_testkit::TestContext;
use serde_json::json;

fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_fake-agent"))
}

#[test]
fn the_fixture_repository_is_the_same_every_time() {
    let (one, two) = (context(), context());
    assert_ne!(one.root(), two.root());
    assert_eq!(one.repo().head(), two.repo().head());
    let files = [("src/main.rs", "fn main() {}\n")];
    let (a, b) = (
        one.repo().commit("second", &files),
        two.repo().commit("second", &files),
    );
    assert_eq!(a, b);
    assert_eq!(one.repo().git(["rev-list", "--count", "HEAD"]), "2");
}

#[test]
fn a_program_sees_nothing_of_the_callers_environment() {
    let ctx = context();
    let agent = ctx.install_fake("agent", &json!([{"save_env": "env.json"}]));
    ctx.program(&agent, []).run().assert_code(0);
    let env = std::fs::read(ctx.root().join("env.json")).unwrap();
    let env: serde_json::Value = serde_json::from_slice(&env).unwrap();
    let names: Vec<String> = env.as_object().unwrap().keys().cloned().collect();
    assert_only_own(&names);
    assert!(
        env["PATH"]
            .as_str()
            .unwrap()
            .starts_with(ctx.bin().as_str())
    );
}

/// macOS adds a variable of its own to every program.
#[cfg(unix)]
fn assert_only_own(names: &[String]) {
    let is_ours = |name: &&String| !(cfg!(target_os = "macos") && name.starts_with("__CF"));
    let names: Vec<&String> = names.iter().filter(is_ours).collect();
    assert_eq!(names, ["HOME", "PATH", "TMPDIR", "XDG_CACHE_HOME"]);
}

/// Besides the user's folders there is what Windows gives every program, and what none starts without;
/// Wine adds its own settings.
#[cfg(windows)]
fn assert_only_own(names: &[String]) {
    let known = [
        "APPDATA",
        "COMSPEC",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "USERPROFILE",
        "WINDIR",
    ];
    let expected = |name: &str| known.contains(&name) || name.starts_with("WINE");
    let strange = |name: &&String| !expected(&name.to_uppercase());
    let strange: Vec<&String> = names.iter().filter(strange).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn artifacts_are_found_wherever_the_run_lies() {
    let ctx = context();
    assert!(ctx.run_dirs().is_empty());
    let run = ctx.root().join("cases/.runs/run-1");
    std::fs::create_dir_all(run.join("artifacts")).unwrap();
    std::fs::write(run.join("record.json"), r#"{"b":2}"#).unwrap();
    assert_eq!(ctx.only_run_dir(), run);
    assert!(ctx.artifact("results.json").starts_with(&run));
    assert_eq!(ctx.record()["b"], 2);
}

#[test]
#[should_panic(expected = "still running after")]
fn a_program_that_does_not_end_fails_the_test_with_its_output() {
    let ctx = context();
    let agent = ctx.install_fake("agent", &json!([{"sleep_ms": 60_000}]));
    ctx.program(&agent, [])
        .deadline(Duration::from_millis(100))
        .run();
}

#[test]
#[should_panic(expected = "the script of claude: entry 0")]
fn a_wrong_script_fails_when_it_is_installed() {
    context().install_fake("claude", &json!([{"prnt": 1}]));
}

#[test]
#[should_panic(expected = "cargo build --workspace --bins")]
fn a_missing_fake_agent_says_how_to_build_it() {
    TestContext::new("/nonexistent/proctor").install_fake("claude", &json!([]));
}

#[test]
fn a_test_case_is_written_where_it_belongs() {
    let ctx = context();
    let path = ctx.testcase("name: x\n");
    assert_eq!(path, ctx.root().join("cases/testcase.yaml"));
    assert_eq!(std::fs::read_to_string(path).unwrap(), "name: x\n");
}
