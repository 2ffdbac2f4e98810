//! Restarted agents and stuck agents in containers.

use serde_json::{Value, json};

use super::{Rig, harbor, shell};

fn with(mut agent: Value, key: &str, value: Value) -> Value {
    agent[key] = value;
    agent
}

/// On a repo's task the files are this machine's; in a task's own image they are in the container.
#[test]
fn an_agent_is_started_again_in_its_container_until_the_check_succeeds() {
    let Some(rig) = Rig::new() else { return };
    harbor::task(&rig, "separate");
    let work = "echo x >> work.txt; echo hello > greeting.txt";
    // HOME is fresh each time, the workspace is not. A task with an image has the home of its image.
    let at_home = format!("test ! -e $HOME/seen || exit 7; touch $HOME/seen; {work}");
    let check = json!({"iterations": 4, "check": "echo $(wc -l < work.txt) lines; test $(wc -l < work.txt) = 3"});
    for (work, tasks) in [
        (
            at_home.as_str(),
            json!([{"testcase": "cases/testcase.yaml"}]),
        ),
        (work, json!([{"folder": "tasks/greet"}])),
    ] {
        let agents = json!([with(shell("looper", work), "loop", check.clone())]);
        let path = rig.suite(&agents, &json!({"tasks": tasks}));
        rig.run(&path, &[]).assert_code(0);
        let record = rig.record("looper");
        assert_eq!(record["status"], "passed", "{record:#}");
        let iterations = record["iterations"].as_array().unwrap();
        assert_eq!(iterations.len(), 3, "{record:#}");
        assert_eq!(iterations[1]["check"]["exit_code"], 1);
        let prompt = fs_err::read_to_string(rig.trial("looper").join("artifacts/prompt.md"));
        assert!(prompt.unwrap().contains("2 lines"));
    }
}

#[test]
fn an_agent_in_a_container_is_ended_when_neither_events_nor_files_are_new() {
    let Some(rig) = Rig::new() else { return };
    harbor::task(&rig, "separate");
    let agents = json!([
        shell("stuck", "while :; do echo waiting; sleep 0.2; done"),
        shell(
            "writer",
            "for i in $(seq 25); do echo $i > work.txt; sleep 0.4; done; echo hello > greeting.txt"
        ),
    ]);
    for tasks in [
        json!([{"testcase": "cases/testcase.yaml"}]),
        json!([{"folder": "tasks/greet"}]),
    ] {
        let limits = json!({"no_progress_timeout": 4000});
        let path = rig.suite(&agents, &json!({"tasks": tasks, "limits": limits}));
        rig.run(&path, &[]).assert_code(1);
        let stuck = rig.record("stuck");
        assert_eq!(stuck["outcome"], "timeout", "{stuck:#}");
        assert_eq!(stuck["process"]["ended_by"], "no_progress", "{stuck:#}");
        let writer = rig.record("writer");
        assert_eq!(writer["status"], "passed", "{writer:#}");
    }
}
