//! Tests of launches of Claude Code, and refused settings.

use serde_json::json;

use crate::{
    claude_code::ClaudeCode,
    replay::{Start, configure, configure_with, endpoint, refusals},
};

#[test]
fn slash_command_as_prompt_is_refused_on_all_transports() {
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
fn large_prompt_in_a_file_may_start_with_a_slash() {
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
fn base_url_of_the_user_cannot_bypass_the_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let settings_file = folder.path().join("settings.json");
    let settings = r#"{"env":{"ANTHROPIC_BASE_URL":"http://elsewhere"}}"#;
    std::fs::write(&settings_file, settings).unwrap();
    let settings_file = settings_file.to_str().unwrap().to_owned();
    let start = Start {
        endpoint: Some(endpoint()),
        ..Start::default()
    };
    let config = json!({"prompt": "x", "env": {"ANTHROPIC_BASE_URL": "http://elsewhere"}});
    let error = start.launch(&ClaudeCode, &config).err().unwrap();
    assert_eq!(
        error.message,
        "`env.ANTHROPIC_BASE_URL` would make Claude Code bypass the gateway"
    );
    for (config, setting) in [
        (
            json!({"env": {"HTTPS_PROXY": "http://elsewhere"}}),
            "`env.HTTPS_PROXY`",
        ),
        (
            json!({"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}),
            "`env.CLAUDE_CODE_USE_BEDROCK`",
        ),
        (
            json!({"args": ["--settings", r#"{"env":{"ANTHROPIC_BASE_URL":"http://elsewhere"}}"#]}),
            "the argument",
        ),
        (
            json!({"args": ["--settings", settings_file.as_str()]}),
            "`base_url` in the file of `--settings`",
        ),
    ] {
        let mut config = config;
        config["prompt"] = json!("x");
        let error = start.launch(&ClaudeCode, &config).err().unwrap();
        assert!(error.message.starts_with(setting), "{error}");
        let alone = Start::default().launch(&ClaudeCode, &config);
        assert!(
            alone.is_ok(),
            "without a gateway there is nothing to bypass"
        );
    }
    let config = json!({"prompt": "x", "env": {"ANTHROPIC_API_KEY": "real"}});
    let launch = start.launch(&ClaudeCode, &config).unwrap();
    assert_eq!(launch.env["ANTHROPIC_API_KEY"], "virtual");
    assert_eq!(launch.env["ANTHROPIC_BASE_URL"], "http://127.0.0.1:4000");
}

#[test]
fn model_is_known_from_settings_arguments_and_variables() {
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
fn mcp_config_must_be_next_to_the_test_case() {
    for path in ["../mcp.json", "/etc/hosts", "a/../../mcp.json"] {
        let refused = refusals(&ClaudeCode, json!({"prompt": "x", "mcp_config": path}));
        assert!(refused.contains("invalid mcp_config"), "{path}: {refused}");
    }
}

#[test]
fn a_cli_that_does_not_report_retries_tries_less_often() {
    for (version, config, retries) in [
        ("2.1.30", json!({}), Some("5")),
        ("1.0.128", json!({"transport": "control"}), Some("5")),
        ("2.1.326", json!({}), None),
        ("2.1.326", json!({"transport": "text"}), Some("5")),
        (
            "2.1.30",
            json!({"env": {"CLAUDE_CODE_MAX_RETRIES": "10"}}),
            Some("10"),
        ),
    ] {
        let mut config = config;
        config["prompt"] = json!("x");
        let start = Start {
            version,
            ..Start::default()
        };
        let launch = start.launch(&ClaudeCode, &config).unwrap();
        let set = launch.env.get("CLAUDE_CODE_MAX_RETRIES");
        assert_eq!(set.map(String::as_str), retries, "{version} {config}");
    }
}

#[test]
fn servers_of_a_file_are_required_unless_the_test_case_says_otherwise() {
    let file = r#"{"mcpServers": {"db": {"command": "x"}, "web": {"url": "y"}}}"#;
    let names = |config| {
        let agent = configure_with(&ClaudeCode, &config, &[("mcp.json", file)]).unwrap();
        agent.required_mcp_servers().to_vec()
    };
    let config = json!({"prompt": "x", "mcp_config": "mcp.json"});
    assert_eq!(names(config), ["db", "web"]);
    let config = json!({"prompt": "x", "mcp_config": "mcp.json", "require_mcp": false});
    assert!(names(config).is_empty());
    let config = json!({"prompt": "x", "require_mcp": true});
    let refused = refusals(&ClaudeCode, config);
    assert!(refused.contains("`require_mcp` does nothing"), "{refused}");
    let config = json!({"prompt": "x", "mcp_config": "mcp.json"});
    let broken = configure_with(&ClaudeCode, &config, &[("mcp.json", "{")]);
    assert!(broken.err().unwrap().contains("it is not JSON"));
}

#[test]
fn a_version_without_the_control_protocol_is_refused_before_it_runs() {
    let launch = |version, config: serde_json::Value| {
        let start = Start {
            version,
            ..Start::default()
        };
        start.launch(&ClaudeCode, &config)
    };
    // The tests launch as root.
    let error = launch("1.0.44", json!({"prompt": "x"})).err().unwrap();
    assert!(error.message.contains("no control protocol"), "{error}");
    let print = json!({"prompt": "x", "transport": "print"});
    assert!(launch("1.0.44", print).is_ok());
    assert!(launch("1.0.128", json!({"prompt": "x"})).is_ok());
}
