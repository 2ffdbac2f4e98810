//! `retry` and `loop` of an agent section: when an agent is restarted in the same trial, in the
//! same workspace, with a fresh context.

use std::{collections::BTreeSet, time::Duration};

use proctor_document::{Fault, Node, Value};
use proctor_record::record::RetryOn;
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::agent::{self, AgentSpec};

const MOST_TIMES: u32 = 10;
const MOST_ITERATIONS: u32 = 100;
const DEFAULT_CHECK_MS: u64 = 600_000;

/// When an agent is restarted in the same trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicySpec {
    /// Restart after a failure.
    pub retry: Option<RetrySpec>,
    /// Restart until a command succeeds.
    pub check: Option<CheckLoop>,
}

/// The `retry` section.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrySpec {
    /// The causes of a retry.
    pub on: BTreeSet<RetryOn>,
    /// The maximum number of retries in one trial.
    pub times: u32,
    /// The agent of the last retry.
    pub fallback: Option<Box<AgentSpec>>,
}

/// The `loop` section: restart the agent until a command succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckLoop {
    /// The maximum number of starts of the agent.
    pub iterations: u32,
    /// The shell command, run in the workspace.
    pub check: String,
    /// The timeout of the command.
    pub timeout: Duration,
}

/// `retry` as written in the file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Retry")]
pub(super) struct RetryAsWritten {
    /// The causes of a retry. Default: `infrastructure` and `error`.
    on: Option<Vec<RetryOn>>,
    /// The maximum number of retries in one trial. Default 1.
    #[schemars(range(min = 1, max = 10))]
    times: Option<u32>,
    /// The agent of the last retry: another `model` of the same agent, or another agent with its
    /// own `type`, `model` and `config`.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    fallback: Option<IgnoredAny>,
}

/// `loop` as written in the file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Loop")]
pub(super) struct LoopAsWritten {
    /// The maximum number of starts of the agent.
    #[schemars(range(min = 2, max = 100))]
    iterations: u32,
    /// A shell command, run in the workspace after each iteration. The loop ends when it succeeds.
    /// Otherwise the agent is restarted with the output of the command.
    #[schemars(length(min = 1))]
    check: String,
    /// The timeout of the command in milliseconds. Default 600000.
    #[schemars(range(min = 1))]
    check_timeout: Option<u64>,
}

impl PolicySpec {
    /// The key of the first section that is set.
    pub fn key(&self) -> Option<&'static str> {
        match (&self.retry, &self.check) {
            (Some(_), _) => Some("retry"),
            (None, Some(_)) => Some("loop"),
            (None, None) => None,
        }
    }

    /// The fallback agent.
    pub fn fallback(&self) -> Option<&AgentSpec> {
        self.retry.as_ref()?.fallback.as_deref()
    }
}

/// Reads both keys of the section that `first` was read from.
pub(super) fn read(
    first: &AgentSpec,
    retry: Option<RetryAsWritten>,
    iterate: Option<LoopAsWritten>,
) -> Result<PolicySpec, Vec<Fault>> {
    let mut faults = Vec::new();
    let retry = retry.and_then(|written| {
        let read = read_retry(first, written);
        read.map_err(|more| faults.extend(more)).ok()
    });
    let check = iterate.and_then(|written| {
        let read = read_loop(&first.node, written);
        read.map_err(|fault| faults.push(fault)).ok()
    });
    if faults.is_empty() {
        Ok(PolicySpec { retry, check })
    } else {
        Err(faults)
    }
}

fn read_retry(first: &AgentSpec, written: RetryAsWritten) -> Result<RetrySpec, Vec<Fault>> {
    let empty = Node::empty_map(first.node.span);
    let node = first.node.get("retry").unwrap_or(&empty);
    let one = |fault| vec![fault];
    let on = match written.on {
        None => BTreeSet::from([RetryOn::Infrastructure, RetryOn::Error]),
        Some(on) if on.is_empty() => return Err(one(node.fault("on", "`on` is empty"))),
        Some(on) => on.into_iter().collect(),
    };
    let times = written.times.unwrap_or(1);
    if !(1..=MOST_TIMES).contains(&times) {
        let message = format!("`times` must be from 1 to {MOST_TIMES}");
        return Err(one(node.fault("times", message)));
    }
    let fallback = match node.get("fallback") {
        None => None,
        Some(section) => Some(Box::new(read_fallback(first, section, node)?)),
    };
    Ok(RetrySpec {
        on,
        times,
        fallback,
    })
}

/// Reads the fallback: another agent, or the same one with another model.
fn read_fallback(first: &AgentSpec, section: &Node, retry: &Node) -> Result<AgentSpec, Vec<Fault>> {
    let key = retry.key_span_of("fallback");
    let fault = |key: &str, message: String| vec![Fault::new(section.key_span_of(key), message)];
    let own = ["retry", "loop", "name"].into_iter();
    if let Some(own) = own.into_iter().find(|key| section.get(key).is_some()) {
        return Err(fault(own, format!("`fallback` cannot set its own `{own}`")));
    }
    if section.get("type").is_some() || section.get("backend").is_some() {
        let spec = agent::read(section, key)?;
        for prompt in ["prompt", "prompt_file"] {
            if spec.config.get(prompt).is_some() {
                let span = spec.config.key_span_of(prompt);
                let message = "`fallback` cannot set its own prompt";
                return Err(vec![Fault::new(span, message).with_hint("remove it")]);
            }
        }
        return Ok(spec);
    }
    if let Value::Map(entries) = &section.value
        && let Some((_, other, _)) = entries.iter().find(|(_, key, _)| key != "model")
    {
        return Err(fault(other, format!("`{other}` requires `type`")));
    }
    let Some(model) = section.get("model").and_then(Node::as_str) else {
        let message = "`fallback` requires `model` or `type`";
        return Err(vec![Fault::new(key, message)]);
    };
    let mut spec = first.clone();
    spec.config.remove("model");
    spec.model = Some(model.to_owned());
    spec.policy = PolicySpec::default();
    Ok(spec)
}

fn read_loop(section: &Node, written: LoopAsWritten) -> Result<CheckLoop, Fault> {
    let empty = Node::empty_map(section.span);
    let node = section.get("loop").unwrap_or(&empty);
    if !(2..=MOST_ITERATIONS).contains(&written.iterations) {
        let message = format!("`iterations` must be from 2 to {MOST_ITERATIONS}");
        return Err(node.fault("iterations", message));
    }
    if written.check.trim().is_empty() {
        return Err(node.fault("check", "`check` is empty"));
    }
    let timeout = written.check_timeout.unwrap_or(DEFAULT_CHECK_MS);
    if timeout == 0 {
        let message = "`check_timeout` must be at least 1 millisecond";
        return Err(node.fault("check_timeout", message));
    }
    Ok(CheckLoop {
        iterations: written.iterations,
        check: written.check,
        timeout: Duration::from_millis(timeout),
    })
}

#[cfg(test)]
mod tests {
    use proctor_document::{Span, parse_yaml};

    use super::*;

    fn read_section(yaml: &str) -> Result<PolicySpec, String> {
        let node = parse_yaml(yaml).unwrap();
        match agent::read(&node, Span::default()) {
            Ok(spec) => Ok(spec.policy),
            Err(faults) => Err(faults[0].message.clone()),
        }
    }

    #[test]
    fn fallback_is_another_model_or_agent() {
        let same = "{type: codex, model: big, config: {model: big, prompt: x}, retry: {fallback: {model: small}}}";
        let retry = read_section(same).unwrap().retry.unwrap();
        assert_eq!(retry.times, 1);
        assert_eq!(
            retry.on,
            BTreeSet::from([RetryOn::Infrastructure, RetryOn::Error])
        );
        let fallback = retry.fallback.unwrap();
        assert_eq!(fallback.model.as_deref(), Some("small"));
        assert!(fallback.config.get("model").is_none() && fallback.config.get("prompt").is_some());
        let other = "{type: codex, retry: {on: [no_change], times: 3, fallback: {type: claude-code, model: opus}}}";
        let fallback = read_section(other).unwrap().retry.unwrap().fallback;
        assert_eq!(fallback.unwrap().model.as_deref(), Some("opus"));
    }

    #[test]
    fn settings_without_effect_are_refused() {
        for (section, expect) in [
            ("retry: {on: []}", "`on` is empty"),
            ("retry: {times: 0}", "`times` must be from 1 to 10"),
            (
                "retry: {fallback: {}}",
                "`fallback` requires `model` or `type`",
            ),
            (
                "retry: {fallback: {config: {}}}",
                "`config` requires `type`",
            ),
            (
                "retry: {fallback: {type: codex, loop: {}}}",
                "`fallback` cannot set its own `loop`",
            ),
            (
                "retry: {fallback: {type: codex, config: {prompt: x}}}",
                "`fallback` cannot set its own prompt",
            ),
            (
                "loop: {iterations: 1, check: x}",
                "`iterations` must be from 2 to 100",
            ),
            ("loop: {iterations: 2, check: ' '}", "`check` is empty"),
            (
                "loop: {iterations: 2, check: x, check_timeout: 0}",
                "`check_timeout` must be at least 1 millisecond",
            ),
        ] {
            let yaml = format!("{{type: codex, {section}}}");
            assert_eq!(read_section(&yaml).unwrap_err(), expect, "{section}");
        }
    }
}
