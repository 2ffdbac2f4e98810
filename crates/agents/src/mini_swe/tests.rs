//! Tests of mini-swe-agent: trajectories recorded from 2.4.6, launches and refused settings.

use insta::assert_snapshot;
use proctor_record::outcome::EndedBy;
use proptest::prelude::*;

use super::*;
use crate::{
    agent::Adapter as _,
    replay::{self, Recorded, configure, ended, endpoint, exited, show},
};

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../tests/data/sessions/mini-2.4.6-", $name))
    };
}

const EDIT: &str = recorded!("edit.json");

fn read(trajectory: &str, ending: Ending) -> String {
    let recorded = Recorded {
        stdout: "mini-swe-agent (step 1, $0.00):\nI will write the file.",
        files: &[("t", trajectory)],
        ending,
        ..Recorded::default()
    };
    show(MINI.recorded_session().unwrap(), &recorded)
}

#[test]
fn edit_is_read_from_the_trajectory_with_summed_usage() {
    assert_snapshot!(read(EDIT, exited(0)), @r#"
    note mini-swe-agent (step 1, $0.00)
    started Some("openai/gpt-4o") Some("2.4.6") false
    System Text: You are a helpful assistant that can interact with a computer.
    User Text: Please solve this issue: Create hello.txt with the word "hello".⏎⏎You …
    Assistant Text: I will write the file.
    call bash {"command":"printf 'hello\\n' > hello.txt","description":"Write the fi…
    progress 1000/50
    result error=false
    Assistant Text: All done.
    call bash {"command":"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
    progress 1300/70
    result error=false action was not executed
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write None nanos Some(5450000) Sidecar lower_bound=false
    # model Some("openai/gpt-4o") turns Some(2) retries 0 unknown 0 malformed 0 denied 0
    "#);
}

#[test]
fn recorded_trajectory_is_read() {
    let recorded = Recorded {
        stdout: EDIT,
        ending: exited(0),
        ..Recorded::default()
    };
    let shown = show(MINI.recorded_session().unwrap(), &recorded);
    let lived = read(EDIT, exited(0));
    assert_eq!(
        Some(shown.as_str()),
        lived.split_once('\n').map(|(_, rest)| rest)
    );
}

#[test]
fn exit_status_of_the_trajectory_decides() {
    assert_snapshot!(read(recorded!("401.json"), exited(1)), @r#"
    note mini-swe-agent (step 1, $0.00)
    started Some("openai/gpt-4o") Some("2.4.6") false
    System Text: You are a helpful assistant that can interact with a computer.
    User Text: Please solve this issue: Create hello.txt with the word "hello".⏎⏎You …
    = auth
    ! MINI_AUTH_FAILED: mini-swe-agent is not authenticated: AuthenticationError: litellm.Auth…
    # model Some("openai/gpt-4o") turns Some(1) retries 0 unknown 0 malformed 0 denied 0
    "#);
    assert_snapshot!(read(recorded!("429.json"), exited(1)), @r#"
    note mini-swe-agent (step 1, $0.00)
    started Some("openai/gpt-4o") Some("2.4.6") false
    System Text: You are a helpful assistant that can interact with a computer.
    User Text: Please solve this issue: Create hello.txt with the word "hello".⏎⏎You …
    = rate_limit
    ! MINI_RATE_LIMIT: the API's rate limit was hit: RateLimitError: litellm.RateLimitError: …
    # model Some("openai/gpt-4o") turns Some(1) retries 0 unknown 0 malformed 0 denied 0
    "#);
    assert_snapshot!(read(recorded!("empty.json"), exited(0)), @r#"
    note mini-swe-agent (step 1, $0.00)
    started Some("openai/gpt-4o") Some("2.4.6") false
    System Text: You are a helpful assistant that can interact with a computer.
    User Text: Please solve this issue: Create hello.txt with the word "hello".⏎⏎You …
    User Text: Tool call error:⏎⏎<error>⏎No tool calls found in the response. Every r…
    User Text: Tool call error:⏎⏎<error>⏎No tool calls found in the response. Every r…
    User Text: Tool call error:⏎⏎<error>⏎No tool calls found in the response. Every r…
    = gave_up
    ! MINI_NO_TOOL_CALL: mini-swe-agent got repeated answers without a tool call
    $ in None out None read None write None nanos Some(9000000) Sidecar lower_bound=true
    # model Some("openai/gpt-4o") turns Some(3) retries 0 unknown 0 malformed 0 denied 0
    "#);
    let limit = read(recorded!("limit.json"), exited(0));
    assert!(limit.contains("= gave_up\n! MINI_LIMIT"), "{limit}");
}

#[test]
fn missing_trajectory_is_a_timeout_or_no_result() {
    let shown = read("", ended(EndedBy::WallLimit));
    assert!(shown.contains("= timeout"), "{shown}");
    let shown = read("{", exited(0));
    assert!(shown.contains("MINI_NO_RESULT"), "{shown}");
}

#[test]
fn prompt_and_limits_are_in_a_config_file() {
    let yaml = "model: gpt-x\nmax_turns: 5\ncost_limit: 1.5\ntemperature: 0\nmax_tokens: 100";
    let launch = replay::launch(&MINI, yaml, "", None).unwrap();
    assert_snapshot!(launch.argv.join(" "), @"/bin/cli --yolo --exit-immediately -o /scratch/trajectory.json -c mini.yaml -c /scratch/mini.yaml");
    assert_snapshot!(String::from_utf8_lossy(&launch.files[0].1), @r#"{"agent":{"cost_limit":1.5,"step_limit":5},"model":{"model_kwargs":{"max_tokens":100,"temperature":0.0},"model_name":"openai/gpt-x"},"run":{"task":"Say \"hi\"\n$HOME"}}"#);
    assert_eq!(launch.collect, ["/scratch/trajectory.json"]);
    let launch = replay::launch(&MINI, yaml, "", Some(&endpoint())).unwrap();
    assert_eq!(launch.env["OPENAI_API_BASE"], "http://127.0.0.1:4000/v1");
    assert_eq!(launch.env["OPENAI_API_KEY"], "virtual");
}

#[test]
fn unsupported_options_are_refused() {
    let refused = configure(&MINI, "model: gpt-x\nallowed_tools: [Read]\ntransport: pty").err();
    assert_snapshot!(refused.unwrap().join("\n"), @r"
    mini-swe-agent has no option for `allowed_tools` (remove it: its only tool is the shell)
    mini-swe-agent has no option for `transport` (remove it)
    ");
    let refused = configure(&MINI, "{}").err();
    assert_snapshot!(refused.unwrap().join("\n"), @"mini-swe-agent requires `model` (add one, such as `anthropic/claude-sonnet-4-5`)");
    let refused = configure(&MINI, "model: gpt-x\ntemperature: 3\nmax_turns: 0").err();
    assert_snapshot!(refused.unwrap().join("\n"), @r"
    `temperature` must be from 0 to 2 ()
    `max_turns` must be at least 1 ()
    ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_trajectories_are_survived(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let bytes = replay::damaged(EDIT, &damage);
        replay::survive(MINI.recorded_session().unwrap(), &bytes);
    }
}
