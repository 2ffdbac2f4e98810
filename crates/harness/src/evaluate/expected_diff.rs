//! `expected-diff`: the similarity of the agent's change and the reference's change. With d(x, y)
//! the number of lines that differ between two trees, it is 1 − d(reference, agent) / (d(base,
//! reference) + d(base, agent)). No change has similarity 0 and the same change has 1, regardless
//! of the size of the repo.

use std::collections::{BTreeMap, BTreeSet};

use globset::{Glob, GlobSet, GlobSetBuilder};
use proctor_document::Fault;
use proctor_record::{
    record::{self, Artifact, VerdictStatus},
    text::counted,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{EVIDENCE, EvidenceDir, Finding, Judging};
use crate::{config::EvaluatorSpec, workspace::FileChange};

const REPORT_FILE: &str = "expected-diff-report.json";

/// `config` of `expected-diff`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ExpectedDiffAsWritten {
    /// The minimum similarity, from 0 to 1. Default 0.8.
    #[schemars(range(min = 0.0, max = 1.0))]
    threshold: f64,
    /// Patterns of ignored files, such as `*.lock` or `docs/**`.
    ignore: Vec<String>,
}

impl Default for ExpectedDiffAsWritten {
    fn default() -> ExpectedDiffAsWritten {
        ExpectedDiffAsWritten {
            threshold: 0.8,
            ignore: Vec::new(),
        }
    }
}

/// Validated settings.
#[derive(Clone, Debug)]
pub(super) struct ExpectedDiffSettings {
    threshold: f64,
    ignore: GlobSet,
}

impl ExpectedDiffSettings {
    pub(super) fn read(spec: &EvaluatorSpec) -> Result<ExpectedDiffSettings, Fault> {
        let written: ExpectedDiffAsWritten = spec.config.read()?;
        if !(0.0..=1.0).contains(&written.threshold) {
            let message = "`threshold` must be from 0 to 1";
            return Err(spec.config.fault("threshold", message));
        }
        let mut ignore = GlobSetBuilder::new();
        for pattern in &written.ignore {
            let glob = Glob::new(pattern).map_err(|error| {
                let message = format!("invalid pattern `{pattern}`: {}", error.kind());
                spec.config.fault("ignore", message)
            })?;
            ignore.add(glob);
        }
        let ignore = ignore
            .build()
            .map_err(|error| spec.config.fault("ignore", error.to_string()))?;
        Ok(ExpectedDiffSettings {
            threshold: written.threshold,
            ignore,
        })
    }
}

pub(super) async fn judge(
    settings: &ExpectedDiffSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
) -> Result<Finding, String> {
    let workspace = judging.workspace;
    let Some(reference) = judging.reference else {
        return Err("the task has no reference solution".to_owned());
    };
    let failed = |error| format!("cannot compare with the reference solution: {error}");
    let expected = workspace.reference_tree(reference).await.map_err(failed)?;
    let agent = judging.change.tree.as_str();
    let (wanted, done, between) = tokio::join!(
        workspace.lines_between(&workspace.base_tree, &expected),
        workspace.lines_between(&workspace.base_tree, agent),
        workspace.lines_between(&expected, agent),
    );
    let table = Table::of(
        &wanted.map_err(failed)?,
        &done.map_err(failed)?,
        &between.map_err(failed)?,
        &settings.ignore,
    );
    let Some(similarity) = table.similarity() else {
        return Err("neither the reference nor the agent changed a relevant file".to_owned());
    };
    // Rescoring keeps the report of earlier judging.
    let path = match judging.evidence {
        EVIDENCE => REPORT_FILE.to_owned(),
        _ => format!("{}/{REPORT_FILE}", evidence.folder),
    };
    let report = judging.artifacts.join(&path);
    fs_err::create_dir_all(report.parent().unwrap_or(&report))
        .map_err(|error| error.to_string())?;
    record::write_json(&report, &json!({ "files": table.rows }))
        .map_err(|error| error.to_string())?;
    Ok(Finding {
        status: if similarity >= settings.threshold {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        },
        score: Some(similarity),
        message: format!(
            "{:.0} % of the reference's change (wanted: {:.0} %), {} of {} the same",
            similarity * 100.0,
            settings.threshold * 100.0,
            table.count(State::Matched),
            counted(table.rows.len(), "file"),
        ),
        metrics: table.metrics(similarity),
        assertions: Some(Map::from_iter([(
            "threshold".to_owned(),
            json!(settings.threshold),
        )])),
        artifacts: vec![Artifact {
            kind: "report".to_owned(),
            path,
            description: "the similarity of each file".to_owned(),
        }],
        restored: Vec::new(),
        tampered: Vec::new(),
    })
}

/// How the two changes of a file compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Both changed it in the same way.
    Matched,
    /// Both changed it in different ways.
    Changed,
    /// Only the agent changed it.
    Added,
    /// Only the reference changed it.
    Removed,
}

/// One file that the reference or the agent changed.
#[derive(Debug, Serialize)]
struct Row {
    path: String,
    status: State,
    similarity: f64,
    #[serde(skip)]
    apart: u64,
    #[serde(skip)]
    changed: u64,
}

struct Table {
    rows: Vec<Row>,
}

impl Table {
    fn of(
        wanted: &[FileChange],
        done: &[FileChange],
        between: &[FileChange],
        ignore: &GlobSet,
    ) -> Table {
        let (wanted, done, between) = (sizes(wanted), sizes(done), sizes(between));
        let paths: BTreeSet<&str> = wanted.keys().chain(done.keys()).copied().collect();
        let rows = paths
            .into_iter()
            .filter(|path| !ignore.is_match(path))
            .map(|path| {
                let by = |sizes: &BTreeMap<&str, u64>| sizes.get(path).copied();
                let changed = by(&wanted).unwrap_or(0) + by(&done).unwrap_or(0);
                let apart = by(&between).unwrap_or(0).min(changed);
                Row {
                    path: path.to_owned(),
                    status: match (by(&wanted), by(&done), by(&between)) {
                        (_, _, None) => State::Matched,
                        (None, _, _) => State::Added,
                        (_, None, _) => State::Removed,
                        _ => State::Changed,
                    },
                    similarity: share(apart, changed),
                    apart,
                    changed,
                }
            });
        Table {
            rows: rows.collect(),
        }
    }

    /// The similarity over all lines; `None` if nothing was changed.
    fn similarity(&self) -> Option<f64> {
        let changed: u64 = self.rows.iter().map(|row| row.changed).sum();
        let apart = self.rows.iter().map(|row| row.apart).sum();
        (changed > 0).then(|| share(apart, changed))
    }

    fn count(&self, status: State) -> usize {
        self.rows.iter().filter(|row| row.status == status).count()
    }

    fn metrics(&self, similarity: f64) -> Map<String, Value> {
        let metrics = json!({
            "aggregate_similarity": similarity,
            "files_matched": self.count(State::Matched),
            "files_changed": self.count(State::Changed),
            "files_added": self.count(State::Added),
            "files_removed": self.count(State::Removed),
            "file_similarities": self.rows,
        });
        match metrics {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

/// The number of differing lines by file. A change without lines (a binary file, a mode) counts as
/// one.
fn sizes(files: &[FileChange]) -> BTreeMap<&str, u64> {
    let size = |file: &FileChange| (file.added.unwrap_or(0) + file.removed.unwrap_or(0)).max(1);
    files
        .iter()
        .map(|file| (file.path.as_str(), size(file)))
        .collect()
}

fn share(apart: u64, changed: u64) -> f64 {
    1.0 - apart as f64 / changed as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, added: u64, removed: u64) -> FileChange {
        FileChange {
            path: path.to_owned(),
            added: Some(added),
            removed: Some(removed),
        }
    }

    fn check(
        wanted: &[FileChange],
        done: &[FileChange],
        between: &[FileChange],
        expect: Option<f64>,
    ) {
        let table = Table::of(wanted, done, between, &GlobSet::empty());
        assert_eq!(table.similarity(), expect);
    }

    #[test]
    fn no_change_scores_0_and_the_same_change_scores_1() {
        let wanted = [file("a", 3, 1), file("b", 10, 0)];
        check(
            &wanted,
            &[],
            &[file("a", 1, 3), file("b", 0, 10)],
            Some(0.0),
        );
        check(&wanted, &wanted, &[], Some(1.0));
        check(&[], &[], &[], None);
    }

    #[test]
    fn partial_and_additional_changes_score_in_between() {
        let wanted = [file("a", 4, 0)];
        check(
            &wanted,
            &[file("a", 2, 0)],
            &[file("a", 0, 2)],
            Some(1.0 - 2.0 / 6.0),
        );
        let extra = [file("a", 4, 0), file("new", 4, 0)];
        check(
            &wanted,
            &extra,
            &[file("new", 4, 0)],
            Some(1.0 - 4.0 / 12.0),
        );
    }

    #[test]
    fn binary_file_counts_as_one_line() {
        let logo = FileChange {
            path: "logo.png".to_owned(),
            added: None,
            removed: None,
        };
        let logo = [logo];
        check(&logo, &[], &logo, Some(0.0));
        check(&logo, &logo, &[], Some(1.0));
    }
}
