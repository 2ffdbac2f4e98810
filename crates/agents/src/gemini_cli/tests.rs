//! Tests of recorded sessions of Gemini CLI 0.61.0, and of launches.

use insta::assert_snapshot;
use proctor_record::outcome::{EndedBy, Ending, Outcome};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    agent::{Adapter as _, Input},
    replay::{
        Start, conclude, damaged, ended, endpoint, exited, refusals, replay, shown_launch, survive,
    },
};

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../samples/gemini-0.61.0-", $name, ".jsonl"))
    };
}

const EDIT: &str = sample!("edit");
/// The text on standard error during retries, which are not reported elsewhere.
const RETRIES: &str = "YOLO mode is enabled. All tool calls will be automatically approved.
Attempt 1 failed with status 429. Retrying with backoff... _ApiError: {\"error\":{\"code\":429,\"message\":\"Rate limit reached for requests\",\"status\":\"RESOURCE_EXHAUSTED\"}}
    at throwErrorIfNotOK (chunk.js:267833:24)
  status: 429
}
";
const UNREACHABLE: &str = "Attempt 4 failed. Retrying with backoff... Error: exception TypeError: fetch failed sending request";

#[test]
fn recorded_edit_is_read_with_normalised_figures() {
    assert_snapshot!(replay(&GEMINI, EDIT, exited(0)), @r#"
    started Some("gemini-2.5-pro") None true
    User Text: Create hello.txt
    Assistant Text: I will write the file.
    call write_file {"content":"hello\n","file_path":"/repo/hello.txt"}
    result error=false
    Assistant Text: Wrote hello.txt for "you" 🎉.
    progress 1300/70
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write None nanos None ResultEvent lower_bound=false
    $ gemini-2.5-pro: in Some(1300)
    # model Some("gemini-2.5-pro") turns None retries 0 unknown 0 malformed 0 denied 0
    "#);
}

#[test]
fn failed_tool_has_its_error() {
    assert_snapshot!(replay(&GEMINI, sample!("failed-tool"), exited(0)), @r#"
    started Some("gemini-2.5-pro") None true
    User Text: Create hello.txt
    Assistant Text: I will write the file.
    call read_file {"file_path":"missing.txt"}
    result error=true File not found: /repo/missing.txt
    Assistant Text: Wrote hello.txt for "you" 🎉.
    progress 1300/70
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write None nanos None ResultEvent lower_bound=false
    $ gemini-2.5-pro: in Some(1300)
    # model Some("gemini-2.5-pro") turns None retries 0 unknown 0 malformed 0 denied 0
    "#);
}

/// The outcome and the code of the first error.
fn check(output: &str, stderr: &str, ending: Ending, expect: (Outcome, &str)) {
    let (conclusion, _) = conclude(&GEMINI, output, stderr, ending);
    let first = conclusion.errors.first();
    let code = first.and_then(|error| error.code.as_deref());
    let seen = (conclusion.outcome, code.unwrap_or_default());
    assert_eq!(seen, expect, "{output} {:?}", conclusion.errors);
}

#[test]
fn failures_are_classified() {
    let auth = (Outcome::Auth, "GEMINI_AUTH_FAILED");
    check(sample!("401"), "", exited(145), auth);
    check("", "Please set an Auth method", exited(41), auth);
    let quota = (Outcome::Quota, "GEMINI_QUOTA");
    check(sample!("quota"), "", exited(173), quota);
    let network = (Outcome::Network, "GEMINI_NETWORK");
    check(sample!("500"), RETRIES, exited(244), network);
    check(sample!("no-json"), "", exited(1), network);
    let cut = r#"{"type":"result","status":"error","error":{"type":"Error","message":"[API Error: terminated]"}}"#;
    check(cut, "", exited(1), network);
    let overloaded = (Outcome::Overloaded, "GEMINI_OVERLOADED");
    check(sample!("503"), "", exited(247), overloaded);
    let refused = (Outcome::AgentError, "GEMINI_API_ERROR");
    check(sample!("404"), "", exited(1), refused);
    check(sample!("empty"), "", exited(0), refused);
    check(
        "",
        "Unknown argument: nonsense",
        exited(1),
        (Outcome::AgentError, "GEMINI_EXIT"),
    );
}

#[test]
fn exit_code_has_the_status_if_the_message_does_not() {
    check(
        sample!("429"),
        RETRIES,
        exited(173),
        (Outcome::RateLimit, "GEMINI_RATE_LIMIT"),
    );
}

#[test]
fn issues_of_mcp_servers_are_reported() {
    let stderr = "MCP issues detected. Run /mcp list for status.";
    let (conclusion, events) = conclude(&GEMINI, EDIT, stderr, exited(0));
    assert_eq!(conclusion.outcome, Outcome::Completed);
    assert!(
        events.contains(r#"name: "(not named)", status: "failed""#),
        "{events}"
    );
}

#[test]
fn own_limits_are_giving_up_regardless_of_the_status() {
    check(
        sample!("loop"),
        "",
        exited(0),
        (Outcome::GaveUp, "GEMINI_LOOP"),
    );
    check(
        sample!("max-turns"),
        "",
        exited(53),
        (Outcome::GaveUp, "GEMINI_MAX_TURNS"),
    );
}

/// The output does not show it; only the gateway can detect it.
#[test]
fn truncated_answer_looks_complete() {
    check(sample!("cut"), "", exited(0), (Outcome::Completed, ""));
    let (conclusion, _) = conclude(&GEMINI, sample!("cut"), "", exited(0));
    assert_eq!(conclusion.final_text.as_deref(), Some("half a w"));
}

#[test]
fn exit_0_without_a_result_is_not_a_success() {
    let hang = sample!("hang");
    check(
        hang,
        "",
        exited(0),
        (Outcome::AgentError, "GEMINI_NO_RESULT"),
    );
    check(
        hang,
        "",
        ended(EndedBy::IdleLimit),
        (Outcome::Timeout, "GEMINI_TIMEOUT"),
    );
    check(EDIT, "", exited(1), (Outcome::AgentError, "GEMINI_EXIT"));
}

#[test]
fn limit_during_retries_has_the_cause_of_the_retries() {
    let cut = ended(EndedBy::WallLimit);
    check("", RETRIES, cut, (Outcome::RateLimit, "GEMINI_RATE_LIMIT"));
    check("", UNREACHABLE, cut, (Outcome::Network, "GEMINI_NETWORK"));
    let (conclusion, stated) = conclude(&GEMINI, "", RETRIES, cut);
    assert_eq!(conclusion.counts.retries, 1);
    let note = "note Attempt 1 failed with status 429. Retrying with backoff...";
    assert!(stated.contains(note), "{}", stated);
}

#[test]
fn launch_has_all_tools_and_the_prompt_on_stdin() {
    let config = json!({"prompt": "x", "model": "gemini-2.5-pro", "max_turns": 7,
        "append_system_prompt": "Say moo.", "system_prompt": "You are a cow.\n", "args": ["-d"]});
    let prompt = "ä".repeat(1_000_000);
    let start = Start {
        prompt: &prompt,
        help: "--skip-trust --model --output-format",
        env: &[("GEMINI_API_KEY", "real")],
        ..Start::default()
    };
    let launch = start.launch(&GEMINI, &config).unwrap();
    assert_eq!(launch.input, Input::Bytes(prompt.clone().into_bytes()));
    assert_snapshot!(shown_launch(&launch), @r#"
    /bin/cli --yolo --skip-trust --output-format stream-json --model gemini-2.5-pro -d
    GEMINI_API_KEY=real
    GEMINI_CLI_TRUST_WORKSPACE=true
    GEMINI_SYSTEM_MD=/scratch/system.md
    --- /home/.gemini/settings.json
    {"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},"model":{"maxSessionTurns":7},"privacy":{"usageStatisticsEnabled":false},"security":{"auth":{"selectedType":"gemini-api-key"}},"telemetry":{"enabled":false}}--- /home/.gemini/GEMINI.md
    Say moo.--- /scratch/system.md
    You are a cow.
    "#);
}

#[test]
fn gateway_is_set_by_environment_variables() {
    let config = json!({"prompt": "x"});
    let start = Start {
        endpoint: Some(endpoint()),
        ..Start::default()
    };
    assert_snapshot!(shown_launch(&start.launch(&GEMINI, &config).unwrap()), @r#"
    /bin/cli --yolo --skip-trust --output-format stream-json
    GEMINI_API_KEY=virtual
    GEMINI_CLI_TRUST_WORKSPACE=true
    GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4000
    --- /home/.gemini/settings.json
    {"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false},"privacy":{"usageStatisticsEnabled":false},"security":{"auth":{"selectedType":"gemini-api-key"}},"telemetry":{"enabled":false}}
    "#);
    let launch = Start::default().launch(&GEMINI, &config).unwrap();
    let settings = String::from_utf8_lossy(&launch.files[0].1);
    assert!(
        settings.contains(r#""selectedType":"oauth-personal""#),
        "{settings}"
    );
}

/// Commands are files in the repository, so that an unknown one is not known before the start.
#[test]
fn prompt_that_may_be_a_command_is_refused() {
    for (prompt, is_refused) in [
        ("/fix everything", true),
        ("/team:fix", true),
        ("/usr/bin/env is missing", false),
        (" /fix everything", false),
    ] {
        let start = Start {
            prompt,
            ..Start::default()
        };
        let launch = start.launch(&GEMINI, json!({"prompt": "x"}));
        assert_eq!(launch.is_err(), is_refused, "{prompt}");
    }
}

#[test]
fn unsupported_options_are_refused() {
    let config = json!({"prompt": "x", "mcp_config": "a.json", "allowed_tools": ["Read"]});
    assert_snapshot!(refusals(&GEMINI, &config), @"
    Gemini CLI has no option for `allowed_tools` (remove it: all tools are allowed in the trial's workspace)
    Gemini CLI has no option for `mcp_config` (add `mcpServers` to `.gemini/settings.json` of the repo)
    ");
    assert_snapshot!(refusals(&GEMINI, json!({"prompt": "x", "max_turns": 0})), @"
    `max_turns` must be at least 1 ()
    ");
    let old = Start {
        help: "Usage: gemini --yolo",
        ..Start::default()
    };
    let error = old.launch(&GEMINI, json!({"prompt": "x"})).err().unwrap();
    assert_eq!(error.message, "cli 1.2.3 has no option --output-format");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_lines_are_survived(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let whole = concat!(
        sample!("edit"), sample!("failed-tool"), sample!("401"), sample!("loop")
    );
        let bytes = damaged(whole, &damage);
        survive(GEMINI.recorded_session().unwrap(), &bytes);
    }
}
