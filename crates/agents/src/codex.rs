//! Codex, `OpenAI`'s CLI: `codex exec` with JSON lines on standard output.

mod session;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use proctor_record::record::cli::Cli;
use serde_json::{Value, json};

use self::session::CodexReader;
use super::{
    cli::{
        Arg, CliAdapter, CliAgent, CliContestant, CommandPrompts, Login, ModelName, Prompt, Start,
        TaskTools, cli,
    },
    reader::CliSession,
    setting::{Setting, SettingKind},
};
use crate::agent::{Authentication, Launch, LaunchContext, LaunchError};

/// The variable with the key of `codex exec`. It does not read `OPENAI_API_KEY`.
const KEY: &str = "CODEX_API_KEY";
const OPENAI_KEY: &str = "OPENAI_API_KEY";
const OPENAI_URL: &str = "OPENAI_BASE_URL";

pub(super) static CODEX: CliAdapter = CliAdapter(&CliAgent {
    name: "codex",
    title: "Codex",
    code: "CODEX",
    summary: "Codex, OpenAI's CLI",
    provider: "openai",
    cli: Cli {
        help_args: &["exec", "--help"],
        login_hint: "set the API key in CODEX_API_KEY or OPENAI_API_KEY, or log in with: codex login",
        credential_env: &[KEY, OPENAI_KEY, OPENAI_URL],
        credential_files: &[".codex/auth.json"],
        probe_limit: std::time::Duration::from_secs(10),
        ..cli!("CODEX", "codex", npm "@openai/codex")
    },
    login: Login {
        keys: &[KEY, OPENAI_KEY],
        otherwise: Authentication::Unknown,
    },
    skills: Some(".agents/skills"),
    task_tools: TaskTools {
        mcp_types: &["stdio", "http"],
        skills: Some(".codex/skills"),
    },
    settings: &[
        Setting::new("model", SettingKind::Text, "The model, such as `gpt-5.5`.").flag("--model"),
        Setting::new(
            "reasoning_effort",
            SettingKind::OneOf(&["none", "minimal", "low", "medium", "high", "xhigh"]),
            "The reasoning effort. Each model accepts some of the values.",
        )
        .parameter(),
        Setting::new(
            "append_system_prompt",
            SettingKind::TextUpTo(10_000),
            "Instructions in addition to Codex's own.",
        ),
    ],
    instead: &[
        (
            "mcp_config",
            "use `args`, such as `[-c, 'mcp_servers.NAME={command=\"…\"}']`",
        ),
        (
            "system_prompt",
            "use `append_system_prompt`: Codex keeps its own instructions",
        ),
        (
            "temperature",
            "remove it; Codex has `reasoning_effort` instead",
        ),
    ],
    model: ModelName::Plain,
    model_variable: None,
    start: Start {
        args: &[
            // Without the last flag the sandbox is read-only, and a run without changes exits with 0.
            Arg::Always(&[
                "exec",
                "--json",
                "--dangerously-bypass-approvals-and-sandbox",
            ]),
            Arg::IfListed(&["--skip-git-repo-check"]),
            Arg::IfListed(&["--ephemeral"]),
        ],
        // The prompt comes on standard input.
        last_args: &["-"],
        env: &[("CODEX_HOME", "{home}/.codex")],
        collect: &[],
        prompt: Prompt::Stdin,
        commands: CommandPrompts::None,
        setup,
    },
    session: CliSession::<CodexReader>::start,
});

/// Sets the key, and writes a `config.toml` with which data is sent only to the models.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all rows")]
fn setup(
    agent: &CliContestant,
    context: &LaunchContext<'_>,
    launch: &mut Launch,
) -> Result<(), LaunchError> {
    let env = &mut launch.env;
    if let Some(endpoint) = context.endpoint {
        env.insert(KEY.to_owned(), endpoint.key.clone());
    } else if let (None, Some(key)) = (env.get(KEY), env.get(OPENAI_KEY).cloned()) {
        env.insert(KEY.to_owned(), key);
    }
    // The CLI does not read `OPENAI_BASE_URL`.
    let base_url = match context.endpoint {
        Some(endpoint) => Some(format!("{}/v1", endpoint.base_url)),
        None => env.get(OPENAI_URL).filter(|url| !url.is_empty()).cloned(),
    };
    let mut toml = vec!["check_for_update_on_startup = false".to_owned()];
    if let Some(text) = agent.values.text("append_system_prompt") {
        toml.push(format!("developer_instructions = {}", quoted(text)));
    }
    if let Some(effort) = agent.values.get("reasoning_effort") {
        toml.push(format!("model_reasoning_effort = {effort}"));
    }
    if base_url.is_some() {
        toml.push("model_provider = \"proctor\"".to_owned());
    }
    for table in ["analytics", "feedback"] {
        toml.push(format!("[{table}]\nenabled = false"));
    }
    toml.push("[history]\npersistence = \"none\"".to_owned());
    if let Some(base_url) = base_url {
        // A custom provider, because the built-in one tries a WebSocket first.
        toml.push(format!(
            "[model_providers.proctor]\nname = \"proctor\"\nbase_url = {}\nenv_key = \"{KEY}\"\nwire_api = \"responses\"",
            quoted(&base_url)
        ));
    }
    let servers = context.mcp_servers.iter();
    toml.extend(servers.map(|(name, server)| mcp_table(name, server)));
    let text = toml.join("\n") + "\n";
    let file = context.home.join(".codex/config.toml");
    launch.files.push((file, text.into_bytes()));
    Ok(())
}

/// The table of an MCP server. A required one that does not start ends the run with an error.
fn mcp_table(name: &str, server: &Value) -> String {
    let mut table = format!("[mcp_servers.{}]\nrequired = true", quoted(name));
    for key in ["command", "url"] {
        if let Some(text) = server.get(key).and_then(Value::as_str) {
            let _ = write!(table, "\n{key} = {}", quoted(text));
        }
    }
    if let Some(args) = server.get("args").and_then(Value::as_array) {
        let args = args.iter().filter_map(Value::as_str).map(quoted);
        let _ = write!(table, "\nargs = [{}]", args.collect::<Vec<_>>().join(", "));
    }
    if let Some(headers) = server.get("headers").and_then(Value::as_object) {
        let text = |(name, value): (&String, &Value)| {
            Some(format!("{} = {}", quoted(name), quoted(value.as_str()?)))
        };
        let headers: Vec<String> = headers.iter().filter_map(text).collect();
        let _ = write!(table, "\nhttp_headers = {{ {} }}", headers.join(", "));
    }
    table
}

/// A TOML string. TOML has the escapes of JSON, and one more.
fn quoted(text: &str) -> String {
    json!(text).to_string().replace('\u{7f}', "\\u007f")
}
