//! SARIF, `ESLint`'s JSON and cargo's messages, as findings.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::{
    error::{Format, ReportError},
    findings::{Finding, Severity},
    json_lines,
};

pub(super) fn sarif(text: &str) -> Result<Vec<Finding>, ReportError> {
    let report: Sarif =
        serde_json::from_str(text).map_err(|error| Format::Sarif.broken(error.to_string()))?;
    let runs = report.runs.iter();
    let of = |run| sarif_run(run).ok_or_else(|| Format::Sarif.broken("a run has no results"));
    let runs: Vec<Vec<Finding>> = runs.map(of).collect::<Result<_, _>>()?;
    Ok(runs.concat())
}

#[derive(Deserialize)]
struct Sarif {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    #[serde(default)]
    tool: Tool,
    /// Missing if the tool failed before the analysis.
    results: Option<Vec<SarifResult>>,
}

#[derive(Default, Deserialize)]
struct Tool {
    #[serde(default)]
    driver: Driver,
}

#[derive(Default, Deserialize)]
struct Driver {
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: String,
    #[serde(default)]
    default_configuration: Configuration,
}

#[derive(Default, Deserialize)]
struct Configuration {
    level: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult {
    rule_id: Option<String>,
    rule_index: Option<usize>,
    level: Option<String>,
    kind: Option<String>,
    message: Option<Value>,
    #[serde(default)]
    locations: Vec<Value>,
    #[serde(default)]
    suppressions: Vec<Value>,
}

fn sarif_run(run: &Run) -> Option<Vec<Finding>> {
    let rules = &run.tool.driver.rules;
    let results = run.results.as_ref()?.iter();
    // Results can also be passes or accepted findings.
    let fails = |it: &&SarifResult| it.kind.as_deref().is_none_or(|kind| kind == "fail");
    let counts = results
        .filter(fails)
        .filter(|it| it.suppressions.is_empty());
    Some(counts.map(|it| sarif_finding(it, rules)).collect())
}

fn sarif_finding(result: &SarifResult, rules: &[Rule]) -> Finding {
    let by_index = result.rule_index.and_then(|index| rules.get(index));
    let by_id = || {
        rules
            .iter()
            .find(|it| Some(&it.id) == result.rule_id.as_ref())
    };
    let rule = by_index.or_else(by_id);
    let default = rule.and_then(|it| it.default_configuration.level.as_ref());
    let level = match result.level.as_ref().or(default).map(String::as_str) {
        Some("error") => Severity::Error,
        Some("note" | "none") => Severity::Note,
        _ => Severity::Warning,
    };
    let place = result
        .locations
        .first()
        .and_then(|it| it.get("physicalLocation"));
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let pointer = |path| place.and_then(|it| it.pointer(path));
    let message = result.message.as_ref();
    let words = message.and_then(|it| it.get("text").or_else(|| it.get("id")));
    Finding {
        rule: result.rule_id.clone().or_else(|| Some(rule?.id.clone())),
        file: text(pointer("/artifactLocation/uri")),
        line: pointer("/region/startLine").and_then(Value::as_u64),
        level,
        message: text(words).unwrap_or_default(),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintFile {
    file_path: String,
    messages: Vec<EslintMessage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintMessage {
    rule_id: Option<String>,
    severity: u8,
    #[serde(default)]
    message: String,
    line: Option<u64>,
}

pub(super) fn eslint(text: &str) -> Result<Vec<Finding>, ReportError> {
    let files: Vec<EslintFile> =
        serde_json::from_str(text).map_err(|error| Format::Eslint.broken(error.to_string()))?;
    if files.is_empty() {
        let format = Format::Eslint;
        return Err(ReportError::Empty { format });
    }
    let findings = files.into_iter().flat_map(|file| {
        let EslintFile {
            file_path,
            messages,
        } = file;
        messages.into_iter().map(move |it| Finding {
            rule: it.rule_id,
            file: Some(file_path.clone()),
            line: it.line,
            level: if it.severity >= 2 {
                Severity::Error
            } else {
                Severity::Warning
            },
            message: it.message,
        })
    });
    Ok(findings.collect())
}

#[derive(Deserialize)]
struct CargoLine {
    reason: String,
    message: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Diagnostic {
    message: String,
    level: String,
    code: Option<Code>,
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: u64,
    is_primary: bool,
}

pub(super) fn cargo(text: &str) -> Result<Vec<Finding>, ReportError> {
    let lines: Vec<CargoLine> = json_lines::read(text, Format::Cargo)?;
    if !lines.iter().any(|line| line.reason == "build-finished") {
        return Err(Format::Cargo.broken("the build did not finish"));
    }
    let messages = lines.into_iter().filter_map(|line| line.message);
    // A file of a library is also compiled for its tests and reported twice.
    let mut seen = BTreeSet::new();
    let findings = messages.filter_map(cargo_finding);
    Ok(findings.filter(|it| seen.insert(it.clone())).collect())
}

/// A finding; `None` for summaries and explanations.
fn cargo_finding(diagnostic: Diagnostic) -> Option<Finding> {
    let level = match diagnostic.level.as_str() {
        "warning" => Severity::Warning,
        level if level.starts_with("error") => Severity::Error,
        _ => return None,
    };
    let place = diagnostic.spans.iter().find(|span| span.is_primary);
    if place.is_none() && diagnostic.code.is_none() {
        let sums_up = level == Severity::Warning || diagnostic.message.starts_with("aborting due");
        if sums_up {
            return None;
        }
    }
    Some(Finding {
        rule: diagnostic.code.map(|it| it.code),
        file: place.map(|it| it.file_name.clone()),
        line: place.map(|it| it.line_start),
        level,
        message: diagnostic.message,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Findings, samples};
    use super::*;

    fn rules(sample: &str) -> Vec<(String, Severity, Option<u64>)> {
        let read = Findings::read(sample.as_bytes()).unwrap();
        let findings = read.findings.into_iter();
        findings
            .map(|it| (it.rule.unwrap_or_default(), it.level, it.line))
            .collect()
    }

    #[test]
    fn eslint_counts_errors_and_warnings() {
        let rules = rules(samples::ESLINT);
        let of = |level| rules.iter().filter(|it| it.1 == level).count();
        assert_eq!((of(Severity::Error), of(Severity::Warning)), (3, 1));
        assert_eq!(rules[0], ("no-var".to_owned(), Severity::Error, Some(1)));
    }

    #[test]
    fn clippy_lints_are_counted_once() {
        let doubled = format!("{}{}", samples::CLIPPY, samples::CLIPPY);
        for sample in [samples::CLIPPY, &doubled] {
            let rules: Vec<String> = rules(sample).into_iter().map(|it| it.0).collect();
            assert_eq!(rules, ["clippy::needless_return", "clippy::ptr_arg"]);
        }
    }

    #[test]
    fn truncated_build_output_is_an_error() {
        let cut: Vec<&str> = samples::CLIPPY.lines().take(2).collect();
        let error = Findings::read(cut.join("\n").as_bytes()).unwrap_err();
        assert_eq!(error, Format::Cargo.broken("the build did not finish"));
    }

    #[test]
    fn passes_and_suppressed_results_of_sarif_are_ignored() {
        let expected = [
            ("S100".to_owned(), Severity::Error, Some(7)),
            ("S200".to_owned(), Severity::Warning, None),
        ];
        assert_eq!(rules(samples::SARIF), expected);
    }

    #[test]
    fn linter_without_files_is_an_error() {
        let format = Format::Eslint;
        assert_eq!(Findings::read(b"[]"), Err(ReportError::Empty { format }));
        let unlooked = br#"{"version":"2.1.0","runs":[{"tool":{"driver":{}}}]}"#;
        assert!(Findings::read(unlooked).is_err());
        let clean = br#"{"version":"2.1.0","runs":[{"tool":{"driver":{}},"results":[]}]}"#;
        assert!(Findings::read(clean).unwrap().findings.is_empty());
    }
}
