//! Qwen Code, Alibaba's: a fork of Gemini CLI with events like Claude Code's.

mod session;
#[cfg(test)]
mod tests;

use proctor_record::record::cli::Cli;
use serde_json::json;

use self::session::QwenReader;
use super::{
    cli::{
        Arg, CliAdapter, CliAgent, CliContestant, CommandPrompts, Login, ModelName, Prompt, Start,
        TaskTools, cli,
    },
    gemini_cli::{APPEND_SYSTEM_PROMPT, MAX_TURNS, SYSTEM_PROMPT, quiet_settings},
    reader::CliSession,
    setting::{Setting, SettingKind},
};
use crate::agent::{Authentication, Input, Launch, LaunchContext, LaunchError};

pub(super) static QWEN: CliAdapter = CliAdapter(&CliAgent {
    name: "qwen-code",
    title: "Qwen Code",
    code: "QWEN",
    summary: "Qwen Code, Alibaba's CLI",
    provider: "alibaba",
    cli: Cli {
        install_hint: "install it with: npm install -g @qwen-code/qwen-code (requires Node 22)",
        login_hint: "set the API key in OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, and the matching `auth_type`",
        credential_env: &[
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "GEMINI_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
        ],
        ..cli!("QWEN", "qwen", npm "@qwen-code/qwen-code")
    },
    login: Login {
        keys: &["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"],
        otherwise: Authentication::Missing,
    },
    skills: Some(".qwen/skills"),
    task_tools: TaskTools::NONE,
    settings: &[
        Setting::new(
            AUTH_TYPE,
            SettingKind::OneOf(&["openai", "openai-responses", "anthropic", "gemini"]),
            "The API of the model: `openai` is chat completions, which most providers have.",
        )
        .or("openai")
        .flag("--auth-type"),
        Setting::new(
            "model",
            SettingKind::Text,
            "The model, such as `qwen3-coder-plus`.",
        )
        .flag("--model"),
        SYSTEM_PROMPT.flag("--system-prompt"),
        APPEND_SYSTEM_PROMPT.flag("--append-system-prompt"),
        MAX_TURNS.flag("--max-session-turns"),
    ],
    instead: &[("mcp_config", "use `args: [--mcp-config, FILE]`")],
    model: ModelName::Plain,
    model_variable: Some("OPENAI_MODEL"),
    start: Start {
        args: &[
            // Without it no files are written, and the exit code is 0 nevertheless.
            Arg::Always(&["--yolo"]),
            Arg::Listed("--output-format", "stream-json"),
            // Text on standard input is trimmed; a message is not.
            Arg::Listed("--input-format", "stream-json"),
        ],
        last_args: &[],
        env: &[
            ("QWEN_TELEMETRY_ENABLED", "false"),
            ("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1"),
        ],
        collect: &[],
        prompt: Prompt::Setup,
        commands: CommandPrompts::StartingWith(&['/']),
        setup,
    },
    session: CliSession::<QwenReader>::start,
});

const AUTH_TYPE: &str = "auth_type";

/// Configures the gateway, the settings file, and the prompt as the only message.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all rows")]
fn setup(
    agent: &CliContestant,
    context: &LaunchContext<'_>,
    launch: &mut Launch,
) -> Result<(), LaunchError> {
    if let Some(endpoint) = context.endpoint {
        let (url, key, path) = match agent.values.text(AUTH_TYPE) {
            Some("anthropic") => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", ""),
            Some("gemini") => ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", ""),
            _ => ("OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"),
        };
        let base_url = format!("{}{path}", endpoint.base_url);
        launch.env.insert(url.to_owned(), base_url);
        launch.env.insert(key.to_owned(), endpoint.key.clone());
    }
    let message = json!({
        "type": "user",
        "session_id": "",
        "parent_tool_use_id": null,
        "message": { "role": "user", "content": [{ "type": "text", "text": context.prompt }] },
    });
    launch.input = Input::Bytes((message.to_string() + "\n").into_bytes());
    let settings = context.home.join(".qwen/settings.json");
    let quiet = quiet_settings().to_string().into_bytes();
    launch.files.push((settings, quiet));
    Ok(())
}
