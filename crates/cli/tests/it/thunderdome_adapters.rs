//! The adapter scripts that are shipped for Thunderdome.

use std::os::unix::fs::PermissionsExt;

use camino::Utf8PathBuf;
use proctor_testkit::TestContext;
use serde_json::{Value, json};

use crate::{
    support::{context, install_claude, print, result_with, says, write},
    thunderdome::{record, repo, run, suite, trial},
};

fn shipped(name: &str) -> Utf8PathBuf {
    let folder = Utf8PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../adapters"));
    let file = match name {
        "null" => "null.sh".to_owned(),
        other => format!("{other}/adapter.sh"),
    };
    folder.canonicalize_utf8().unwrap().join(file)
}

/// A suite with a shipped adapter.
fn shipped_suite(context: &TestContext, name: &str) -> Utf8PathBuf {
    let one = json!([{"name": "one", "adapter": shipped(name)}]);
    suite(context, "", &json!({"orchestrators": one}))
}

#[test]
fn shipped_adapters_give_up_without_a_task() {
    let context = context();
    for name in ["null", "claude-code", "aider"] {
        let script = shipped(name);
        let mode = fs_err::metadata(&script).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{name} can be run");
        let missing = context.root().join("no-such-file");
        let output = context
            .program("/bin/sh".into(), [script.as_str()])
            .env("TASK_DIR", context.root())
            .env("TASK_DESCRIPTION", missing)
            .run();
        output.assert_code(2);
        assert!(output.stderr.contains("no-such-file"), "{name}: {output}");
    }
}

#[test]
fn the_null_adapter_does_nothing() {
    let context = context();
    repo(&context);
    let path = shipped_suite(&context, "null");
    run(&context, &path).assert_code(1);
    let record = record(&context);
    assert_eq!(record["outcome"], "completed");
    assert_eq!(record["diff"]["files_changed"], 0);
}

#[test]
fn claude_code_adapter_passes_the_task_and_reports_metrics() {
    let context = context();
    repo(&context);
    // The script has no JSON parser but its own: text that looks like figures is none.
    let looks =
        r#"\", "num_turns": 99, "modelUsage": {"x": {"inputTokens": 7}}}, {"type": "result"} \\"#;
    let call = |name: &str| {
        let input = json!({"type": "tool_use", "name": "Fake", "text": looks});
        json!({"type": "tool_use", "id": "t", "name": name, "input": input})
    };
    let blocks = [
        call("Bash"),
        json!({"type": "text", "text": looks}),
        call("Odd"),
    ];
    let calls = json!({"line": {"message": {"id": "m", "content": blocks}, "type": "assistant"}});
    let end = result_with(&json!({"result": looks}));
    install_claude(
        &context,
        &[
            write("answer", "42\n"),
            says("m-1", "done"),
            calls,
            print("no JSON {\"type\": \"result\"\n"),
            end,
        ],
    );
    // Without jq, as in most images.
    let path = shipped_suite(&context, "claude-code");
    run(&context, &path).assert_code(0);
    let record = record(&context);
    assert_eq!(record["usage"]["source"], "sidecar");
    assert_eq!(record["usage"]["input_tokens"], 10);
    assert_eq!(record["usage"]["output_tokens"], 40);
    assert_eq!(record["usage"]["cache_read_tokens"], 100);
    assert_eq!(record["usage"]["cache_creation_tokens"], 30);
    assert_eq!(record["usage"]["cost_usd"], 0.0153);
    assert_eq!(record["turns"], 1);
    let meta = trial(&context, "meta.json");
    assert_eq!(meta["tools_used"], json!(["Bash", "Odd"]));
    assert_eq!(meta["duration_ms"], 5);
    assert_eq!(record["diff"]["files_changed"], 1);
    // The agent's exit code is kept.
    install_claude(&context, &[json!({"exit": 7})]);
    run(&context, &path).assert_code(1);
    assert_eq!(self::record(&context)["process"]["exit_code"], 7);
    context.assert_nothing_left("");
}

#[test]
fn aider_adapter_keeps_the_exit_code() {
    let context = context();
    repo(&context);
    let seen = context.root().join("seen");
    let fake = |code: u8| {
        let script = format!(
            "#!/bin/sh\nmkdir .aider.tags.cache.v4; touch .aider.chat.history.md\necho \"$@\" > {seen}\necho 42 > answer\nexit {code}\n"
        );
        let program = context.bin().join("aider");
        fs_err::write(&program, script).unwrap();
        fs_err::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let path = shipped_suite(&context, "aider");
    fake(0);
    run(&context, &path).assert_code(0);
    let record = record(&context);
    assert_eq!(record["diff"]["files_changed"], 1, "{record:#}");
    let args = fs_err::read_to_string(&seen).unwrap();
    assert!(args.contains("--no-auto-commits --"), "{args}");
    assert!(args.contains("--message-file"), "{args}");
    fake(3);
    run(&context, &path).assert_code(1);
    assert_eq!(self::record(&context)["process"]["exit_code"], 3);
}

/// The example in `examples/thunderdome`.
#[test]
fn the_example_runs() {
    let context = context();
    let top = Utf8PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for name in ["examples", "adapters"] {
        let from = top.join(name);
        let copy = ["-r", from.as_str(), context.root().as_str()];
        context.program("/bin/cp".into(), copy).run().assert_code(0);
    }
    let folder = context.root().join("examples/thunderdome");
    let make = folder.join("make-repo.sh");
    let make = context.program("/bin/sh".into(), [make.as_str()]);
    make.run().assert_code(0);
    let suite = folder.join("thunderdome.yaml");
    let check = ["task", "check", suite.as_str(), "--times", "1"];
    context.proctor(check).run().assert_code(0);
    let output = context.proctor(["run", suite.as_str(), "--json"]).run();
    // The null adapter is the floor, which does not decide the exit code.
    output.assert_code(0);
    let summary: Value = serde_json::from_str(&output.stdout).unwrap();
    let passed: Vec<(&Value, &Value)> = summary["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| (&trial["agent"], &trial["status"]))
        .collect();
    let (null, shell) = (json!("null"), json!("shell"));
    let (failed, ok) = (json!("failed"), json!("passed"));
    assert_eq!(
        passed,
        [
            (&null, &failed),
            (&null, &failed),
            (&shell, &ok),
            (&shell, &ok)
        ]
    );
}
