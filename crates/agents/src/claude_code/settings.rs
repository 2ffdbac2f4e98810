//! `agent.config` of Claude Code: the settings and their limits.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use proctor_document::{Fault, Node};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    agent::{AgentSection, PromptSource, resolve_prompt},
    command_line::flag_value,
    mcp,
    setting::{beside, one_of},
};

const MAX_AGENT_NAME: usize = 100;
const MAX_APPENDED_PROMPT: usize = 10_000;
const MAX_SYSTEM_PROMPT: usize = 50_000;
const MAX_TOKENS: u32 = 200_000;
const MODEL_ALIASES: &[&str] = &["default", "sonnet", "opus", "haiku", "opusplan", "best"];

/// `agent.config` as written.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ClaudeCode")]
pub(super) struct ClaudeSettings {
    /// The prompt: this or `prompt_file`.
    #[schemars(length(min = 1, max = 1_000_000))]
    pub(super) prompt: Option<String>,
    /// A file with the prompt, next to the test case or in the repo.
    #[schemars(length(max = 500))]
    pub(super) prompt_file: Option<String>,
    /// The model: an id such as `claude-sonnet-4-5`, or an alias of the CLI such as `sonnet`.
    pub(super) model: Option<String>,
    /// Run as this custom agent.
    #[schemars(length(max = 100), regex(pattern = r"^[\w\-]+$"))]
    pub(super) agent_name: Option<String>,
    /// Definitions of custom agents, by name.
    pub(super) agents: BTreeMap<String, AgentDefinition>,
    /// Text added to the system prompt.
    #[schemars(length(max = 10_000))]
    pub(super) append_system_prompt: Option<String>,
    /// Text that replaces the system prompt.
    #[schemars(length(max = 50_000))]
    pub(super) system_prompt: Option<String>,
    /// The permission mode of the CLI. Without this and `allowed_tools`, all tools are allowed.
    pub(super) permission_mode: Option<PermissionMode>,
    /// Tools that are allowed without a request, such as `Read` or `Bash(git *)`.
    pub(super) allowed_tools: Option<Vec<String>>,
    /// The built-in tools that the model has, such as `Read` and `Bash`; all when left out.
    pub(super) tools: Option<Vec<String>>,
    /// With `transport: control` or `websocket`: the answer to permission requests.
    pub(super) permission_policy: Option<PermissionPolicy>,
    /// The maximum length of an answer, in tokens.
    #[schemars(range(min = 1, max = 200_000))]
    pub(super) max_tokens: Option<u32>,
    /// Sampling temperature; requires the gateway, which sets it.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(super) temperature: Option<f64>,
    /// The maximum number of turns.
    #[schemars(range(min = 1))]
    pub(super) max_turns: Option<u32>,
    /// A file with MCP servers, next to the test case; no other servers are used.
    pub(super) mcp_config: Option<String>,
    /// Whether a server of `mcp_config` that does not connect ends the trial, as `sandbox`. Default `true`.
    pub(super) require_mcp: Option<bool>,
    /// Additional arguments of the CLI.
    pub(super) args: Vec<String>,
    /// Additional environment variables of the CLI.
    pub(super) env: BTreeMap<String, String>,
    /// `user` uses your own HOME and settings. Default: an empty HOME.
    pub(super) inherit: Option<Inherit>,
    /// The communication between Proctor and the CLI.
    pub(super) transport: Option<Transport>,
    /// With `transport: websocket`: the maximum time without a message, in milliseconds. Default
    /// 300000.
    #[schemars(range(min = 1))]
    pub(super) message_timeout: Option<u64>,
    /// How the prompt is passed.
    pub(super) prompt_delivery: Option<PromptDelivery>,
    /// Stream the model's answers: larger logs, but exact figures for an interrupted run.
    pub(super) include_partial_messages: Option<bool>,
    /// `true` is the same as `transport: pty`.
    pub(super) pty_mode: Option<bool>,
    /// `text` is the same as `transport: text`; the other transports use `stream-json`.
    pub(super) output_format: Option<OutputFormat>,
}

impl ClaudeSettings {
    /// `backend` is Ralph's key. Ralph runs Claude on a terminal regardless of `pty_mode`, and passes
    /// large prompts in a file.
    fn spell_like_ralph(&mut self) {
        if self.transport.is_none() && self.output_format != Some(OutputFormat::Text) {
            self.pty_mode = Some(true);
        }
        self.prompt_delivery.get_or_insert(PromptDelivery::File);
    }
}

/// A custom agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Definition")]
pub(super) struct AgentDefinition {
    /// When to use it.
    pub(super) description: String,
    /// Its system prompt.
    pub(super) prompt: String,
    /// Its tools. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Vec<String>>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
}

/// The permission modes of the CLI; `ask` is its `default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(super) enum PermissionMode {
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "plan")]
    Plan,
    #[serde(rename = "ask")]
    Ask,
    #[serde(rename = "default")]
    Default,
    #[serde(rename = "acceptEdits")]
    AcceptEdits,
    #[serde(rename = "bypassPermissions")]
    BypassPermissions,
    #[serde(rename = "dontAsk")]
    DontAsk,
}

impl PermissionMode {
    /// The CLI's word for it. It has no `ask`; its `default` asks.
    pub(super) fn flag(self) -> &'static str {
        match self {
            PermissionMode::Auto => "auto",
            PermissionMode::Plan => "plan",
            PermissionMode::Ask | PermissionMode::Default => "default",
            PermissionMode::AcceptEdits => "acceptEdits",
            PermissionMode::BypassPermissions => "bypassPermissions",
            PermissionMode::DontAsk => "dontAsk",
        }
    }
}

/// The answer to permission requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PermissionPolicy {
    /// Always allow.
    AllowAll,
    /// Allow `allowed_tools`, deny the others.
    AllowListed,
    /// Always deny.
    Deny,
}

/// The HOME and environment of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Inherit {
    /// The user's own HOME and environment.
    User,
    /// An empty HOME with credentials only.
    Nothing,
}

/// The communication between Proctor and the CLI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Transport {
    /// `print`, or `control` if the installed version requires it.
    #[default]
    Auto,
    /// Pipes and stream-json.
    Print,
    /// A pseudo-terminal and stream-json.
    Pty,
    /// The control protocol over pipes.
    Control,
    /// The control protocol over a WebSocket on loopback.
    Websocket,
    /// Pipes and plain text.
    Text,
}

/// How the prompt is passed to the CLI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PromptDelivery {
    /// On standard input, or in a file if the installed version loses large input.
    #[default]
    Auto,
    /// On standard input.
    Stdin,
    /// For more than 7,000 characters: in a file, with an instruction to read it.
    File,
}

/// The CLI's output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OutputFormat {
    /// One JSON object per line.
    StreamJson,
    /// Plain text.
    Text,
}

/// Validated settings.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) prompt: PromptSource,
    pub(super) model: Option<String>,
    pub(super) agent_name: Option<String>,
    pub(super) transport: Transport,
    pub(super) mcp_config: Option<Utf8PathBuf>,
    pub(super) required_mcp_servers: Vec<String>,
    /// The text of the file that `args` names as `--settings`.
    pub(super) settings_file: Option<String>,
    pub(super) settings: ClaudeSettings,
}

impl Resolved {
    /// Whether the agent uses the user's own HOME and environment.
    pub(super) fn inherits_user(&self) -> bool {
        self.settings.inherit == Some(Inherit::User)
    }

    /// The model of the setting, an argument or a variable.
    pub(super) fn model(&self) -> Option<&str> {
        let reported = self
            .model
            .as_deref()
            .or(flag_value(&self.settings.args, "--model"));
        let variable = self.settings.env.get("ANTHROPIC_MODEL");
        reported.or(variable.map(String::as_str))
    }
}

/// Reads and checks the section. Reports all faults, not only the first.
pub(super) fn resolve(section: &AgentSection<'_>) -> Result<Resolved, Vec<Fault>> {
    let mut settings: ClaudeSettings = section.config.read().map_err(|fault| vec![fault])?;
    if section.node.get("backend").is_some() {
        settings.spell_like_ralph();
    }
    let mut faults = ConfigFaults {
        config: section.config,
        found: Vec::new(),
    };
    let (text, file) = (settings.prompt.as_deref(), settings.prompt_file.as_deref());
    let prompt = faults.take(resolve_prompt(text, file, section).map(Some));
    let model = one_of(section, "model", section.model, settings.model.as_deref());
    let model = faults.take(model);
    let name = settings.agent_name.as_deref();
    let agent_name = faults.take(one_of(section, "agent_name", section.agent_name, name));
    let transport = faults.transport(&settings);
    faults.check_names(section, model.as_deref(), agent_name.as_deref());
    faults.check_limits(&settings);
    faults.check_tools(&settings);
    faults.check_transport(&settings, transport);
    faults.check_permissions(&settings, transport);
    let mcp_config = settings.mcp_config.as_deref();
    let mcp_config = mcp_config.map(|path| beside(section, "mcp_config", path));
    let mcp_config = faults.take(mcp_config.transpose());
    let required = mcp::required(section, mcp_config.as_deref(), settings.require_mcp);
    let required = faults.take(required.map(Some)).unwrap_or_default();
    match prompt {
        Some(prompt) if faults.found.is_empty() => Ok(Resolved {
            prompt,
            model,
            agent_name,
            transport,
            mcp_config,
            required_mcp_servers: required,
            settings_file: settings_file(&settings.args),
            settings,
        }),
        _ => Err(faults.found),
    }
}

struct ConfigFaults<'a> {
    config: &'a Node,
    found: Vec<Fault>,
}

impl ConfigFaults<'_> {
    fn add(&mut self, key: &str, message: impl Into<String>, hint: Option<&str>) {
        let fault = self.config.fault(key, message);
        self.found.push(match hint {
            Some(hint) => fault.with_hint(hint),
            None => fault,
        });
    }

    /// The value, unless it is invalid.
    fn take<T>(&mut self, value: Result<Option<T>, Fault>) -> Option<T> {
        value.unwrap_or_else(|fault| {
            self.found.push(fault);
            None
        })
    }

    /// The transport from the three settings that define it.
    fn transport(&mut self, settings: &ClaudeSettings) -> Transport {
        use Transport::{Auto, Control, Print, Pty, Text, Websocket};
        let chosen = settings.transport.unwrap_or_default();
        let mut agree = |key: &str, wanted: Transport, fits: &[Transport]| {
            if settings.transport.is_none() {
                return Some(wanted);
            }
            if !fits.contains(&chosen) {
                self.add(
                    key,
                    format!("`{key}` cannot be combined with this `transport`"),
                    Some("remove one of them"),
                );
            }
            None
        };
        let by_pty = settings
            .pty_mode
            .filter(|wanted| *wanted)
            .and_then(|_| agree("pty_mode", Pty, &[Pty]));
        let by_format = settings.output_format.and_then(|format| match format {
            OutputFormat::Text => agree("output_format", Text, &[Text]),
            OutputFormat::StreamJson => agree(
                "output_format",
                Auto,
                &[Auto, Print, Pty, Control, Websocket],
            ),
        });
        match (by_pty, by_format) {
            (Some(Pty), Some(Text)) => {
                self.add(
                    "output_format",
                    "plain text on a pseudo-terminal is not supported",
                    Some("remove `pty_mode`"),
                );
                Pty
            }
            (Some(transport), _) | (None, Some(transport)) => transport,
            (None, None) => chosen,
        }
    }

    fn check_names(
        &mut self,
        section: &AgentSection<'_>,
        model: Option<&str>,
        agent_name: Option<&str>,
    ) {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        if let Some(name) = agent_name {
            if name.is_empty() || !name.chars().all(word) {
                self.add(
                    "agent_name",
                    format!(
                        "invalid agent name `{name}`: only letters, digits, `-` and `_` are allowed"
                    ),
                    None,
                );
            } else if name.chars().count() > MAX_AGENT_NAME {
                self.add(
                    "agent_name",
                    format!("agent names are limited to {MAX_AGENT_NAME} characters"),
                    None,
                );
            }
        }
        if let Some(model) = model.filter(|model| !is_model(model)) {
            let outer = section.node.get("model").is_some();
            let node = if outer { section.node } else { self.config };
            let message = format!("invalid Claude Code model `{model}`");
            let aliases = MODEL_ALIASES.join(", ");
            let hint = format!("write an id such as `claude-sonnet-4-5`, or one of: {aliases}");
            self.found
                .push(node.fault("model", message).with_hint(hint));
        }
    }

    fn check_limits(&mut self, settings: &ClaudeSettings) {
        let mut at_most = |key: &str, text: Option<&String>, most: usize| {
            if text.is_some_and(|text| text.chars().count() > most) {
                self.add(
                    key,
                    format!("`{key}` is limited to {most} characters"),
                    None,
                );
            }
        };
        at_most(
            "append_system_prompt",
            settings.append_system_prompt.as_ref(),
            MAX_APPENDED_PROMPT,
        );
        at_most(
            "system_prompt",
            settings.system_prompt.as_ref(),
            MAX_SYSTEM_PROMPT,
        );
        if settings
            .max_tokens
            .is_some_and(|tokens| tokens == 0 || tokens > MAX_TOKENS)
        {
            self.add(
                "max_tokens",
                format!("`max_tokens` must be from 1 to {MAX_TOKENS}"),
                None,
            );
        }
        if settings.max_turns == Some(0) {
            self.add("max_turns", "`max_turns` must be at least 1", None);
        }
        // The CLI has no such flag. The gateway sets the temperature; the plan checks that there is one.
        if settings
            .temperature
            .is_some_and(|temperature| !(0.0..=1.0).contains(&temperature))
        {
            self.add("temperature", "`temperature` must be from 0 to 1", None);
        }
    }

    fn check_tools(&mut self, settings: &ClaudeSettings) {
        for tool in settings.allowed_tools.iter().flatten() {
            if !is_tool_pattern(tool) {
                self.add(
                    "allowed_tools",
                    format!("invalid tool name `{tool}`"),
                    Some("write names such as `Read`, or patterns such as `Bash(git *)`"),
                );
            }
        }
        if settings.allowed_tools.as_ref().is_some_and(Vec::is_empty) {
            self.add(
                "allowed_tools",
                "`allowed_tools` is empty",
                Some("remove it to allow all tools, or use `permission_mode: plan`"),
            );
        }
        for name in settings.agents.keys().filter(|name| name.is_empty()) {
            self.add("agents", format!("invalid agent name `{name}`"), None);
        }
    }

    /// A setting without effect on the chosen transport is an error.
    fn check_transport(&mut self, settings: &ClaudeSettings, transport: Transport) {
        if settings.message_timeout.is_some() && transport != Transport::Websocket {
            let message = "`message_timeout` has no effect with this transport";
            let hint = "add `transport: websocket`, or use the test case's `idle_timeout`";
            self.add("message_timeout", message, Some(hint));
        }
        if settings.message_timeout == Some(0) {
            self.add(
                "message_timeout",
                "`message_timeout` must be at least 1",
                None,
            );
        }
        if settings.include_partial_messages == Some(true) && transport == Transport::Text {
            let message = "`include_partial_messages` has no effect with plain text";
            self.add("include_partial_messages", message, Some("remove it"));
        }
    }

    fn check_permissions(&mut self, settings: &ClaudeSettings, transport: Transport) {
        let Some(policy) = settings.permission_policy else {
            return;
        };
        if !matches!(transport, Transport::Control | Transport::Websocket) {
            self.add("permission_policy", "`permission_policy` has no effect with this transport: only the control protocol has permission requests", Some("add `transport: control`, or remove it"));
        }
        if policy == PermissionPolicy::AllowListed && settings.allowed_tools.is_none() {
            self.add(
                "permission_policy",
                "`allow_listed` requires `allowed_tools`",
                None,
            );
        }
    }
}

/// The settings that `--settings FILE` adds. A relative path is a file of the workspace, which is not there yet.
fn settings_file(args: &[String]) -> Option<String> {
    let path = flag_value(args, "--settings").map(Utf8PathBuf::from)?;
    path.is_absolute()
        .then(|| std::fs::read_to_string(&path).ok())?
}

/// Whether it is a model id of the family (with a suffix such as `[1m]`), or an alias of the CLI.
fn is_model(model: &str) -> bool {
    let base = model.strip_suffix("[1m]").unwrap_or(model);
    MODEL_ALIASES.contains(&base)
        || base.strip_prefix("claude-").is_some_and(|rest| {
            !rest.is_empty()
                && rest
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
        })
}

/// Whether it is a tool pattern: `Read`, `mcp__server__tool`, `Bash(git *)`.
fn is_tool_pattern(tool: &str) -> bool {
    let (name, rest) = tool.split_at(tool.find('(').unwrap_or(tool.len()));
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '*' | '.');
    !name.is_empty()
        && name.chars().all(word)
        && (rest.is_empty() || (rest.ends_with(')') && rest.len() > 2))
        && !tool.contains(['\n', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_ids_with_suffixes_or_aliases() {
        for good in [
            "claude-sonnet-4-5-20250929",
            "claude-opus-4-8[1m]",
            "sonnet",
            "opus[1m]",
            "claude-3.5",
        ] {
            assert!(is_model(good), "{good}");
        }
        for bad in ["gpt-5", "claude-", "", "claude-x y", "--model"] {
            assert!(!is_model(bad), "{bad}");
        }
    }

    #[test]
    fn tools_are_names_or_patterns() {
        for good in [
            "Read",
            "mcp__db__query",
            "Bash(git *)",
            "Bash(npm run test:*)",
        ] {
            assert!(is_tool_pattern(good), "{good}");
        }
        for bad in ["", "(x)", "Read Write", "Bash()", "Bash(git", "a\nb"] {
            assert!(!is_tool_pattern(bad), "{bad}");
        }
    }
}
