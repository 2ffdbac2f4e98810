//! Each module imports only modules that come before it in the layer order.

use proctor_testkit::layers;

const ORDER: [&str; 26] = [
    "agent",
    "fault",
    "verdict",
    "transcript",
    "reader",
    "tokens",
    "aider",
    "claude_code",
    "command_line",
    "model_name",
    "setting",
    "cli",
    "codex",
    "plain",
    "copilot",
    "opencode",
    "command",
    "gemini_cli",
    "litellm",
    "mini_swe",
    "null",
    "oracle",
    "qwen_code",
    "thunderdome",
    "registry",
    "switch",
];

#[test]
fn imports_follow_the_layer_order() {
    let src = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    layers::check(src.into(), &ORDER, &[]).unwrap_or_else(|faults| panic!("{faults}"));
}
