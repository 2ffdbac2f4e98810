//! Jobs that take too long or too much.

use serde_json::{Value, json};

use crate::support::{Rig, sleeper};

#[track_caller]
fn only(rig: &Rig) -> Value {
    let mut records = rig.finished();
    assert_eq!(records.len(), 1);
    records.remove(&1).unwrap()
}

/// Both ways at once: a minute is the shortest that Slurm knows.
#[test]
fn trial_over_its_job_time_is_a_timeout() {
    let own = json!({"executor": {"type": "slurm", "time": "60s", "memory": "200m"}});
    let engines = json!({"executor": {"type": "slurm", "time": "1h", "memory": "200m", "args": ["--time=1"]}});
    let (Some(one), Some(other)) = (
        Rig::new(&sleeper(600), &own),
        Rig::new(&sleeper(600), &engines),
    ) else {
        return;
    };
    let (first, second) = (one.run(&[]).spawn(), other.run(&[]).spawn());
    first.wait().assert_code(1);
    let record = only(&one);
    assert_eq!(record["outcome"], "timeout", "{record}");
    assert_eq!(record["status"], "failed");
    second.wait().assert_code(1);
    let record = only(&other);
    assert_eq!(record["outcome"], "timeout", "{record}");
    let errors = record["errors"].to_string();
    assert!(errors.contains("time limit"), "{errors}");
}

#[test]
fn job_killed_for_memory_is_out_of_memory() {
    let line = "exec python3 -c 'import time; a = bytearray(600 << 20); a[::4096] = b\"x\" * len(a[::4096]); time.sleep(120)'";
    let agent =
        json!({"name": "agent", "type": "command", "config": {"command": ["sh", "-c", line]}});
    let Some(rig) = Rig::new(&agent, &json!({})) else {
        return;
    };
    rig.run(&[]).run().assert_code(3);
    let record = only(&rig);
    assert_eq!(record["outcome"], "out_of_memory", "{record}");
    assert_eq!(record["status"], "error", "nothing is said of the agent");
    assert_eq!(record["score"], Value::Null);
}
