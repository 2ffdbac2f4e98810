//! What Claude Code is launched with, and settings that are refused.

use serde_json::json;

use crate::{
    claude_code::ClaudeCode,
    replay::{Start, configure, endpoint, refusals},
};

#[test]
fn a_prompt_that_would_run_as_a_command_is_refused_on_every_transport() {
    for transport in ["print", "pty", "control", "text"] {
        let config = json!({"prompt": "x", "transport": transport});
        let launch = |prompt| {
            let start = Start {
                prompt,
                ..Start::default()
            };
            start.launch(&ClaudeCode, &config)
        };
        let error = launch("/clear everything").err().unwrap();
        assert!(error.message.contains("`/clear`"), "{error}");
        assert!(launch("/usr/bin/env is missing").is_ok(), "{transport}");
    }
}

#[test]
fn a_large_prompt_in_a_file_may_begin_with_a_slash() {
    let prompt = format!("/clear {}", "x".repeat(8_000));
    let start = Start {
        prompt: &prompt,
        ..Start::default()
    };
    let config = json!({"prompt": "x", "prompt_delivery": "file"});
    let launch = start.launch(&ClaudeCode, &config).unwrap();
    assert_eq!(launch.files[0].1, prompt.as_bytes());
}

#[test]
fn an_address_of_the_user_cannot_lead_past_the_endpoint() {
    let start = Start {
        endpoint: Some(endpoint()),
        ..Start::default()
    };
    let config = json!({"prompt": "x", "env": {"ANTHROPIC_BASE_URL": "http://elsewhere"}});
    let error = start.launch(&ClaudeCode, &config).err().unwrap();
    assert_eq!(
        error.message,
        "`env.ANTHROPIC_BASE_URL` would lead Claude Code past the gateway"
    );
    let config = json!({"prompt": "x", "env": {"ANTHROPIC_API_KEY": "real"}});
    let launch = start.launch(&ClaudeCode, &config).unwrap();
    assert_eq!(launch.env["ANTHROPIC_API_KEY"], "virtual");
    assert_eq!(launch.env["ANTHROPIC_BASE_URL"], "http://127.0.0.1:4000");
}

#[test]
fn the_model_is_known_however_the_cli_is_told() {
    for config in [
        json!({"prompt": "x", "model": "sonnet"}),
        json!({"prompt": "x", "args": ["--model", "sonnet"]}),
        json!({"prompt": "x", "env": {"ANTHROPIC_MODEL": "sonnet"}}),
    ] {
        let agent = configure(&ClaudeCode, &config).unwrap();
        assert_eq!(agent.model(), Some("sonnet"), "{config}");
    }
}

#[test]
fn a_file_of_mcp_servers_lies_beside_the_test_case() {
    for path in ["../mcp.json", "/etc/hosts", "a/../../mcp.json"] {
        let refused = refusals(&ClaudeCode, json!({"prompt": "x", "mcp_config": path}));
        assert!(refused.contains("cannot be used"), "{path}: {refused}");
    }
}
