//! Scripts for the scripted model that tests of Claude Code want again and again.

use proctor_scripted_model::{Answer, Script, Usage};
use serde_json::json;

/// The usage of each message of these scripts, so that sums are easy to check.
pub const USAGE: Usage = Usage {
    input: 100,
    output: 20,
    cache_read: 1000,
    cache_creation: 300,
    reasoning: 0,
};

/// Says one thing.
pub fn says(text: &str) -> Script {
    Script::new([Answer::text(text).usage(USAGE)])
}

/// Writes a file, whose path is absolute or relative to the agent's working directory, then says
/// something.
pub fn writes_file_then_says(path: &str, content: &str, text: &str) -> Script {
    let input = json!({"file_path": path, "content": content});
    calls_then_says("Write", input, text)
}

/// Runs a shell command, then says something.
pub fn runs_command_then_says(command: &str, text: &str) -> Script {
    let input = json!({"command": command, "description": "scripted"});
    calls_then_says("Bash", input, text)
}

/// Lets a sub-agent say `report` to `prompt`, then says something itself.
pub fn delegates_then_says(prompt: &str, report: &str, text: &str) -> Script {
    let input = json!({
        "description": "scripted",
        "prompt": prompt,
        "subagent_type": "general-purpose",
        // Without it current versions go on before the sub-agent has ended.
        "run_in_background": false,
    });
    let mut script = calls_then_says("Task", input, text);
    script
        .answers
        .push(Answer::text(report).usage(USAGE).when(prompt));
    script
}

/// Refuses every request with this status.
pub fn always_fails(status: u16) -> Script {
    Script::new([Answer::error(status).forever()])
}

fn calls_then_says(tool: &str, input: serde_json::Value, text: &str) -> Script {
    Script::new([
        Answer::tool_use(tool, input).usage(USAGE),
        Answer::text(text).usage(USAGE),
    ])
}
