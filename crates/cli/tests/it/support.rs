//! Test helpers: a fake `claude`, its events, and test cases.

use camino::Utf8PathBuf;
use proctor_testkit::{Output, Program, TestContext};
use serde_json::{Value, json};

/// The version that the fake `claude` tells.
pub const VERSION: &str = "2.1.197";
/// The model that answers in the fake's events.
pub const MODEL: &str = "claude-sonnet-4-5-20250929";
/// The options that the fake's `--help` lists, as the real one does.
pub const HELP: &str = r#"Usage: claude [options] [command] [prompt]

Options:
  --agent <agent>                   Agent for the current session
  --agents <json>                   JSON object defining custom agents
  --allowedTools, --allowed-tools <tools...>
  --append-system-prompt <prompt>   Append a system prompt
  --dangerously-skip-permissions    Bypass all permission checks
  --include-partial-messages        Include partial message chunks
  --input-format <format>           Input format
  --mcp-config <configs...>         Load MCP servers
  --model <model>                   Model for the current session
  --output-format <format>          Output format
  --permission-mode <mode>          Permission mode (choices: "acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")
  --strict-mcp-config               Only use MCP servers from --mcp-config
  --system-prompt <prompt>          System prompt
  --verbose                         Verbose output
  -p, --print                       Print response and exit

Commands:
  auth                              Manage authentication
  mcp                               Configure MCP servers
"#;

/// A context for the binary under test.
pub fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_proctor"))
}

/// Puts a fake `claude` on the path that answers what Proctor asks it about itself and plays
/// these steps when it is given a task.
#[track_caller]
pub fn install_claude(context: &TestContext, steps: &[Value]) {
    let logged_in = json!({"loggedIn": true, "authMethod": "api_key"});
    install_claude_that(context, &logged_in.to_string(), steps);
}

/// The same, with these words for `auth status`.
#[track_caller]
pub fn install_claude_that(context: &TestContext, auth_status: &str, steps: &[Value]) {
    let says = |args: Value, text: &str| json!({"when_args": args, "steps": [print(text)]});
    let mut script = vec![
        says(json!(["--version"]), &format!("{VERSION} (Claude Code)\n")),
        says(json!(["--help"]), HELP),
        says(json!(["auth", "status"]), auth_status),
    ];
    script.extend_from_slice(steps);
    context.install_fake("claude", &Value::Array(script));
}

/// The step that writes this text to stdout.
pub fn print(text: &str) -> Value {
    json!({"print": {"text": text}})
}

/// The step that writes a file into the workspace.
pub fn write(path: &str, text: &str) -> Value {
    json!({"write_file": {"path": path, "text": text}})
}

/// The step that runs a shell command.
pub fn shell(line: &str) -> Value {
    json!({"run": {"argv": ["sh", "-ec", line]}})
}

/// The first event of a session, as a step.
pub fn init() -> Value {
    json!({"line": {
        "type": "system", "subtype": "init", "session_id": "s-1", "model": MODEL,
        "claude_code_version": VERSION, "tools": [], "permissionMode": "bypassPermissions",
    }})
}

/// An assistant's message of this id, as a step.
pub fn says(id: &str, text: &str) -> Value {
    says_as(MODEL, id, text)
}

/// The same, by this model.
pub fn says_as(model: &str, id: &str, text: &str) -> Value {
    json!({"line": {
        "type": "assistant", "session_id": "s-1", "parent_tool_use_id": null,
        "message": {
            "id": id, "role": "assistant", "model": model,
            "content": [{"type": "text", "text": text}],
            "usage": {
                "input_tokens": 10, "output_tokens": 2,
                "cache_read_input_tokens": 100, "cache_creation_input_tokens": 30,
            },
        },
    }})
}

/// The result event of a session that went well.
pub fn result_event() -> Value {
    json!({
        "type": "result", "subtype": "success", "is_error": false, "session_id": "s-1",
        "duration_ms": 5, "num_turns": 1, "result": "done", "total_cost_usd": 0.0153,
        "usage": {
            "input_tokens": 10, "output_tokens": 40,
            "cache_read_input_tokens": 100, "cache_creation_input_tokens": 30,
        },
        "modelUsage": {MODEL: {
            "inputTokens": 10, "outputTokens": 40, "cacheReadInputTokens": 100,
            "cacheCreationInputTokens": 30, "costUSD": 0.0153,
        }},
    })
}

/// The step that ends a session well.
pub fn result() -> Value {
    json!({"line": result_event()})
}

/// The step that ends a session with a result that differs in these fields.
pub fn result_with(fields: &Value) -> Value {
    let mut event = result_event();
    merge(&mut event, fields);
    json!({"line": event})
}

/// Steps between the start and the good end of a session.
pub fn session(steps: &[Value]) -> Vec<Value> {
    let mut all = vec![init()];
    all.extend_from_slice(steps);
    all.extend([says("m-1", "done"), result()]);
    all
}

/// A test case for Claude Code on the context's repository.
pub fn claude_case() -> Value {
    json!({
        "name": "case", "description": "a test case", "repo": "../repo",
        "agent": {"type": "claude-code", "config": {"prompt": "do it"}},
        "evaluators": ["git-diff"],
    })
}

/// A test case for the program of this name as agent.
pub fn command_case(program: &str) -> Value {
    let config = json!({"command": [program], "prompt": "do it"});
    let mut case = claude_case();
    case["agent"] = json!({"type": "command", "config": config});
    case
}

/// `case` with these fields: maps are merged, null removes, everything else replaces.
pub fn with(case: &Value, fields: &Value) -> Value {
    let mut case = case.clone();
    merge(&mut case, fields);
    case
}

/// The Claude Code case with these fields in `agent.config`.
pub fn claude_with(config: &Value) -> Value {
    with(&claude_case(), &json!({"agent": {"config": config}}))
}

fn merge(into: &mut Value, fields: &Value) {
    match (into, fields) {
        (Value::Object(into), Value::Object(fields)) => {
            for (key, value) in fields {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (into, fields) => *into = fields.clone(),
    }
}

/// Writes the test case and returns its path.
pub fn write_case(context: &TestContext, case: &Value) -> Utf8PathBuf {
    let path = context.root().join("cases/testcase.json");
    fs_err::write(&path, case.to_string()).unwrap();
    path
}

/// `proctor run` on this test case, with an API key in the environment.
pub fn proctor_run(context: &TestContext, case: &Value) -> Program {
    let path = write_case(context, case);
    context
        .proctor(["run", "-c", path.as_str()])
        .env("ANTHROPIC_API_KEY", "sk-ant-fake")
}

/// Runs this test case to its end.
pub fn run(context: &TestContext, case: &Value) -> Output {
    proctor_run(context, case).run()
}

/// Runs this test case without any credentials in the environment.
pub fn run_without_key(context: &TestContext, case: &Value) -> Output {
    let path = write_case(context, case);
    context.proctor(["run", "-c", path.as_str()]).run()
}

/// A file that a fake may save something in, outside its workspace.
pub fn saved(context: &TestContext, name: &str) -> Utf8PathBuf {
    context.root().join("output").join(name)
}

/// The JSON that a fake saved there.
#[track_caller]
pub fn saved_json(context: &TestContext, name: &str) -> Value {
    let text = fs_err::read_to_string(saved(context, name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// An artifact of the run that ended last.
#[track_caller]
pub fn last_artifact(context: &TestContext, name: &str) -> Utf8PathBuf {
    let ended = |run: &Utf8PathBuf| run.join("artifacts/record.json").metadata()?.modified();
    let runs = context.run_dirs();
    let last = runs.iter().max_by_key(|run| ended(run).unwrap());
    last.expect("there was a run").join("artifacts").join(name)
}

/// The record of the run that ended last.
#[track_caller]
pub fn last_record(context: &TestContext) -> Value {
    let bytes = fs_err::read(last_artifact(context, "record.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// The codes of the errors in a record or log.
pub fn codes(document: &Value) -> Vec<&str> {
    let errors = document["errors"].as_array().unwrap();
    errors
        .iter()
        .filter_map(|error| error["code"].as_str())
        .collect()
}

/// The messages of the errors in a record or log, in one string.
pub fn messages(document: &Value) -> String {
    let errors = document["errors"].as_array().unwrap();
    let messages: Vec<&str> = errors
        .iter()
        .filter_map(|error| error["message"].as_str())
        .collect();
    messages.join("\n")
}

/// A schema that `proctor schema` prints.
pub struct Schema(jsonschema::Validator);

/// The schema of this name.
#[track_caller]
pub fn schema(context: &TestContext, name: &str) -> Schema {
    let output = context.proctor(["schema", name]).run();
    output.assert_code(0);
    let schema: Value = serde_json::from_str(&output.stdout).unwrap();
    Schema(jsonschema::validator_for(&schema).unwrap())
}

impl Schema {
    /// Whether the document fits.
    pub fn is_valid(&self, document: &Value) -> bool {
        self.0.is_valid(document)
    }

    /// Panics with all that does not fit.
    #[track_caller]
    pub fn assert_valid(&self, document: &Value) {
        let errors: Vec<String> = self
            .0
            .iter_errors(document)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:#?}\n{document:#}");
    }
}

/// The program's output, without values that differ between runs and machines.
pub fn shown(context: &TestContext, text: &str) -> String {
    let text = text.replace(context.root().as_str(), "[ROOT]");
    let masked = text.split_inclusive('\n').map(|line| {
        // The folder of a trial is named after the time.
        match line.split_once("/tmp/proctor-") {
            Some((before, rest)) => {
                let after = rest.split_once('/').map_or("", |(_, after)| after);
                format!("{before}/tmp/[AREA]/{after}")
            }
            None => line.to_owned(),
        }
    });
    masked.collect()
}
