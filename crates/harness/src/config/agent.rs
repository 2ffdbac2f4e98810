//! The `agent` section of a test case: which adapter, and the part that only the adapter reads.

use camino::Utf8Path;
use proctor_document::{Fault, Node, Span, Value, unknown_name};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    policy::{self, LoopAsWritten, PolicySpec, RetryAsWritten},
    settings::Settings,
};
use crate::{
    agent::{Adapter, AgentSection, PromptSource, resolve_prompt},
    agents::{self, ADAPTERS},
};

/// The type of an agent that is the first one installed.
pub(super) const AUTO: &str = "auto";

/// Which adapter drives the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentType {
    /// The one with this name.
    Named(String),
    /// The first whose program is installed, in the order that the section, the settings or Proctor
    /// has.
    Auto,
}

/// The `agent` section, read as far as it is the same for every adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSpec {
    /// Which adapter.
    pub kind: AgentType,
    /// Where that is written.
    pub kind_span: Span,
    /// `agent.agent_name`.
    pub agent_name: Option<String>,
    /// `agent.model`.
    pub model: Option<String>,
    /// `agent.version`: the version of the CLI to install.
    pub version: Option<String>,
    /// The model of the project settings, for a section that names none.
    pub default_model: Option<String>,
    /// `agent.order`, or the one of the project settings: which adapters `auto` tries, and in which
    /// order. Empty when neither says.
    pub order: Vec<String>,
    /// When it is started once more in the same trial.
    pub policy: PolicySpec,
    /// The whole section.
    pub node: Node,
    /// `agent.config`; an empty map when it is left out.
    pub config: Node,
}

impl AgentSpec {
    /// An agent of this kind, without settings of its own.
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

    /// Take over what the project settings say, where the section says nothing.
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

    /// The complaint that no adapter has this name.
    pub fn unknown(&self, known: &[&str]) -> Fault {
        let name = match &self.kind {
            AgentType::Named(name) => name,
            AgentType::Auto => AUTO,
        };
        unknown_name(self.kind_span, "agent type", name, known)
    }
}

/// Which agent does the task.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Agent")]
pub(super) struct AgentAsWritten {
    /// The adapter, such as `claude-code`, or `auto` for the first one installed.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    /// Which adapters `auto` tries, and in which order; all, Claude Code first, when left out.
    #[schemars(length(min = 1))]
    pub(super) order: Option<Vec<String>>,
    /// Another way to name the adapter: `claude`, or `auto` for the first one installed.
    #[schemars(with = "Option<Backend>")]
    pub(super) backend: Option<String>,
    /// The sub-agent that takes the task.
    pub(super) agent_name: Option<String>,
    /// The model that is asked for.
    pub(super) model: Option<String>,
    /// The version of its CLI, such as `2.1.30`: installed once for all trials. The one that is
    /// there when left out.
    pub(super) version: Option<String>,
    /// When it is started once more in the same trial, after something that went wrong.
    pub(super) retry: Option<RetryAsWritten>,
    /// Start it again in the same trial until a command succeeds.
    #[serde(rename = "loop")]
    pub(super) iterate: Option<LoopAsWritten>,
    /// What only this adapter knows.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    config: Option<IgnoredAny>,
}

/// An agent by its older name.
// For the schema: reading them by hand gives better complaints.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "stands for its schema")]
pub(super) enum Backend {
    Auto,
    Claude,
}

/// Read the section `node`, which stands under a key at `key`.
pub(crate) fn read(node: &Node, key: Span) -> Result<AgentSpec, Vec<Fault>> {
    let written: AgentAsWritten = node.read().map_err(|mut fault| {
        // The whole section is known by its key.
        if fault.span == node.span {
            fault.span = key;
        }
        vec![fault]
    })?;
    let mut faults = Vec::new();
    let kind = kind(&written, node, key).map_err(|fault| faults.push(fault));
    if let Some(version) = written.version.as_deref().filter(|text| !is_version(text)) {
        let message = format!("`{version}` is not a version");
        let hint = "write it out, such as `2.1.30`, so that every trial gets the same";
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
        let fault = Fault::new(node.key_span_of("order"), "`order` is for `type: auto`");
        return Err(fault.with_hint("remove it"));
    }
    check_order(order).map_err(|message| node.fault("order", message))?;
    Ok(order.clone())
}

/// Faults of an order of adapters.
pub(super) fn check_order(order: &[String]) -> Result<(), String> {
    if order.is_empty() {
        return Err("`order` is empty".to_owned());
    }
    for (at, name) in order.iter().enumerate() {
        if order[..at].contains(name) {
            return Err(format!("`{name}` is there twice"));
        }
        let adapter = agents::find(name).ok_or_else(|| {
            let known = ADAPTERS.iter().filter(|adapter| adapter.cli().is_some());
            let known: Vec<&str> = known.map(|adapter| adapter.name()).collect();
            format!("no agent is called `{name}`; known: {}", known.join(", "))
        })?;
        if adapter.cli().is_none() {
            return Err(format!("`{name}` has no program that could be installed"));
        }
    }
    Ok(())
}

/// Whether a text names one version, and not a range or a tag that moves.
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
                    let message = format!("the backend `{other}` is not supported yet");
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
    fn a_version_is_one_and_does_not_move() {
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
