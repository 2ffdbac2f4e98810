//! Claude Code: what the user may set, how the CLI is run, how its output is read.

mod blocks;
pub mod control;
mod definitions;
mod event;
mod flags;
mod flat;
mod json;
mod message;
mod settings;
pub mod stream;
#[cfg(test)]
mod tests;
mod text;
mod usage;
mod verdict;

use std::collections::BTreeMap;

use proctor_record::{
    record::cli::{AuthCheck, Cli, PROBE_LIMIT, Registry},
    session::Session,
};
use serde_json::json;

use self::settings::{Inherit, Resolved, Settings, Transport};
use crate::agent::{
    Adapter, Agent, AgentSection, Authentication, Launch, LaunchContext, LaunchError, PromptSource,
};
use proctor_document::Fault;

/// The adapter.
pub struct ClaudeCode;

static CLI: Cli = Cli {
    program: "claude",
    package: Registry::Npm("@anthropic-ai/claude-code"),
    version_args: &["--version"],
    help_args: &["--help"],
    auth_args: &["auth", "status"],
    install_hint: "install it with: npm install -g @anthropic-ai/claude-code",
    login_hint: "set the API key in ANTHROPIC_API_KEY, or log in with: claude auth login",
    credential_env: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
    ],
    credential_files: &[".claude/.credentials.json"],
    shared_caches: &[],
    probe_limit: PROBE_LIMIT,
    not_found_code: "CLAUDE_CLI_NOT_FOUND",
    auth_code: "CLAUDE_AUTH_FAILED",
    timeout_code: "CLAUDE_TIMEOUT",
    truncated_code: "CLAUDE_OUTPUT_TRUNCATED",
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

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Settings>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        settings::resolve(section).map(|config| Box::new(Claude(config)) as Box<dyn Agent>)
    }

    fn authentication(
        &self,
        env: &BTreeMap<String, String>,
        check: Option<&AuthCheck>,
    ) -> Authentication {
        for name in [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ] {
            if env.get(name).is_some_and(|value| !value.is_empty()) {
                return Authentication::Found(name.to_owned());
            }
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
            stream::Form::Auto,
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
        self.0.model.as_deref()
    }

    fn wire_model(&self) -> Option<&str> {
        self.model().filter(|model| model.starts_with("claude-"))
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
        inherits_user(&self.0)
    }

    fn wants_socket(&self) -> bool {
        self.0.transport == Transport::Websocket
    }

    fn definitions_folder(&self) -> Option<&'static str> {
        // Read only for an agent that is asked for: others must not come in.
        self.0.agent_name.is_some().then_some(".claude/agents")
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.0.settings.env
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        flags::launch(&self.0, context)
    }
}

fn inherits_user(config: &Resolved) -> bool {
    config.settings.inherit == Some(Inherit::User)
}
