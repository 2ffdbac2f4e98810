//! Tests of Copilot CLI: sessions recorded from 1.0.102, launches and refused settings.

use insta::assert_snapshot;
use proctor_record::outcome::EndedBy;
use proptest::prelude::*;

use super::*;
use crate::{
    agent::{Adapter as _, Input},
    replay::{self, Recorded, configure, ended, endpoint, exited, show},
};

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../tests/data/sessions/copilot-1.0.102-", $name))
    };
}

const EDIT: &str = recorded!("edit.jsonl");
const HELP: &str = "--allow-all-tools --allow-all-paths --no-color --usage-output-file --model --agent --additional-mcp-config --reasoning-effort";

fn read(stdout: &str, usage: &str, ending: Ending) -> String {
    let recorded = Recorded {
        stdout,
        files: &[("/scratch/copilot-usage.json", usage)],
        ending,
        ..Recorded::default()
    };
    show(COPILOT.recorded_session().unwrap(), &recorded)
}

#[test]
fn edit_is_read_with_usage_from_the_file() {
    assert_snapshot!(read(EDIT, recorded!("usage.json"), exited(0)), @r#"
    started Some("gpt-fake") None false
    Assistant Text: I will write the file.
    call bash {"command":"printf 'hello\\n' > hello.txt","description":"Write the fi…
    result error=false <shellId: 0 completed with exit code 0>
    Assistant Text: Wrote hello.txt.
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write Some(0) nanos None Sidecar lower_bound=false
    $ gpt-fake: in Some(1300)
    # model Some("gpt-fake") turns Some(2) retries 0 unknown 0 malformed 0 denied 0
    "#);
    let (conclusion, _) = replay::play(
        COPILOT.recorded_session().unwrap(),
        &Recorded {
            stdout: EDIT,
            files: &[("u", recorded!("usage-anthropic.json"))],
            ending: exited(0),
            ..Recorded::default()
        },
    );
    // The API's account: 1,300 new, 100 written to the cache, 1,200 read from it. The file has
    // 2,600.
    let total = conclusion.usage.unwrap().total;
    assert_eq!(total.input_tokens, Some(1300));
    assert_eq!(total.cache_creation_tokens, Some(100));
    assert_eq!(total.cache_read_tokens, Some(1200));
}

/// The CLI exits with 0 after SIGTERM during a call.
#[test]
fn run_that_was_ended_at_its_limit_is_not_done() {
    let stdout = r#"
{"type":"assistant.turn_start","data":{"turnId":"0"}}
{"type":"model.call_start","data":{"turnId":"0","model":"gpt-fake"}}
{"type":"agent.interrupted","data":{"activity":"model_call","turn":0}}
{"type":"abort","data":{"reason":"user_initiated"}}
{"type":"assistant.turn_end","data":{"turnId":"0"}}
{"type":"result","sessionId":"s","exitCode":0,"usage":{"sessionDurationMs":37880}}
"#;
    assert_snapshot!(read(stdout, "", ended(EndedBy::WallLimit)), @r#"
    started Some("gpt-fake") None false
    = timeout
    ! COPILOT_TIMEOUT: timeout: Copilot was ended by the time limit before it was done
    # model Some("gpt-fake") turns Some(1) retries 0 unknown 0 malformed 0 denied 0
    "#);
}

#[test]
fn api_failures_are_classified() {
    assert_snapshot!(read(recorded!("401.jsonl"), "", exited(1)), @r#"
    started Some("gpt-fake") None false
    note API call retried: transient_auth_error
    note API call retried: transient_auth_error
    = auth
    ! COPILOT_AUTH_FAILED: Copilot is not authenticated: status 401: Authentication failed with p…
    # model Some("gpt-fake") turns Some(1) retries 2 unknown 0 malformed 0 denied 0
    "#);
    assert_snapshot!(read(recorded!("429.jsonl"), "", exited(1)), @r#"
    started Some("gpt-fake") None false
    note API call retried: rate_limit
    note API call retried: rate_limit
    note API call retried: rate_limit
    note API call retried: rate_limit
    note API call retried: rate_limit
    = rate_limit
    ! COPILOT_RATE_LIMIT: the API's rate limit was hit: status 429: Failed to get response from …
    # model Some("gpt-fake") turns Some(1) retries 5 unknown 0 malformed 0 denied 0
    "#);
    assert_snapshot!(read(recorded!("quota.jsonl"), "", exited(1)), @r#"
    started Some("gpt-fake") None false
    note API call retried: rate_limit
    note API call retried: rate_limit
    note API call retried: rate_limit
    note API call retried: rate_limit
    note API call retried: rate_limit
    = quota
    ! COPILOT_QUOTA: the account's credit or quota is exhausted: status 429: Failed to get …
    # model Some("gpt-fake") turns Some(1) retries 5 unknown 0 malformed 0 denied 0
    "#);
}

#[test]
fn closed_stream_is_a_network_failure_and_an_empty_reply_is_not() {
    assert_snapshot!(read(recorded!("cut.jsonl"), "", exited(1)), @r#"
    started Some("gpt-fake") None false
    note API call retried: streaming_error
    note API call retried: streaming_error
    note API call retried: streaming_error
    note API call retried: streaming_error
    note API call retried: streaming_error
    = network
    ! COPILOT_NETWORK: the API is unreachable or failed: the connection failed: Failed to get…
    # model Some("gpt-fake") turns Some(1) retries 5 unknown 0 malformed 0 denied 0
    "#);
    assert_snapshot!(read(recorded!("empty.jsonl"), "", exited(1)), @r#"
    started Some("gpt-fake") None false
    = agent_error
    ! COPILOT_API_ERROR: Copilot stopped because of an error: No response was returned. Send yo…
    # model Some("gpt-fake") turns Some(1) retries 0 unknown 0 malformed 0 denied 0
    "#);
}

#[test]
fn hanging_api_is_a_timeout() {
    assert_snapshot!(read(recorded!("hang.jsonl"), "", replay::ended(EndedBy::IdleLimit)), @r#"
    started Some("gpt-fake") None false
    = timeout
    ! COPILOT_TIMEOUT: timeout: Copilot was ended by the idle limit before it was done
    # model Some("gpt-fake") turns Some(1) retries 0 unknown 0 malformed 0 denied 0
    "#);
}

#[test]
fn limit_during_retries_has_the_cause_of_the_retries() {
    let lines: Vec<_> = recorded!("429.jsonl").lines().collect();
    let until_retry = lines.iter().position(|line| line.contains("turn_retry"));
    let cut = lines[..=until_retry.unwrap()].join("\n");
    let shown = read(&cut, "", replay::ended(EndedBy::IdleLimit));
    assert!(shown.contains("= rate_limit"), "{shown}");
}

#[test]
fn denied_tool_is_counted() {
    let line = r#"{"type":"tool.execution_complete","data":{"toolCallId":"a","success":false,"error":{"message":"The user rejected this tool call.","code":"denied"}}}"#;
    let shown = read(line, "", exited(0));
    assert!(shown.contains("denied 1"), "{shown}");
    assert!(shown.contains("error=true The user"), "{shown}");
}

#[test]
fn prompt_is_on_standard_input_and_all_tools_are_allowed() {
    let launch = replay::launch(
        &COPILOT,
        "model: gpt-x\nagent_name: reviewer\nreasoning_effort: high\nargs: [--plain-diff]",
        HELP,
        None,
    )
    .unwrap();
    assert_snapshot!(launch.argv.join(" "), @"/bin/cli --output-format json --allow-all-tools --allow-all-paths --no-color --usage-output-file /scratch/copilot-usage.json --model gpt-x --agent reviewer --reasoning-effort high --plain-diff");
    assert_eq!(launch.input, Input::Bytes(b"Say \"hi\"\n$HOME".to_vec()));
    assert_eq!(launch.collect, ["/scratch/copilot-usage.json"]);
    assert_eq!(launch.env["COPILOT_HOME"], "/home/.copilot");
}

#[test]
fn endpoint_is_a_custom_provider() {
    let endpoint = endpoint();
    let env = |model: &str| {
        let yaml = format!("model: {model}");
        let launch = replay::launch(&COPILOT, &yaml, HELP, Some(&endpoint)).unwrap();
        let env = launch.env.iter();
        let of_provider = env.filter(|(name, _)| name.starts_with("COPILOT_PROVIDER"));
        let shown: Vec<_> = of_provider
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        shown.join("\n")
    };
    assert_snapshot!(env("claude-x"), @r"
    COPILOT_PROVIDER_API_KEY=virtual
    COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:4000
    COPILOT_PROVIDER_TYPE=anthropic
    ");
    assert_snapshot!(env("gpt-5.1"), @r"
    COPILOT_PROVIDER_API_KEY=virtual
    COPILOT_PROVIDER_BASE_URL=http://127.0.0.1:4000/v1
    COPILOT_PROVIDER_TYPE=openai
    COPILOT_PROVIDER_WIRE_API=responses
    ");
    let none = replay::launch(&COPILOT, "{}", HELP, Some(&endpoint));
    let message = none.err().unwrap().to_string();
    assert_eq!(message, "Copilot requires a `model` with the gateway");
}

#[test]
fn options_of_other_agents_are_refused() {
    let refused = configure(&COPILOT, "allowed_tools: [Read]\ntemperature: 0.5").err();
    assert_snapshot!(refused.unwrap().join("\n"), @r"
    Copilot has no option for `allowed_tools` (use `args: [--deny-tool=TOOL]` to forbid tools)
    Copilot has no option for `temperature` (remove it)
    ");
    let refused = configure(&COPILOT, "mcp_config: ../mcp.json").err();
    assert_snapshot!(refused.unwrap().join("\n"), @"invalid mcp_config `../mcp.json`: it must not contain `..` (use a file in the folder of the test case)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_lines_are_survived(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let whole = format!("{EDIT}{}", recorded!("usage.json"));
        let bytes = replay::damaged(&whole, &damage);
        replay::survive(COPILOT.recorded_session().unwrap(), &bytes);
    }
}
