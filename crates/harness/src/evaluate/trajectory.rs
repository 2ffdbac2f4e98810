//! `trajectory`: conditions on the agent's session: limits on turns, tokens, cost and time;
//! required and forbidden tools and commands.

use proctor_document::Fault;
use proctor_record::{
    record::VerdictStatus,
    transcript::{Document, ToolCall},
    usage::{Figures, Usage, Usd},
};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Finding, Judging, content::read_log};
use crate::config::EvaluatorSpec;

/// `config` of `trajectory`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct TrajectoryAsWritten {
    /// The maximum number of turns.
    max_turns: Option<u64>,
    /// The most tokens: input plus output, without cached input.
    max_tokens: Option<u64>,
    /// The maximum cost in dollars.
    max_cost_usd: Option<f64>,
    /// The maximum duration in milliseconds.
    max_duration_ms: Option<u64>,
    /// The maximum number of tool calls.
    max_tool_calls: Option<u64>,
    /// Names of forbidden tools.
    forbidden_tools: Vec<String>,
    /// Names of required tools.
    required_tools: Vec<String>,
    /// Regular expressions that no command may match.
    forbidden_commands: Vec<String>,
    /// Regular expressions that some command must match.
    required_commands: Vec<String>,
}

/// Validated settings.
#[derive(Clone, Debug)]
pub(super) struct TrajectorySettings {
    written: TrajectoryAsWritten,
    forbidden: Vec<Regex>,
    required: Vec<Regex>,
}

impl TrajectorySettings {
    pub(super) fn read(spec: &EvaluatorSpec) -> Result<TrajectorySettings, Fault> {
        let written: TrajectoryAsWritten = spec.config.read()?;
        let all = |key: &str, patterns: &[String]| -> Result<Vec<Regex>, Fault> {
            let read = |text: &String| {
                Regex::new(text).map_err(|error| {
                    spec.config
                        .fault(key, format!("invalid regular expression: {error}"))
                })
            };
            patterns.iter().map(read).collect()
        };
        let has_limit = written.max_turns.is_some()
            || written.max_tokens.is_some()
            || written.max_cost_usd.is_some()
            || written.max_duration_ms.is_some()
            || written.max_tool_calls.is_some();
        let lists = [
            &written.forbidden_tools,
            &written.required_tools,
            &written.forbidden_commands,
            &written.required_commands,
        ];
        if !has_limit && lists.iter().all(|list| list.is_empty()) {
            let fault = Fault::new(spec.span, "`trajectory` has no condition");
            return Err(fault.with_hint("add a limit, tools or commands"));
        }
        Ok(TrajectorySettings {
            forbidden: all("forbidden_commands", &written.forbidden_commands)?,
            required: all("required_commands", &written.required_commands)?,
            written,
        })
    }
}

pub(super) fn judge(
    settings: &TrajectorySettings,
    judging: &Judging<'_>,
) -> Result<Finding, String> {
    let log = read_log(judging)?;
    // The log has the agent's own figures, which the agent could understate.
    let usage = judging.usage.or(log.account.usage.as_ref());
    let mut violations = limits(&settings.written, &log, usage)?;
    let written = &settings.written;
    let uses = |name: &str| log.tool_calls.iter().any(|call| call.name == name);
    let commands: Vec<String> = log.tool_calls.iter().filter_map(command_of).collect();
    let runs = |pattern: &Regex| commands.iter().find(|command| pattern.is_match(command));
    for tool in written.forbidden_tools.iter().filter(|tool| uses(tool)) {
        violations.push(format!("the agent used {tool}"));
    }
    for tool in written.required_tools.iter().filter(|tool| !uses(tool)) {
        violations.push(format!("the agent did not use {tool}"));
    }
    for pattern in &settings.forbidden {
        if let Some(command) = runs(pattern) {
            let short: String = command.chars().take(120).collect();
            violations.push(format!("the agent ran `{short}`"));
        }
    }
    for pattern in settings.required.iter().filter(|it| runs(it).is_none()) {
        violations.push(format!("the agent ran no command that matches `{pattern}`"));
    }
    Ok(Finding {
        status: if violations.is_empty() {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        },
        score: None,
        message: if violations.is_empty() {
            format!("{} tool calls, all conditions met", log.tool_calls.len())
        } else {
            violations.join("; ")
        },
        metrics: Map::from_iter([
            ("tool_calls".to_owned(), json!(log.tool_calls.len())),
            ("violations".to_owned(), json!(violations)),
        ]),
        assertions: None,
        artifacts: Vec::new(),
        restored: Vec::new(),
        tampered: Vec::new(),
    })
}

/// Exceeded limits. An unknown figure cannot be compared with a limit.
fn limits(
    written: &TrajectoryAsWritten,
    log: &Document,
    usage: Option<&Usage>,
) -> Result<Vec<String>, String> {
    let usage = usage.map(|usage| &usage.total);
    let cost = usage.and_then(|total| total.cost_usd);
    let checks = [
        (
            "turns",
            written.max_turns.map(|limit| limit as f64),
            log.account.execution.turns.map(|turns| turns as f64),
        ),
        (
            "tokens",
            written.max_tokens.map(|limit| limit as f64),
            usage.and_then(Figures::tokens).map(|tokens| tokens as f64),
        ),
        ("dollars", written.max_cost_usd, cost.map(Usd::dollars)),
        (
            "milliseconds",
            written.max_duration_ms.map(|limit| limit as f64),
            log.account.execution.duration_ms.map(|time| time as f64),
        ),
        (
            "tool calls",
            written.max_tool_calls.map(|limit| limit as f64),
            Some(log.tool_calls.len() as f64),
        ),
    ];
    let mut violations = Vec::new();
    for (what, limit, value) in checks {
        match (limit, value) {
            (Some(_), None) => return Err(format!("the number of {what} is unknown")),
            (Some(limit), Some(value)) if value > limit => {
                violations.push(format!("{value} {what}, the maximum is {limit}"));
            }
            _ => {}
        }
    }
    Ok(violations)
}

/// The command of a tool call, if the tool runs commands.
fn command_of(call: &ToolCall) -> Option<String> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let command = ["command", "cmd", "script"]
        .iter()
        .find_map(|key| arguments.get(key))?;
    match command {
        Value::String(line) => Some(line.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            Some(shell_words::join(words?))
        }
        _ => None,
    }
}
