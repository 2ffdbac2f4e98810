//! Codex, `OpenAI`'s CLI: what the user may set, and how `codex exec` is run. It tells what it
//! does as JSON lines; `session` reads them.

mod session;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8PathBuf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::session::CodexSession;
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
pub struct Codex;

/// The variable that `codex exec` takes its key from. It does not look at `OPENAI_API_KEY`.
const KEY: &str = "CODEX_API_KEY";
const OPENAI_KEY: &str = "OPENAI_API_KEY";
const OPENAI_URL: &str = "OPENAI_BASE_URL";

static CLI: Cli = Cli {
    program: "codex",
    package: Registry::Npm("@openai/codex"),
    version_args: &["--version"],
    help_args: &["exec", "--help"],
    auth_args: &[],
    install_hint: "install it with: npm install -g @openai/codex",
    login_hint: "set the API key in CODEX_API_KEY or OPENAI_API_KEY, or log in with: codex login",
    credential_env: &[KEY, OPENAI_KEY, OPENAI_URL],
    credential_files: &[".codex/auth.json"],
    shared_caches: &[],
    probe_limit: Duration::from_secs(10),
    not_found_code: "CODEX_CLI_NOT_FOUND",
    auth_code: "CODEX_AUTH_FAILED",
    timeout_code: "CODEX_TIMEOUT",
    truncated_code: "CODEX_OUTPUT_TRUNCATED",
};

const INVALID: &str = "CODEX_INVALID_CONFIG";

/// What Codex has instead of other agents' options.
const INSTEAD: &[(&str, &str)] = &[
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
        "leave it out; `reasoning_effort` is what Codex has",
    ),
];

/// `agent.config`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CodexConfig")]
struct Settings {
    /// What is asked: this or `prompt_file`.
    #[schemars(length(min = 1, max = 1_000_000))]
    prompt: Option<String>,
    /// A file with what is asked, beside the test case or in the repo.
    #[schemars(length(max = 500))]
    prompt_file: Option<String>,
    /// The model, such as `gpt-5.5`.
    model: Option<String>,
    /// How much the model thinks.
    reasoning_effort: Option<Effort>,
    /// Instructions added to Codex's own.
    #[schemars(length(max = 10_000))]
    append_system_prompt: Option<String>,
    /// More arguments for `codex exec`.
    args: Vec<String>,
    /// More environment for the CLI.
    env: BTreeMap<String, String>,
}

/// How much the model thinks. Which of them a model takes, only its maker knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "CodexEffort")]
enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

impl Adapter for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn summary(&self) -> &'static str {
        "Codex, OpenAI's CLI"
    }

    fn cli(&self) -> Option<&'static Cli> {
        Some(&CLI)
    }

    fn provider(&self) -> &'static str {
        "openai"
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Settings>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let settings: Settings =
            options::read(section, "Codex", INSTEAD, &["append_system_prompt"])?;
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
        options::authentication(env, &[KEY, OPENAI_KEY], Authentication::Unknown)
    }

    fn recorded_session(&self) -> Option<Box<dyn Session>> {
        Some(Box::new(CodexSession::new()))
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

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        let effort = self.settings.reasoning_effort.iter();
        effort
            .map(|effort| ("reasoning_effort".to_owned(), json!(effort)))
            .collect()
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.settings.env
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        let mut line = CommandLine::new(context, &["exec", "--json"], INVALID)?;
        // Without it the sandbox is read-only, and a run that changed nothing exits with 0.
        line.push(&["--dangerously-bypass-approvals-and-sandbox"]);
        line.if_listed(&["--skip-git-repo-check"]);
        line.if_listed(&["--ephemeral"]);
        if let Some(model) = &self.common.model {
            line.listed("--model", model)?;
        }
        line.argv.extend(self.settings.args.iter().cloned());
        // The prompt comes on standard input.
        line.push(&["-"]);
        Ok(Launch {
            argv: line.argv,
            env: self.environment(context),
            files: vec![self.config_file(context)],
            collect: Vec::new(),
            input: Input::Bytes(context.prompt.as_bytes().to_vec()),
            terminal: Terminal::Pipes,
            message_deadline: None,
            session: Box::new(CodexSession::new()),
        })
    }
}

impl Configured {
    fn environment(&self, context: &LaunchContext<'_>) -> BTreeMap<String, String> {
        let mut env = context.env.clone();
        env.extend(self.settings.env.clone());
        let codex_home = context.home.join(".codex").into_string();
        env.insert("CODEX_HOME".to_owned(), codex_home);
        if let Some(endpoint) = context.endpoint {
            env.insert(KEY.to_owned(), endpoint.key.clone());
        } else if let (None, Some(key)) = (env.get(KEY), env.get(OPENAI_KEY).cloned()) {
            env.insert(KEY.to_owned(), key);
        }
        env
    }

    /// `config.toml`: nothing is sent but to the models, and those are where they are wanted.
    fn config_file(&self, context: &LaunchContext<'_>) -> (Utf8PathBuf, Vec<u8>) {
        let mut toml = vec!["check_for_update_on_startup = false".to_owned()];
        if let Some(text) = &self.settings.append_system_prompt {
            toml.push(format!("developer_instructions = {}", quoted(text)));
        }
        if let Some(effort) = self.settings.reasoning_effort {
            toml.push(format!("model_reasoning_effort = {}", json!(effort)));
        }
        let base_url = self.base_url(context);
        if base_url.is_some() {
            toml.push("model_provider = \"proctor\"".to_owned());
        }
        for table in ["analytics", "feedback"] {
            toml.push(format!("[{table}]\nenabled = false"));
        }
        toml.push("[history]\npersistence = \"none\"".to_owned());
        if let Some(base_url) = base_url {
            // A provider of its own: the built-in one tries a WebSocket first.
            toml.push(format!(
                "[model_providers.proctor]\nname = \"proctor\"\nbase_url = {}\nenv_key = \"{KEY}\"\nwire_api = \"responses\"",
                quoted(&base_url)
            ));
        }
        let text = toml.join("\n") + "\n";
        (context.home.join(".codex/config.toml"), text.into_bytes())
    }

    /// Where the models are. The CLI itself does not look at `OPENAI_BASE_URL`.
    fn base_url(&self, context: &LaunchContext<'_>) -> Option<String> {
        if let Some(endpoint) = context.endpoint {
            return Some(format!("{}/v1", endpoint.base_url));
        }
        let own = self.settings.env.get(OPENAI_URL);
        own.or(context.env.get(OPENAI_URL))
            .filter(|url| !url.is_empty())
            .cloned()
    }
}

/// A TOML string. Its escapes are those of JSON, but it wants one more.
fn quoted(text: &str) -> String {
    json!(text).to_string().replace('\u{7f}', "\\u007f")
}
