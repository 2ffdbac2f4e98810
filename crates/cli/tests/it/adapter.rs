//! The contract of the Claude Code adapter: what is asked of the CLI, with which flags, in which
//! environment, and what the log makes of the answer. Each test names the requirement (CR) of
//! seed 002 or the acceptance scenario of seed 000 that it is about.

use proctor_testkit::{Output, Program, TestContext};
use serde_json::{Value, json};

use crate::support::{
    HELP, MODEL, VERSION, claude_case, claude_with, codes, context, init, install_claude,
    install_claude_that, messages, print, proctor_run, result, run, saved, saved_json, says,
    session, shell, with, write, write_case,
};

/// What the fake `claude` was started with.
struct Started {
    context: TestContext,
    argv: Vec<String>,
    env: Value,
    stdin: String,
}

impl Started {
    /// The value after a flag.
    #[track_caller]
    fn flag(&self, name: &str) -> &str {
        let at = self.argv.iter().position(|arg| arg == name);
        let at = at.unwrap_or_else(|| panic!("no {name} in {:?}", self.argv));
        &self.argv[at + 1]
    }

    fn has(&self, flag: &str) -> bool {
        self.argv.iter().any(|arg| arg == flag)
    }
}

/// The steps that save what the fake was started with.
fn saves(context: &TestContext) -> Vec<Value> {
    vec![
        json!({"save_argv": saved(context, "argv")}),
        json!({"save_env": saved(context, "env")}),
        json!({"save_stdin": saved(context, "stdin")}),
    ]
}

fn started(context: TestContext) -> Started {
    Started {
        argv: serde_json::from_value(saved_json(&context, "argv")).unwrap(),
        env: saved_json(&context, "env"),
        stdin: fs_err::read_to_string(saved(&context, "stdin")).unwrap(),
        context,
    }
}

/// Runs a case with a fake that saves what it was started with.
#[track_caller]
fn start_in(context: TestContext, case: &Value, change: impl Fn(Program) -> Program) -> Started {
    install_claude(&context, &session(&saves(&context)));
    change(proctor_run(&context, case)).run().assert_code(0);
    started(context)
}

/// Runs the case with these settings in `agent.config`.
#[track_caller]
fn start(config: &Value) -> Started {
    start_in(context(), &claude_with(config), |program| program)
}

/// CR-1.1, CR-1.4: an installed CLI is found, with its version.
#[test]
fn an_installed_cli_is_found() {
    let context = context();
    install_claude(&context, &[]);
    let output = context.proctor(["doctor", "--json"]).run();
    output.assert_code(0);
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(found[1]["name"], "claude-code");
    assert_eq!(found[1]["version"], VERSION);
    assert_eq!(found[1]["authenticated"], true);
    assert_eq!(found[1]["path"], context.bin().join("claude").as_str());
}

/// CR-1.2, FR-017: a missing CLI is told with how to install it, and nothing else happens.
#[test]
fn a_missing_cli_is_told_with_how_to_install_it() {
    let context = context();
    let output = context.proctor(["doctor"]).run();
    output.assert_code(0);
    assert!(output.stdout.contains("not installed"), "{output}");
    let output = run(&context, &claude_case());
    output.assert_code(3);
    let log = context.log();
    assert_eq!(codes(&log), ["CLAUDE_CLI_NOT_FOUND"]);
    assert!(messages(&log).contains("npm install -g @anthropic-ai/claude-code"));
    assert!(
        output
            .stdout
            .contains("npm install -g @anthropic-ai/claude-code"),
        "{output}"
    );
    assert_eq!(context.record()["outcome"], "not_installed");
    assert_eq!(log["agent_info"]["version"], "unknown");
}

/// Runs without any credentials in the environment.
#[track_caller]
fn run_without_key(context: &TestContext, case: &Value) -> Output {
    let path = write_case(context, case);
    context.proctor(["run", "-c", path.as_str()]).run()
}

/// CR-1.3: a CLI that is not logged in fails at once, with how to fix it.
#[test]
fn a_cli_without_credentials_fails_with_how_to_fix_it() {
    let context = context();
    let steps = [write(saved(&context, "started").as_str(), "")];
    install_claude_that(
        &context,
        r#"{"loggedIn":false,"authMethod":"none"}"#,
        &steps,
    );
    let output = run_without_key(&context, &claude_case());
    output.assert_code(3);
    let log = context.log();
    assert_eq!(codes(&log), ["CLAUDE_AUTH_FAILED"]);
    let message = messages(&log);
    assert!(
        message.contains("authentication") && message.contains("API key"),
        "{message}"
    );
    assert!(message.contains("claude auth login"), "{message}");
    assert!(!saved(&context, "started").exists());
    let doctor = context.proctor(["doctor"]).run();
    assert!(doctor.stdout.contains("not logged in"), "{doctor}");
}

/// A version without an `auth` command would take the question for a prompt: it is not asked.
#[test]
fn an_old_cli_is_never_asked_for_its_login() {
    let context = context();
    let help = HELP.split("\nCommands:").next().unwrap();
    let asked = saved(&context, "asked");
    let mut script = vec![
        json!({"when_args": ["--version"], "steps": [print("2.0.30 (Claude Code)\n")]}),
        json!({"when_args": ["--help"], "steps": [print(help)]}),
        json!({"when_args": ["auth"], "steps": [write(asked.as_str(), "")]}),
    ];
    script.extend(session(&[]));
    context.install_fake("claude", &Value::Array(script));
    run_without_key(&context, &claude_case()).assert_code(0);
    assert!(!asked.exists());
}

/// Version and flags are asked once for each binary.
#[test]
fn a_binary_is_asked_about_itself_once() {
    let context = context();
    let asked = saved(&context, "asked");
    let ask = |text: &str| json!([{"append": {"path": asked, "text": "x"}}, print(text)]);
    let mut script = vec![
        json!({"when_args": ["--version"], "steps": ask("2.1.197 (Claude Code)\n")}),
        json!({"when_args": ["--help"], "steps": ask(HELP)}),
    ];
    script.extend(session(&[]));
    let program = context.install_fake("claude", &Value::Array(script));
    let count = || fs_err::read(&asked).unwrap().len();
    run(&context, &claude_case()).assert_code(0);
    assert_eq!(count(), 2);
    run(&context, &claude_case()).assert_code(0);
    assert_eq!(count(), 2);
    // A new binary in the same place is another one.
    let bytes = fs_err::read(&program).unwrap();
    fs_err::remove_file(&program).unwrap();
    fs_err::write(&program, bytes).unwrap();
    make_executable(&program);
    run(&context, &claude_case()).assert_code(0);
    assert_eq!(count(), 4);
}

fn make_executable(path: &camino::Utf8Path) {
    use std::os::unix::fs::PermissionsExt;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// CR-2.1, FR-003, scenario 1.1: print mode, stream-json, and permissions skipped by default.
#[test]
fn the_cli_runs_in_print_mode_with_permissions_skipped() {
    let started = start(&json!({}));
    assert!(started.has("-p"));
    assert_eq!(started.flag("--output-format"), "stream-json");
    assert!(
        started.has("--verbose"),
        "stream-json is refused without it"
    );
    assert!(started.has("--dangerously-skip-permissions"));
    for absent in [
        "--model",
        "--agent",
        "--agents",
        "--permission-mode",
        "--allowedTools",
    ] {
        assert!(!started.has(absent), "{absent}");
    }
    let log = started.context.log();
    assert_eq!(log["execution"]["status"], "success");
    assert_eq!(log["execution"]["exit_code"], 0);
    for time in ["started_at", "completed_at"] {
        let text = log["execution"][time].as_str().unwrap();
        assert!(
            text.len() >= 20 && text.ends_with('Z') && &text[10..11] == "T",
            "{text}"
        );
    }
}

/// CR-2.2, scenario 1.4: a failed run is a result, with its exit code and what was said.
#[test]
fn a_failed_run_keeps_its_exit_code_and_words() {
    let context = context();
    let complaint = json!({"print": {"text": "disk on fire\n", "stream": "stderr"}});
    install_claude(&context, &[init(), complaint, json!({"exit": 42})]);
    run(&context, &claude_case()).assert_code(1);
    let log = context.log();
    assert_eq!(log["execution"]["status"], "failed");
    assert_eq!(log["execution"]["exit_code"], 42);
    assert!(messages(&log).contains("disk on fire"), "{log:#}");
    let stderr = fs_err::read_to_string(context.artifact("raw/stderr")).unwrap();
    assert_eq!(stderr, "disk on fire\n");
}

/// CR-2.3: a timeout is a result, with what was printed before it.
#[test]
fn a_timeout_keeps_what_was_printed() {
    let context = context();
    install_claude(
        &context,
        &[init(), says("m-1", "so far"), json!({"sleep_ms": 60_000})],
    );
    run(&context, &with(&claude_case(), &json!({"timeout": 1000}))).assert_code(1);
    let log = context.log();
    assert_eq!(log["execution"]["status"], "timeout");
    assert_eq!(log["execution"]["exit_code"], -1);
    assert!(messages(&log).contains("timeout of 1000 ms"), "{log:#}");
    assert!(log["execution"]["duration_ms"].as_u64().unwrap() >= 1000);
    assert_eq!(log["messages"][0]["content"], "so far");
}

/// CR-2.4, FR-005: the prompt arrives.
#[test]
fn the_prompt_arrives() {
    let started = start(&json!({"prompt": "List files"}));
    assert_eq!(started.stdin, "List files");
}

/// CR-2.5, FR-006, scenario 3.1: a prompt file beside the test case, else in the repo.
#[test]
fn a_prompt_file_is_read_from_beside_the_test_case_or_the_repo() {
    let file = json!({"prompt": null, "prompt_file": "./prompts/task.md"});
    let context = context();
    context
        .repo()
        .commit("task", &[("prompts/task.md", "from the repo\n")]);
    let started = start_in(context, &claude_with(&file), |program| program);
    assert_eq!(started.stdin, "from the repo\n");
    let context = started.context;
    fs_err::create_dir(context.root().join("cases/prompts")).unwrap();
    fs_err::write(
        context.root().join("cases/prompts/task.md"),
        "from beside\n",
    )
    .unwrap();
    let started = start_in(context, &claude_with(&file), |program| program);
    assert_eq!(started.stdin, "from beside\n");
}

/// CR-2.6, FR-009, scenario 2.2: the model is passed on, from either place.
#[test]
fn the_model_is_passed_on() {
    let started = start(&json!({"model": MODEL}));
    assert_eq!(started.flag("--model"), MODEL);
    let case = with(&claude_case(), &json!({"agent": {"model": "opus"}}));
    let started = start_in(context(), &case, |program| program);
    assert_eq!(started.flag("--model"), "opus");
}

/// CR-2.7, FR-008, scenario 2.1: an agent goes over as definition and name.
#[test]
fn an_agent_goes_over_as_definition_and_name() {
    let definition = json!({
        "description": "Reviews code", "prompt": "You review.", "tools": ["Read"], "model": "haiku",
    });
    let started = start(&json!({
        "agent_name": "code-reviewer", "agents": {"code-reviewer": definition},
    }));
    assert_eq!(started.flag("--agent"), "code-reviewer");
    let agents: Value = serde_json::from_str(started.flag("--agents")).unwrap();
    assert_eq!(agents, json!({"code-reviewer": definition}));
}

const REVIEWER: &str =
    "---\nname: code-reviewer\ndescription: Reviews code\ntools: Read, Grep\n---\n\nYou review.\n";

/// CR-2.7: a definition may be a file beside the test case, which is never copied into the diff.
#[test]
fn an_agent_may_be_defined_beside_the_test_case() {
    let context = context();
    let folder = context.root().join("cases/.claude/agents");
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::write(folder.join("code-reviewer.md"), REVIEWER).unwrap();
    let case = with(
        &claude_case(),
        &json!({"agent": {"agent_name": "code-reviewer"}}),
    );
    let started = start_in(context, &case, |program| program);
    assert_eq!(started.flag("--agent"), "code-reviewer");
    let agents: Value = serde_json::from_str(started.flag("--agents")).unwrap();
    let expected = json!({"code-reviewer": {
        "description": "Reviews code", "prompt": "You review.", "tools": ["Read", "Grep"],
    }});
    assert_eq!(agents, expected);
    assert_eq!(started.context.record()["diff"]["files_changed"], 0);
}

/// CR-2.7: or a file in the repo.
#[test]
fn an_agent_may_be_defined_in_the_repo() {
    let context = context();
    context
        .repo()
        .commit("agent", &[(".claude/agents/code-reviewer.md", REVIEWER)]);
    let case = claude_with(&json!({"agent_name": "code-reviewer"}));
    let started = start_in(context, &case, |program| program);
    let agents: Value = serde_json::from_str(started.flag("--agents")).unwrap();
    assert_eq!(agents["code-reviewer"]["prompt"], "You review.");
}

/// An unknown agent is an error that lists the known ones, and leaves nothing behind.
#[test]
fn an_unknown_agent_is_an_error_that_lists_the_known_ones() {
    let context = context();
    install_claude(&context, &session(&[]));
    let agents = json!({"tester": {"description": "d", "prompt": "p"}});
    let case = claude_with(&json!({"agent_name": "code-reviewer", "agents": agents}));
    let output = run(&context, &case);
    output.assert_code(2);
    assert!(
        output.stderr.contains("there is no agent `code-reviewer`"),
        "{output}"
    );
    assert!(output.stderr.contains("tester"), "{output}");
    assert!(context.run_dirs().is_empty());
}

/// CR-2.8, FR-004, scenario 1.2: all output is there, byte for byte.
#[test]
fn a_small_output_is_whole() {
    let context = context();
    install_claude(
        &context,
        &session(&[json!({"flood": {"bytes": 1024, "line_len": 64}})]),
    );
    run(&context, &claude_case()).assert_code(0);
    let raw = fs_err::read(context.artifact("raw/stdout")).unwrap();
    let logs = context.artifact("claude-code-logs");
    let log = logs.read_dir_utf8().unwrap().next().unwrap().unwrap();
    assert_eq!(fs_err::read(log.path()).unwrap(), raw);
    let flooded = raw
        .split(|byte| *byte == b'\n')
        .filter(|line| line.starts_with(b"xx"));
    assert_eq!(flooded.map(|line| line.len() + 1).sum::<usize>(), 1024);
}

/// CR-2.10, FR-018: the CLI works in the workspace.
#[test]
fn the_cli_works_in_the_workspace() {
    let context = context();
    let place = saved(&context, "pwd");
    install_claude(
        &context,
        &session(&[shell(&format!("pwd > {place}; test -f README.md"))]),
    );
    run(&context, &claude_case()).assert_code(0);
    let place = fs_err::read_to_string(place).unwrap();
    assert!(place.trim().ends_with("/src-modified"), "{place}");
    assert!(
        !place.starts_with(context.repo().path().as_str()),
        "{place}"
    );
}

/// CR-2.11: variables of the test case and the API key arrive; nothing else of the host does.
#[test]
fn the_environment_is_an_allow_list() {
    let case = claude_with(&json!({"env": {"MY_FLAG": "on"}, "max_tokens": 4096}));
    let started = start_in(context(), &case, |program| {
        program
            .env("CANARY", "host secret")
            .env("AWS_SECRET_ACCESS_KEY", "host secret")
            .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
            .env("LANG", "C.UTF-8")
    });
    let env = &started.env;
    assert_eq!(env["MY_FLAG"], "on");
    assert_eq!(env["ANTHROPIC_API_KEY"], "sk-ant-fake");
    assert_eq!(env["ANTHROPIC_BASE_URL"], "http://127.0.0.1:9");
    assert_eq!(env["LANG"], "C.UTF-8");
    assert_eq!(env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"], "4096");
    assert_eq!(env["DISABLE_TELEMETRY"], "1");
    assert_eq!(env["DISABLE_AUTOUPDATER"], "1");
    assert!(!env.to_string().contains("host secret"), "{env:#}");
    let key = "sk-ant-fake";
    let folder = started.context.only_run_dir();
    for file in ["record.json", "results.json", "youbencha-log.json"] {
        let text = fs_err::read_to_string(folder.join("artifacts").join(file)).unwrap();
        assert!(!text.contains(key), "the key is in {file}");
    }
}

/// Case 20: a HOME for each trial, with the credentials of the user's login and nothing else.
#[test]
fn the_users_login_comes_in_and_nothing_else_of_home() {
    let context = context();
    let home = context.home().join(".claude");
    fs_err::create_dir_all(&home).unwrap();
    fs_err::write(home.join(".credentials.json"), r#"{"login": 1}"#).unwrap();
    fs_err::write(home.join("settings.json"), "{}").unwrap();
    fs_err::write(home.join("CLAUDE.md"), "be terse").unwrap();
    fs_err::write(context.home().join(".netrc"), "machine x").unwrap();
    let (list, login) = (saved(&context, "list"), saved(&context, "login"));
    let look = format!(
        "cd \"$HOME\" && find . -type f > {list} && cat .claude/.credentials.json > {login}"
    );
    let mut steps = vec![shell(&look)];
    steps.extend(saves(&context));
    install_claude(&context, &session(&steps));
    run_without_key(&context, &claude_case()).assert_code(0);
    let list = fs_err::read_to_string(list).unwrap();
    assert_eq!(list, "./.claude/.credentials.json\n");
    assert_eq!(fs_err::read_to_string(login).unwrap(), r#"{"login": 1}"#);
    let started = started(context);
    let home = started.env["HOME"].as_str().unwrap();
    assert_ne!(home, started.context.home().as_str());
    assert_eq!(started.env["CLAUDE_CONFIG_DIR"], format!("{home}/.claude"));
    assert_eq!(
        started.context.record()["agent"]["credentials"],
        "the CLI's own login"
    );
}

/// An API key in the environment is enough: the login stays out then.
#[test]
fn the_users_login_stays_out_when_there_is_a_key() {
    let context = context();
    let home = context.home().join(".claude");
    fs_err::create_dir_all(&home).unwrap();
    fs_err::write(home.join(".credentials.json"), r#"{"login": 1}"#).unwrap();
    let list = saved(&context, "list");
    let look = shell(&format!("cd \"$HOME\" && find . -type f > {list}"));
    install_claude(&context, &session(&[look]));
    run(&context, &claude_case()).assert_code(0);
    assert_eq!(fs_err::read_to_string(list).unwrap(), "");
    assert_eq!(
        context.record()["agent"]["credentials"],
        "ANTHROPIC_API_KEY"
    );
}

/// `inherit: user` is the user's own HOME and environment, as an explicit choice.
#[test]
fn inherit_user_is_an_explicit_choice() {
    let case = claude_with(&json!({"inherit": "user"}));
    let started = start_in(context(), &case, |program| program.env("CANARY", "mine"));
    assert_eq!(started.env["CANARY"], "mine");
    assert_eq!(started.env["HOME"], started.context.home().as_str());
    assert!(started.env.get("CLAUDE_CONFIG_DIR").is_none());
}

/// CR-2.12, FR-016: the terminal log has its place and a timestamp in its name.
#[test]
fn the_terminal_log_has_its_place() {
    let started = start(&json!({}));
    let logs = started.context.artifact("claude-code-logs");
    let names: Vec<String> = logs
        .read_dir_utf8()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_owned())
        .collect();
    let [name] = names.as_slice() else {
        panic!("{names:?}")
    };
    let stamp = name
        .strip_prefix("terminal-output-")
        .unwrap()
        .strip_suffix(".log")
        .unwrap();
    assert!(stamp.starts_with("20") && stamp.ends_with('Z'), "{stamp}");
}

/// Prompts that shells, option parsers and encodings stumble over.
const NASTY: &str = "-- --model x 'single' \"double\" `touch pwned` $(touch pwned) $HOME ${HOME}\n\\n \\ \ttab; rm -rf * | & > < !\n  ünï 🎉 漢字\r\nend";

/// CR-2.13, FR-021, NFR-3: prompts arrive verbatim in every transport, and nothing is run.
#[test]
fn nasty_prompts_arrive_verbatim_in_every_transport() {
    for transport in ["print", "pty", "text"] {
        let started = start(&json!({"prompt": escaped(NASTY), "transport": transport}));
        assert_eq!(started.stdin, NASTY, "{transport}");
        assert_eq!(started.context.record()["diff"]["files_changed"], 0);
    }
    assert_eq!(prompt_by_control(NASTY), NASTY);
}

/// `${` starts a variable in a test case; `$${` is the way to write it.
fn escaped(prompt: &str) -> String {
    prompt.replace("${", "$${")
}

/// Case 15: 1,000,000 characters arrive in every transport.
#[test]
fn a_million_characters_arrive_in_every_transport() {
    let prompt = "é漢🎉x".repeat(250_000);
    for transport in ["print", "pty", "text"] {
        let started = start(&json!({"prompt": prompt, "transport": transport}));
        assert!(
            started.stdin == prompt,
            "{transport}: {} bytes",
            started.stdin.len()
        );
    }
    assert!(prompt_by_control(&prompt) == prompt);
}

/// A CLI that speaks the control protocol up to its prompt.
fn speaks_control(context: &TestContext, after_prompt: &[Value]) {
    let answer = json!({"line": {"type": "control_response", "response": {
        "subtype": "success", "request_id": "proctor-initialize", "response": {},
    }}});
    let mut steps = vec![
        json!({"save_argv": saved(context, "argv")}),
        json!({"wait_for_stdin_line": {"contains": "initialize"}}),
        answer,
        init(),
    ];
    steps.extend_from_slice(after_prompt);
    steps.extend([says("m-1", "done"), result()]);
    steps.push(json!({"save_stdin": saved(context, "stdin")}));
    install_claude(context, &steps);
}

/// What the CLI gets as prompt over the control protocol.
#[track_caller]
fn prompt_by_control(prompt: &str) -> String {
    let context = context();
    speaks_control(&context, &[]);
    let config = json!({"prompt": escaped(prompt), "transport": "control"});
    run(&context, &claude_with(&config)).assert_code(0);
    let sent = fs_err::read_to_string(saved(&context, "stdin")).unwrap();
    let mut lines = sent.lines();
    let message: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(lines.next(), None, "the prompt goes out once");
    assert_eq!(message["type"], "user");
    message["message"]["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// With `control` the CLI asks, and the policy answers.
#[test]
fn permission_requests_are_answered_by_policy() {
    let ask = json!({"line": {"type": "control_request", "request_id": "r-1", "request": {
        "subtype": "can_use_tool", "tool_name": "Write", "input": {"file_path": "x"},
    }}});
    for (config, answer) in [
        (json!({}), r#""behavior":"allow""#),
        (
            json!({"permission_policy": "allow_all"}),
            r#""behavior":"allow""#,
        ),
        (json!({"permission_policy": "deny"}), r#""behavior":"deny""#),
        (json!({"allowed_tools": ["Read"]}), r#""behavior":"deny""#),
    ] {
        let context = context();
        speaks_control(
            &context,
            &[
                json!({"wait_for_stdin_line": {"contains": "do it"}}),
                ask.clone(),
                json!({"wait_for_stdin_line": {"contains": answer}}),
            ],
        );
        let case = with(
            &claude_with(&json!({"transport": "control"})),
            &json!({"agent": {"config": config}}),
        );
        run(&context, &case).assert_code(0);
        let argv: Vec<String> = serde_json::from_value(saved_json(&context, "argv")).unwrap();
        let has = |flag: &str| argv.iter().any(|arg| arg == flag);
        assert!(
            has("--permission-prompt-tool") && has("--input-format"),
            "{argv:?}"
        );
        assert!(!has("--dangerously-skip-permissions"), "{argv:?}");
    }
}

/// A request that Proctor does not know gets an error for an answer: a CLI that waits hangs.
#[test]
fn an_unknown_control_request_is_answered() {
    let context = context();
    let ask = json!({"line": {"type": "control_request", "request_id": "r-7", "request": {
        "subtype": "hook_callback", "callback_id": "x",
    }}});
    let answered = json!({"wait_for_stdin_line": {"contains": "r-7"}});
    speaks_control(&context, &[ask, answered]);
    let case = claude_with(&json!({"transport": "control"}));
    run(&context, &case).assert_code(0);
}

/// The spellings of Ralph are understood.
#[test]
fn other_spellings_of_the_transport_are_understood() {
    let is_pty = |started: &Started| {
        let raw = fs_err::read(started.context.artifact("raw/stdout")).unwrap();
        raw.windows(2).any(|pair| pair == b"\r\n")
    };
    let started = start(&json!({"pty_mode": true, "output_format": "stream-json"}));
    assert!(is_pty(&started));
    assert_eq!(started.flag("--output-format"), "stream-json");
    assert_eq!(
        started.context.log()["usage"]["output_tokens"],
        40,
        "read through the terminal"
    );
    let started = start(&json!({"output_format": "text"}));
    assert!(!is_pty(&started));
    assert_eq!(started.flag("--output-format"), "text");
    for backend in ["claude", "auto"] {
        let mut case = claude_case();
        case["agent"] = json!({"backend": backend, "config": {"prompt": "do it"}});
        let started = start_in(context(), &case, |program| program);
        assert_eq!(started.context.record()["agent"]["type"], "claude-code");
    }
}

/// Scenarios 5.1 to 5.3: advanced settings become the flags of the real CLI.
#[test]
fn advanced_settings_become_flags() {
    let context = context();
    let servers = context.root().join("cases/mcp.json");
    fs_err::write(&servers, r#"{"mcpServers": {}}"#).unwrap();
    let case = claude_with(&json!({
        "append_system_prompt": "Be brief; `really`.", "system_prompt": "You are $HOME.",
        "max_turns": 7, "mcp_config": "mcp.json", "args": ["--add-dir", "/x y"],
        "include_partial_messages": true,
    }));
    let started = start_in(context, &case, |program| program);
    assert_eq!(
        started.flag("--append-system-prompt"),
        "Be brief; `really`."
    );
    assert_eq!(started.flag("--system-prompt"), "You are $HOME.");
    assert_eq!(started.flag("--max-turns"), "7");
    assert_eq!(started.flag("--mcp-config"), servers.as_str());
    assert!(started.has("--strict-mcp-config"));
    assert!(started.has("--include-partial-messages"));
    assert_eq!(started.flag("--add-dir"), "/x y");
    assert!(started.has("--dangerously-skip-permissions"));
}

/// Scenarios 5.2 and 5.3, case 16: permission settings replace the skipping, and no list
/// swallows what follows it.
#[test]
fn permission_settings_replace_the_skipping() {
    for (mode, flag) in [
        ("plan", "plan"),
        ("auto", "auto"),
        ("ask", "default"),
        ("acceptEdits", "acceptEdits"),
    ] {
        let started = start(&json!({"permission_mode": mode}));
        assert_eq!(started.flag("--permission-mode"), flag);
        assert!(!started.has("--dangerously-skip-permissions"));
    }
    let started = start(&json!({"allowed_tools": ["Read", "Bash(git *)"]}));
    assert_eq!(started.flag("--allowedTools"), "Read,Bash(git *)");
    assert!(!started.has("--dangerously-skip-permissions"));
    assert_eq!(started.stdin, "do it");
}

/// Case 36: a flag that the installed version does not have is an error before the run.
#[test]
fn a_flag_that_the_version_lacks_is_an_error() {
    let context = context();
    let help = HELP.replace(
        "  --agents <json>                   JSON object defining custom agents\n",
        "",
    );
    let mut script = vec![
        json!({"when_args": ["--version"], "steps": [print("2.0.1 (Claude Code)\n")]}),
        json!({"when_args": ["--help"], "steps": [print(&help)]}),
    ];
    script.extend(session(&[]));
    context.install_fake("claude", &Value::Array(script));
    let agents = json!({"zed": {"description": "d", "prompt": "p"}});
    let output = run(&context, &claude_with(&json!({"agents": agents})));
    output.assert_code(2);
    assert!(
        output
            .stderr
            .contains("claude 2.0.1 has no option --agents"),
        "{output}"
    );
    assert!(context.run_dirs().is_empty());
}

/// Over 7,000 characters a prompt may go by file, which is no part of the workspace.
#[test]
fn a_large_prompt_may_go_by_file() {
    let config = |length: usize| json!({"prompt": "p".repeat(length), "prompt_delivery": "file"});
    let started = start(&config(7000));
    assert_eq!(started.stdin.len(), 7000);
    let context = context();
    let copy = saved(&context, "prompt");
    let fetch = format!(
        "cp \"$(grep -o '/[^ ]*prompt.md' {stdin})\" {copy}",
        stdin = saved(&context, "stdin")
    );
    let mut steps = saves(&context);
    steps.push(shell(&fetch));
    install_claude(&context, &session(&steps));
    run(&context, &claude_with(&config(7001))).assert_code(0);
    assert_eq!(fs_err::read_to_string(copy).unwrap(), "p".repeat(7001));
    assert!(started_stdin(&context).len() < 500);
    assert_eq!(context.record()["diff"]["files_changed"], 0);
}

fn started_stdin(context: &TestContext) -> String {
    fs_err::read_to_string(saved(context, "stdin")).unwrap()
}

/// CR-3.2 to CR-3.6: who ran, which model answered, when, what was said.
#[test]
fn the_log_tells_who_ran_and_what_was_said() {
    let context = context();
    let thinking = json!({"line": {"type": "assistant", "message": {
        "id": "m-1", "model": MODEL, "content": [{"type": "thinking", "thinking": "hmm"}],
    }}});
    let call = json!({"line": {"type": "assistant", "message": {
        "id": "m-1", "model": MODEL, "content": [{
            "type": "tool_use", "id": "t-1", "name": "Read", "input": {"file_path": "a.rs"},
        }],
    }}});
    let answer = json!({"line": {"type": "user", "message": {"role": "user", "content": [{
        "type": "tool_result", "tool_use_id": "t-1", "content": "fn main() {}", "is_error": false,
    }]}}});
    install_claude(&context, &session(&[thinking, call, answer]));
    run(&context, &claude_case()).assert_code(0);
    let (log, record) = (context.log(), context.record());
    assert_eq!(log["agent_info"]["name"], "claude-code");
    assert_eq!(log["agent_info"]["version"], VERSION);
    assert_eq!(
        log["agent_info"]["adapter_version"],
        record["agent"]["adapter_version"]
    );
    assert_eq!(log["model_info"]["name"], MODEL);
    assert_eq!(log["model_info"]["provider"], "anthropic");
    assert_eq!(log["execution"]["session_id"], "s-1");
    assert_eq!(log["execution"]["turns"], 1);
    let said: Vec<(&str, &str)> = log["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            (
                message["role"].as_str().unwrap(),
                message["content"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(said, [("assistant", "hmm"), ("assistant", "done")]);
    let call = &log["tool_calls"][0];
    assert_eq!(call["name"], "Read");
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"file_path": "a.rs"}));
    assert_eq!(call["result"], "fn main() {}");
    assert_eq!(call["is_error"], false);
}

/// CR-3.4: a model that no output names is the one that was asked for.
#[test]
fn the_model_falls_back_to_the_one_asked_for() {
    let context = context();
    install_claude(&context, &[json!({"exit": 1})]);
    run(&context, &claude_with(&json!({"model": "claude-opus-4-8"}))).assert_code(1);
    assert_eq!(context.log()["model_info"]["name"], "claude-opus-4-8");
}

/// CR-3.7 to CR-3.9: the forms of a plain-text transcript, without colours.
#[test]
fn a_plain_text_transcript_is_read() {
    let context = context();
    let text = "\u{1b}[1mClaude Code v2.1.30\u{1b}[0m\nModel: claude-sonnet-4-5\n\u{1b}[32mHello\u{1b}[0m\n[TOOL: read_file] path/to/file\nInput tokens: 1234\nOutput tokens: 5678\n";
    install_claude(&context, &[print(text)]);
    run(&context, &claude_with(&json!({"transport": "text"}))).assert_code(0);
    let log = context.log();
    assert_eq!(log["agent_info"]["version"], "2.1.30");
    assert_eq!(log["model_info"]["name"], "claude-sonnet-4-5");
    assert_eq!(log["tool_calls"][0]["name"], "read_file");
    assert_eq!(log["tool_calls"][0]["arguments"], "path/to/file");
    assert_eq!(log["usage"]["input_tokens"], 1234);
    assert_eq!(log["usage"]["output_tokens"], 5678);
    assert_eq!(log["usage"]["total_tokens"], 6912);
    assert_eq!(log["usage"]["source"], "text");
    let said = log["messages"].to_string();
    assert!(
        said.contains("Hello") && !said.contains("\\u001b"),
        "{said}"
    );
}

/// CR-4.1, SC-001: the whole way, by the name that youBencha's users type.
#[test]
fn the_whole_evaluation_runs_as_yb() {
    let context = context();
    install_claude(&context, &session(&[write("README.md", "# Better\n")]));
    let yb = context.bin().join("yb");
    fs_err::os::unix::fs::symlink(env!("CARGO_BIN_EXE_proctor"), &yb).unwrap();
    let yaml = "name: Add a README\ndescription: The agent adds a README file\nrepo: ../repo\nbranch: main\nagent:\n  type: claude-code\n  config:\n    prompt: Add a README file\nevaluators:\n  - git-diff\n  - name: command\n    config: {command: grep -q Better README.md}\n";
    let path = context.testcase(yaml);
    let program = context.program(&yb, ["run", "-c", path.as_str()]);
    let output = program.env("ANTHROPIC_API_KEY", "sk-ant-fake").run();
    output.assert_code(0);
    let results = context.results();
    assert_eq!(results["agent"]["status"], "success");
    assert_eq!(results["agent"]["youbencha_log_path"], "youbencha-log.json");
    assert_eq!(results["summary"]["passed"], 2);
    assert_eq!(results["summary"]["overall_status"], "passed");
    assert_eq!(context.log()["agent_info"]["name"], "claude-code");
}
