//! Tasks of several steps: one container, several prompts, each judged on its own.

use camino::Utf8PathBuf;
use serde_json::{Value, json};

use super::{Rig, shell};

/// Writes a task whose steps count up in a file.
fn task(rig: &Rig, toml: &str) -> Utf8PathBuf {
    let folder = rig.context.root().join("tasks/count");
    let steps = "[[steps]]\nname = \"one\"\nmin_reward = 1\n[[steps]]\nname = \"two\"\nhealthcheck = {command = \"test -f ready\", interval_sec = 0.1}\n";
    let toml = format!("{toml}\n{steps}");
    for (name, text) in [
        ("task.toml", toml.as_str()),
        (
            "environment/Dockerfile",
            "FROM proctor-test:debian\nWORKDIR /app\n",
        ),
        ("tests/expected", "nothing\n"),
        (
            "tests/test.sh",
            "cmp -s /app/count /tests/expected && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
        ),
        ("steps/one/instruction.md", "Write 1.\n"),
        ("steps/one/tests/expected", "1\n"),
        ("steps/one/solution/solve.sh", "echo 1 > count\n"),
        ("steps/two/instruction.md", "Append 2.\n"),
        ("steps/two/tests/expected", "1\nready\n2\n"),
        (
            "steps/two/solution/solve.sh",
            "cat given >> count; echo 2 >> count\n",
        ),
        ("steps/two/workdir/given", "ready\n"),
        (
            "steps/two/workdir/setup.sh",
            "test ! -e /tests && cp given ready\n",
        ),
    ] {
        let path = folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    folder
}

fn rewards(record: &Value) -> Vec<&Value> {
    let iterations = record["iterations"].as_array().unwrap().iter();
    let verdicts = iterations.map(|it| &it["verdicts"][0]);
    verdicts
        .map(|verdict| &verdict["metrics"]["reward"])
        .collect()
}

#[test]
fn steps_are_prompted_prepared_and_judged_one_after_another() {
    let Some(rig) = Rig::new() else { return };
    task(&rig, "");
    // Sees neither tests nor rewards of the step before.
    let script = "cat > prompt; ls /tests/* /logs/verifier/* 2>/dev/null; if grep -q Write prompt; then echo 1 > count; else echo 3 >> count; fi";
    let agents = json!([
        {"name": "floor", "type": "null"},
        {"name": "ceiling", "type": "oracle"},
        shell("half", script),
    ]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/count"}]}));
    rig.run(&path, &[]).assert_code(1);
    let record = rig.record("ceiling");
    assert_eq!(record["status"], "passed", "{record:#}");
    let message = &record["verdicts"][0]["message"];
    assert_eq!(message, "reward 1 (mean of one 1, two 1)", "{record:#}");
    let iterations = record["iterations"].as_array().unwrap();
    let steps: Vec<&Value> = iterations.iter().map(|it| &it["step"]).collect();
    assert_eq!(steps, ["one", "two"]);
    assert_eq!(iterations[1]["reason"], "next_step");
    // Each step has its own change: the files of the task are not the agent's.
    assert_eq!(iterations[0]["diff"]["lines_added"], 1, "{record:#}");
    assert_eq!(iterations[1]["diff"]["lines_added"], 2, "{record:#}");
    assert_eq!(iterations[1]["diff"]["files_changed"], 1, "{record:#}");
    let kept = iterations[0]["verdicts"][0]["artifacts"][0]["path"]
        .as_str()
        .unwrap();
    let artifacts = ".proctor/latest/trials/ceiling/count/trial-1/artifacts";
    assert!(
        rig.context.root().join(artifacts).join(kept).is_file(),
        "{kept}"
    );
    // The gate of the first step ends the trial.
    let record = rig.record("floor");
    assert_eq!(rewards(&record), [0.0], "{record:#}");
    assert_eq!(record["score"]["value"], 0.0, "{record:#}");
    let note = "the trial ended after step `one`: reward 0 is below min_reward 1";
    assert_eq!(record["notes"][0], note, "{record:#}");
    let record = rig.record("half");
    assert_eq!(rewards(&record), [1.0, 0.0], "{record:#}");
    assert_eq!(record["score"]["value"], 0.5, "{record:#}");
    assert_eq!(rig.printed("half"), "", "tests and rewards are gone");
}

/// The set-up of a later step fails because of the agent: the rewards of earlier steps stay.
#[test]
fn final_strategy_and_a_step_that_cannot_be_prepared() {
    let Some(rig) = Rig::new() else { return };
    let folder = task(&rig, "multi_step_reward_strategy = \"final\"");
    let toml = fs_err::read_to_string(folder.join("task.toml")).unwrap();
    let toml = toml.replace("min_reward = 1\n", "agent = {user = \"daemon\"}\n");
    fs_err::write(folder.join("task.toml"), toml).unwrap();
    let dockerfile = "FROM proctor-test:debian\nWORKDIR /app\nRUN chmod 777 /app\n";
    fs_err::write(folder.join("environment/Dockerfile"), dockerfile).unwrap();
    let late = "if grep -q Write; then id -un > who; else id -un >> who; cp who count; printf '1\\nready\\n2\\n' > count; cat who; fi";
    let agents = json!([
        shell("late", late),
        shell("blocker", "echo 1 > count; mkdir ready")
    ]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/count"}]}));
    rig.run(&path, &[]).assert_code(1);
    let record = rig.record("late");
    assert_eq!(rewards(&record), [0.0, 1.0], "{record:#}");
    assert_eq!(record["status"], "passed", "{record:#}");
    assert_eq!(rig.printed("late"), "daemon\nroot\n");
    let record = rig.record("blocker");
    assert_eq!(rewards(&record), [1.0], "{record:#}");
    assert_eq!(record["status"], "failed", "{record:#}");
    let note = record["notes"][0].as_str().unwrap();
    assert!(
        note.contains("step `two` could not be prepared"),
        "{record:#}"
    );
}
