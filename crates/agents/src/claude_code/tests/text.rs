//! Tests of plain-text output.

use proctor_record::{outcome::Outcome, usage::UsageSource};

use super::*;

#[test]
fn known_forms_in_plain_text_are_read() {
    let text = "\x1b[1mClaude Code v2.0.30\x1b[0m\r\nModel: claude-sonnet-4\r\n\
                I will \x1b[32mlook\x1b[0m.\r\n\r\nThen more.\r\n[TOOL: read_file] path/to/file\r\n\
                Done.\r\nInput tokens: 1234\r\nOutput tokens: 5,678\r\n";
    let log = log_of(text, Some(0));
    let account = &log.account;
    assert_eq!(account.agent_info.version, "2.0.30");
    assert_eq!(account.model_info.name, "claude-sonnet-4");
    assert_eq!(account.execution.outcome, Outcome::Completed);
    let usage = account.usage.as_ref().unwrap();
    assert_eq!(usage.source, UsageSource::Text);
    assert_eq!(usage.total.input_tokens, Some(1234));
    assert_eq!(usage.total.output_tokens, Some(5678));
    assert_eq!(usage.total.total_tokens, Some(6912));
    assert!(!usage.lower_bound);
    let said: Vec<_> = log.messages.iter().map(|m| m.content.as_str()).collect();
    assert_eq!(said, ["I will look.\n\nThen more.", "Done."]);
    assert_eq!(log.tool_calls[0].name, "read_file");
    assert_eq!(log.tool_calls[0].arguments, "path/to/file");
    assert_eq!(account.counts.malformed_lines, 0);
}

#[test]
fn repeated_figures_in_text_are_a_lower_bound() {
    let log = log_of("Hello.\nThe Model: User has fields.\n", Some(0));
    assert_eq!(log.account.usage, None);
    assert_eq!(log.account.model_info.name, "configured");
    assert_eq!(log.account.agent_info.version, "unknown");
    assert_eq!(log.account.execution.started_at, None);

    let log = log_of(
        "Input tokens: 10\nInput tokens: 30\nInput tokens: 20\n",
        Some(0),
    );
    let usage = log.account.usage.unwrap();
    assert_eq!(usage.total.input_tokens, Some(30));
    assert_eq!(usage.total.total_tokens, Some(30), "the log has a number");
    assert!(usage.lower_bound);
}

#[test]
fn text_mode_treats_json_as_text_and_uses_the_exit_code() {
    let json = "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false}";
    let (conclusion, host) = conclude(StreamFormat::Text, json, exited(1));
    assert_eq!(conclusion.outcome, Outcome::AgentError);
    assert!(host.events[0].contains("subtype"));
    let (conclusion, _) = conclude(StreamFormat::Text, "", exited(0));
    assert_eq!(conclusion.outcome, Outcome::AgentError);
    let word = "401 authentication_error: Please run /login";
    let (conclusion, _) = conclude(StreamFormat::Text, word, exited(1));
    assert_eq!(conclusion.outcome, Outcome::AgentError);
}
