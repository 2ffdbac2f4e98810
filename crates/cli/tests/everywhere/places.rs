//! Where things lie: paths with spaces, folders and repositories as workspaces, line ends of Windows, the agent's own
//! home.

use proctor_testkit::TestContext;
use serde_json::json;

use crate::support::{
    case, case_that_wants, context, install_agent, json_of, print, run, saved, write,
};

#[test]
fn paths_with_spaces_and_accents_are_paths_like_others() {
    let context = TestContext::named(env!("CARGO_BIN_EXE_proctor"), "proctor test ü & (1)-");
    install_agent(&context, &[write("sub dir/new file.txt", "x\n")]);
    let case = case_that_wants(&context, "sub dir/new file.txt");
    run(&context, &case).assert_code(0);
    let patch = fs_err::read_to_string(context.artifact("git-diff.patch")).unwrap();
    assert!(patch.contains("sub dir/new file.txt"), "{patch}");
    let kept = context
        .only_run_dir()
        .join("src-modified/sub dir/new file.txt");
    assert_eq!(fs_err::read_to_string(kept).unwrap(), "x\n");
    context.assert_nothing_left("");
}

/// A directory that is not a repository provides its files.
#[test]
fn a_folder_is_a_workspace() {
    let context = context();
    let folder = context.root().join("cases/plain/below");
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::write(folder.join("kept.txt"), "kept\r\n").unwrap();
    install_agent(
        &context,
        &[json!({"append": {"path": "below/kept.txt", "text": "more\n"}})],
    );
    let mut case = case();
    case["repo"] = json!("./plain");
    run(&context, &case).assert_code(0);
    let patch = fs_err::read_to_string(context.artifact("git-diff.patch")).unwrap();
    assert!(patch.contains("--- a/below/kept.txt"), "{patch}");
    assert!(patch.contains("+more"), "{patch}");
    assert_eq!(fs_err::read(folder.join("kept.txt")).unwrap(), b"kept\r\n");
}

/// The change does not depend on the line ending settings of git.
#[test]
fn line_ends_of_a_repository_are_left_alone() {
    let context = context();
    let files = [("unix.txt", "a\nb\n"), ("windows.txt", "a\r\nb\r\n")];
    context.repo().commit("ends", &files);
    let more = |path: &str, text: &str| json!({"append": {"path": path, "text": text}});
    install_agent(
        &context,
        &[more("unix.txt", "c\n"), more("windows.txt", "c\r\n")],
    );
    run(&context, &case()).assert_code(0);
    let record = context.record();
    assert_eq!(record["diff"]["files_changed"], 2, "{record:#}");
    assert_eq!(record["diff"]["lines_added"], 2);
    assert_eq!(record["diff"]["lines_removed"], 0);
    let modified = context.only_run_dir().join("src-modified");
    assert_eq!(
        fs_err::read(modified.join("unix.txt")).unwrap(),
        b"a\nb\nc\n"
    );
    let windows = fs_err::read(modified.join("windows.txt")).unwrap();
    assert_eq!(windows, b"a\r\nb\r\nc\r\n");
}

#[test]
fn a_test_case_with_line_ends_of_windows_is_read() {
    let context = context();
    install_agent(&context, &[json!({"save_stdin": saved(&context, "stdin")})]);
    let yaml = "name: crlf\ndescription: |\n  two\n  lines\nrepo: ../repo\nagent:\n  type: command\n  config:\n    command: [agent]\n    prompt: |\n      first\n      second\nevaluators:\n  - git-diff\n";
    let path = context.testcase(&yaml.replace('\n', "\r\n"));
    context
        .proctor(["run", "-c", path.as_str()])
        .run()
        .assert_code(0);
    let prompt = fs_err::read_to_string(saved(&context, "stdin")).unwrap();
    assert_eq!(prompt, "first\nsecond\n", "YAML has line ends of its own");
}

/// The test case that `docs/dev/platforms.md` shows.
#[test]
fn the_test_case_of_the_docs_runs() {
    let page = include_str!("../../../../docs/dev/platforms.md").replace("\r\n", "\n");
    let (_, rest) = page.split_once("```yaml testcase\n").unwrap();
    let (yaml, _) = rest.split_once("```").unwrap();
    let context = context();
    install_agent(&context, &[write("greeting.txt", "hello\n")]);
    fs_err::create_dir(context.root().join("cases/repo")).unwrap();
    fs_err::write(context.root().join("cases/repo/readme.txt"), "x\n").unwrap();
    let path = context.testcase(yaml);
    let output = context.proctor(["run", "-c", path.as_str()]).run();
    output.assert_code(0);
    assert_eq!(context.record()["status"], "passed");
}

/// Nothing of the user's leaks in, and programs find where to put their files.
#[test]
fn an_agent_has_a_home_of_its_own() {
    let context = context();
    install_agent(&context, &[json!({"save_env": saved(&context, "env")})]);
    let path = crate::support::write_case(&context, &case());
    let program = context.proctor(["run", "-c", path.as_str()]);
    program.env("MY_SECRET", "x").run().assert_code(0);
    let env = json_of(&saved(&context, "env"));
    assert_eq!(env["MY_SECRET"], serde_json::Value::Null);
    assert_home(&context, &env);
}

#[cfg(unix)]
fn assert_home(context: &TestContext, env: &serde_json::Value) {
    for name in ["HOME", "TMPDIR"] {
        assert_own(context, env[name].as_str().unwrap());
    }
}

#[cfg(windows)]
fn assert_home(context: &TestContext, env: &serde_json::Value) {
    for name in ["USERPROFILE", "APPDATA", "LOCALAPPDATA", "TEMP", "TMP"] {
        assert_own(context, env[name].as_str().unwrap());
    }
    let find = |name: &str| {
        let mut all = env.as_object().unwrap().keys();
        all.any(|key| key.eq_ignore_ascii_case(name))
    };
    assert!(find("SystemRoot") && find("PATHEXT"), "{env:#}");
}

/// Below the trial's own folder, which lies among the temporary files.
#[track_caller]
fn assert_own(context: &TestContext, path: &str) {
    let own = context.root().join("tmp");
    assert!(camino::Utf8Path::new(path).starts_with(&own), "{path}");
}

/// A trial leaves nothing among the temporary files.
#[test]
fn the_folder_of_a_trial_is_removed() {
    let context = context();
    let git = json!({"run": {"argv": ["git", "init", "--quiet", "inner"]}});
    install_agent(&context, &[git, write("a/b/c.txt", "x\n"), print("done\n")]);
    run(&context, &case()).assert_code(0);
    let left: Vec<_> = context
        .root()
        .join("tmp")
        .read_dir_utf8()
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
