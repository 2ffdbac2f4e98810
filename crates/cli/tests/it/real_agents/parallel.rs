//! Different CLIs side by side.

use serde_json::json;

use super::{CODEX, COPILOT, GEMINI, OPENCODE, PATIENCE, Suite, assert_edited, edits};

#[test]
fn sixteen_trials_of_four_agents_at_once_have_records_of_their_own() {
    let clis = [&CODEX, &GEMINI, &OPENCODE, &COPILOT];
    let Some(suite) = Suite::of(&clis) else {
        return;
    };
    let suite = suite.task("task", PATIENCE);
    let script = json!({"answers": edits()}).to_string();
    let path = suite.ctx.root().join("suite/answers.json");
    fs_err::write(&path, script).unwrap();
    let gateway = json!({"gateway": {"script": "answers.json"}, "trials": 4});
    suite.finish(suite.program(&gateway)).assert_code(0);
    let mut sessions = Vec::new();
    for cli in clis {
        for trial in 1..=4 {
            let record = suite.record(cli, "task", trial);
            assert_edited(&record);
            assert_eq!(record["agent"]["type"], cli.kind);
            sessions.extend(record["session_id"].as_str().map(str::to_owned));
        }
    }
    let reported = sessions.len();
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), reported, "a session was read twice");
    assert!(reported >= 12, "{sessions:?}");
}
