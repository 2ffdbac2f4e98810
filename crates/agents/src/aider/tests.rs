//! Tests of aider: sessions recorded from 0.86.2, launches and refused settings.

use insta::assert_snapshot;
use proctor_record::outcome::{EndedBy, Ending};
use proptest::prelude::*;

use super::*;
use crate::{
    agent::{Adapter as _, Input},
    replay::{self, Recorded, configure, ended, endpoint, exited, show},
};

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../tests/data/sessions/aider-0.86.2-", $name))
    };
}

const EDIT: &str = recorded!("edit.txt");
const EDIT_LOG: &str = recorded!("edit-analytics.jsonl");
const HELP: &str = "--no-stream --no-pretty --no-gitignore --analytics-log --model --weak-model --edit-format --no-auto-commits";

fn read(stdout: &str, analytics: Option<&str>, ending: Ending) -> String {
    let files: Vec<_> = analytics.map(|log| ("log", log)).into_iter().collect();
    let recorded = Recorded {
        stdout,
        files: &files,
        ending,
        ..Recorded::default()
    };
    show(AIDER.recorded_session().unwrap(), &recorded)
}

#[test]
fn edit_is_read_with_usage_from_the_analytics_log() {
    assert_snapshot!(read(EDIT, Some(EDIT_LOG), exited(0)), @r#"
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    started Some("openai/gpt-4o") Some("0.86.2") false
    System Text: Weak model: gpt-4o-mini
    System Text: Git repo: .git with 1 files
    System Text: Repo-map: using 4096 tokens, auto refresh
    Assistant Text: I will make the file.⏎⏎hello.txt⏎```⏎<<<<<<< SEARCH⏎=======⏎hello⏎>>>>…
    progress 1000/50
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    System Text: Applied edit to hello.txt
    System Text: Commit eb24022 feat: add hello
    = completed
    $ in Some(1000) out Some(50) read None write None nanos Some(3000000) Sidecar lower_bound=true
    # model Some("openai/gpt-4o") turns Some(1) retries 0 unknown 0 malformed 0 denied 0
    "#);
}

/// aider's advice is not a message of the API. Lines are wrapped at 80 columns.
#[test]
fn closed_connection_is_not_an_overload() {
    let said = "litellm.InternalServerError: InternalServerError: OpenAIException - Connection\nerror.\nThe API provider's servers are down or overloaded.\nRetrying in 0.2 seconds...\n";
    let shown = read(said, None, ended(EndedBy::WallLimit));
    assert!(shown.contains("= network"), "{shown}");
}

#[test]
fn printed_figures_are_summed_without_the_log() {
    let two = format!("{EDIT}\n{EDIT}");
    let shown = read(&two, None, exited(0));
    let usage = shown.lines().find(|line| line.starts_with('$')).unwrap();
    assert_snapshot!(usage, @"$ in Some(2000) out Some(100) read None write None nanos Some(6000000) Text lower_bound=true");
}

#[test]
fn refused_credentials_with_exit_0_are_a_failure() {
    let log = recorded!("401-analytics.jsonl");
    assert_snapshot!(read(recorded!("401.txt"), Some(log), exited(0)), @r#"
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    started Some("openai/gpt-4o") Some("0.86.2") false
    System Text: Weak model: gpt-4o-mini
    System Text: Git repo: .git with 1 files
    System Text: Repo-map: using 4096 tokens, auto refresh
    = auth
    ! AIDER_AUTH_FAILED: aider is not authenticated: litellm.AuthenticationError: Authenticatio…
    # model Some("openai/gpt-4o") turns Some(0) retries 0 unknown 0 malformed 0 denied 0
    "#);
    let shown = read(recorded!("401.txt"), None, exited(0));
    assert!(shown.contains("= auth"), "{shown}");
}

#[test]
fn unanswered_call_is_a_failure_regardless_of_the_text() {
    let log = recorded!("401-analytics.jsonl");
    let shown = read(
        "All done.\n\nTokens: 1 sent, 1 received.",
        Some(log),
        exited(0),
    );
    assert!(shown.contains("AIDER_NO_RESULT"), "{shown}");
    let said = format!("Answer:\n\nlitellm.AuthenticationError: fake\n\n{EDIT}");
    let shown = read(&said, Some(EDIT_LOG), exited(0));
    assert!(shown.contains("= completed"), "{shown}");
}

#[test]
fn idle_timeout_during_retries_has_the_cause_of_the_retries() {
    let ending = ended(EndedBy::IdleLimit);
    assert_snapshot!(read(recorded!("429.txt"), None, ending), @r#"
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    started Some("openai/gpt-4o") Some("0.86.2") false
    System Text: Weak model: gpt-4o-mini
    System Text: Git repo: .git with 1 files
    System Text: Repo-map: using 4096 tokens, auto refresh
    note Retrying in 0.2 seconds...
    note Retrying in 0.5 seconds...
    note Retrying in 1.0 seconds...
    note Retrying in 2.0 seconds...
    note Retrying in 4.0 seconds...
    note Retrying in 8.0 seconds...
    note Retrying in 16.0 seconds...
    note Retrying in 32.0 seconds...
    = rate_limit
    ! AIDER_RATE_LIMIT: the API's rate limit was hit: it was ended during a retry (litellm.Rat…
    # model Some("openai/gpt-4o") turns None retries 8 unknown 0 malformed 0 denied 0
    "#);
    let shown = read(recorded!("quota.txt"), None, ending);
    assert!(shown.contains("= quota"), "{shown}");
}

#[test]
fn empty_reply_is_a_failure() {
    let log = recorded!("empty-analytics.jsonl");
    assert_snapshot!(read(recorded!("empty.txt"), Some(log), exited(0)), @r#"
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    started Some("openai/gpt-4o") Some("0.86.2") false
    System Text: Weak model: gpt-4o-mini
    System Text: Git repo: .git with 1 files
    System Text: Repo-map: using 4096 tokens, auto refresh
    progress 1000/50
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    System Text: HTTPSConnectionPool(host='raw.githubusercontent.com', port=443): Max r…
    = agent_error
    ! AIDER_API_ERROR: aider stopped because of an error: the model's answer was empty
    $ in Some(1000) out Some(50) read None write None nanos Some(3000000) Sidecar lower_bound=true
    # model Some("openai/gpt-4o") turns Some(1) retries 0 unknown 0 malformed 0 denied 0
    "#);
}

#[test]
fn too_many_reflections_are_a_turn_limit() {
    let text = format!("{EDIT}Only 3 reflections allowed, stopping.\n");
    let shown = read(&text, Some(EDIT_LOG), exited(0));
    assert!(shown.contains("= gave_up\n! AIDER_MAX_TURNS"), "{shown}");
}

#[test]
fn prompt_is_in_a_file_and_analytics_are_off() {
    let yaml = "model: claude-x\nweak_model: gpt-x\nedit_format: whole\nauto_commits: false\nargs: [--read, a]";
    let launch = replay::launch(&AIDER, yaml, HELP, None).unwrap();
    assert_snapshot!(launch.argv.join(" "), @"/bin/cli --yes-always --no-stream --no-pretty --no-gitignore --chat-history-file /dev/null --input-history-file /dev/null --analytics-log /scratch/aider-analytics.jsonl --model anthropic/claude-x --weak-model openai/gpt-x --edit-format whole --no-auto-commits --read a --message-file /scratch/prompt.md");
    assert_eq!(launch.input, Input::Closed);
    assert_eq!(launch.collect, ["/scratch/aider-analytics.jsonl"]);
    let files: Vec<_> = launch
        .files
        .iter()
        .map(|(path, bytes)| format!("{path} {}", String::from_utf8_lossy(bytes)))
        .collect();
    assert_snapshot!(files.join("\n"), @r#"
    /scratch/prompt.md Say "hi"
    $HOME
    /home/.aider/analytics.json {"permanently_disable": true, "asked_opt_in": true, "uuid": "00000000-0000-4000-8000-000000000000"}
    /work/.aider.tags.cache.v3/.gitignore *

    /work/.aider.tags.cache.v4/.gitignore *
    "#);
}

#[test]
fn endpoint_serves_all_supported_providers() {
    let endpoint = endpoint();
    let launch = replay::launch(&AIDER, "model: sonnet", HELP, Some(&endpoint)).unwrap();
    let env: Vec<_> = launch
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_snapshot!(env.join("\n"), @r"
    ANTHROPIC_API_BASE=http://127.0.0.1:4000
    ANTHROPIC_API_KEY=virtual
    GEMINI_API_BASE=http://127.0.0.1:4000/v1beta
    GEMINI_API_KEY=virtual
    LITELLM_LOCAL_MODEL_COST_MAP=True
    OPENAI_API_BASE=http://127.0.0.1:4000/v1
    OPENAI_API_KEY=virtual
    ");
    let own = "model: sonnet\nenv: {OPENAI_API_BASE: 'http://elsewhere'}";
    let refused = replay::launch(&AIDER, own, HELP, Some(&endpoint));
    assert_eq!(
        refused.err().unwrap().to_string(),
        "`env.OPENAI_API_BASE` would make aider bypass the gateway"
    );
    let own = "model: sonnet\nenv: {OPENAI_API_KEY: real}";
    let launch = replay::launch(&AIDER, own, HELP, Some(&endpoint)).unwrap();
    assert_eq!(launch.env["OPENAI_API_KEY"], "virtual");
    let other = replay::launch(&AIDER, "model: deepseek/x", HELP, Some(&endpoint));
    let message = other.err().unwrap().to_string();
    assert_eq!(message, "the gateway does not support models of `deepseek`");
}

#[test]
fn options_of_other_agents_are_refused() {
    let refused = configure(
        &AIDER,
        "temperature: 0\nmax_turns: 3\npermission_mode: plan",
    )
    .err();
    assert_snapshot!(refused.unwrap().join("\n"), @r"
    aider has no option for `max_turns` (use the test case's `timeout` and `idle_timeout`)
    aider has no option for `permission_mode` (remove it: everything is allowed in the trial's workspace)
    aider has no option for `temperature` (put `use_temperature` into a file for `args: [--model-settings-file, FILE]`)
    ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_lines_are_survived(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let whole = format!("{EDIT}{}{EDIT_LOG}", recorded!("429.txt"));
        let bytes = replay::damaged(&whole, &damage);
        replay::survive(AIDER.recorded_session().unwrap(), &bytes);
    }
}
