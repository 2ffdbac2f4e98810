//! `agent.config` of Claude Code: what users may write, and its limits.

use std::collections::BTreeMap;

use camino::Utf8PathBuf;
use proctor_document::{Fault, Node};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    agent::{AgentSection, PromptSource, resolve_prompt},
    command_line::flag_value,
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
    /// What is asked: this or `prompt_file`.
    #[schemars(length(min = 1, max = 1_000_000))]
    pub(super) prompt: Option<String>,
    /// A file with what is asked, beside the test case or in the repo.
    #[schemars(length(max = 500))]
    pub(super) prompt_file: Option<String>,
    /// The model: an id such as `claude-sonnet-4-5`, or an alias of the CLI such as `sonnet`.
    pub(super) model: Option<String>,
    /// Run as this custom agent.
    #[schemars(length(max = 100), regex(pattern = r"^[\w\-]+$"))]
    pub(super) agent_name: Option<String>,
    /// Definitions of custom agents, by name.
    pub(super) agents: BTreeMap<String, Definition>,
    /// Text added to the system prompt.
    #[schemars(length(max = 10_000))]
    pub(super) append_system_prompt: Option<String>,
    /// Text in place of the system prompt.
    #[schemars(length(max = 50_000))]
    pub(super) system_prompt: Option<String>,
    /// How the CLI treats permissions; without this and `allowed_tools` it asks for none.
    pub(super) permission_mode: Option<PermissionMode>,
    /// Tools that may be used without asking, such as `Read` or `Bash(git *)`.
    pub(super) allowed_tools: Option<Vec<String>>,
    /// With `transport: control` or `websocket`: what permission requests are answered.
    pub(super) permission_policy: Option<PermissionPolicy>,
    /// The longest answer, in tokens.
    #[schemars(range(min = 1, max = 200_000))]
    pub(super) max_tokens: Option<u32>,
    /// Sampling temperature; needs the gateway, which sets it.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(super) temperature: Option<f64>,
    /// The most turns.
    #[schemars(range(min = 1))]
    pub(super) max_turns: Option<u32>,
    /// A file with MCP servers, beside the test case; no other servers are used.
    pub(super) mcp_config: Option<String>,
    /// More arguments for the CLI.
    pub(super) args: Vec<String>,
    /// More environment for the CLI.
    pub(super) env: BTreeMap<String, String>,
    /// `user` runs in your own HOME with your own settings; the default is an empty HOME.
    pub(super) inherit: Option<Inherit>,
    /// How Proctor and the CLI talk.
    pub(super) transport: Option<Transport>,
    /// With `transport: websocket`: milliseconds without a message after which the CLI is taken
    /// to be stuck. Default 300000.
    #[schemars(range(min = 1))]
    pub(super) message_timeout: Option<u64>,
    /// How the prompt gets there.
    pub(super) prompt_delivery: Option<PromptDelivery>,
    /// Stream the model's answers as they are made: larger logs, exact figures when cut off.
    pub(super) include_partial_messages: Option<bool>,
    /// `true` is `transport: pty`.
    pub(super) pty_mode: Option<bool>,
    /// `text` is `transport: text`; `stream-json` is what the other transports use.
    pub(super) output_format: Option<OutputFormat>,
}

/// A custom agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    /// When to use it.
    pub(super) description: String,
    /// Its system prompt.
    pub(super) prompt: String,
    /// The tools it has; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Vec<String>>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
}

/// The CLI's permission modes; `ask` is its `default`.
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
    /// The word that the CLI takes. It knows no `ask`: asking is what its `default` does.
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

/// What permission requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PermissionPolicy {
    /// Yes, always.
    AllowAll,
    /// Yes for `allowed_tools`, no for the rest.
    AllowListed,
    /// No, always.
    Deny,
}

/// Where the agent lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Inherit {
    /// In the user's own HOME and environment.
    User,
    /// In an empty HOME with credentials only.
    Nothing,
}

/// How Proctor and the CLI talk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Transport {
    /// `print`, or `control` where the installed version gives no other way.
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

/// How the prompt gets to the CLI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PromptDelivery {
    /// On standard input, or in a file where the installed version loses large input.
    #[default]
    Auto,
    /// On standard input.
    Stdin,
    /// Over 7,000 characters: in a file that the agent is told to read.
    File,
}

/// The CLI's output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OutputFormat {
    /// One JSON object a line.
    StreamJson,
    /// Plain text.
    Text,
}

/// Settings that were checked.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) prompt: PromptSource,
    pub(super) model: Option<String>,
    pub(super) agent_name: Option<String>,
    pub(super) transport: Transport,
    pub(super) mcp_config: Option<Utf8PathBuf>,
    pub(super) settings: ClaudeSettings,
}

impl Resolved {
    /// Whether the agent works in the user's own HOME and environment.
    pub(super) fn inherits_user(&self) -> bool {
        self.settings.inherit == Some(Inherit::User)
    }

    /// The model that the CLI is told, by the setting, an argument or a variable.
    pub(super) fn model(&self) -> Option<&str> {
        let told = self
            .model
            .as_deref()
            .or(flag_value(&self.settings.args, "--model"));
        let variable = self.settings.env.get("ANTHROPIC_MODEL");
        told.or(variable.map(String::as_str))
    }
}

/// Reads and checks the section; reports every fault, not only the first.
pub(super) fn resolve(section: &AgentSection<'_>) -> Result<Resolved, Vec<Fault>> {
    let settings: ClaudeSettings = section.config.read().map_err(|fault| vec![fault])?;
    let mut faults = Faults {
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
    match prompt {
        Some(prompt) if faults.found.is_empty() => Ok(Resolved {
            prompt,
            model,
            agent_name,
            transport,
            mcp_config,
            settings,
        }),
        _ => Err(faults.found),
    }
}

struct Faults<'a> {
    config: &'a Node,
    found: Vec<Fault>,
}

impl Faults<'_> {
    fn add(&mut self, key: &str, message: impl Into<String>, hint: Option<&str>) {
        let fault = self.config.fault(key, message);
        self.found.push(match hint {
            Some(hint) => fault.with_hint(hint),
            None => fault,
        });
    }

    /// The value, unless it is wrong.
    fn take<T>(&mut self, value: Result<Option<T>, Fault>) -> Option<T> {
        value.unwrap_or_else(|fault| {
            self.found.push(fault);
            None
        })
    }

    /// One transport from the three spellings that name one.
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
                    format!("`{key}` does not go with this `transport`"),
                    Some("keep one of the two"),
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
                    Some("leave out `pty_mode`"),
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
                    format!("`{name}` is no agent name: letters, digits, `-` and `_` only"),
                    None,
                );
            } else if name.chars().count() > MAX_AGENT_NAME {
                self.add(
                    "agent_name",
                    format!("an agent name has at most {MAX_AGENT_NAME} characters"),
                    None,
                );
            }
        }
        if let Some(model) = model.filter(|model| !is_model(model)) {
            let outer = section.node.get("model").is_some();
            let node = if outer { section.node } else { self.config };
            let message = format!("`{model}` is not a model that Claude Code accepts");
            let aliases = MODEL_ALIASES.join(", ");
            let hint = format!("write an id such as `claude-sonnet-4-5`, or one of: {aliases}");
            self.found
                .push(node.fault("model", message).with_hint(hint));
        }
    }

    fn check_limits(&mut self, settings: &ClaudeSettings) {
        let mut at_most = |key: &str, text: Option<&String>, most: usize| {
            if text.is_some_and(|text| text.chars().count() > most) {
                self.add(key, format!("`{key}` has at most {most} characters"), None);
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
                format!("`max_tokens` is a number from 1 to {MAX_TOKENS}"),
                None,
            );
        }
        if settings.max_turns == Some(0) {
            self.add("max_turns", "`max_turns` is at least 1", None);
        }
        // The CLI has no such flag: the plan sees to it that there is a gateway, which sets it.
        if settings
            .temperature
            .is_some_and(|temperature| !(0.0..=1.0).contains(&temperature))
        {
            self.add("temperature", "`temperature` is a number from 0 to 1", None);
        }
    }

    fn check_tools(&mut self, settings: &ClaudeSettings) {
        for tool in settings.allowed_tools.iter().flatten() {
            if !is_tool_pattern(tool) {
                self.add(
                    "allowed_tools",
                    format!("`{tool}` is no tool name"),
                    Some("write names such as `Read`, or patterns such as `Bash(git *)`"),
                );
            }
        }
        if settings.allowed_tools.as_ref().is_some_and(Vec::is_empty) {
            self.add(
                "allowed_tools",
                "`allowed_tools` is empty",
                Some("leave it out to allow every tool, or use `permission_mode: plan`"),
            );
        }
        for name in settings.agents.keys().filter(|name| name.is_empty()) {
            self.add("agents", format!("`{name}` is no agent name"), None);
        }
    }

    /// A setting that does nothing with the chosen transport is an error.
    fn check_transport(&mut self, settings: &ClaudeSettings, transport: Transport) {
        if settings.message_timeout.is_some() && transport != Transport::Websocket {
            let message = "`message_timeout` does nothing with this transport";
            let hint = "add `transport: websocket`, or use the test case's `idle_timeout`";
            self.add("message_timeout", message, Some(hint));
        }
        if settings.message_timeout == Some(0) {
            self.add("message_timeout", "`message_timeout` is at least 1", None);
        }
        if settings.include_partial_messages == Some(true) && transport == Transport::Text {
            let message = "`include_partial_messages` does nothing with plain text";
            self.add("include_partial_messages", message, Some("leave it out"));
        }
    }

    fn check_permissions(&mut self, settings: &ClaudeSettings, transport: Transport) {
        let Some(policy) = settings.permission_policy else {
            return;
        };
        if !matches!(transport, Transport::Control | Transport::Websocket) {
            self.add("permission_policy", "`permission_policy` does nothing with this transport: only the control protocol asks for permission", Some("add `transport: control`, or leave it out"));
        }
        if policy == PermissionPolicy::AllowListed && settings.allowed_tools.is_none() {
            self.add(
                "permission_policy",
                "`allow_listed` needs `allowed_tools`",
                None,
            );
        }
    }
}

/// A model id of the family (with a suffix such as `[1m]`), or an alias that the CLI knows.
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

/// `Read`, `mcp__server__tool`, `Bash(git *)`.
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
