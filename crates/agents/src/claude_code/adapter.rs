//! The adapter of Claude Code: its CLI, its login, and the configured agent.

use std::{collections::BTreeMap, time::Duration};

use proctor_document::Fault;
use proctor_record::{
    record::cli::{AuthCheck, Cli},
    session::Session,
};
use serde_json::json;

use super::{
    flags,
    settings::{self, ClaudeSettings, Resolved, Transport},
    stream,
};
use crate::{
    agent::{
        Adapter, Agent, AgentSection, Authentication, Launch, LaunchContext, LaunchError,
        PromptSource,
    },
    cli::{cli, key_in},
};

pub(super) const LOGIN_HINT: &str =
    "set the API key in ANTHROPIC_API_KEY, or log in with: claude auth login";
const KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

pub struct ClaudeCode;

static CLI: Cli = Cli {
    auth_args: &["auth", "status"],
    login_hint: LOGIN_HINT,
    credential_env: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
    ],
    credential_files: &[".claude/.credentials.json"],
    probe_limit: Duration::from_mins(1),
    ..cli!("CLAUDE", "claude", npm "@anthropic-ai/claude-code")
};

impl Adapter for ClaudeCode {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn summary(&self) -> &'static str {
        "Claude Code, Anthropic's CLI"
    }

    fn cli(&self) -> Option<&'static Cli> {
        Some(&CLI)
    }

    fn provider(&self) -> &'static str {
        "anthropic"
    }

    fn skills_folder(&self) -> Option<&'static str> {
        Some(".claude/skills")
    }

    fn home_skills_folder(&self) -> Option<&'static str> {
        Some(".claude/skills")
    }

    fn mcp_types(&self) -> &'static [&'static str] {
        &["stdio", "http", "sse"]
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<ClaudeSettings>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        settings::resolve(section).map(|config| Box::new(Claude(config)) as Box<dyn Agent>)
    }

    fn authentication(
        &self,
        env: &BTreeMap<String, String>,
        check: Option<&AuthCheck>,
    ) -> Authentication {
        if let Some(name) = key_in(env, KEYS) {
            return Authentication::Found(name.to_owned());
        }
        let says = |check: &AuthCheck| {
            serde_json::from_str::<serde_json::Value>(&check.stdout)
                .ok()?
                .get("loggedIn")?
                .as_bool()
        };
        match check {
            None => Authentication::Unknown,
            Some(check) => match says(check) {
                Some(true) => Authentication::Found("the CLI's own login".to_owned()),
                Some(false) => Authentication::Missing,
                None => Authentication::Unknown,
            },
        }
    }

    fn recorded_session(&self) -> Option<Box<dyn Session>> {
        Some(Box::new(stream::ClaudeSession::new(
            stream::StreamFormat::Auto,
            stream::AfterResult::KeepOpen,
        )))
    }
}

struct Claude(Resolved);

impl Agent for Claude {
    fn prompt(&self) -> Option<&PromptSource> {
        Some(&self.0.prompt)
    }

    fn model(&self) -> Option<&str> {
        self.0.model()
    }

    fn wire_model(&self) -> Option<&str> {
        self.model().filter(|model| model.starts_with("claude-"))
    }

    fn required_mcp_servers(&self) -> &[String] {
        &self.0.required_mcp_servers
    }

    fn gateway_temperature(&self) -> Option<f64> {
        self.0.settings.temperature
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        let settings = &self.0.settings;
        [
            (
                "max_tokens",
                settings.max_tokens.map(|tokens| json!(tokens)),
            ),
            (
                "temperature",
                settings.temperature.map(|value| json!(value)),
            ),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
    }

    fn inherits_user(&self) -> bool {
        self.0.inherits_user()
    }

    fn wants_socket(&self) -> bool {
        self.0.transport == Transport::Websocket
    }

    fn custom_agent(&self) -> Option<&str> {
        self.0.agent_name.as_deref()
    }

    fn definitions_folder(&self) -> Option<&'static str> {
        // Definitions are read only if a sub-agent is configured; others must not be loaded.
        self.0.agent_name.is_some().then_some(".claude/agents")
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.0.settings.env
    }

    fn check(&self, prompt: &str, has_gateway: bool) -> Result<(), LaunchError> {
        flags::check(&self.0, prompt, has_gateway)
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        flags::launch(&self.0, context)
    }
}
