//! `proctor task mine`: tasks from the history of a repository, judged out of the agent's reach.

use std::fmt::Write;

use camino::Utf8PathBuf;
use proctor_testkit::{Output, TestContext};
use serde_json::Value;

use crate::support::{context, install_claude, session, shell};

mod languages;
mod matrix;

/// A runner of shell tests that prints its results in the Test Anything Protocol.
const RUN: &str = "echo TAP version 13\nn=0\nfor t in tests/*.sh; do\n  n=$((n+1))\n  if sh \"$t\"; then echo \"ok $n - $t\"; else echo \"not ok $n - $t\"; fi\ndone\necho \"1..$n\"\n";
const ADD: &str = "add() { echo $(($1 + $2)); }\n";
const SUB: &str = "add() { echo $(($1 + $2)); }\nsub() { echo $(($1 - $2)); }\n";
const TEST_ADD: &str = ". ./lib.sh\ntest \"$(add 1 2)\" = 3\n";
const TEST_SUB: &str = ". ./lib.sh\ntest \"$(sub 3 2)\" = 1\n";

/// A context whose repository has a library of shell functions with a test.
fn shell_project() -> TestContext {
    let context = context();
    let files = [("run.sh", RUN), ("lib.sh", ADD), ("tests/add.sh", TEST_ADD)];
    context.repo().commit("Add a library", &files);
    context
}

/// `proctor task mine` on the context's repository.
fn mine(context: &TestContext, args: &[&str]) -> Output {
    let (repo, out) = (context.repo().path(), out(context));
    let all = ["task", "mine", repo.as_str(), "--out", out.as_str()];
    context
        .proctor(all.into_iter().chain(args.iter().copied()))
        .run()
}

fn mine_shell(context: &TestContext, args: &[&str]) -> Output {
    let own = ["--test-cmd", "sh run.sh", "--times", "2"];
    mine(context, &[&own, args].concat())
}

fn out(context: &TestContext) -> Utf8PathBuf {
    context.root().join("mined")
}

fn ledger(context: &TestContext) -> Value {
    let text = fs_err::read(out(context).join("ledger.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The status or the reject code of each candidate by the subject of its commit, newest first.
fn results(ledger: &Value) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = ledger["candidates"].as_array().unwrap().iter();
    let mut found: Vec<_> = entries
        .map(|entry| {
            let result = match entry["code"].as_str() {
                Some(code) => code.to_owned(),
                None => word(&entry["status"]),
            };
            (word(&entry["subject"]), result)
        })
        .collect();
    found.sort();
    found
}

/// The only task of a ledger.
#[track_caller]
fn only_task(ledger: &Value) -> &Value {
    let tasks = ledger["candidates"].as_array().unwrap().iter();
    let mut tasks = tasks.map(|entry| &entry["task"]).filter(|it| !it.is_null());
    let first = tasks
        .next()
        .unwrap_or_else(|| panic!("no task: {ledger:#}"));
    assert!(tasks.next().is_none(), "{ledger:#}");
    first
}

/// `proctor task check` accepts every task.
#[track_caller]
fn assert_sound(context: &TestContext) {
    let suite = out(context).join("proctor.yaml");
    let output = context
        .proctor(["task", "check", suite.as_str(), "--times", "1"])
        .run();
    output.assert_code(0);
    assert!(
        output.stdout.contains("the null agent failed 1 of 1"),
        "{output}"
    );
    assert!(
        output
            .stdout
            .contains("the reference solution passed 1 of 1"),
        "{output}"
    );
}

/// Commits a change for every reject code, except for slow tests.
fn commit_every_kind(context: &TestContext) {
    let repo = context.repo();
    let commit = |message: &str, files: &[(&str, &str)]| repo.commit(message, files);
    let removed = |path: &str| {
        repo.git(["rm", "--quiet", path]);
        repo.commit("Remove a file", &[]);
    };
    commit("Subtract", &[("lib.sh", SUB), ("tests/sub.sh", TEST_SUB)]);
    repo.git(["rm", "--quiet", "tests/sub.sh"]);
    commit("Revert", &[("lib.sh", ADD)]);
    commit(
        "Subtract again",
        &[("lib.sh", SUB), ("tests/sub.sh", TEST_SUB)],
    );
    let comment = format!("# A library.\n{SUB}");
    commit(
        "Green",
        &[("lib.sh", &comment), ("tests/add2.sh", TEST_ADD)],
    );
    commit("Red", &[("lib.sh", SUB), ("tests/red.sh", "false\n")]);
    removed("tests/red.sh");
    let silent = "echo done\n";
    commit(
        "Silent",
        &[("run.sh", silent), ("tests/silent.sh", "true\n")],
    );
    commit("Print again", &[("run.sh", RUN)]);
    let offline = "echo 'curl: (6) Could not resolve host: example.invalid'\nexit 1\n";
    commit(
        "Download",
        &[("run.sh", offline), ("tests/download.sh", "true\n")],
    );
    commit("Stay here", &[("run.sh", RUN)]);
    let count = context.root().join("count");
    let flaky = format!(
        "test -e flag || exit 1\necho x >> {count}\ntest $(($(wc -l < {count}) % 2)) = 1\n"
    );
    commit("Flaky", &[("flag", "1\n"), ("tests/flaky.sh", &flaky)]);
    removed("tests/flaky.sh");
    // Caches are never the agent's, so the judge does not see this part of the solution.
    let cached = ("node_modules/.cache/data", "1\n");
    commit(
        "Cached",
        &[
            cached,
            ("tests/cached.sh", "test -e node_modules/.cache/data\n"),
        ],
    );
    commit(
        "Depend",
        &[
            ("lib.sh", &comment),
            ("requirements.txt", "x\n"),
            ("tests/a.sh", "true\n"),
        ],
    );
    let long = "# A line.\n".repeat(401);
    commit("Long", &[("long.sh", &long), ("tests/b.sh", "true\n")]);
    let nested = |body: &str| format!("impl X {{\n    #[cfg(test)]\n    fn t() {{ {body} }}\n}}\n");
    commit("Rust", &[("src/x.rs", &nested("1"))]);
    commit("Mixed", &[("src/x.rs", &nested("2"))]);
}

#[test]
fn every_candidate_is_accepted_or_has_a_reject_code() {
    let context = shell_project();
    commit_every_kind(&context);
    let output = mine_shell(&context, &[]);
    output.assert_code(0);
    let ledger = ledger(&context);
    let expected = [
        ("Add a library", "accepted"),
        ("Cached", "SPLIT_WRONG"),
        ("Depend", "ENV_CHANGED"),
        ("Download", "NEEDS_NETWORK"),
        ("Flaky", "FLAKY"),
        ("Green", "ALREADY_GREEN"),
        ("Long", "TOO_LARGE"),
        ("Mixed", "MIXED_HUNK"),
        ("Red", "NOT_GREEN"),
        ("Rust", "MIXED_HUNK"),
        ("Silent", "NO_REPORT"),
        ("Subtract", "DUPLICATE"),
        ("Subtract again", "accepted"),
    ];
    let expected = expected.map(|(subject, result)| (subject.to_owned(), result.to_owned()));
    assert_eq!(results(&ledger), expected, "{output}");
    for entry in ledger["candidates"].as_array().unwrap() {
        let has_evidence = entry["evidence"].as_str().is_some_and(|it| !it.is_empty());
        assert_eq!(has_evidence, entry["status"] == "rejected", "{entry:#}");
    }
    assert_eq!(ledger["skipped"]["root"], 1);
    assert_eq!(ledger["skipped"]["no_source"], 2);
    assert_eq!(ledger["skipped"]["no_tests"], 3);
    assert_sound(&context);
}

#[test]
fn test_command_that_never_works_stops_mining() {
    let context = shell_project();
    for number in 0..5 {
        let (lib, test) = (format!("# {number}\n{ADD}"), format!("# {number}\n"));
        let files = [("lib.sh", lib.as_str()), ("tests/x.sh", test.as_str())];
        context.repo().commit("Change", &files);
    }
    let broken = ["--test-cmd", "echo no runner here >&2; exit 1"];
    for (output, examined) in [
        (
            mine(&context, &[&broken[..], &["--dry-run"]].concat()),
            None,
        ),
        (mine(&context, &broken), Some(3)),
    ] {
        output.assert_code(2);
        assert!(output.stderr.contains("reports no results"), "{output}");
        assert!(output.stderr.contains("no runner here"), "{output}");
        assert!(output.stderr.contains("--test-cmd"), "{output}");
        if let Some(count) = examined {
            assert_eq!(results(&ledger(&context)).len(), count, "{output}");
        }
    }
}

#[test]
fn slow_tests_are_rejected() {
    let context = shell_project();
    let slow = ("tests/slow.sh", "sleep 4\n");
    context.repo().commit("Slow", &[("lib.sh", SUB), slow]);
    let output = mine_shell(&context, &["--from-commit", "HEAD", "--test-timeout", "3"]);
    output.assert_code(0);
    assert_eq!(results(&ledger(&context))[0].1, "TOO_SLOW", "{output}");
}

#[test]
fn solution_is_out_of_the_agents_reach_and_wrong_solutions_fail() {
    let context = shell_project();
    let solved = format!("{ADD}a_name_that_only_the_solution_has() {{ echo 7; }}\n");
    let test = ". ./lib.sh\ntest \"$(a_name_that_only_the_solution_has)\" = 7 && test 'a line of the hidden test' != ''\n";
    let files = [("lib.sh", solved.as_str()), ("tests/seven.sh", test)];
    let commit = context.repo().commit("Count to seven\n\nSee #77.", &files);
    let args = ["--from-commit", "HEAD", "--prompt", "message"];
    mine_shell(&context, &args).assert_code(0);
    let ledger = ledger(&context);
    let task = only_task(&ledger);
    assert_eq!(task["fail_to_pass"][0], "tests/seven.sh");
    assert_eq!(task["pass_to_pass"][0], "tests/add.sh");
    assert_eq!(task["strength"]["noticed"], 1);
    let prompt = task["prompt"].as_str().unwrap();
    assert!(prompt.contains("Count to seven"), "{prompt}");

    assert_sound(&context);
    // Every object, file, pack and log of the workspace and the HOME is searched. Brackets prevent
    // that the search finds itself.
    let search = "mkdir -p \"$HOME/found\"; git cat-file --batch-all-objects --batch > \"$HOME/found/objects\"; git reflog --all > \"$HOME/found/reflog\"; git log --all --format=%H%B > \"$HOME/found/log\"";
    let (first, rest) = commit.split_at(1);
    let words = format!("a_name_that_[o]nly|a line of the hidden [t]est|[{first}]{rest}");
    let leak = context.root().join("leak");
    let search = format!("{search}; grep -raE '{words}' . \"$HOME\" > {leak}");
    for (solution, expected) in [
        (format!("{search}; true"), 1),
        (
            "echo 'a_name_that_only_the_solution_has() { echo 8; }' >> lib.sh".to_owned(),
            1,
        ),
        (
            "rm lib.sh; echo 'a_name_that_only_the_solution_has() { echo 7; }' > lib.sh".to_owned(),
            1,
        ),
        (
            "echo 'a_name_that_only_the_solution_has() { echo 7; }' >> lib.sh".to_owned(),
            0,
        ),
    ] {
        install_claude(&context, &session(&[shell(&solution)]));
        let suite = out(&context).join("proctor.yaml");
        let run = context.proctor(["run", suite.as_str()]);
        run.env("ANTHROPIC_API_KEY", "sk-ant-fake")
            .run()
            .assert_code(expected);
    }
    assert_eq!(fs_err::read_to_string(leak).unwrap(), "");
}

#[test]
fn interrupted_mining_is_resumed_and_refreshed() {
    let context = shell_project();
    let repo = context.repo();
    repo.commit("Subtract", &[("lib.sh", SUB), ("tests/sub.sh", TEST_SUB)]);
    mine_shell(&context, &["--limit", "1"]).assert_code(0);
    let again = mine_shell(&context, &["--limit", "1"]);
    again.assert_code(2);
    assert!(again.stderr.contains("--resume"), "{again}");
    // The same options examine the same candidates, and complete the files.
    let suite = out(&context).join("proctor.yaml");
    fs_err::remove_file(&suite).unwrap();
    mine_shell(&context, &["--limit", "1", "--resume"]).assert_code(0);
    assert_eq!(results(&ledger(&context)).len(), 1);
    assert!(suite.exists());
    mine_shell(&context, &["--limit", "2", "--resume"]).assert_code(0);
    let all = results(&ledger(&context));
    assert_eq!(all.len(), 2, "{all:?}");
    let other = mine_shell(&context, &["--resume", "--prompt", "tests"]);
    other.assert_code(2);
    assert!(other.stderr.contains("--prompt"), "{other}");

    let mul = format!("{SUB}mul() {{ echo $(($1 * $2)); }}\n");
    let test = ". ./lib.sh\ntest \"$(mul 3 2)\" = 6\n";
    repo.commit("Multiply", &[("lib.sh", &mul), ("tests/mul.sh", test)]);
    let out = out(&context);
    let refresh = ["task", "refresh", out.as_str()];
    context.proctor(refresh).run().assert_code(0);
    let all = results(&ledger(&context));
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(
        all.iter().all(|(_, result)| result == "accepted"),
        "{all:?}"
    );
    let nothing = context.proctor(refresh).run();
    nothing.assert_code(0);
    assert_sound(&context);
}

#[test]
fn uncommitted_changes_become_a_task_and_stay_uncommitted() {
    let context = shell_project();
    let repo = context.repo();
    fs_err::write(repo.path().join("lib.sh"), SUB).unwrap();
    fs_err::write(repo.path().join("tests/sub.sh"), TEST_SUB).unwrap();
    let before = repo.git(["status", "--porcelain"]);
    mine_shell(&context, &["--from-working-tree"]).assert_code(0);
    assert_eq!(repo.git(["status", "--porcelain"]), before);
    let ledger = ledger(&context);
    let task = only_task(&ledger);
    assert_eq!(task["prompt_tier"], "tests");
    assert!(task["prompt"].as_str().unwrap().contains("tests/sub.sh"));
    assert_sound(&context);
}

#[test]
fn output_directory_is_not_a_part_of_the_uncommitted_changes() {
    let context = shell_project();
    let folder = context.repo().path().to_owned();
    for (path, text) in [
        ("lib.sh", SUB),
        ("tests/sub.sh", TEST_SUB),
        ("mined/more.sh", "# more\n"),
    ] {
        let path = folder.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    let inside = folder.join("mined");
    let all = ["task", "mine", folder.as_str(), "--out", inside.as_str()];
    let own = ["--from-working-tree", "--test-cmd", "sh run.sh", "--json"];
    let output = context.proctor(all.into_iter().chain(own)).run();
    output.assert_code(0);
    let ledger = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(only_task(&ledger)["source_files"], 1, "{output}");
}

#[test]
fn thousand_candidates_are_planned_with_an_estimate() {
    let context = shell_project();
    let mut stream = String::new();
    for number in 0..1000 {
        let files = [
            ("lib.sh", format!("# {number}\n{ADD}")),
            ("tests/x.sh", format!("# {number}\n")),
        ];
        stream.push_str("commit refs/heads/main\ncommitter F <f@example.com> 1704067200 +0000\n");
        let message = format!("Change {number}");
        let _ = write!(stream, "data {}\n{message}\n", message.len());
        if number == 0 {
            stream.push_str("from refs/heads/main^0\n");
        }
        for (path, text) in files {
            let _ = write!(
                stream,
                "M 100644 inline {path}\ndata {}\n{text}\n",
                text.len()
            );
        }
    }
    context
        .repo()
        .git_with_input(&["fast-import", "--quiet"], stream.as_bytes());
    let output = mine_shell(&context, &["--dry-run", "--json", "--limit", "5000"]);
    output.assert_code(0);
    let plan: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(plan["candidates"].as_array().unwrap().len(), 1001);
    assert_eq!(plan["test_runs_at_most"], 1001 * (4 * 2 + 4 + 10));
    assert!(plan["measured_run_ms"].as_u64().unwrap() > 0, "{plan}");
    assert!(!out(&context).exists());
    let sampled = mine_shell(&context, &["--dry-run", "--json", "--representative", "3"]);
    let plan: Value = serde_json::from_str(&sampled.stdout).unwrap();
    assert_eq!(plan["candidates"].as_array().unwrap().len(), 3);
}

#[test]
fn unusable_input_is_refused() {
    let context = shell_project();
    let folder = context.root().join("empty");
    fs_err::create_dir_all(&folder).unwrap();
    let nowhere = ["task", "mine", folder.as_str(), "--out", "o"];
    for (output, expected) in [
        (context.proctor(nowhere).run(), "is not a git repository"),
        (mine(&context, &[]), "cannot detect the test command"),
        (
            mine_shell(&context, &["--since", "no-such-tag"]),
            "neither a revision",
        ),
        (
            mine_shell(&context, &["--from-commit", "nothing"]),
            "has no commit `nothing`",
        ),
        (
            mine_shell(&context, &["--from-working-tree"]),
            "the working tree is not a candidate",
        ),
    ] {
        output.assert_code(2);
        assert!(output.stderr.contains(expected), "{expected}: {output}");
    }
}

/// The tutorial of docs/mining.md: from a repository to an answer about a new `CLAUDE.md`.
#[test]
fn mined_tasks_answer_an_ab_question() {
    let context = shell_project();
    context
        .repo()
        .commit("Subtract", &[("lib.sh", SUB), ("tests/sub.sh", TEST_SUB)]);
    mine_shell(&context, &["--from-commit", "HEAD"]).assert_code(0);
    let work =
        "if grep -q subtract CLAUDE.md; then echo 'sub() { echo $(($1 - $2)); }' >> lib.sh; fi";
    install_claude(&context, &session(&[shell(work)]));
    fs_err::write(context.root().join("new-CLAUDE.md"), "You can subtract.\n").unwrap();
    let suite = out(&context).join("proctor.yaml");
    let ab = [
        "ab",
        suite.as_str(),
        "--agent",
        "claude-code",
        "--b",
        "CLAUDE.md=./new-CLAUDE.md",
    ];
    let ab = context.proctor(ab.into_iter().chain(["--trials", "8", "--json"]));
    let output = ab.env("ANTHROPIC_API_KEY", "sk-ant-fake").run();
    let answer: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    let result = &answer["results"][0];
    assert_eq!(result["candidate"], "b", "{answer:#}");
    assert_eq!(result["excluded"], 0, "{answer:#}");
    let ledger = ledger(&context);
    let task = &only_task(&ledger)["id"];
    assert_eq!(result["flipped"]["gained"][0], *task, "{answer:#}");
}

#[test]
fn init_makes_tasks_and_a_suite_that_runs_them() {
    let context = context();
    let test = "import unittest, calc\n\nclass T(unittest.TestCase):\n    def test_mul(self):\n        self.assertEqual(calc.mul(3, 2), 6)\n";
    let repo = context.repo();
    repo.commit(
        "Start",
        &[("calc.py", "def add(a, b):\n    return a + b\n")],
    );
    let calc = "def add(a, b):\n    return a + b\n\ndef mul(a, b):\n    return a * b\n";
    repo.commit("Multiply", &[("calc.py", calc), ("test_mul.py", test)]);
    let offer = context.proctor(["init"]).current_dir(repo.path()).run();
    offer.assert_code(0);
    assert!(offer.stdout.contains("proctor init --mine 5"), "{offer}");
    let null = ["run", "-c", "testcase.yaml", "--agent", "null"];
    let null = context.proctor(null).current_dir(repo.path()).run();
    null.assert_code(1);
    assert!(null.stdout.contains("FAILED"), "{null}");
    let init = context
        .proctor(["init", "--mine", "1", "--force"])
        .current_dir(repo.path())
        .run();
    init.assert_code(0);
    assert!(init.stdout.contains("1 accepted"), "{init}");
    assert_eq!(init.stdout.matches("run it with").count(), 1, "{init}");
    let work = "printf 'def mul(a, b):\\n    return a * b\\n' >> calc.py";
    install_claude(&context, &session(&[shell(work)]));
    let run = context.proctor(["run"]).current_dir(repo.path());
    run.env("ANTHROPIC_API_KEY", "sk-ant-fake")
        .run()
        .assert_code(0);
}
