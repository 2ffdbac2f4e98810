//! Agents that run into a bound of their container: time, memory, disk, processes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Rig, codes, shell};

/// The record of an agent with this script in a suite with these limits.
fn bounded(rig: &Rig, script: &str, more: &Value) -> Value {
    let path = rig.suite(&json!([shell("agent", script)]), more);
    let output = rig.run(&path, &[]);
    assert!(matches!(output.code, Some(0 | 1 | 3)), "{output}");
    rig.record("agent")
}

#[test]
fn deadline_kills_the_process_tree_and_the_work_is_judged() {
    let Some(mut rig) = Rig::new() else { return };
    rig.timeout = Duration::from_secs(3);
    let script = "echo hello > greeting.txt; trap '' TERM; (setsid sh -c \"trap '' TERM; sleep 5; echo late > /workspace/late.txt; sleep 600\" &); sleep 600";
    let began = Instant::now();
    let record = bounded(&rig, script, &json!({}));
    assert!(began.elapsed() < Duration::from_secs(100));
    assert_eq!(record["outcome"], "timeout", "{record:#}");
    let verdicts = record["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 2, "{record:#}");
    assert!(
        verdicts.iter().all(|verdict| verdict["status"] == "passed"),
        "{record:#}"
    );
    let patch = fs_err::read_to_string(rig.trial("agent").join("diff.patch")).unwrap();
    assert!(
        patch.contains("+hello") && !patch.contains("late"),
        "{patch}"
    );
}

#[test]
fn agent_that_exceeds_its_memory_limit_has_failed() {
    let Some(rig) = Rig::new() else { return };
    let hog = "exec python3 -c 'x = bytearray(400 << 20); print(len(x))'";
    let record = bounded(&rig, hog, &json!({"limits": {"memory": "64m"}}));
    assert_eq!(record["outcome"], "agent_error", "{record:#}");
    assert_eq!(record["status"], "failed", "{record:#}");
    assert_eq!(record["score"]["value"], 0.0, "{record:#}");
    assert!(codes(&record).contains(&"OUT_OF_MEMORY"), "{record:#}");
    assert_eq!(
        record["sandbox"]["limits"]["memory_bytes"],
        64 << 20,
        "{record:#}"
    );
    assert_eq!(record["sandbox"]["oom_kills"], 1, "{record:#}");
}

#[test]
fn an_agent_that_fills_the_disk_is_ended() {
    let Some(rig) = Rig::new() else { return };
    let filler = "i=0; while [ $i -lt 300 ]; do head -c 1048576 /dev/zero > /workspace/f$i; i=$((i+1)); sleep 0.1; done";
    let record = bounded(&rig, filler, &json!({"limits": {"disk": "20m"}}));
    assert!(codes(&record).contains(&"DISK_LIMIT"), "{record:#}");
}

#[test]
fn fork_bomb_does_not_affect_other_trials() {
    let Some(mut rig) = Rig::new() else { return };
    rig.timeout = Duration::from_secs(20);
    let bomb = "bomb() { bomb | bomb & }; bomb; sleep 1; echo hello > greeting.txt";
    let record = bounded(&rig, bomb, &json!({"limits": {"pids": 64}}));
    assert_eq!(record["sandbox"]["limits"]["pids"], 64, "{record:#}");
    assert_ne!(record["outcome"], "sandbox", "{record:#}");
    assert_eq!(
        record["verdicts"].as_array().unwrap().len(),
        2,
        "{record:#}"
    );
}
