//! The report of one `results.json`, also of youBencha's own: missing parts are omitted.

use std::fmt::Write;

use proctor_record::text::one_line;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    figures::millis,
    markdown::{escape, table},
};

/// The shown fields of a result.
#[derive(Debug, Deserialize)]
struct Shown {
    test_case: ShownCase,
    #[serde(default)]
    execution: ShownExecution,
    agent: ShownAgent,
    #[serde(default)]
    evaluators: Vec<ForeignVerdict>,
    summary: ShownSummary,
}

#[derive(Debug, Deserialize)]
struct ShownCase {
    name: String,
    description: Option<String>,
    repo: Option<String>,
    branch: Option<String>,
    commit: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct ShownExecution {
    started_at: Option<String>,
    duration_ms: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct ShownAgent {
    #[serde(rename = "type")]
    kind: String,
    status: Option<String>,
    outcome: Option<String>,
    exit_code: Option<i64>,
}

#[derive(Debug, Deserialize)]
struct ForeignVerdict {
    evaluator: String,
    status: String,
    message: Option<String>,
    #[serde(default)]
    metrics: Map<String, Value>,
    /// Why there is no verdict. youBencha has no word for this but `skipped`.
    error: Option<Value>,
}

impl ForeignVerdict {
    fn status(&self) -> String {
        match (&self.error, self.status.as_str()) {
            (Some(_), "skipped") => "error".to_owned(),
            (_, status) => one_line(status),
        }
    }
}

#[derive(Debug, Deserialize)]
struct ShownSummary {
    overall_status: String,
}

/// A file is not a `results.json`.
#[derive(Debug, thiserror::Error)]
#[error("not a results.json")]
pub struct NoResults(#[from] serde_json::Error);

/// The report of a `results.json` as Markdown.
pub fn results_markdown(json: &[u8]) -> Result<String, NoResults> {
    let shown: Shown = serde_json::from_slice(json)?;
    let mut text = format!("# {}\n\n", escape(&one_line(&shown.test_case.name)));
    if let Some(description) = &shown.test_case.description {
        let _ = writeln!(text, "{}\n", escape(&one_line(description)));
    }
    text.push_str(&table(&facts(&shown)));
    text.push_str("\n## Evaluators\n\n");
    let mut rows = vec![
        ["evaluator", "status", "finding", "metrics"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for verdict in &shown.evaluators {
        rows.push(vec![
            one_line(&verdict.evaluator),
            verdict.status(),
            one_line(verdict.message.as_deref().unwrap_or_default()),
            metrics(&verdict.metrics),
        ]);
    }
    text.push_str(&table(&rows));
    Ok(text)
}

/// The report of a `results.json` for a terminal.
pub fn results_text(json: &[u8]) -> Result<String, NoResults> {
    let shown: Shown = serde_json::from_slice(json)?;
    let mut text = format!("{}\n\n", one_line(&shown.test_case.name));
    text.push_str(&super::figures::columns(&facts(&shown)[1..], &[]));
    text.push('\n');
    let verdicts: Vec<Vec<String>> = shown
        .evaluators
        .iter()
        .map(|it| {
            let message = it.message.as_deref().unwrap_or_default();
            vec![one_line(&it.evaluator), it.status(), one_line(message)]
        })
        .collect();
    text.push_str(&super::figures::columns(&verdicts, &[]));
    Ok(text)
}

fn facts(shown: &Shown) -> Vec<Vec<String>> {
    let known = |value: &Option<String>| one_line(value.as_deref().unwrap_or("unknown"));
    let case = &shown.test_case;
    let status = shown.agent.outcome.as_ref().or(shown.agent.status.as_ref());
    let code = shown.agent.exit_code;
    let duration = shown.execution.duration_ms;
    let facts = [
        ("", String::new()),
        ("result", one_line(&shown.summary.overall_status)),
        ("agent", one_line(&shown.agent.kind)),
        ("outcome", known(&status.cloned())),
        (
            "exit code",
            code.map_or("unknown".to_owned(), |it| it.to_string()),
        ),
        ("repo", known(&case.repo)),
        ("branch", known(&case.branch)),
        ("commit", known(&case.commit)),
        ("started", known(&shown.execution.started_at)),
        ("took", duration.map_or("unknown".to_owned(), millis)),
    ];
    facts
        .map(|(name, value)| vec![name.to_owned(), value])
        .to_vec()
}

/// Metrics with single values; lists are in the file.
fn metrics(metrics: &Map<String, Value>) -> String {
    let single = metrics
        .iter()
        .filter(|(_, value)| !value.is_array() && !value.is_object());
    let texts = single.map(|(name, value)| match value {
        Value::String(text) => format!("{name} {text}"),
        value => format!("{name} {value}"),
    });
    one_line(&texts.collect::<Vec<_>>().join(", "))
}
