//! SC-009: the same test case with another `agent.type`, and nothing else, for each CLI that is installed.

use proctor_testkit::TestContext;
use serde_json::json;

use super::{AIDER, CODEX, COPILOT, GEMINI, OPENCODE, PATIENCE, edits};

#[test]
fn the_same_test_case_runs_with_every_installed_agent_when_only_its_type_changes() {
    let others = [&CODEX, &GEMINI, &OPENCODE, &COPILOT, &AIDER];
    let others = others.map(|cli| (cli.kind, cli.program));
    for (kind, program) in [("claude-code", "claude")].into_iter().chain(others) {
        let ctx = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
        let is_there = match kind {
            "claude-code" => ctx.install_real_claude("latest").is_some(),
            _ => ctx.install_real(program),
        };
        if !is_there {
            continue;
        }
        let case = write(&ctx, kind);
        let program = ctx.proctor(["run", "-c", &case]).deadline(PATIENCE);
        let output = program.run();
        let record = ctx.record();
        assert_eq!(record["agent"]["type"], kind, "{record:#}");
        assert_eq!(record["status"], "passed", "{kind}: {output}\n{record:#}");
        assert_eq!(record["diff"]["files_changed"], 1, "{kind}: {record:#}");
    }
}

/// The test case, and the answers of its model beside it.
fn write(ctx: &TestContext, kind: &str) -> String {
    let case = json!({
        "name": "switch", "description": "any agent", "repo": "../repo",
        "agent": {"type": kind, "model": "claude-sonnet-4-5", "config": {"prompt": "Write hello.txt."}},
        "gateway": {"script": "answers.json"},
        "timeout": u64::try_from(PATIENCE.as_millis()).unwrap(),
        "evaluators": [{"name": "command", "config": {"command": "grep -qx hi hello.txt"}}],
    });
    let folder = ctx.root().join("cases");
    let script = json!({"answers": edits()}).to_string();
    fs_err::write(folder.join("answers.json"), script).unwrap();
    let path = folder.join("testcase.json");
    fs_err::write(&path, case.to_string()).unwrap();
    path.into_string()
}
