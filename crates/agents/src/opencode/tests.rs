//! Tests of OpenCode: sessions recorded from 1.18.33, launches and refused settings.

use insta::assert_snapshot;
use proctor_record::outcome::EndedBy;
use proptest::prelude::*;

use super::*;
use crate::{
    agent::{Adapter as _, Input},
    replay::{self, Recorded, configure, endpoint, exited, show},
};

macro_rules! session {
    ($name:literal) => {
        include_str!(concat!(
            "../../tests/data/sessions/opencode-1.18.33-",
            $name,
            ".jsonl"
        ))
    };
}

const EDIT: &str = session!("edit");
const HELP: &str = "--format --title --auto --thinking --model --variant --agent";

fn read(stdout: &str, ending: Ending) -> String {
    let session = OPENCODE.recorded_session().unwrap();
    let recorded = Recorded {
        stdout,
        ending,
        ..Recorded::default()
    };
    show(session, &recorded)
}

#[test]
fn edit_is_read_with_summed_steps() {
    assert_snapshot!(read(EDIT, exited(0)), @r#"
    started None None true
    Assistant Text: I will write the file.
    call bash {"command":"printf 'hello\\n' > hello.txt","description":"Write the fi…
    result error=false (no output)
    progress 1000/50
    Assistant Text: Wrote hello.txt.
    progress 1300/70
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write Some(0) nanos Some(2120000) Messages lower_bound=false
    # model None turns Some(2) retries 0 unknown 0 malformed 0 denied 0
    "#);
}

#[test]
fn api_failures_are_classified() {
    assert_snapshot!(read(session!("401"), exited(1)), @r"
    started None None true
    = auth
    ! OPENCODE_AUTH_FAILED: OpenCode is not authenticated: status 401: APIError: Incorrect API key…
    # model None turns None retries 0 unknown 0 malformed 0 denied 0
    ");
    assert_snapshot!(read(session!("429"), exited(1)), @r"
    started None None true
    = rate_limit
    ! OPENCODE_RATE_LIMIT: the API's rate limit was hit: status 429: APIError: Rate limit reached…
    # model None turns None retries 0 unknown 0 malformed 0 denied 0
    ");
    assert_snapshot!(read(session!("quota"), exited(1)), @r"
    started None None true
    = quota
    ! OPENCODE_QUOTA: the account's credit or quota is exhausted: status 429: APIError: You …
    # model None turns None retries 0 unknown 0 malformed 0 denied 0
    ");
}

#[test]
fn empty_reply_with_exit_0_is_not_a_success() {
    assert_snapshot!(read(session!("empty"), exited(0)), @r"
    started None None true
    progress 1000/50
    = agent_error
    ! OPENCODE_NO_RESULT: OpenCode ended without a result, which is a failure regardless of its …
    $ in Some(1000) out Some(50) read Some(0) write Some(0) nanos Some(1500000) Messages lower_bound=true
    # model None turns Some(1) retries 0 unknown 0 malformed 0 denied 0
    ");
}

#[test]
fn repeatedly_closed_stream_is_ended() {
    assert_snapshot!(read(session!("cut"), replay::ended(EndedBy::Session)), @r"
    started None None true
    Assistant Text: I will
    note no answer from the API; retrying
    Assistant Text: I will
    note no answer from the API; retrying
    Assistant Text: I will
    note no answer from the API; retrying
    Assistant Text: I will
    note no answer from the API; retrying
    Assistant Text: I will
    note no answer from the API; retrying
    end within 0ns
    Assistant Text: I will
    note no answer from the API; retrying
    end within 0ns
    = network
    ! OPENCODE_NETWORK: the API is unreachable or failed: the connection was closed, or the an…
    # model None turns None retries 6 unknown 0 malformed 0 denied 0
    ");
}

#[test]
fn idle_limit_is_a_timeout() {
    assert_snapshot!(read("", replay::ended(EndedBy::IdleLimit)), @r"
    = timeout
    ! OPENCODE_TIMEOUT: timeout: OpenCode was ended by the idle limit before it was done
    # model None turns None retries 0 unknown 0 malformed 0 denied 0
    ");
}

#[test]
fn prompt_is_on_stdin_and_sharing_is_off() {
    let launch = replay::launch(&OPENCODE, "model: claude-x\nvariant: high", HELP, None).unwrap();
    assert_snapshot!(launch.argv.join(" "), @"/bin/cli run --format json --title proctor --auto --thinking --model anthropic/claude-x --variant high");
    assert_eq!(launch.input, Input::Bytes(b"Say \"hi\"\n$HOME".to_vec()));
    let files: Vec<_> = launch
        .files
        .iter()
        .map(|(path, bytes)| format!("{path} {}", String::from_utf8_lossy(bytes)))
        .collect();
    assert_snapshot!(files.join("\n"), @r#"
    /scratch/opencode.json {"autoupdate":false,"share":"disabled"}
    /home/.config/opencode/.npmrc offline=true
    "#);
    assert_eq!(launch.env["OPENCODE_CONFIG"], "/scratch/opencode.json");
    assert_eq!(launch.env["OPENCODE_DISABLE_AUTOUPDATE"], "1");
}

#[test]
fn endpoint_is_in_the_config_and_its_key_in_the_environment() {
    let endpoint = endpoint();
    let config = |model: &str| {
        let yaml = format!("model: {model}");
        let launch = replay::launch(&OPENCODE, &yaml, HELP, Some(&endpoint)).unwrap();
        assert_eq!(launch.env[ENDPOINT_KEY], "virtual");
        String::from_utf8(launch.files[0].1.clone()).unwrap()
    };
    assert_snapshot!(config("anthropic/claude-x"), @r#"{"autoupdate":false,"provider":{"anthropic":{"models":{"claude-x":{}},"options":{"apiKey":"{env:PROCTOR_MODEL_KEY}","baseURL":"http://127.0.0.1:4000/v1"}}},"share":"disabled"}"#);
    assert_snapshot!(config("gemini-x"), @r#"{"autoupdate":false,"provider":{"google":{"models":{"gemini-x":{}},"options":{"apiKey":"{env:PROCTOR_MODEL_KEY}","baseURL":"http://127.0.0.1:4000/v1beta"}}},"share":"disabled"}"#);
    assert_snapshot!(config("local/m"), @r#"{"autoupdate":false,"provider":{"local":{"models":{"m":{}},"npm":"@ai-sdk/openai-compatible","options":{"apiKey":"{env:PROCTOR_MODEL_KEY}","baseURL":"http://127.0.0.1:4000/v1"}}},"share":"disabled"}"#);
    let none = replay::launch(&OPENCODE, "{}", HELP, Some(&endpoint))
        .err()
        .unwrap();
    assert_eq!(
        none.to_string(),
        "OpenCode requires a `model` with the gateway"
    );
}

#[test]
fn options_of_other_agents_are_refused() {
    let refused = configure(&OPENCODE, "temperature: 0.5\nmax_turns: 3\nagent_name: x").err();
    assert_snapshot!(refused.unwrap().join("\n"), @r"
    OpenCode has no option for `agent_name` (use `args: [--agent, NAME]` with an agent that the repo defines)
    OpenCode has no option for `max_turns` (set `agent.build.steps` in the repo's opencode.json, or use the test case's `timeout`)
    OpenCode has no option for `temperature` (set `agent.build.temperature` in the repo's opencode.json)
    ");
    let refused = configure(&OPENCODE, "model: sonnet").err();
    assert_snapshot!(refused.unwrap().join("\n"), @"OpenCode cannot determine the maker of `sonnet` (write `provider/name`, such as `anthropic/claude-sonnet-4-5`)");
}

#[test]
fn missing_option_of_a_version_is_reported() {
    let launch = replay::launch(&OPENCODE, "variant: high", "--format --model", None);
    let error = launch.err().unwrap();
    assert_eq!(error.to_string(), "cli 1.2.3 has no option --variant");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_lines_are_survived(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let bytes = replay::damaged(EDIT, &damage);
        replay::survive(OPENCODE.recorded_session().unwrap(), &bytes);
    }
}
