//! Gemini CLI, Google's: JSON events on standard output. Qwen Code is a fork and shares some code.

mod session;
#[cfg(test)]
mod tests;

use proctor_record::record::cli::Cli;
use serde_json::{Value, json};

use self::session::GeminiReader;
pub(super) use self::session::fault;
use super::{
    cli::{
        Arg, CliAdapter, CliAgent, CliContestant, CommandPrompts, Login, ModelName, Prompt, Start,
        TaskTools, cli, key_in,
    },
    reader::CliSession,
    setting::{Setting, SettingKind},
};
use crate::agent::{Authentication, Launch, LaunchContext, LaunchError};

const KEY: &str = "GEMINI_API_KEY";
const URL: &str = "GOOGLE_GEMINI_BASE_URL";

pub(super) static GEMINI: CliAdapter = CliAdapter(&CliAgent {
    name: "gemini-cli",
    title: "Gemini CLI",
    code: "GEMINI",
    summary: "Gemini CLI, Google's",
    provider: "google",
    cli: Cli {
        login_hint: "set the API key in GEMINI_API_KEY, or run `gemini` and log in",
        credential_env: &[KEY, URL],
        credential_files: &[".gemini/oauth_creds.json", ".gemini/google_accounts.json"],
        ..cli!("GEMINI", "gemini", npm "@google/gemini-cli")
    },
    login: Login {
        keys: &[KEY],
        otherwise: Authentication::Unknown,
    },
    skills: Some(".gemini/skills"),
    task_tools: TaskTools {
        mcp_types: &["stdio", "http", "sse"],
        skills: Some(".gemini/skills"),
    },
    settings: &[
        Setting::new(
            "model",
            SettingKind::Text,
            "The model, such as `gemini-2.5-pro`. Default: the CLI selects one for each call.",
        )
        .flag("--model"),
        APPEND_SYSTEM_PROMPT,
        SYSTEM_PROMPT,
        MAX_TURNS,
    ],
    instead: &[(
        "mcp_config",
        "add `mcpServers` to `.gemini/settings.json` of the repo",
    )],
    model: ModelName::Plain,
    model_variable: Some("GEMINI_MODEL"),
    start: Start {
        args: &[
            // Without it the tools that write files are disabled.
            Arg::Always(&["--yolo"]),
            Arg::IfListed(&["--skip-trust"]),
            Arg::Listed("--output-format", "stream-json"),
        ],
        last_args: &[],
        // The same as --skip-trust, for versions without that flag.
        env: &[("GEMINI_CLI_TRUST_WORKSPACE", "true")],
        collect: &[],
        prompt: Prompt::Stdin,
        commands: CommandPrompts::Words,
        setup,
    },
    session: CliSession::<GeminiReader>::start,
});

pub(super) const APPEND_SYSTEM_PROMPT: Setting = Setting::new(
    "append_system_prompt",
    SettingKind::TextUpTo(10_000),
    "Text added to the system prompt.",
);
pub(super) const SYSTEM_PROMPT: Setting = Setting::new(
    "system_prompt",
    SettingKind::TextUpTo(50_000),
    "Text that replaces the system prompt.",
);
pub(super) const MAX_TURNS: Setting = Setting::new(
    "max_turns",
    SettingKind::Count,
    "The maximum number of turns.",
);

/// Configures the gateway, and writes the settings files.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all rows")]
fn setup(
    agent: &CliContestant,
    context: &LaunchContext<'_>,
    launch: &mut Launch,
) -> Result<(), LaunchError> {
    let folder = context.home.join(".gemini");
    let env = &mut launch.env;
    if let Some(endpoint) = context.endpoint {
        env.insert(KEY.to_owned(), endpoint.key.clone());
        env.insert(URL.to_owned(), endpoint.base_url.clone());
    }
    let mut settings = quiet_settings();
    // The CLI requires an explicit choice.
    let auth = match key_in(env, &[KEY]) {
        Some(_) => "gemini-api-key",
        None => "oauth-personal",
    };
    settings["security"] = json!({ "auth": { "selectedType": auth } });
    if let Some(turns) = agent.values.get("max_turns") {
        settings["model"] = json!({ "maxSessionTurns": turns });
    }
    if !context.mcp_servers.is_empty() {
        settings["mcpServers"] = json!(context.mcp_servers);
    }
    let settings = settings.to_string().into_bytes();
    launch.files.push((folder.join("settings.json"), settings));
    if let Some(text) = agent.values.text("append_system_prompt") {
        // The CLI appends this file to its own instructions.
        let file = folder.join("GEMINI.md");
        launch.files.push((file, text.as_bytes().to_vec()));
    }
    if let Some(text) = agent.values.text("system_prompt") {
        let file = context.scratch.join("system.md");
        env.entry("GEMINI_SYSTEM_MD".to_owned())
            .or_insert_with(|| file.to_string());
        launch.files.push((file, text.as_bytes().to_vec()));
    }
    Ok(())
}

/// Settings with which data is sent only to the models, without updates.
pub(super) fn quiet_settings() -> Value {
    json!({
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
    })
}
