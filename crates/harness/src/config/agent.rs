//! The `agent` section of a test case: the adapter, and settings that only the adapter reads.

use camino::Utf8Path;
use proctor_agents::{
    self as agents, ADAPTERS,
    agent::{Adapter, AgentSection, PromptSource, resolve_prompt},
};
use proctor_document::{Fault, Node, Span, Value, unknown_name};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    policy::{self, LoopAsWritten, PolicySpec, RetryAsWritten},
    settings::Settings,
};

/// The agent type that selects the first installed agent.
pub(super) const AUTO: &str = "auto";

/// The adapter that drives the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentType {
    /// The adapter with this name.
    Named(String),
    /// The first adapter whose program is installed. The order comes from the section, the
    /// settings, or Proctor's default.
    Auto,
}

/// The `agent` section with the keys that all adapters share.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSpec {
    /// The adapter.
    pub kind: AgentType,
    /// The position of the adapter's name.
    pub kind_span: Span,
    /// `agent.agent_name`.
    pub agent_name: Option<String>,
    /// `agent.model`.
    pub model: Option<String>,
    /// `agent.version`: the version of the CLI to install.
    pub version: Option<String>,
    /// The model of the project settings, for a section that names none.
    pub default_model: Option<String>,
    /// `agent.order` or the order of the project settings: the adapters that `auto` tries. Empty if
    /// neither is set.
    pub order: Vec<String>,
    /// When the agent is restarted in the same trial.
    pub policy: PolicySpec,
    /// The whole section.
    pub node: Node,
    /// `agent.config`; an empty map when it is left out.
    pub config: Node,
}

impl AgentSpec {
    /// An agent of this kind with default settings.
    pub fn of_kind(kind: &str, settings: &Settings) -> AgentSpec {
        let empty = Node::empty_map(Span::default());
        let mut spec = AgentSpec {
            kind: AgentType::Named(kind.to_owned()),
            kind_span: Span::default(),
            agent_name: None,
            model: None,
            version: None,
            default_model: None,
            order: Vec::new(),
            policy: PolicySpec::default(),
            node: empty.clone(),
            config: empty,
        };
        spec.complete(settings);
        spec
    }

    /// Fills missing values from the project settings.
    pub(super) fn complete(&mut self, settings: &Settings) {
        self.default_model.clone_from(&settings.model);
        if self.kind == AgentType::Auto && self.order.is_empty() {
            self.order.clone_from(&settings.order);
        }
        if let Some(retry) = &mut self.policy.retry
            && let Some(fallback) = &mut retry.fallback
        {
            fallback.complete(settings);
        }
    }

    /// The section for `adapter`. The project's default model applies only to agents with a CLI.
    pub fn section<'a>(&'a self, adapter: &dyn Adapter, folder: &'a Utf8Path) -> AgentSection<'a> {
        let takes_default = adapter.cli().is_some() && self.config.get("model").is_none();
        let default_model = self.default_model.as_deref().filter(|_| takes_default);
        AgentSection {
            node: &self.node,
            agent_name: self.agent_name.as_deref(),
            model: self.model.as_deref().or(default_model),
            config: &self.config,
            folder,
            prompt: None,
        }
    }

    /// The prompt of the section, for any agent.
    pub fn prompt(&self, folder: &Utf8Path) -> Result<PromptSource, Fault> {
        let text = |key| self.config.get(key).and_then(Node::as_str);
        let section = AgentSection {
            node: &self.node,
            agent_name: None,
            model: None,
            config: &self.config,
            folder,
            prompt: None,
        };
        resolve_prompt(text("prompt"), text("prompt_file"), &section)
    }

    /// The fault for an unknown adapter name.
    pub fn unknown(&self, known: &[&str]) -> Fault {
        let name = match &self.kind {
            AgentType::Named(name) => name,
            AgentType::Auto => AUTO,
        };
        unknown_name(self.kind_span, "agent type", name, known)
    }
}

/// The agent that works on the task.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Agent")]
pub(super) struct AgentAsWritten {
    /// The adapter, such as `claude-code`, or `auto` for the first one installed.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    /// The adapters that `auto` tries, in order. Default: all, Claude Code first.
    #[schemars(length(min = 1))]
    pub(super) order: Option<Vec<String>>,
    /// Another way to name the adapter: `claude`, or `auto` for the first one installed.
    #[schemars(with = "Option<RalphBackend>")]
    pub(super) backend: Option<String>,
    /// The sub-agent that takes the task.
    pub(super) agent_name: Option<String>,
    /// The model that the agent requests.
    pub(super) model: Option<String>,
    /// The version of the agent's CLI, such as `2.1.30`, installed once for all trials. Default:
    /// the installed version.
    pub(super) version: Option<String>,
    /// When to restart the agent in the same trial after a failure.
    pub(super) retry: Option<RetryAsWritten>,
    /// Restart the agent in the same trial until a command succeeds.
    #[serde(rename = "loop")]
    pub(super) iterate: Option<LoopAsWritten>,
    /// Settings of this adapter.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    config: Option<IgnoredAny>,
}

/// An agent by its older name.
// For the schema only: reading the values by hand gives better error messages.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Backend")]
#[expect(dead_code, reason = "used for its schema")]
pub(super) enum RalphBackend {
    Auto,
    Claude,
}

/// Reads the section `node` under the key at `key`.
pub(crate) fn read(node: &Node, key: Span) -> Result<AgentSpec, Vec<Fault>> {
    let written: AgentAsWritten = node.read().map_err(|mut fault| {
        // A fault of the whole section is shown at its key.
        if fault.span == node.span {
            fault.span = key;
        }
        vec![fault]
    })?;
    let mut faults = Vec::new();
    let kind = kind(&written, node, key).map_err(|fault| faults.push(fault));
    if let Some(version) = written.version.as_deref().filter(|text| !is_version(text)) {
        let message = format!("invalid version `{version}`");
        let hint = "write an exact version, such as `2.1.30`, so that all trials use the same one";
        faults.push(node.fault("version", message).with_hint(hint));
    }
    let order = order(&written, node, &kind).unwrap_or_else(|fault| {
        faults.push(fault);
        Vec::new()
    });
    let config = match node.get("config") {
        None => Ok(Node::empty_map(key)),
        Some(config) if matches!(config.value, Value::Map(_)) => Ok(config.clone()),
        Some(config) => {
            let message = format!("expected a map, found {}", config.value);
            faults.push(node.fault("config", message));
            Err(())
        }
    };
    let (Ok((kind, kind_span)), Ok(config), true) = (kind, config, faults.is_empty()) else {
        return Err(faults);
    };
    let mut spec = AgentSpec {
        kind,
        kind_span,
        agent_name: written.agent_name,
        model: written.model,
        version: written.version,
        default_model: None,
        order,
        policy: PolicySpec::default(),
        node: node.clone(),
        config,
    };
    spec.policy = policy::read(&spec, written.retry, written.iterate)?;
    Ok(spec)
}

/// The adapters that `auto` tries.
fn order(
    written: &AgentAsWritten,
    node: &Node,
    kind: &Result<(AgentType, Span), ()>,
) -> Result<Vec<String>, Fault> {
    let Some(order) = &written.order else {
        return Ok(Vec::new());
    };
    if !matches!(kind, Ok((AgentType::Auto, _)) | Err(())) {
        let fault = Fault::new(node.key_span_of("order"), "`order` requires `type: auto`");
        return Err(fault.with_hint("remove it"));
    }
    check_order(order).map_err(|message| node.fault("order", message))?;
    Ok(order.clone())
}

/// Validates an order of adapters.
pub(super) fn check_order(order: &[String]) -> Result<(), String> {
    if order.is_empty() {
        return Err("`order` is empty".to_owned());
    }
    for (at, name) in order.iter().enumerate() {
        if order[..at].contains(name) {
            return Err(format!("`{name}` is listed twice"));
        }
        let adapter = agents::find(name).ok_or_else(|| {
            let known = ADAPTERS.iter().filter(|adapter| adapter.cli().is_some());
            let known: Vec<&str> = known.map(|adapter| adapter.name()).collect();
            format!("unknown agent `{name}`; known: {}", known.join(", "))
        })?;
        if adapter.cli().is_none() {
            return Err(format!("`{name}` has no installable program"));
        }
    }
    Ok(())
}

/// Whether the text is one exact version, not a range or a moving tag.
fn is_version(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (numbers, rest) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && rest
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'))
}

fn kind(written: &AgentAsWritten, node: &Node, key: Span) -> Result<(AgentType, Span), Fault> {
    match (&written.kind, written.backend.as_deref()) {
        (Some(_), Some(_)) => Err(Fault::new(
            node.key_span_of("backend"),
            "both `type` and `backend` are given",
        )
        .with_hint("keep `type`")),
        (None, None) => Err(Fault::new(key, "missing key `type`")
            .with_hint("name the agent, such as `type: claude-code`")),
        (Some(name), None) if name == AUTO => Ok((AgentType::Auto, node.span_of("type"))),
        (Some(name), None) if name.is_empty() => Err(node.fault("type", "the agent type is empty")),
        (Some(name), None) => Ok((AgentType::Named(name.clone()), node.span_of("type"))),
        (None, Some(backend)) => {
            let kind = match backend {
                AUTO => AgentType::Auto,
                "claude" => AgentType::Named("claude-code".to_owned()),
                other => {
                    let message = format!("unsupported backend `{other}`");
                    return Err(node
                        .fault("backend", message)
                        .with_hint("known: `claude`, `auto`"));
                }
            };
            Ok((kind, node.span_of("backend")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn version_must_be_exact() {
        for (text, expect) in [
            ("2.1.30", true),
            ("0.10.0-beta.3", true),
            ("latest", false),
            ("^2.1.0", false),
            ("2.1", false),
            ("2.1.x", false),
            ("2.1.30 --global", false),
            ("1..2", false),
            ("1.2.3-../../x", false),
        ] {
            assert_eq!(is_version(text), expect, "{text}");
        }
    }
}
