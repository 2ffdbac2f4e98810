//! The report of one `results.json` with youBencha's sections, for tools and people that know them.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::{Map, Value};

use proctor_record::text::one_line;

use super::{figures::millis, results::NoResults};

/// A result, as far as it is shown.
#[derive(Deserialize)]
struct Bundle {
    test_case: Map<String, Value>,
    #[serde(default)]
    execution: Map<String, Value>,
    agent: Map<String, Value>,
    #[serde(default)]
    evaluators: Vec<Verdict>,
    summary: Map<String, Value>,
    #[serde(default)]
    artifacts: Artifacts,
}

#[derive(Deserialize)]
struct Verdict {
    evaluator: String,
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    metrics: Map<String, Value>,
    duration_ms: Option<f64>,
    #[serde(default)]
    artifacts: Vec<Artifact>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Artifact {
    path: String,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct Failure {
    message: String,
}

#[derive(Default, Deserialize)]
struct Artifacts {
    agent_log: Option<String>,
    #[serde(default)]
    reports: Vec<String>,
    #[serde(default)]
    #[expect(clippy::struct_field_names, reason = "the key of the file format")]
    evaluator_artifacts: Vec<String>,
}

/// The report of a `results.json` as Markdown, with youBencha's sections.
pub fn results_youbencha(json: &[u8]) -> Result<String, NoResults> {
    let bundle: Bundle = serde_json::from_slice(json)?;
    let mut text = "# youBencha Evaluation Report\n".to_owned();
    let summary = [
        ("Overall Status", "overall_status"),
        ("Total Evaluators", "total_evaluators"),
        ("Passed", "passed"),
        ("Failed", "failed"),
        ("Skipped", "skipped"),
    ];
    section(&mut text, "Summary", &bundle.summary, &summary);
    let case = [
        ("Name", "name"),
        ("Description", "description"),
        ("Repository", "repo"),
        ("Branch", "branch"),
        ("Commit", "commit"),
        ("Expected Branch", "expected_branch"),
        ("Config File", "config_file"),
        ("Config Hash", "config_hash"),
    ];
    section(
        &mut text,
        "Test Case Configuration",
        &bundle.test_case,
        &case,
    );
    execution(&mut text, &bundle.execution);
    let agent = [
        ("Type", "type"),
        ("Status", "status"),
        ("Outcome", "outcome"),
        ("Exit Code", "exit_code"),
        ("Log", "youbencha_log_path"),
    ];
    section(&mut text, "Agent Execution", &bundle.agent, &agent);
    text.push_str("\n## Evaluator Results\n");
    for one in &bundle.evaluators {
        verdict(&mut text, one);
    }
    artifacts(&mut text, &bundle.artifacts);
    Ok(text)
}

/// A section with one line for each value that is there.
fn section(text: &mut String, title: &str, values: &Map<String, Value>, rows: &[(&str, &str)]) {
    let _ = writeln!(text, "\n## {title}\n");
    for (name, key) in rows {
        if let Some(value) = values.get(*key).filter(|value| !value.is_null()) {
            let _ = writeln!(text, "- **{name}:** {}", shown(value));
        }
    }
}

fn execution(text: &mut String, execution: &Map<String, Value>) {
    let rows = [
        ("Started", "started_at"),
        ("Completed", "completed_at"),
        ("youBencha Version", "youbencha_version"),
    ];
    section(text, "Execution Details", execution, &rows);
    if let Some(duration) = execution.get("duration_ms").and_then(Value::as_f64) {
        let _ = writeln!(text, "- **Duration:** {}", millis(duration));
    }
    let Some(Value::Object(environment)) = execution.get("environment") else {
        return;
    };
    text.push_str("- **Environment:**\n");
    let rows = [
        ("OS", "os"),
        ("Node.js", "node_version"),
        ("Workspace", "workspace_dir"),
    ];
    for (name, key) in rows {
        if let Some(value) = environment.get(key) {
            let _ = writeln!(text, "  - {name}: {}", shown(value));
        }
    }
}

fn verdict(text: &mut String, verdict: &Verdict) {
    let _ = writeln!(text, "\n### {}\n", one_line(&verdict.evaluator));
    let _ = writeln!(text, "- **Status:** {}", one_line(&verdict.status));
    let _ = writeln!(text, "- **Message:** {}", one_line(&verdict.message));
    if let Some(duration) = verdict.duration_ms {
        let _ = writeln!(text, "- **Duration:** {}", millis(duration));
    }
    if let Some(error) = &verdict.error {
        let _ = writeln!(text, "- **Error:** {}", one_line(&error.message));
    }
    for artifact in &verdict.artifacts {
        let (path, about) = (one_line(&artifact.path), one_line(&artifact.description));
        let _ = writeln!(text, "- **Artifact:** `{path}`: {about}");
    }
    // Lists and maps are in the file.
    let is_single = |(_, value): &(&String, &Value)| !value.is_array() && !value.is_object();
    let metrics: Vec<_> = verdict.metrics.iter().filter(is_single).collect();
    if metrics.is_empty() {
        return;
    }
    text.push_str("\n| Metric | Value |\n|---|---|\n");
    for (name, value) in metrics {
        // Names of metrics are those in the file: readers search for them.
        let _ = writeln!(
            text,
            "| {} | {} |",
            cell(&one_line(name)),
            cell(&shown(value))
        );
    }
}

fn artifacts(text: &mut String, artifacts: &Artifacts) {
    text.push_str("\n## Artifacts\n\n");
    if let Some(log) = &artifacts.agent_log {
        let _ = writeln!(text, "- **Agent Log:** `{}`", one_line(log));
    }
    let all = [
        ("Report", &artifacts.reports),
        ("Evaluator Artifact", &artifacts.evaluator_artifacts),
    ];
    for (name, paths) in all {
        for path in paths {
            let _ = writeln!(text, "- **{name}:** `{}`", one_line(path));
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text),
        other => other.to_string(),
    }
}

/// A text that does not end the cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
