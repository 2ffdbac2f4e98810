//! Instances in the format of SWE-bench, with a repository on this machine.

use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::support::{context, with};

/// Writes TAP: one test for each line of `tests/expected`. It fails for reasons of others, too.
const RUNNER: &str = r#"n=0
while read -r line; do
  n=$((n + 1))
  if [ "$(sed -n ${n}p answer)" = "$line" ]; then echo "ok $n - line $n"; else echo "not ok $n - line $n"; fi
done < tests/expected
echo "not ok $((n + 1)) - of others"
echo "1..$((n + 1))"
exit 1
"#;

/// Instances on a repository: line 1 is right, line 2 is to be fixed, line 3 fails before and after.
fn instances(context: &TestContext, ids: &[&str], more: &Value) {
    let repo = context.repo();
    let files = [
        ("answer", "1\nx\n"),
        ("tests/run.sh", RUNNER),
        ("tests/expected", "1\n"),
    ];
    let base = repo.commit("base", &files);
    let patch =
        "diff --git a/answer b/answer\n--- a/answer\n+++ b/answer\n@@ -1,2 +1,2 @@\n 1\n-x\n+2";
    let test_patch = "diff --git a/tests/expected b/tests/expected\n--- a/tests/expected\n+++ b/tests/expected\n@@ -1 +1,2 @@\n 1\n+2\n";
    let lines = ids.iter().map(|id| {
        let instance = json!({
            "instance_id": id, "repo": "owner/repo", "base_commit": base, "version": "1.0",
            "problem_statement": "Line 2 is wrong.", "hints_text": "", "patch": patch, "test_patch": test_patch,
            "FAIL_TO_PASS": "[\"line 2\"]", "PASS_TO_PASS": ["line 1"],
        });
        format!("{}\n", with(&instance, more))
    });
    fs_err::write(context.root().join("set.jsonl"), lines.collect::<String>()).unwrap();
}

fn suite(context: &TestContext, agents: &Value, more: &Value) -> String {
    let task = json!({"swebench": "set.jsonl", "repos": "./{name}", "test_cmd": "sh tests/run.sh"});
    let suite = json!({"agents": agents, "sandbox": "local", "tasks": [with(&task, more)]});
    let path = context.root().join("suite.json");
    fs_err::write(&path, suite.to_string()).unwrap();
    path.into_string()
}

#[test]
fn instance_is_resolved_only_if_all_named_tests_pass() {
    let context = context();
    instances(&context, &["owner__repo-1"], &json!({}));
    let shell = |name: &str, line: &str| json!({"name": name, "type": "command", "config": {"command": ["sh", "-ec", line]}});
    let agents = json!([
        {"type": "null"}, {"type": "oracle"},
        shell("breaks", "printf 'x\\n2\\n' > answer"),
        // The hidden version of the tests counts.
        shell("cheats", "printf '1\\nx\\n' > tests/expected"),
    ]);
    let path = suite(&context, &agents, &json!({}));
    context.proctor(["run", &path]).run().assert_code(1);
    for (agent, status, score) in [
        ("null", "failed", 0.0),
        ("oracle", "passed", 1.0),
        ("breaks", "failed", 0.0),
        ("cheats", "failed", 0.0),
    ] {
        let path =
            format!(".proctor/latest/trials/{agent}/owner__repo-1/trial-1/artifacts/record.json");
        let record = fs_err::read(context.root().join(path)).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        let verdict = &record["verdicts"][0];
        assert_eq!(verdict["status"], status, "{agent}: {verdict:#}");
        assert_eq!(verdict["score"], score, "{agent}: {verdict:#}");
        assert_eq!(record["task"]["kind"], "instance");
    }
    let check = ["task", "check", &path, "--times", "1"];
    context.proctor(check).run().assert_code(0);
    context.assert_nothing_left("");
}

#[test]
fn instances_never_run_on_this_machine_unasked() {
    let context = context();
    instances(&context, &["a"], &json!({}));
    let path = suite(&context, &json!([{"type": "null"}]), &json!({}));
    let text = fs_err::read_to_string(&path).unwrap();
    fs_err::write(&path, text.replace(r#""sandbox":"local","#, "")).unwrap();
    let output = context.proctor(["run", &path]).run();
    output.assert_code(2);
    assert!(output.stderr.contains("only if that is chosen"), "{output}");
    // Without a suite the repository is in an image.
    let run = ["run", "set.jsonl", "--agent", "null", "--sandbox", "local"];
    let output = context.proctor(run).run();
    output.assert_code(2);
    assert!(
        output.stderr.contains("in the image of the instance"),
        "{output}"
    );
    assert!(output.stderr.contains("`repos`"), "{output}");
}

#[test]
fn part_of_a_dataset_is_selected() {
    let context = context();
    let ids = ["o__a-1", "o__a-2", "o__b-1", "o__b-2", "o__b-3"];
    instances(&context, &ids, &json!({}));
    let agents = json!([{"type": "null"}]);
    let planned = |more: &Value, args: &[&str]| -> Vec<&str> {
        let path = suite(&context, &agents, more);
        let run = ["run", path.as_str(), "--dry-run"];
        let output = context.proctor(run.iter().chain(args).copied()).run();
        output.assert_code(0);
        let is_planned = |id: &&str| output.stdout.contains(*id);
        ids.into_iter().filter(is_planned).collect()
    };
    assert_eq!(planned(&json!({}), &[]).len(), 5);
    let entry = json!({"include": ["o__b-*"], "exclude": ["*-2"]});
    assert_eq!(planned(&entry, &[]), ["o__b-1", "o__b-3"]);
    assert_eq!(planned(&json!({"limit": 2}), &[]), ["o__a-1", "o__a-2"]);
    let options = ["--include", "o__b-*", "--exclude", "*-2"];
    assert_eq!(planned(&json!({}), &options), ["o__b-1", "o__b-3"]);
    let sample = |seed| planned(&json!({}), &["--limit", "2", "--sample-seed", seed]);
    assert_eq!(sample("1"), sample("1"));
    assert_eq!(sample("1").len(), 2);
    assert!(
        ["2", "3", "4"]
            .into_iter()
            .any(|seed| sample(seed) != sample("1"))
    );
    let path = suite(&context, &agents, &json!({}));
    let output = context.proctor(["run", &path, "--include", "x*"]).run();
    output.assert_code(2);
    assert!(
        output
            .stderr
            .contains("--include: the patterns leave no task"),
        "{output}"
    );
}

#[test]
fn invalid_instances_are_named_and_do_not_affect_others() {
    let context = context();
    instances(&context, &["good"], &json!({}));
    let file = context.root().join("set.jsonl");
    let good = fs_err::read_to_string(&file).unwrap();
    let bad = good
        .replace("\"good\"", "\"bad\"")
        .replace("[\\\"line 2\\\"]", "[]");
    fs_err::write(&file, format!("{good}{bad}")).unwrap();
    let path = suite(&context, &json!([{"type": "null"}]), &json!({}));
    for target in [path.as_str(), "set.jsonl"] {
        let output = context.proctor(["validate", target]).run();
        output.assert_code(2);
        assert!(
            output.stderr.contains("bad: `FAIL_TO_PASS` is empty"),
            "{output}"
        );
        assert!(output.stdout.contains("ok"), "{output}");
    }
    fs_err::write(&file, format!("{good}{{\n")).unwrap();
    let output = context.proctor(["validate", &path]).run();
    output.assert_code(2);
    assert!(output.stderr.contains("line 2 of "), "{output}");
}
