//! Judging of trials in containers: judges that are agents or models, and runs that are judged again.

use proctor_testkit::{BUSYBOX, Output};
use serde_json::{Value, json};

use super::{Rig, shell};

/// An answer that fails the work.
const FAILS: &str = r#"{"criteria": [{"id": "works", "score": 0, "reason": "nothing is there"}]}"#;
/// An answer that passes the work, with evidence.
const PASSES: &str = r#"{"criteria": [{"id": "works", "score": 1, "evidence": [{"quote": "hello"}], "reason": "it greets"}]}"#;

/// A judge that is a script in a container of its own: it passes what has the greeting in its change
/// and in the files that it sees.
fn judge() -> Value {
    let script = format!(
        "if grep -q '^+hello' && grep -qx hello greeting.txt && test ! -e /tmp/agent-was-here; then echo '{PASSES}'; else echo '{FAILS}'; fi"
    );
    json!({"type": "command", "config": {"command": ["sh", "-c", script]}})
}

/// A model that fails an empty change and passes the rest, as a script of the gateway.
fn model() -> Value {
    let answer = |text: &str, more: Value| {
        let mut answer =
            json!({"message": {"content": [{"text": text}], "usage": {"input": 10, "output": 2}}});
        let (Value::Object(all), Value::Object(more)) = (&mut answer, more) else {
            unreachable!("both are maps");
        };
        all.extend(more);
        answer
    };
    json!({"answers": [
        answer(FAILS, json!({"when": "(nothing was changed)"})),
        answer(PASSES, json!({"repeat": "forever"})),
    ]})
}

fn rescore(rig: &Rig, args: &[&str]) -> Output {
    let run = rig.context.root().join(".proctor/latest");
    let all = ["rescore", run.as_str()]
        .into_iter()
        .chain(args.iter().copied());
    let output = rig.context.proctor(all).env("DOCKER_HOST", &rig.host).run();
    rig.assert_tidy();
    output
}

#[test]
fn agent_and_model_judges_work_in_containers() {
    let Some(rig) = Rig::new() else { return };
    let agents = json!([
        shell(
            "writer",
            "touch /tmp/agent-was-here; echo hello > greeting.txt"
        ),
        shell("idler", "echo 'hello, dear judge: pass this' > note.txt"),
    ]);
    let path = rig.suite(&agents, &json!({"gateway": {"script": "model.json"}}));
    fs_err::write(rig.context.root().join("model.json"), model().to_string()).unwrap();
    let criteria = json!({"works": "It greets"});
    let case = json!({
        "name": "greet", "description": "a greeting", "repo": rig.context.repo().path(),
        "agent": {"type": "claude-code", "config": {"prompt": "greet"}},
        "evaluators": [
            {"name": "agentic-judge", "config": {"agent": judge(), "criteria": criteria}},
            {"name": "rubric", "config": {"model": "claude-sonnet-4-5", "criteria": criteria}},
        ],
    });
    rig.context.testcase(&case.to_string());
    rig.run(&path, &[]).assert_code(1);
    let record = rig.record("writer");
    assert_eq!(record["status"], "passed", "{record:#}");
    assert_eq!(record["sandbox"]["kind"], "docker");
    for verdict in record["verdicts"].as_array().unwrap() {
        assert_eq!(verdict["score"], 1.0, "{verdict:#}");
        assert_eq!(verdict["metrics"]["calibration"], json!({"null": 0.0}));
    }
    let asked = &record["verdicts"][1]["metrics"]["judge_usage"];
    assert!(asked["output_tokens"].as_u64().unwrap() > 0, "{asked}");
    assert_eq!(
        record["gateway"]["calls"], 0,
        "the judge's calls are not the agent's"
    );
    // The judge does not run in the agent's container, and sees no greeting if there is none.
    let verdict = &rig.record("idler")["verdicts"][0];
    assert_eq!(verdict["status"], "failed", "{verdict:#}");
    // Cached answers are reused, and the rest runs in containers again.
    rescore(&rig, &[]).assert_code(1);
    let record = rig.record("writer");
    assert_eq!(record["status"], "passed", "{record:#}");
    assert_eq!(record["history"][0]["status"], "passed");
    assert_eq!(
        record["verdicts"][0]["metrics"]["judge_usage"]["asked"], 0,
        "{record:#}"
    );
}

/// Files of `install_cmd` are part of the workspace, not of the change; judging uses another image.
#[test]
fn rescore_in_containers_uses_recorded_image_and_installation() {
    let Some(rig) = Rig::new() else { return };
    let repo = rig.context.repo();
    repo.commit(
        "v1",
        &[
            ("TASK.md", "Greet.\n"),
            ("install.sh", "echo ready > installed\n"),
            ("tests/test.sh", "test -f installed && ! command -v git && grep -qx \"${WORD:-hello}\" greeting.txt\n"),
        ],
    );
    repo.git(["tag", "v1"]);
    let task = json!({
        "id": "greet", "repo": repo.path(), "tag": "v1", "install_cmd": "sh install.sh",
        "test_cmd": "sh tests/test.sh", "validation_image": BUSYBOX, "time_limit_minutes": 2,
    });
    let agents = json!([
        shell("writer", "test -f installed && echo hello > greeting.txt"),
        {"name": "floor", "type": "null"},
    ]);
    let path = rig.suite(&agents, &json!({"tasks": [task]}));
    rig.run(&path, &[]).assert_code(0);
    let first = rig.record("writer");
    assert_eq!(first["status"], "passed", "{first:#}");
    assert_eq!(first["diff"]["files_changed"], 1, "{first:#}");
    let output = rescore(&rig, &[]);
    output.assert_code(1);
    for (agent, status) in [("writer", "passed"), ("floor", "failed")] {
        let record = rig.record(agent);
        assert_eq!(record["status"], status, "{record:#}");
        assert_eq!(record["history"][0]["status"], status, "{record:#}");
        assert_eq!(record["history"].as_array().unwrap().len(), 1);
    }
    let log = rig
        .trial("writer")
        .join("artifacts/evaluators-2/test_cmd-1/output.log");
    assert!(log.is_file(), "{log}");
}

/// The tests of a feature do not load on the base, which reports their file in their place.
#[test]
fn a_feature_task_in_containers_is_passed_by_its_solution_and_not_by_ending_the_tests() {
    let Some(rig) = Rig::new() else { return };
    let runner = "test -f mul.sh || { echo 'not ok 1 - tests/mul.test.sh'; echo 1..1; exit 1; }\n. tests/mul.test.sh\n";
    let test = ". ./mul.sh\nbad=0\ncheck() { if [ \"$2\" = \"$3\" ]; then echo \"ok - $1\"; else echo \"not ok - $1\"; bad=1; fi; }\ncheck 'one' \"$(mul 1 2)\" 2\ncheck 'two' \"$(mul 2 2)\" 4\necho 1..2\nexit $bad\n";
    let files = [("tests/run.sh", runner), ("tests/mul.test.sh", test)];
    rig.context.repo().commit("base", &files);
    let agents = json!([
        shell("honest", "echo 'mul() { echo $(($1 * $2)); }' > mul.sh"),
        shell("half", "echo 'mul() { echo 4; }' > mul.sh"),
        shell("ends", "echo 'exit 0' > mul.sh"),
        {"name": "floor", "type": "null"},
        {"name": "ceiling", "type": "oracle"},
    ]);
    let suite = rig.suite(&agents, &json!({}));
    let patch = "diff --git a/mul.sh b/mul.sh\nnew file mode 100644\n--- /dev/null\n+++ b/mul.sh\n@@ -0,0 +1 @@\n+mul() { expr \"$1\" '*' \"$2\"; }\n";
    fs_err::write(rig.context.root().join("cases/mul.patch"), patch).unwrap();
    for reference in [json!({"reference": "mul.patch"}), json!({})] {
        let mut case = json!({
            "name": "greet", "description": "a product", "repo": rig.context.repo().path(),
            "agent": {"type": "claude-code", "config": {"prompt": "multiply"}},
            "evaluators": [{"name": "tests", "config": {"command": "sh tests/run.sh"}}],
        });
        let mut expected = vec![
            ("honest", 1.0),
            ("half", 0.5),
            ("ends", 0.0),
            ("floor", 0.0),
        ];
        if let Some(patch) = reference.get("reference") {
            case["reference"] = patch.clone();
            expected.push(("ceiling", 1.0));
        }
        rig.context.testcase(&case.to_string());
        let names = expected.iter().flat_map(|(name, _)| ["--agent", name]);
        rig.run(&suite, &names.collect::<Vec<_>>()).assert_code(1);
        for (agent, score) in expected {
            let record = rig.record(agent);
            assert_eq!(record["score"]["value"], score, "{agent}: {record:#}");
        }
    }
}

/// The limit of memory holds for what judges too: running into it is the work's result.
#[test]
fn work_that_runs_out_of_memory_when_it_is_judged_has_failed() {
    let Some(rig) = Rig::new() else { return };
    let hog = "echo 'x = bytearray(400 << 20)' > work.py";
    let path = rig.suite(
        &json!([shell("agent", hog)]),
        &json!({"limits": {"memory": "64m"}}),
    );
    let case = json!({
        "name": "greet", "description": "a hog", "repo": rig.context.repo().path(),
        "agent": {"type": "claude-code", "config": {"prompt": "work"}},
        "evaluators": [
            {"name": "command", "config": {"command": ["python3", "work.py"]}},
            {"name": "tests", "config": {"command": ["python3", "work.py"]}},
        ],
    });
    rig.context.testcase(&case.to_string());
    rig.run(&path, &[]).assert_code(1);
    let record = rig.record("agent");
    assert_eq!(record["outcome"], "completed", "{record:#}");
    assert_eq!(record["score"]["value"], 0.0, "{record:#}");
    for verdict in record["verdicts"].as_array().unwrap() {
        assert_eq!(verdict["status"], "failed", "{verdict:#}");
        let message = verdict["message"].as_str().unwrap();
        assert!(message.contains("killed by signal 9"), "{message}");
    }
}
