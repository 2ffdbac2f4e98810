//! `config` of `agentic-judge` and `rubric`: the judge, its criteria and the number of answers.

use std::{fmt, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::{
    self as agents, ADAPTERS,
    agent::{Adapter, Agent, AgentSection, PromptSource, read_prompt_file},
};
use proctor_document::{Fault, Node};
use proctor_record::fs::{hex, named};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};
use sha2::{Digest, Sha256};

use super::{
    criteria::{self, Criterion},
    request,
};
use crate::config::{AgentSpec, AgentType, EvaluatorSpec, PolicySpec, Source, read_agent};

const DEFAULT_TIMEOUT_MS: u64 = 300_000;
const MOST_SAMPLES: u32 = 25;

/// The pass rule of a judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::evaluate) enum Rule {
    /// Each criterion reaches the threshold: `agentic-judge`.
    Every,
    /// The weighted mean reaches the threshold: `rubric`.
    Mean,
}

/// `config` of `agentic-judge` and `rubric`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Judge")]
struct JudgeAsWritten {
    /// The judging agent, as in `agent` of a test case, without a prompt.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[expect(dead_code, reason = "read from the tree, with its positions")]
    agent: Option<IgnoredAny>,
    /// The type of the judging agent; short for `agent: {type: …}`.
    r#type: Option<String>,
    /// The judging sub-agent; requires `type`.
    agent_name: Option<String>,
    /// The model. Without `agent` and `type` it is called directly, through the gateway.
    model: Option<String>,
    /// The API of a model that is called directly. The default depends on its name.
    provider: Option<ProviderName>,
    /// The conditions: a map of names to texts, or a list.
    #[schemars(with = "Option<serde_json::Value>")]
    #[expect(dead_code, reason = "read from the tree, with its positions")]
    criteria: Option<IgnoredAny>,
    /// The same as `criteria`.
    #[schemars(with = "Option<serde_json::Value>")]
    #[expect(dead_code, reason = "read from the tree, with its positions")]
    assertions: Option<IgnoredAny>,
    /// A custom request; `{{task}}`, `{{criteria}}` and `{{diff}}` are replaced.
    prompt: Option<String>,
    /// A file with a custom request.
    prompt_file: Option<String>,
    /// A file with additional instructions.
    #[serde(rename = "instructions-file")]
    instructions_file: Option<String>,
    /// Time limit of one answer in milliseconds. Default 300000.
    timeout: Option<u64>,
    /// The number of answers, of which the median is used. Default 1.
    samples: Option<u32>,
    /// The minimum score relative to the scale. Default 0.5 (`rubric`: 0.7).
    threshold: Option<f64>,
}

/// The API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ProviderName {
    /// `/v1/messages`.
    Anthropic,
    /// `/v1/chat/completions`.
    OpenAi,
}

/// Validated settings.
#[derive(Clone, Debug)]
pub(in crate::evaluate) struct JudgeSettings {
    pub(super) who: Judge,
    pub(super) rule: Rule,
    pub(super) criteria: Arc<[Criterion]>,
    pub(super) template: Option<String>,
    pub(super) instructions: Option<String>,
    pub(super) timeout: Duration,
    pub(super) samples: u32,
    pub(super) threshold: f64,
}

/// The judge.
#[derive(Clone, Debug)]
pub(super) enum Judge {
    /// An agent in a copy of the result.
    Agent(Box<AgentJudge>),
    /// A model, called through the gateway.
    Model {
        model: String,
        provider: ProviderName,
    },
}

/// A judging agent.
#[derive(Clone)]
pub(super) struct AgentJudge {
    pub(super) adapter: &'static dyn Adapter,
    pub(super) spec: AgentSpec,
    pub(super) folder: Utf8PathBuf,
    pub(super) source: Arc<Source>,
}

impl fmt::Debug for AgentJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentJudge")
            .field("adapter", &self.adapter.name())
            .finish_non_exhaustive()
    }
}

impl AgentJudge {
    /// Whether it is a vendor's CLI, which calls a model for every answer. A program of the task's
    /// author may not.
    pub(super) fn asks_models(&self) -> bool {
        self.adapter.cli().is_some()
    }

    /// The agent with this request as its prompt.
    pub(super) fn agent(&self, request: &str) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let prompt = PromptSource::Text(request.to_owned());
        self.adapter.configure(&AgentSection {
            prompt: Some(&prompt),
            ..self.spec.section(self.adapter, &self.folder)
        })
    }
}

impl Judge {
    /// The identity of this judge, for cache keys.
    pub(super) fn identity(&self) -> String {
        match self {
            Judge::Model { model, provider } => format!("{provider:?} {model}"),
            Judge::Agent(judge) => {
                let config: serde_json::Value = judge.spec.config.read().unwrap_or_default();
                let spec = &judge.spec;
                let parts = (&spec.model, &spec.agent_name, &spec.default_model, config);
                let hash = Sha256::digest(format!("{parts:?}"));
                format!("{} {}", judge.adapter.name(), hex(&hash))
            }
        }
    }

    /// A short name of the judge.
    pub(super) fn name(&self) -> String {
        match self {
            Judge::Model { model, .. } => model.clone(),
            Judge::Agent(judge) => judge.adapter.name().to_owned(),
        }
    }

    /// The requested model.
    pub(super) fn model(&self) -> Option<&str> {
        match self {
            Judge::Model { model, .. } => Some(model),
            Judge::Agent(judge) => judge.spec.model.as_deref(),
        }
    }
}

impl JudgeSettings {
    /// The parts of the request and the judge that are not in its section.
    pub(in crate::evaluate) fn definition(&self) -> serde_json::Value {
        let default_model = match &self.who {
            Judge::Agent(judge) => judge.spec.default_model.as_ref(),
            Judge::Model { .. } => None,
        };
        serde_json::json!({
            "judge": self.who.name(),
            "default_model": default_model,
            "template": self.template,
            "instructions": self.instructions,
        })
    }

    pub(in crate::evaluate) fn read(
        spec: &EvaluatorSpec,
        folder: &Utf8Path,
        rule: Rule,
    ) -> Result<JudgeSettings, Fault> {
        let config = &spec.config;
        let written: JudgeAsWritten = config.read()?;
        let who = who(&written, spec, folder)?;
        let samples = written.samples.unwrap_or(1);
        if !(1..=MOST_SAMPLES).contains(&samples) {
            let message = format!("`samples` must be from 1 to {MOST_SAMPLES}");
            return Err(config.fault("samples", message));
        }
        let threshold = written.threshold.unwrap_or(match rule {
            Rule::Every => 0.5,
            Rule::Mean => 0.7,
        });
        if !(threshold > 0.0 && threshold <= 1.0) {
            let message = "`threshold` must be more than 0 and at most 1";
            return Err(config.fault("threshold", message));
        }
        let timeout = written.timeout.unwrap_or(DEFAULT_TIMEOUT_MS);
        if timeout == 0 {
            return Err(config.fault("timeout", "`timeout` must be at least 1"));
        }
        Ok(JudgeSettings {
            who,
            rule,
            criteria: criteria::read(config)?.into(),
            template: template(&written, config, folder)?,
            instructions: text_of(
                "instructions-file",
                written.instructions_file.as_ref(),
                config,
                folder,
            )?,
            timeout: Duration::from_millis(timeout),
            samples,
            threshold,
        })
    }

    /// Whether it calls a model itself, which requires a gateway.
    pub(in crate::evaluate) fn asks_models(&self) -> bool {
        matches!(self.who, Judge::Model { .. })
    }
}

/// The judge: `agent`, or `type` and its settings, or `model` alone.
fn who(written: &JudgeAsWritten, spec: &EvaluatorSpec, folder: &Utf8Path) -> Result<Judge, Fault> {
    let config = &spec.config;
    let agent = match (config.get("agent"), &written.r#type, &written.model) {
        (Some(node), None, None) if written.agent_name.is_none() => {
            let read = read_agent(node, config.key_span_of("agent"));
            read.map_err(|mut faults| faults.remove(0))?
        }
        (Some(_), _, _) => {
            let key = ["type", "model", "agent_name"].into_iter();
            let key = key.into_iter().find(|key| config.get(key).is_some());
            let key = key.unwrap_or("type");
            let message = format!("`{key}` has no effect with `agent`");
            let fault = Fault::new(config.key_span_of(key), message);
            return Err(fault.with_hint("move it to `agent`"));
        }
        (None, Some(kind), _) => short(kind, written, config),
        (None, None, Some(model)) => {
            if written.agent_name.is_some() {
                let message = "`agent_name` has no effect without `type`";
                return Err(config.fault("agent_name", message));
            }
            return Ok(Judge::Model {
                model: model.clone(),
                provider: written.provider.unwrap_or_else(|| provider_of(model)),
            });
        }
        (None, None, None) => {
            let message = format!("`{}` requires an agent or a model", spec.name);
            let hint = "name an agent (`agent: {type: claude-code}`) or a model (`model: …`)";
            return Err(Fault::new(config.span, message).with_hint(hint));
        }
    };
    if written.provider.is_some() {
        let message = "`provider` has no effect with an agent as judge";
        return Err(Fault::new(config.key_span_of("provider"), message));
    }
    agent_judge(agent, spec, folder).map(|judge| Judge::Agent(Box::new(judge)))
}

/// The agent in youBencha's format.
fn short(kind: &str, written: &JudgeAsWritten, config: &Node) -> AgentSpec {
    AgentSpec {
        kind: AgentType::Named(kind.to_owned()),
        kind_span: config.span_of("type"),
        agent_name: written.agent_name.clone(),
        model: written.model.clone(),
        version: None,
        default_model: None,
        order: Vec::new(),
        policy: PolicySpec::default(),
        node: config.clone(),
        config: Node::empty_map(config.key_span_of("type")),
    }
}

fn agent_judge(
    agent: AgentSpec,
    spec: &EvaluatorSpec,
    folder: &Utf8Path,
) -> Result<AgentJudge, Fault> {
    if let Some(key) = agent.policy.key() {
        let message = format!("`{key}` is not supported for a judge");
        return Err(Fault::new(agent.node.key_span_of(key), message));
    }
    let known: Vec<&str> = ADAPTERS.iter().map(|adapter| adapter.name()).collect();
    let adapter = match &agent.kind {
        AgentType::Named(name) => agents::find(name),
        AgentType::Auto => None,
    };
    let judge = AgentJudge {
        adapter: adapter.ok_or_else(|| agent.unknown(&known))?,
        spec: agent,
        folder: folder.to_owned(),
        source: Arc::clone(&spec.source),
    };
    let agent = judge
        .agent("judge")
        .map_err(|mut faults| faults.remove(0))?;
    if agent.prompt().is_none() {
        let message = format!(
            "agent `{}` cannot judge: it does not read a prompt",
            judge.adapter.name()
        );
        return Err(Fault::new(judge.spec.kind_span, message));
    }
    Ok(judge)
}

fn provider_of(model: &str) -> ProviderName {
    if model.contains("claude") {
        ProviderName::Anthropic
    } else {
        ProviderName::OpenAi
    }
}

/// Reads the custom request.
fn template(
    written: &JudgeAsWritten,
    config: &Node,
    folder: &Utf8Path,
) -> Result<Option<String>, Fault> {
    let (key, text) = match (&written.prompt, &written.prompt_file) {
        (Some(_), Some(_)) => {
            let message = "`prompt` and `prompt_file` cannot be combined";
            return Err(config
                .fault("prompt_file", message)
                .with_hint("remove one of them"));
        }
        (Some(text), None) => ("prompt", Some(text.clone())),
        (None, file) => (
            "prompt_file",
            text_of("prompt_file", file.as_ref(), config, folder)?,
        ),
    };
    let unknown = text.as_deref().and_then(request::unknown_place);
    if let Some(place) = unknown {
        let message = format!("unknown placeholder `{{{{{place}}}}}`");
        let hint = "known: `{{task}}`, `{{criteria}}`, `{{diff}}`";
        return Err(config.fault(key, message).with_hint(hint));
    }
    Ok(text)
}

/// Reads the text of a file next to the test case.
fn text_of(
    key: &str,
    file: Option<&String>,
    config: &Node,
    folder: &Utf8Path,
) -> Result<Option<String>, Fault> {
    let Some(file) = file else { return Ok(None) };
    let refused = |problem: String| {
        let message = format!("`{key}` invalid `{file}`: {problem}");
        config.fault(key, message)
    };
    let path = named::file_beside(folder, file).map_err(refused)?;
    read_prompt_file(&path).map(Some).map_err(refused)
}
