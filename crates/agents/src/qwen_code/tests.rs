//! Tests of recorded sessions of Qwen Code 0.24.4, and of launches.

use insta::assert_snapshot;
use proctor_record::outcome::{EndedBy, Ending, Outcome};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    agent::{Adapter as _, Input},
    replay::{
        Start, conclude, damaged, ended, endpoint, exited, refusals, replay, shown_launch, survive,
    },
};

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../samples/qwen-0.24.4-", $name, ".jsonl"))
    };
}

const EDIT: &str = sample!("edit");

#[test]
fn states_of_mcp_servers_are_reported() {
    let init = r#"{"type":"system","subtype":"init","model":"m","mcp_servers":[{"name":"db","status":"disconnected"}]}"#;
    let (_, events) = conclude(&QWEN, init, "", exited(0));
    let reported = r#"McpServer { name: "db", status: "disconnected" }"#;
    assert!(events.contains(reported), "{events}");
}

#[test]
fn recorded_edit_is_read_with_normalised_figures() {
    assert_snapshot!(replay(&QWEN, EDIT, exited(0)), @r#"
    started Some("qwen3-coder-plus") Some("0.24.4") true
    Assistant Thinking: Let me think.
    Assistant Text: I will write the file.
    call write_file {"content":"hello\n","file_path":"/repo/hello.txt"}
    progress 800/50
    result error=false Successfully created and wrote to new file: /repo/hello.txt.
    Assistant Text: Wrote hello.txt for "you" 🎉.
    progress 1300/70
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write None nanos None ResultEvent lower_bound=false
    # model Some("qwen3-coder-plus") turns Some(2) retries 0 unknown 0 malformed 0 denied 0
    "#);
    let (conclusion, _) = conclude(&QWEN, EDIT, "", exited(0));
    assert_eq!(conclusion.version.as_deref(), Some("0.24.4"));
    assert_eq!(conclusion.turns, Some(2));
}

#[test]
fn failed_tool_has_its_error() {
    assert_snapshot!(replay(&QWEN, sample!("failed-tool"), exited(0)), @r#"
    started Some("qwen3-coder-plus") Some("0.24.4") true
    Assistant Thinking: Let me think.
    Assistant Text: I will write the file.
    call read_file {"absolute_path":"/missing.txt","file_path":"/missing.txt"}
    progress 800/50
    result error=true File not found: /missing.txt
    Assistant Text: Wrote hello.txt for "you" 🎉.
    progress 1300/70
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write None nanos None ResultEvent lower_bound=false
    # model Some("qwen3-coder-plus") turns Some(2) retries 0 unknown 0 malformed 0 denied 0
    "#);
    let (_, reported) = conclude(&QWEN, sample!("failed-command"), "", exited(0));
    assert!(
        reported.contains("result error=true Command: echo one; exit 3"),
        "{}",
        reported
    );
}

#[test]
fn run_without_a_result_has_a_lower_bound() {
    let stderr = "Reached max session turns for this session.";
    let (conclusion, _) = conclude(&QWEN, sample!("max-turns"), stderr, exited(53));
    let usage = conclusion.usage.unwrap();
    assert!(usage.lower_bound);
    assert_eq!(usage.total.input_tokens, Some(800));
    assert_eq!(usage.total.cache_read_tokens, Some(200));
    assert_eq!(usage.total.output_tokens, Some(50));
}

/// The outcome and the code of the first error.
fn check(output: &str, ending: Ending, expect: (Outcome, &str)) {
    let (conclusion, _) = conclude(&QWEN, output, "", ending);
    let first = conclusion.errors.first();
    let code = first.and_then(|error| error.code.as_deref());
    let seen = (conclusion.outcome, code.unwrap_or_default());
    assert_eq!(seen, expect, "{output} {:?}", conclusion.errors);
}

#[test]
fn failures_with_exit_0_are_classified() {
    check(
        sample!("401"),
        exited(0),
        (Outcome::Auth, "QWEN_AUTH_FAILED"),
    );
    check(
        sample!("500"),
        exited(0),
        (Outcome::Network, "QWEN_NETWORK"),
    );
    check(
        sample!("refused"),
        exited(0),
        (Outcome::Network, "QWEN_NETWORK"),
    );
    check(
        sample!("cut"),
        exited(0),
        (Outcome::Network, "QWEN_NETWORK"),
    );
    check(
        sample!("404"),
        exited(0),
        (Outcome::AgentError, "QWEN_API_ERROR"),
    );
    check(
        sample!("empty"),
        exited(0),
        (Outcome::AgentError, "QWEN_API_ERROR"),
    );
}

#[test]
fn own_limits_are_giving_up() {
    check(sample!("loop"), exited(0), (Outcome::GaveUp, "QWEN_LOOP"));
    check(
        sample!("max-turns"),
        exited(53),
        (Outcome::GaveUp, "QWEN_MAX_TURNS"),
    );
    check(
        sample!("max-tool-calls"),
        exited(55),
        (Outcome::GaveUp, "QWEN_BUDGET"),
    );
}

#[test]
fn run_without_a_result_is_not_a_success() {
    let hang = sample!("hang");
    check(hang, exited(0), (Outcome::AgentError, "QWEN_NO_RESULT"));
    check(
        hang,
        ended(EndedBy::IdleLimit),
        (Outcome::Timeout, "QWEN_TIMEOUT"),
    );
    check(
        hang,
        ended(EndedBy::Cancelled),
        (Outcome::Interrupted, "QWEN_INTERRUPTED"),
    );
    check(EDIT, exited(1), (Outcome::AgentError, "QWEN_EXIT"));
}

#[test]
fn wait_of_a_minute_before_a_retry_is_a_rate_limit() {
    let limited = (Outcome::RateLimit, "QWEN_RATE_LIMIT");
    check(sample!("429"), ended(EndedBy::IdleLimit), limited);
    let (conclusion, _) = conclude(&QWEN, sample!("429"), "", exited(0));
    assert_eq!(conclusion.counts.retries, 1);
}

#[test]
fn launch_has_all_tools_and_the_prompt_as_a_message() {
    let config = json!({"prompt": "x", "model": "qwen3-coder-plus", "max_turns": 7,
        "append_system_prompt": "Say moo.", "system_prompt": "A cow.", "args": ["-d"]});
    let prompt = format!(" {}\n", "ä".repeat(999_998));
    let start = Start {
        prompt: &prompt,
        env: &[("OPENAI_API_KEY", "real")],
        ..Start::default()
    };
    let launch = start.launch(&QWEN, &config).unwrap();
    let Input::Bytes(bytes) = &launch.input else {
        panic!("no input");
    };
    let message: Value = serde_json::from_slice(bytes).unwrap();
    assert_eq!(message["message"]["content"][0]["text"], prompt.as_str());
    assert_snapshot!(shown_launch(&launch), @r#"
    /bin/cli --yolo --output-format stream-json --input-format stream-json --auth-type openai --model qwen3-coder-plus --system-prompt A cow. --append-system-prompt Say moo. --max-session-turns 7 -d
    OPENAI_API_KEY=real
    QWEN_CODE_SUPPRESS_YOLO_WARNING=1
    QWEN_TELEMETRY_ENABLED=false
    --- /home/.qwen/settings.json
    {"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false}}
    "#);
}

#[test]
fn gateway_is_set_by_variables_of_the_api() {
    let start = Start {
        endpoint: Some(endpoint()),
        ..Start::default()
    };
    let at = |auth_type: &str, name: &str| {
        let config = json!({"prompt": "x", "auth_type": auth_type});
        start.launch(&QWEN, &config).unwrap().env[name].clone()
    };
    assert_eq!(at("openai", "OPENAI_BASE_URL"), "http://127.0.0.1:4000/v1");
    assert_eq!(at("openai-responses", "OPENAI_API_KEY"), "virtual");
    assert_eq!(
        at("anthropic", "ANTHROPIC_BASE_URL"),
        "http://127.0.0.1:4000"
    );
    assert_eq!(
        at("gemini", "GOOGLE_GEMINI_BASE_URL"),
        "http://127.0.0.1:4000"
    );
}

#[test]
fn unsupported_options_are_refused() {
    let config = json!({"prompt": "x", "mcp_config": "a.json", "transport": "pty"});
    assert_snapshot!(refusals(&QWEN, &config), @"
    Qwen Code has no option for `mcp_config` (use `args: [--mcp-config, FILE]`)
    Qwen Code has no option for `transport` (remove it)
    ");
    let start = Start {
        prompt: "/clear everything",
        ..Start::default()
    };
    let error = start.launch(&QWEN, json!({"prompt": "x"})).err().unwrap();
    assert!(error.message.contains("starts with `/`"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_lines_are_survived(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let whole = concat!(
        sample!("edit"), sample!("failed-tool"), sample!("401"), sample!("cut")
    );
        let bytes = damaged(whole, &damage);
        survive(QWEN.recorded_session().unwrap(), &bytes);
    }
}
