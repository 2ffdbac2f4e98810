//! A trial as OpenTelemetry spans by the conventions for generative AI: one for the agent, one for
//! each tool call, one for each model call that the gateway observed. A pure and deterministic
//! function of the recorded data.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    fs::hex,
    record::{Entry, Event, Record, TrialStatus},
};

const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
const OK: u8 = 1;
const ERROR: u8 = 2;

/// One span in OTLP's JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    trace_id: String,
    #[serde(rename = "spanId")]
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Value>,
    status: Value,
}

/// The export request with all spans of a trial.
pub fn spans(record: &Record, events: &[Entry], calls: &[Value]) -> Value {
    let trace = Trace::of(record, events);
    let mut spans = vec![trace.agent(record)];
    spans.extend(trace.tools(events));
    spans.extend(calls.iter().filter_map(|call| trace.call(call)));
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            text("service.name", "proctor"),
            text("service.version", &record.proctor_version),
            text("host.arch", &record.host.arch),
            text("os.type", &record.host.os),
        ]},
        "scopeSpans": [{
            "scope": {"name": "proctor", "version": record.proctor_version},
            "spans": spans,
        }],
    }]})
}

/// The common data of the spans of one trial.
struct Trace {
    id: String,
    root: String,
    start: i128,
    end: i128,
}

impl Trace {
    fn of(record: &Record, events: &[Entry]) -> Trace {
        // Ids are derived from the trial, so that repeated exports are equal.
        let trial = format!(
            "{}/{}/{}/{}/{}",
            record.run_id, record.agent.name, record.task.name, record.trial, record.started_at
        );
        let id = hex(&Sha256::digest(trial.as_bytes())[..16]);
        let start = nanos(&record.started_at).unwrap_or(0);
        let last = events.last().map_or(0, |entry| entry.t);
        let end = record.completed_at.as_deref().and_then(nanos);
        Trace {
            root: span_id(&id, "agent"),
            id,
            start,
            end: end.unwrap_or(start + millis(last)).max(start),
        }
    }

    fn span(&self, key: &str, name: String, kind: u8, times: (i128, i128)) -> Span {
        Span {
            trace_id: self.id.clone(),
            id: span_id(&self.id, key),
            parent_span_id: Some(self.root.clone()),
            name,
            kind,
            start_time_unix_nano: times.0.to_string(),
            end_time_unix_nano: times.1.max(times.0).to_string(),
            attributes: Vec::new(),
            status: json!({}),
        }
    }

    fn agent(&self, record: &Record) -> Span {
        let name = format!("invoke_agent {}", record.agent.name);
        let mut span = self.span("agent", name, INTERNAL, (self.start, self.end));
        span.parent_span_id = None;
        let usage = record.usage.as_ref().map(|usage| &usage.total);
        let cached = usage.map(|total| [total.cache_read_tokens, total.cache_creation_tokens]);
        // The conventions count cached tokens as input.
        let input = usage
            .and_then(|total| total.input_tokens)
            .map(|input| input + cached.iter().flatten().flatten().sum::<u64>());
        span.attributes = [
            Some(text("gen_ai.operation.name", "invoke_agent")),
            Some(text("gen_ai.agent.name", &record.agent.name)),
            some_text("gen_ai.agent.version", record.agent.version.as_deref()),
            some_text(
                "gen_ai.request.model",
                record.agent.model_requested.as_deref(),
            ),
            some_text("gen_ai.response.model", record.agent.model.as_deref()),
            some_text("gen_ai.conversation.id", record.session_id.as_deref()),
            some_int("gen_ai.usage.input_tokens", input),
            some_int(
                "gen_ai.usage.output_tokens",
                usage.and_then(|total| total.output_tokens),
            ),
            some_int(
                "gen_ai.usage.cache_read.input_tokens",
                usage.and_then(|total| total.cache_read_tokens),
            ),
            some_int(
                "gen_ai.usage.cache_creation.input_tokens",
                usage.and_then(|total| total.cache_creation_tokens),
            ),
            usage
                .and_then(|total| total.cost_usd)
                .map(|cost| json!({"key": "proctor.cost_usd", "value": {"doubleValue": cost}})),
            Some(text("proctor.run.id", &record.run_id)),
            Some(text("proctor.task.name", &record.task.name)),
            some_int("proctor.trial", Some(u64::from(record.trial))),
            Some(text("proctor.outcome", record.outcome.as_str())),
            Some(text("proctor.status", record.status.as_str())),
        ]
        .into_iter()
        .flatten()
        .collect();
        match record.status {
            TrialStatus::Passed => span.status = json!({"code": OK}),
            TrialStatus::Failed | TrialStatus::Error | TrialStatus::Interrupted => {
                span.status = json!({"code": ERROR, "message": record.outcome.as_str()});
                span.attributes
                    .push(text("error.type", record.outcome.as_str()));
            }
        }
        span
    }

    /// The spans of tool calls. A call without a result lasts until the end of the trial.
    fn tools(&self, events: &[Entry]) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut waiting: HashMap<&str, usize> = HashMap::new();
        for entry in events {
            let at = self.start + millis(entry.t);
            match &entry.event {
                Event::Tool { id, tool, target } => {
                    let key = format!("tool {}", spans.len());
                    let name = format!("execute_tool {tool}");
                    let mut span = self.span(&key, name, INTERNAL, (at, self.end));
                    span.attributes = [
                        Some(text("gen_ai.operation.name", "execute_tool")),
                        Some(text("gen_ai.tool.name", tool)),
                        some_text("gen_ai.tool.call.id", id.as_deref()),
                        some_text("proctor.tool.target", target.as_deref()),
                    ]
                    .into_iter()
                    .flatten()
                    .collect();
                    if let Some(id) = id {
                        waiting.insert(id, spans.len());
                    }
                    spans.push(span);
                }
                Event::ToolResult { id, is_error } => {
                    let Some(index) = waiting.remove(id.as_str()) else {
                        continue;
                    };
                    let span = &mut spans[index];
                    span.end_time_unix_nano = at.to_string();
                    if *is_error {
                        span.status = json!({"code": ERROR});
                        span.attributes.push(text("error.type", "tool_error"));
                    }
                }
                _ => {}
            }
        }
        spans
    }

    /// The span of a line in the gateway's call log.
    fn call(&self, call: &Value) -> Option<Span> {
        let start = nanos(call["at"].as_str()?)?;
        let end = start + millis(call["total_ms"].as_u64()?);
        let model = call["model"].as_str().unwrap_or("unknown");
        let key = format!("call {}", call["call"]);
        let mut span = self.span(&key, format!("chat {model}"), CLIENT, (start, end));
        let tokens = |name: &str| call["usage"][name].as_u64();
        let cached = ["cache_read", "cache_write_5m", "cache_write_1h"];
        let input = tokens("input")
            .map(|input| input + cached.iter().filter_map(|name| tokens(name)).sum::<u64>());
        span.attributes = [
            Some(text("gen_ai.operation.name", "chat")),
            some_text(
                "gen_ai.provider.name",
                call["wire"].as_str().and_then(provider),
            ),
            some_text("gen_ai.request.model", call["model"].as_str()),
            some_text("gen_ai.response.model", call["served_model"].as_str()),
            some_int("gen_ai.usage.input_tokens", input),
            some_int("gen_ai.usage.output_tokens", tokens("output")),
            some_int("gen_ai.usage.cache_read.input_tokens", tokens("cache_read")),
            some_int("http.response.status_code", call["status"].as_u64()),
            some_int("proctor.first_byte_ms", call["first_byte_ms"].as_u64()),
        ]
        .into_iter()
        .flatten()
        .collect();
        let status = call["status"].as_u64();
        let ended = call["ended"].as_str().unwrap_or("unknown");
        if ended != "complete" || status.is_some_and(|status| status >= 400) {
            let kind = match status {
                Some(status) if status >= 400 => status.to_string(),
                _ => ended.to_owned(),
            };
            span.status = json!({"code": ERROR, "message": kind});
            span.attributes.push(text("error.type", &kind));
        }
        Some(span)
    }
}

/// The provider of an API, with the name of the conventions.
fn provider(wire: &str) -> Option<&'static str> {
    match wire {
        "anthropic" => Some("anthropic"),
        "open_ai_chat" | "open_ai_responses" => Some("openai"),
        "gemini" => Some("gcp.gemini"),
        _ => None,
    }
}

fn span_id(trace: &str, key: &str) -> String {
    hex(&Sha256::digest(format!("{trace} {key}").as_bytes())[..8])
}

fn nanos(time: &str) -> Option<i128> {
    let time: Timestamp = time.parse().ok()?;
    Some(time.as_nanosecond())
}

fn millis(millis: u64) -> i128 {
    i128::from(millis) * 1_000_000
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn some_text(key: &str, value: Option<&str>) -> Option<Value> {
    value.map(|value| text(key, value))
}

/// An integer attribute: integers are strings in OTLP's JSON.
fn some_int(key: &str, value: Option<u64>) -> Option<Value> {
    value.map(|value| json!({"key": key, "value": {"intValue": value.to_string()}}))
}
