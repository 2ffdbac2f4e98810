//! Tests of the `command` agent: its argv template, prompts, output formats and usage.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::replay::{self, Recorded, configure, endpoint, exited, show};

fn refused(yaml: &str) -> String {
    configure(&Command, yaml).err().unwrap().join("\n")
}

fn run(yaml: &str, stdout: &str, files: &[(&str, &str)]) -> String {
    let launch = replay::launch(&Command, yaml, "", None).unwrap();
    let recorded = Recorded {
        stdout,
        files,
        ending: exited(0),
        ..Recorded::default()
    };
    show(launch.session, &recorded)
}

#[test]
fn placeholders_are_replaced_except_in_the_prompt() {
    let yaml = "command: [agent, --in, '{prompt_file}', --out, '{scratch}/u', '${x}', '{\"a\":1}']\nprompt_by: file";
    let launch = replay::launch(&Command, yaml, "", None).unwrap();
    assert_snapshot!(launch.argv.join(" "), @r#"agent --in /scratch/prompt.md --out /scratch/u ${x} {"a":1}"#);
    assert_eq!(launch.input, Input::Closed);
    let yaml = "command: [agent, '--do={prompt}']\nprompt_by: argument";
    let launch = replay::launch(&Command, yaml, "", None).unwrap();
    assert_eq!(launch.argv[1], "--do=Say \"hi\"\n$HOME");
}

#[test]
fn prompt_is_on_standard_input_by_default() {
    let launch = replay::launch(&Command, "command: [agent]", "", Some(&endpoint())).unwrap();
    assert_eq!(launch.input, Input::Bytes(b"Say \"hi\"\n$HOME".to_vec()));
    assert_eq!(launch.env["PROCTOR_PROMPT_FILE"], "/scratch/prompt.md");
    assert_eq!(launch.env["OPENAI_BASE_URL"], "http://127.0.0.1:4000/v1");
    assert_eq!(launch.env["ANTHROPIC_API_KEY"], "virtual");
}

#[test]
fn prompt_that_is_too_long_for_an_argument_is_refused() {
    let program = CommandAgent {
        prompt: PromptSource::Text(String::new()),
        model: None,
        settings: CommandSettings {
            prompt: None,
            prompt_file: None,
            command: vec!["agent".to_owned(), "{prompt}".to_owned()],
            prompt_by: Some(PromptBy::Argument),
            output: None,
            message: None,
            usage: None,
            env: BTreeMap::new(),
        },
        script: None,
    };
    let prompt = "x".repeat(MAX_ARGUMENT);
    let context = LaunchContext {
        workspace: "/work".into(),
        home: "/home".into(),
        scratch: "/scratch".into(),
        prompt: &prompt,
        cli: None,
        env: &BTreeMap::new(),
        is_root: false,
        socket: None,
        reference: None,
        definitions: &BTreeMap::new(),
        endpoint: None,
        script: None,
        mcp_servers: &serde_json::Map::new(),
    };
    let error = program.launch(&context).err().unwrap();
    assert_snapshot!(error.to_string(), @"the argument with the prompt has 131072 bytes, the maximum is 131071");
}

#[test]
fn settings_without_effect_are_refused() {
    assert_snapshot!(refused("command: ['']"), @"`command` has no program ()");
    assert_snapshot!(refused("command: [a, '{prompt}']"), @"`{prompt}` requires `prompt_by: argument` (add `prompt_by: argument`, or use `{prompt_file}`)");
    assert_snapshot!(refused("command: [a]\nprompt_by: argument"), @"no argument contains the prompt (add `{prompt}` to `command`)");
    assert_snapshot!(refused("command: [a, '{promt}', '{model}']"), @r"
    unknown placeholder `{promt}` (known: `{prompt}`, `{prompt_file}`, `{model}`, `{workspace}`, `{home}`, `{scratch}`)
    `{model}` requires `agent.model` (add `model` next to `type`)
    ");
    assert_snapshot!(refused("command: [a]\nmessage: text"), @"`message` has no effect with this output (add `output: ndjson`)");
    assert_snapshot!(refused("command: [a]\nusage: {}"), @r"
    `usage` has no figures (add paths such as `input_tokens: usage.input_tokens`)
    `usage` without `file` requires JSON lines (add `output: ndjson` or `file`)
    ");
}

#[test]
fn outcome_of_text_is_the_exit_code() {
    assert_snapshot!(run("command: [a]", "hello\n", &[]), @r"
    Assistant Text: hello
    = completed
    # model None turns None retries 0 unknown 0 malformed 0 denied 0
    ");
}

#[test]
fn json_lines_have_messages_and_usage() {
    let yaml = "command: [a]\noutput: ndjson\nmessage: part.text\nusage: {input_tokens: u.in, output_tokens: u.out, cache_read_tokens: u.read, cost_usd: u.cost, each: sum, cached_input: included}";
    let stdout = r#"{"part":{"text":"I will"}}
{"u":{"in":1000,"out":50,"read":0,"cost":0.001}}
not json
{"part":{"text":"Done"},"u":{"in":1500,"out":20,"read":1200,"cost":0.002}}"#;
    assert_snapshot!(run(yaml, stdout, &[]), @r"
    Assistant Text: I will
    Assistant Text: Done
    = completed
    $ in Some(1300) out Some(70) read Some(1200) write None nanos Some(3000000) Messages lower_bound=false
    # model None turns None retries 0 unknown 0 malformed 1 denied 0
    ");
}

#[test]
fn usage_is_read_from_a_file() {
    let yaml = "command: [a]\nusage: {file: '{scratch}/u.json', input_tokens: models.0.in, output_tokens: models.0.out}";
    let launch = replay::launch(&Command, yaml, "", None).unwrap();
    assert_eq!(launch.collect, ["/scratch/u.json"]);
    let whole = run(yaml, "hello", &[("u", r#"{"models":[{"in":3,"out":4}]}"#)]);
    assert_snapshot!(whole, @r"
    Assistant Text: hello
    = completed
    $ in Some(3) out Some(4) read None write None nanos None Sidecar lower_bound=false
    # model None turns None retries 0 unknown 0 malformed 0 denied 0
    ");
    let lines = "{\"models\":[{\"in\":3,\"out\":4}]}\n{\"models\":[{\"in\":5,\"out\":6}]}\n";
    assert!(run(yaml, "hello", &[("u", lines)]).contains("in Some(5) out Some(6)"));
    assert!(!run(yaml, "hello", &[]).contains("$ in"));
}

#[test]
fn output_in_the_format_of_another_agent_is_read() {
    let events = include_str!("../../tests/data/sessions/opencode-1.18.33-edit.jsonl");
    let shown = run("command: [a]\noutput: opencode", events, &[]);
    assert!(shown.contains("call bash"), "{shown}");
    let claude = include_str!("../../tests/data/sessions/00-claude-2.1.197-hello.jsonl");
    let shown = run("command: [a]\noutput: claude", claude, &[]);
    assert!(
        shown.contains("call Write") && shown.contains("= completed"),
        "{shown}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..500), path in ".{0,20}") {
        let paths = serde_json::json!({ "input_tokens": path, "cost_usd": path });
        let paths: UsagePaths = serde_json::from_value(paths).unwrap();
        let session = CommandSession::new(OutputKind::Ndjson, Some(path), Some(UsageReader::new(paths)), None);
        replay::survive(Box::new(session), &bytes);
    }
}
