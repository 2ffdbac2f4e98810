//! The calls to models that the gateway logged, on the time axis of their trial.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::bounded::cut;

/// The calls that the gateway logged, in a trial's artifacts.
pub(super) const CALLS_FILE: &str = "calls.ndjson";

/// One call, as shown. Unknown values are null.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct ShownCall {
    /// Milliseconds from the start of the trial to the request.
    at_ms: Option<i64>,
    ms: u64,
    status: Option<u16>,
    model: Option<String>,
    /// Without cached ones.
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    /// Read from or written to the prompt cache.
    cached_tokens: Option<u64>,
    cost_usd: Option<f64>,
    is_fault: bool,
    /// The path, retries and errors.
    text: String,
}

/// A line of the log.
#[derive(Deserialize)]
pub(super) struct LoggedCall {
    at: Option<String>,
    #[serde(default)]
    path: String,
    model: Option<String>,
    served_model: Option<String>,
    status: Option<u16>,
    #[serde(default)]
    total_ms: u64,
    error: Option<String>,
    usage: Option<LoggedUsage>,
    cost_nano_usd: Option<u64>,
    #[serde(default)]
    retries: u32,
}

#[derive(Deserialize)]
struct LoggedUsage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write_5m: Option<u64>,
    cache_write_1h: Option<u64>,
}

impl LoggedCall {
    /// The call of a trial that started at this time.
    pub(super) fn shown(self, started: Option<Timestamp>) -> ShownCall {
        let at: Option<Timestamp> = self.at.as_deref().and_then(|it| it.parse().ok());
        let at_ms = at
            .zip(started)
            .map(|(at, started)| at.as_millisecond() - started.as_millisecond());
        let usage = self.usage.as_ref();
        let cached = usage.and_then(|it| {
            let parts = [it.cache_read, it.cache_write_5m, it.cache_write_1h];
            let known = parts.iter().any(Option::is_some);
            known.then(|| parts.iter().flatten().sum())
        });
        let mut parts = vec![self.path];
        if self.retries > 0 {
            parts.push(format!("{} retries", self.retries));
        }
        parts.extend(self.error);
        ShownCall {
            at_ms,
            ms: self.total_ms,
            status: self.status,
            input_tokens: usage.and_then(|it| it.input),
            output_tokens: usage.and_then(|it| it.output),
            cached_tokens: cached,
            model: self.served_model.or(self.model).map(|it| cut(&it, 100)),
            cost_usd: self.cost_nano_usd.map(|nanos| nanos as f64 / 1e9),
            is_fault: self.status.is_none_or(|status| status >= 400),
            text: cut(&parts.join(" · "), 300),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_has_its_place_on_the_time_axis_and_unknown_is_null() {
        let line = r#"{"at":"2026-11-18T17:10:25.500Z","path":"/v1/messages","model":"m","status":200,"total_ms":700,
            "usage":{"input":310,"output":29,"cache_read":5,"cache_write_5m":2,"cache_write_1h":0},"cost_nano_usd":1365000,"retries":2}"#;
        let call: LoggedCall = serde_json::from_str(line).unwrap();
        let started = "2026-11-18T17:10:24Z".parse().ok();
        let shown = call.shown(started);
        assert_eq!((shown.at_ms, shown.ms), (Some(1500), 700));
        assert_eq!(
            (shown.input_tokens, shown.cached_tokens),
            (Some(310), Some(7))
        );
        assert_eq!(shown.text, "/v1/messages · 2 retries");
        let call: LoggedCall = serde_json::from_str("{}").unwrap();
        let shown = call.shown(started);
        assert_eq!(
            (shown.at_ms, shown.status, shown.cost_usd),
            (None, None, None)
        );
        assert!(shown.is_fault);
    }
}
