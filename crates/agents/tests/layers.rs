//! Each module imports only modules that come before it in the layer order.

use proctor_testkit::layers;

const ORDER: &[&str] = &[
    "agent",
    "agentic_judge",
    "bypass",
    "fault",
    "text_cap",
    "verdict",
    "command_line",
    "model_name",
    "setting",
    "mcp",
    "cli",
    "tokens",
    "litellm",
    "transcript",
    "reader",
    "aider",
    "claude_code",
    "codex",
    "plain",
    "copilot",
    "opencode",
    "command",
    "gemini_cli",
    "mini_swe",
    "null",
    "oracle",
    "qwen_code",
    "thunderdome",
    "registry",
    "switch",
    // The test helper.
    "replay",
];

#[test]
fn imports_follow_the_layer_order() {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    layers::check(src.into(), ORDER).unwrap_or_else(|faults| panic!("{faults}"));
}
