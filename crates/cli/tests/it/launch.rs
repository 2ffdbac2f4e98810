//! How Claude Code is started: with which flags of the real CLI, as which agent, in which
//! environment. The fake saves its arguments, environment and standard input.

use proctor_testkit::{Program, TestContext};
use serde_json::{Value, json};

use crate::support::{
    HELP, MODEL, claude_case, claude_with, context, install_claude, print, proctor_run, run,
    run_without_key, saved, saved_json, session, shell, with,
};

/// The arguments of the fake `claude`.
pub struct Started {
    pub context: TestContext,
    pub argv: Vec<String>,
    pub env: Value,
    pub stdin: String,
}

impl Started {
    /// The value after a flag.
    #[track_caller]
    pub fn flag(&self, name: &str) -> &str {
        let at = self.argv.iter().position(|arg| arg == name);
        let at = at.unwrap_or_else(|| panic!("no {name} in {:?}", self.argv));
        &self.argv[at + 1]
    }

    pub fn has(&self, flag: &str) -> bool {
        self.argv.iter().any(|arg| arg == flag)
    }
}

/// The steps that save what the fake was started with.
pub fn saves(context: &TestContext) -> Vec<Value> {
    vec![
        json!({"save_argv": saved(context, "argv")}),
        json!({"save_env": saved(context, "env")}),
        json!({"save_stdin": saved(context, "stdin")}),
    ]
}

pub fn started(context: TestContext) -> Started {
    Started {
        argv: serde_json::from_value(saved_json(&context, "argv")).unwrap(),
        env: saved_json(&context, "env"),
        stdin: fs_err::read_to_string(saved(&context, "stdin")).unwrap(),
        context,
    }
}

/// Runs a case with a fake that saves what it was started with.
#[track_caller]
pub fn start_in(
    context: TestContext,
    case: &Value,
    change: impl Fn(Program) -> Program,
) -> Started {
    install_claude(&context, &session(&saves(&context)));
    change(proctor_run(&context, case)).run().assert_code(0);
    started(context)
}

/// Runs the case with these settings in `agent.config`.
#[track_caller]
pub fn start(config: &Value) -> Started {
    start_in(context(), &claude_with(config), |program| program)
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
fn custom_agent_is_passed_as_definition_and_name() {
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
fn custom_agent_can_be_defined_next_to_the_test_case() {
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
        output.stderr.contains("unknown agent `code-reviewer`"),
        "{output}"
    );
    assert!(output.stderr.contains("tester"), "{output}");
    assert!(context.run_dirs().is_empty());
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
fn only_the_login_is_taken_from_home() {
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

/// Seed 003: with Ralph's key the CLI runs on a terminal regardless of `pty_mode`, and a large prompt
/// goes through a file.
#[test]
fn backend_claude_uses_a_terminal_and_a_file_for_large_prompts() {
    let prompt = "x".repeat(7_001);
    for (pty_mode, prompt, is_file) in [
        (json!(false), "do it", false),
        (json!(null), "do it", false),
        (json!(false), prompt.as_str(), true),
    ] {
        let mut case = claude_case();
        let config = json!({"prompt": prompt, "pty_mode": pty_mode});
        case["agent"] = json!({"backend": "claude", "config": config});
        if pty_mode.is_null() {
            case["agent"]["config"]
                .as_object_mut()
                .unwrap()
                .remove("pty_mode");
        }
        let started = start_in(context(), &case, |program| program);
        let raw = fs_err::read(started.context.artifact("raw/stdout")).unwrap();
        assert!(raw.windows(2).any(|pair| pair == b"\r\n"), "not a terminal");
        assert_eq!(started.stdin.contains("holds your task"), is_file);
        assert_eq!(started.stdin.len() < 1_000, prompt.len() < 1_000 || is_file);
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
