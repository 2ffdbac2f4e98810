//! `proctor sdk-server` on its own, with the real Claude Code at the other end.

use std::time::{Duration, Instant};

use proctor_testkit::{Running, llm};
use serde_json::Value;

use super::Trial;

/// The port that the server printed.
fn port(server: &Running) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(port) = server.stdout_so_far().lines().next() {
            return port.to_owned();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no port: {}", server.stderr_so_far());
}

#[test]
fn sdk_server_runs_standalone() {
    let script = llm::writes_file_then_says("hello.txt", "hi\n", "written");
    let Some(trial) = Trial::of("2.1.30", script) else {
        return;
    };
    let root = trial.ctx.root();
    let metrics = root.join("metrics.json");
    fs_err::write(root.join("task.md"), "write it").unwrap();
    let server = trial.ctx.proctor([
        "sdk-server",
        "--port=0",
        "--task-file",
        "task.md",
        "--metrics-file",
        "metrics.json",
        "--debug",
    ]);
    let server = server.current_dir(root).spawn();
    let claude = trial.ctx.bin().join("claude");
    let url = format!("ws://127.0.0.1:{}", port(&server));
    let args = ["--sdk-url", &url, "--print", "--verbose"];
    let args = args.into_iter().chain([
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "",
    ]);
    let claude = trial.ctx.program(&claude, args).model(&trial.model);
    let claude = claude.current_dir(root).spawn();
    let output = server.wait();
    // It exits by itself, and well: the script that started it passes its exit code on.
    claude.wait().assert_code(0);
    output.assert_code(0);
    assert!(output.stderr.contains("tool: Write"), "{}", output.stderr);
    let metrics: Value = serde_json::from_slice(&fs_err::read(&metrics).unwrap()).unwrap();
    assert_eq!(metrics["input_tokens"], 2 * llm::USAGE.input);
    assert_eq!(metrics["output_tokens"], 2 * llm::USAGE.output);
    assert_eq!(metrics["tools_used"], serde_json::json!(["Write"]));
    assert_eq!(metrics["turns"], 2);
    assert_eq!(
        fs_err::read_to_string(root.join("hello.txt")).unwrap(),
        "hi\n"
    );
}
