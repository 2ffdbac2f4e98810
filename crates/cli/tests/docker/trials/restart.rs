//! An engine that goes away in mid-run.

use std::time::Duration;

use proctor_testkit::{BUSYBOX, PrivateEngine, TestContext, wait_until};
use serde_json::json;

use super::{Rig, shell};

#[test]
fn trials_survive_a_restart_of_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut engine) = PrivateEngine::start(folder.path()) else {
        return;
    };
    let rig = Rig {
        context: TestContext::new(env!("CARGO_BIN_EXE_proctor")),
        host: engine.host(),
        timeout: Duration::from_mins(1),
    };
    let agents = json!([shell("writer", "echo hello > greeting.txt; sleep 3")]);
    let more = json!({
        "sandbox": {"type": "docker", "image": BUSYBOX}, "trials": 2, "parallel": 2,
    });
    let path = rig.suite(&agents, &more);
    let program = rig.program(&path, &["--retry-infra", "8"]);
    let running = program.deadline(Duration::from_mins(3)).spawn();
    wait_until(Duration::from_mins(1), "both agents run", || {
        let ids = rig.docker(&["ps", "--quiet", "--filter", "label=proctor.run"]);
        ids.lines().count() == 2
    });
    engine.kill();
    engine.up();
    running.wait().assert_code(0);
    rig.assert_tidy();
    let attempts = rig
        .context
        .root()
        .join(".proctor/latest/trials/writer/greet");
    let first = attempts.join("trial-1.attempt-1/artifacts/record.json");
    let first: serde_json::Value = serde_json::from_slice(&fs_err::read(first).unwrap()).unwrap();
    assert_eq!(first["outcome"], "sandbox", "{first:#}");
    assert_eq!(rig.record("writer")["outcome"], "completed");
}
