//! Qwen Code, Alibaba's: what the user may set, and how it is run. It began as a copy of
//! Gemini CLI; its events, which `session` reads, are like Claude Code's.

mod session;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::session::QwenSession;
use super::{
    gemini_cli::quiet_settings,
    options::{self, CommandLine, Common},
};
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
pub struct QwenCode;

static CLI: Cli = Cli {
    program: "qwen",
    package: Registry::Npm("@qwen-code/qwen-code"),
    version_args: &["--version"],
    help_args: &["--help"],
    auth_args: &[],
    install_hint: "install it with: npm install -g @qwen-code/qwen-code (it needs Node 22)",
    login_hint: "set the API key in OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, and `auth_type` to go with it",
    credential_env: &[
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "GEMINI_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
    ],
    credential_files: &[],
    shared_caches: &[],
    // It loads itself for three seconds, and for longer on a busy machine.
    probe_limit: Duration::from_mins(1),
    not_found_code: "QWEN_CLI_NOT_FOUND",
    auth_code: "QWEN_AUTH_FAILED",
    timeout_code: "QWEN_TIMEOUT",
    truncated_code: "QWEN_OUTPUT_TRUNCATED",
};

const INVALID: &str = "QWEN_INVALID_CONFIG";

/// Options that it shares with other agents.
const TAKEN: &[&str] = &["append_system_prompt", "max_turns", "system_prompt"];

/// What it has instead of other agents' options.
const INSTEAD: &[(&str, &str)] = &[("mcp_config", "use `args: [--mcp-config, FILE]`")];

/// `agent.config`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "QwenCodeConfig")]
struct Settings {
    /// What is asked: this or `prompt_file`.
    #[schemars(length(min = 1, max = 1_000_000))]
    prompt: Option<String>,
    /// A file with what is asked, beside the test case or in the repo.
    #[schemars(length(max = 500))]
    prompt_file: Option<String>,
    /// The model, such as `qwen3-coder-plus`.
    model: Option<String>,
    /// Whose API the model is behind.
    auth_type: AuthType,
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

/// Whose API the model is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "QwenAuthType")]
enum AuthType {
    /// Chat completions, which most providers have.
    #[default]
    Openai,
    /// `OpenAI`'s responses.
    OpenaiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
}

/// What goes with one of them.
struct Wire {
    flag: &'static str,
    key: &'static str,
    url: &'static str,
    /// What follows the address of a gateway.
    path: &'static str,
}

impl AuthType {
    fn wire(self) -> Wire {
        let openai = |flag| Wire {
            flag,
            key: "OPENAI_API_KEY",
            url: "OPENAI_BASE_URL",
            path: "/v1",
        };
        match self {
            AuthType::Openai => openai("openai"),
            AuthType::OpenaiResponses => openai("openai-responses"),
            AuthType::Anthropic => Wire {
                flag: "anthropic",
                key: "ANTHROPIC_API_KEY",
                url: "ANTHROPIC_BASE_URL",
                path: "",
            },
            AuthType::Gemini => Wire {
                flag: "gemini",
                key: "GEMINI_API_KEY",
                url: "GOOGLE_GEMINI_BASE_URL",
                path: "",
            },
        }
    }
}

impl Adapter for QwenCode {
    fn name(&self) -> &'static str {
        "qwen-code"
    }

    fn summary(&self) -> &'static str {
        "Qwen Code, Alibaba's CLI"
    }

    fn cli(&self) -> Option<&'static Cli> {
        Some(&CLI)
    }

    fn provider(&self) -> &'static str {
        "alibaba"
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Settings>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let settings: Settings = options::read(section, "Qwen Code", INSTEAD, TAKEN)?;
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
        let keys = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"];
        options::authentication(env, &keys, Authentication::Missing)
    }

    fn recorded_session(&self) -> Option<Box<dyn Session>> {
        Some(Box::new(QwenSession::new()))
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
        if context.prompt.starts_with('/') {
            return Err(LaunchError {
                message: "Qwen Code takes a prompt that begins with `/` for a command".to_owned(),
                hint: Some("let the prompt begin with a word".to_owned()),
                code: INVALID,
            });
        }
        let wire = self.settings.auth_type.wire();
        // Without it nothing is written, and the exit code is 0 all the same.
        let mut line = CommandLine::new(context, &["--yolo"], INVALID)?;
        line.listed("--auth-type", wire.flag)?;
        line.listed("--output-format", "stream-json")?;
        // Text on standard input loses white space at its ends; a message does not.
        line.listed("--input-format", "stream-json")?;
        if let Some(model) = &self.common.model {
            line.listed("--model", model)?;
        }
        if let Some(text) = &self.settings.system_prompt {
            line.listed("--system-prompt", text)?;
        }
        if let Some(text) = &self.settings.append_system_prompt {
            line.listed("--append-system-prompt", text)?;
        }
        if let Some(turns) = self.settings.max_turns {
            line.listed("--max-session-turns", &turns.to_string())?;
        }
        line.argv.extend(self.settings.args.iter().cloned());
        let settings = context.home.join(".qwen/settings.json");
        Ok(Launch {
            argv: line.argv,
            env: self.environment(context, &wire),
            files: vec![(settings, quiet_settings().to_string().into_bytes())],
            collect: Vec::new(),
            input: Input::Bytes(message(context.prompt)),
            terminal: Terminal::Pipes,
            message_deadline: None,
            session: Box::new(QwenSession::new()),
        })
    }
}

impl Configured {
    fn environment(&self, context: &LaunchContext<'_>, wire: &Wire) -> BTreeMap<String, String> {
        let mut env = context.env.clone();
        let mut set = |name: &str, value: &str| {
            env.insert(name.to_owned(), value.to_owned());
        };
        set("QWEN_TELEMETRY_ENABLED", "false");
        set("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1");
        env.extend(self.settings.env.clone());
        if let Some(endpoint) = context.endpoint {
            let url = format!("{}{}", endpoint.base_url, wire.path);
            env.insert(wire.url.to_owned(), url);
            env.insert(wire.key.to_owned(), endpoint.key.clone());
        }
        env
    }
}

/// The prompt as the one message of the conversation.
fn message(prompt: &str) -> Vec<u8> {
    let message = json!({
        "type": "user",
        "session_id": "",
        "parent_tool_use_id": null,
        "message": { "role": "user", "content": [{ "type": "text", "text": prompt }] },
    });
    (message.to_string() + "\n").into_bytes()
}
