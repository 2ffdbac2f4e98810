//! Gemini CLI, Google's: what the user may set, and how it is run. `session` reads its events.
//! Qwen Code began as a copy of it and shares what is still the same.

mod session;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::session::GeminiSession;
pub(super) use self::session::fault;
use super::options::{self, CommandLine, Common};
use crate::{
    agent::{
        Adapter, Agent, AgentSection, Authentication, Input, Launch, LaunchContext, LaunchError,
        PromptSource, Terminal,
    },
    record::cli::{AuthCheck, Cli, Registry},
    session::Session,
};
use proctor_document::Fault;

/// The adapter.
pub struct GeminiCli;

const KEY: &str = "GEMINI_API_KEY";
const URL: &str = "GOOGLE_GEMINI_BASE_URL";

static CLI: Cli = Cli {
    program: "gemini",
    package: Registry::Npm("@google/gemini-cli"),
    version_args: &["--version"],
    help_args: &["--help"],
    auth_args: &[],
    install_hint: "install it with: npm install -g @google/gemini-cli",
    login_hint: "set the API key in GEMINI_API_KEY, or run `gemini` and log in",
    credential_env: &[KEY, URL],
    credential_files: &[".gemini/oauth_creds.json", ".gemini/google_accounts.json"],
    shared_caches: &[],
    // It loads itself for two seconds, and for longer on a busy machine.
    probe_limit: Duration::from_mins(1),
    not_found_code: "GEMINI_CLI_NOT_FOUND",
    auth_code: "GEMINI_AUTH_FAILED",
    timeout_code: "GEMINI_TIMEOUT",
    truncated_code: "GEMINI_OUTPUT_TRUNCATED",
};

const INVALID: &str = "GEMINI_INVALID_CONFIG";

/// Options that it shares with other agents.
const TAKEN: &[&str] = &["append_system_prompt", "max_turns", "system_prompt"];

/// What it has instead of other agents' options.
const INSTEAD: &[(&str, &str)] = &[(
    "mcp_config",
    "put `mcpServers` into `.gemini/settings.json` of the repo",
)];

/// `agent.config`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "GeminiCliConfig")]
struct Settings {
    /// What is asked: this or `prompt_file`.
    #[schemars(length(min = 1, max = 1_000_000))]
    prompt: Option<String>,
    /// A file with what is asked, beside the test case or in the repo.
    #[schemars(length(max = 500))]
    prompt_file: Option<String>,
    /// The model, such as `gemini-2.5-pro`. Without one the CLI chooses for each call.
    model: Option<String>,
    /// Text added to the system prompt.
    #[schemars(length(max = 10_000))]
    append_system_prompt: Option<String>,
    /// Text in place of the system prompt.
    #[schemars(length(max = 50_000))]
    system_prompt: Option<String>,
    /// The most turns.
    #[schemars(range(min = 1))]
    max_turns: Option<u32>,
    /// More arguments for the CLI.
    args: Vec<String>,
    /// More environment for the CLI.
    env: BTreeMap<String, String>,
}

impl Adapter for GeminiCli {
    fn name(&self) -> &'static str {
        "gemini-cli"
    }

    fn summary(&self) -> &'static str {
        "Gemini CLI, Google's"
    }

    fn cli(&self) -> Option<&'static Cli> {
        Some(&CLI)
    }

    fn provider(&self) -> &'static str {
        "google"
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Settings>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let settings: Settings = options::read(section, "Gemini CLI", INSTEAD, TAKEN)?;
        if settings.max_turns == Some(0) {
            let fault = section
                .config
                .fault("max_turns", "`max_turns` is at least 1");
            return Err(vec![fault]);
        }
        let common = options::common(
            section,
            settings.prompt.as_deref(),
            settings.prompt_file.as_deref(),
            settings.model.as_deref(),
        )?;
        Ok(Box::new(Configured { common, settings }))
    }

    fn authentication(
        &self,
        env: &BTreeMap<String, String>,
        _check: Option<&AuthCheck>,
    ) -> Authentication {
        options::authentication(env, &[KEY], Authentication::Unknown)
    }

    fn recorded_session(&self) -> Option<Box<dyn Session>> {
        Some(Box::new(GeminiSession::new()))
    }
}

struct Configured {
    common: Common,
    settings: Settings,
}

impl Agent for Configured {
    fn prompt(&self) -> Option<&PromptSource> {
        Some(&self.common.prompt)
    }

    fn model(&self) -> Option<&str> {
        self.common.model.as_deref()
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.settings.env
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        // Without it the tools that write are not even offered.
        let mut line = CommandLine::new(context, &["--yolo"], INVALID)?;
        line.if_listed(&["--skip-trust"]);
        line.listed("--output-format", "stream-json")?;
        if let Some(model) = &self.common.model {
            line.listed("--model", model)?;
        }
        line.argv.extend(self.settings.args.iter().cloned());
        let env = self.environment(context);
        Ok(Launch {
            argv: line.argv,
            files: self.files(context, &env),
            env,
            collect: Vec::new(),
            input: Input::Bytes(context.prompt.as_bytes().to_vec()),
            terminal: Terminal::Pipes,
            message_deadline: None,
            session: Box::new(GeminiSession::new()),
        })
    }
}

impl Configured {
    fn environment(&self, context: &LaunchContext<'_>) -> BTreeMap<String, String> {
        let mut env = context.env.clone();
        let mut set = |name: &str, value: &str| {
            env.insert(name.to_owned(), value.to_owned());
        };
        // The same as --skip-trust, for versions without it.
        set("GEMINI_CLI_TRUST_WORKSPACE", "true");
        if self.settings.system_prompt.is_some() {
            set("GEMINI_SYSTEM_MD", system_file(context).as_str());
        }
        env.extend(self.settings.env.clone());
        if let Some(endpoint) = context.endpoint {
            env.insert(KEY.to_owned(), endpoint.key.clone());
            env.insert(URL.to_owned(), endpoint.base_url.clone());
        }
        env
    }

    fn files(
        &self,
        context: &LaunchContext<'_>,
        env: &BTreeMap<String, String>,
    ) -> Vec<(Utf8PathBuf, Vec<u8>)> {
        let folder = context.home.join(".gemini");
        let mut settings = quiet_settings();
        // It asks which one is meant unless it is written down.
        let has_key = options::key_in(env, &[KEY]).is_some();
        let auth = if has_key {
            "gemini-api-key"
        } else {
            "oauth-personal"
        };
        settings["security"] = json!({ "auth": { "selectedType": auth } });
        if let Some(turns) = self.settings.max_turns {
            settings["model"] = json!({ "maxSessionTurns": turns });
        }
        let mut files = vec![(
            folder.join("settings.json"),
            settings.to_string().into_bytes(),
        )];
        if let Some(text) = &self.settings.append_system_prompt {
            // What stands here the CLI adds to its own instructions.
            files.push((folder.join("GEMINI.md"), text.clone().into_bytes()));
        }
        if let Some(text) = &self.settings.system_prompt {
            files.push((system_file(context), text.clone().into_bytes()));
        }
        files
    }
}

/// Settings with which nothing is sent but to the models, and nothing is updated.
pub(super) fn quiet_settings() -> Value {
    json!({
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
    })
}

fn system_file(context: &LaunchContext<'_>) -> Utf8PathBuf {
    context.scratch.join("system.md")
}
