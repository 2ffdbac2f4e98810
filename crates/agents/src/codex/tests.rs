//! Tests of recorded sessions of Codex 0.166.0, and of launches.

use insta::assert_snapshot;
use proctor_record::outcome::{EndedBy, Ending, Outcome};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    agent::{Adapter as _, Input},
    replay::{
        Start, conclude, configure, damaged, ended, endpoint, exited, refusals, replay,
        shown_launch, survive,
    },
};

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../samples/codex-0.166.0-", $name, ".jsonl"))
    };
}

const EDIT: &str = sample!("edit");

#[test]
fn recorded_edit_is_read_with_normalised_figures() {
    assert_snapshot!(replay(&CODEX, EDIT, exited(0)), @r#"
    started None None true
    Assistant Thinking: **Planning**
    Assistant Text: I will write the file.
    call command_execution {"command":"/bin/bash -lc \"printf 'hello\\\\n' > hello.txt; echo done…
    result error=false done
    Assistant Text: Wrote hello.txt for "you" 🎉.
    progress 1300/70
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write Some(0) nanos None ResultEvent lower_bound=false
    # model None turns None retries 0 unknown 0 malformed 0 denied 0
    "#);
}

#[test]
fn tools_of_all_kinds_are_calls() {
    let both = format!("{}\n{}", sample!("patch"), sample!("web-search"));
    assert_snapshot!(replay(&CODEX, &both, exited(0)), @r#"
    started None None true
    Assistant Thinking: **Planning**
    Assistant Text: I will write the file.
    call file_change {"changes":[{"kind":"add","path":"/repo/hello.txt"}]}
    result error=false
    Assistant Text: Wrote hello.txt for "you" 🎉.
    progress 1300/70
    started None None true
    Assistant Thinking: **Planning**
    Assistant Text: I will write the file.
    call web_search {"query":"rust"}
    result error=false
    call command_execution {"command":"/bin/bash -lc true"}
    result error=false
    Assistant Text: Wrote hello.txt for "you" 🎉.
    progress 1300/70
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write Some(0) nanos None ResultEvent lower_bound=false
    # model None turns None retries 0 unknown 0 malformed 0 denied 0
    "#);
    assert_snapshot!(replay(&CODEX, sample!("failed-command"), exited(0)), @r#"
    started None None true
    Assistant Thinking: **Planning**
    Assistant Text: I will write the file.
    call command_execution {"command":"/bin/bash -lc 'echo one; exit 3'"}
    result error=true one
    Assistant Text: Wrote hello.txt for "you" 🎉.
    progress 1300/70
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write Some(0) nanos None ResultEvent lower_bound=false
    # model None turns None retries 0 unknown 0 malformed 0 denied 0
    "#);
}

#[test]
fn warning_is_not_a_failure() {
    let (conclusion, reported) = conclude(&CODEX, sample!("unknown-model"), "", exited(0));
    assert_eq!(conclusion.outcome, Outcome::Completed);
    assert!(
        reported.contains("note Model metadata for `foo` not found"),
        "{}",
        reported
    );
}

/// The outcome and the code of the first error.
fn check(output: &str, ending: Ending, outcome: Outcome, code: &str) {
    let (conclusion, _) = conclude(&CODEX, output, "", ending);
    let first = conclusion
        .errors
        .first()
        .and_then(|error| error.code.as_deref());
    assert_eq!(
        (conclusion.outcome, first.unwrap_or_default()),
        (outcome, code),
        "{output}"
    );
}

#[test]
fn failures_are_classified() {
    check(
        sample!("401"),
        exited(1),
        Outcome::Auth,
        "CODEX_AUTH_FAILED",
    );
    check(
        sample!("429"),
        exited(1),
        Outcome::RateLimit,
        "CODEX_RATE_LIMIT",
    );
    check(sample!("quota"), exited(1), Outcome::Quota, "CODEX_QUOTA");
    // The CLI hides that it was a 500.
    check(
        sample!("500"),
        exited(1),
        Outcome::Overloaded,
        "CODEX_OVERLOADED",
    );
    check(
        sample!("503"),
        exited(1),
        Outcome::Overloaded,
        "CODEX_OVERLOADED",
    );
    check(
        sample!("overloaded"),
        exited(1),
        Outcome::Overloaded,
        "CODEX_OVERLOADED",
    );
    check(sample!("cut"), exited(1), Outcome::Network, "CODEX_NETWORK");
    check(
        sample!("404"),
        exited(1),
        Outcome::AgentError,
        "CODEX_API_ERROR",
    );
    check(
        sample!("max-tokens"),
        exited(1),
        Outcome::AgentError,
        "CODEX_API_ERROR",
    );
    check(
        sample!("context-full"),
        exited(1),
        Outcome::GaveUp,
        "CODEX_CONTEXT_FULL",
    );
}

#[test]
fn required_mcp_server_that_fails_is_not_the_agents_failure() {
    let stderr = "2026-11-18T06:32:14Z ERROR codex_core::session: Failed to create session: required MCP servers failed to initialize: db: No such file or directory (os error 2); web: timed out\n\
        Error: thread/start: required MCP servers failed to initialize: db: No such file or directory (os error 2); web: timed out (code -32603)";
    let (conclusion, events) = conclude(&CODEX, "", stderr, exited(1));
    assert_eq!(conclusion.outcome, Outcome::Sandbox);
    let code = conclusion.errors[0].code.as_deref();
    assert_eq!(code, Some("CODEX_MCP_SERVER_FAILED"));
    let reported = r#"[McpServer { name: "db", status: "failed" }, McpServer { name: "web", status: "failed" }]"#;
    assert_eq!(events.matches(reported).count(), 1, "{events}");
}

#[test]
fn exit_0_without_work_or_result_is_not_a_success() {
    check(
        sample!("empty"),
        exited(0),
        Outcome::AgentError,
        "CODEX_API_ERROR",
    );
    check(
        sample!("stalled"),
        exited(0),
        Outcome::AgentError,
        "CODEX_NO_RESULT",
    );
    check(
        sample!("stalled"),
        ended(EndedBy::IdleLimit),
        Outcome::Timeout,
        "CODEX_TIMEOUT",
    );
    check("", exited(2), Outcome::AgentError, "CODEX_EXIT");
    check(EDIT, exited(1), Outcome::AgentError, "CODEX_EXIT");
}

#[test]
fn endless_retries_are_ended() {
    let refused = sample!("refused");
    check(
        refused,
        ended(EndedBy::WallLimit),
        Outcome::Network,
        "CODEX_NETWORK",
    );
    let (_, reported) = conclude(&CODEX, refused, "", exited(0));
    assert!(!reported.contains("end within"), "{}", reported);
    let waits = refused.lines().last().unwrap();
    let waits = format!("{refused}{}", format!("{waits}\n").repeat(3));
    let (conclusion, reported) = conclude(&CODEX, &waits, "", ended(EndedBy::Session));
    assert!(reported.ends_with("end within 0ns\n"), "{}", reported);
    assert_eq!(conclusion.outcome, Outcome::Network);
    assert_eq!(conclusion.counts.retries, 6);
}

#[test]
fn launch_has_no_approvals_and_the_prompt_on_stdin() {
    let config = json!({"prompt": "x", "model": "gpt-5.5", "reasoning_effort": "high",
        "append_system_prompt": "Say \"moo\".\u{7f}", "args": ["-c", "a=1"]});
    let prompt = "ä".repeat(1_000_000);
    let start = Start {
        prompt: &prompt,
        help: "--skip-git-repo-check --model",
        env: &[("OPENAI_API_KEY", "real")],
        ..Start::default()
    };
    let launch = start.launch(&CODEX, &config).unwrap();
    assert_eq!(launch.input, Input::Bytes(prompt.clone().into_bytes()));
    assert_snapshot!(shown_launch(&launch), @r#"
    /bin/cli exec --json --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check --model gpt-5.5 -c a=1 -
    CODEX_API_KEY=real
    CODEX_HOME=/home/.codex
    OPENAI_API_KEY=real
    --- /home/.codex/config.toml
    check_for_update_on_startup = false
    developer_instructions = "Say \"moo\".\u007f"
    model_reasoning_effort = "high"
    [analytics]
    enabled = false
    [feedback]
    enabled = false
    [history]
    persistence = "none"
    "#);
}

#[test]
fn gateway_is_a_provider_in_the_config() {
    let start = Start {
        env: &[
            ("OPENAI_API_KEY", "real"),
            ("OPENAI_BASE_URL", "http://elsewhere/v1"),
        ],
        endpoint: Some(endpoint()),
        ..Start::default()
    };
    let launch = start.launch(&CODEX, json!({"prompt": "x"})).unwrap();
    assert_eq!(launch.env[KEY], "virtual");
    let config = String::from_utf8_lossy(&launch.files[0].1);
    assert!(
        config.contains("base_url = \"http://127.0.0.1:4000/v1\""),
        "{config}"
    );
    let own = Start {
        endpoint: None,
        ..start
    };
    let launch = own.launch(&CODEX, json!({"prompt": "x"})).unwrap();
    assert_eq!(launch.env[KEY], "real");
    let config = String::from_utf8_lossy(&launch.files[0].1);
    assert!(
        config.contains("base_url = \"http://elsewhere/v1\""),
        "{config}"
    );
}

#[test]
fn options_of_other_agents_are_refused() {
    let config = json!({"prompt": "x", "max_turns": 3, "system_prompt": "y", "temperature": 1});
    assert_snapshot!(refusals(&CODEX, &config), @"
    Codex has no option for `max_turns` (use the test case's `timeout` and `idle_timeout`)
    Codex has no option for `system_prompt` (use `append_system_prompt`: Codex keeps its own instructions)
    Codex has no option for `temperature` (remove it; Codex has `reasoning_effort` instead)
    ");
    assert_snapshot!(refusals(&CODEX, json!({"prompt": "x", "model": "a b"})), @"
    invalid model name `a b` ()
    ");
}

#[test]
fn model_in_the_arguments_is_known() {
    for args in [json!(["--model", "gpt-5.5"]), json!(["--model=gpt-5.5"])] {
        let config = json!({"prompt": "x", "args": args});
        let agent = configure(&CODEX, &config).unwrap();
        assert_eq!(agent.model(), Some("gpt-5.5"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_lines_are_survived(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let whole = concat!(
        sample!("edit"), sample!("patch"), sample!("401"), sample!("unknown-model")
    );
        let bytes = damaged(whole, &damage);
        survive(CODEX.recorded_session().unwrap(), &bytes);
    }
}
