//! `git-diff`: the size of the change and its distribution over files.

use camino::Utf8Path;
use proctor_document::{Fault, Node, Value};
use proctor_record::{
    fs::dir,
    record::{Artifact, DiffRecord, PATCH_FILE, VerdictStatus},
    text,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{Finding, Judging};
use crate::workspace::{Change, FileChange};

/// `config` of `git-diff`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct GitDiffSettings {
    /// The commit to compare with, instead of the one that the agent started from.
    base_commit: Option<String>,
    /// The conditions.
    assertions: Assertions,
    /// Whether the metrics have the entropy of the change. Default true.
    include_entropy: Option<bool>,
}

/// Bounds on the change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Assertions {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_files_changed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_lines_added: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_lines_removed: Option<u64>,
    #[serde(alias = "max_lines_changed", skip_serializing_if = "Option::is_none")]
    max_total_changes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_change_entropy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_change_entropy: Option<f64>,
}

impl Assertions {
    /// Whether a condition is about lines.
    fn counts_lines(&self) -> bool {
        let limits = [
            self.max_lines_added,
            self.max_lines_removed,
            self.max_total_changes,
        ];
        limits.iter().any(Option::is_some)
    }
}

/// The keys of `assertions`. youBencha's test cases also have them in `config` itself.
const ASSERTIONS: [&str; 7] = [
    "max_files_changed",
    "max_lines_added",
    "max_lines_removed",
    "max_total_changes",
    "max_lines_changed",
    "min_change_entropy",
    "max_change_entropy",
];

impl GitDiffSettings {
    /// Reads `config`.
    pub(super) fn read(config: &Node) -> Result<GitDiffSettings, Fault> {
        let mut config = config.clone();
        let direct = ASSERTIONS.iter().filter_map(|key| config.remove(key));
        let direct: Vec<_> = direct.collect();
        let has_assertions = config.get("assertions").is_some();
        if let (Some((span, key, _)), Value::Map(entries)) = (direct.first(), &mut config.value) {
            let span = *span;
            if has_assertions {
                let message = format!("`{key}` stands beside `assertions`");
                return Err(Fault::new(span, message).with_hint("put it into `assertions`"));
            }
            let value = Value::Map(direct);
            entries.push((span, "assertions".to_owned(), Node { span, value }));
        }
        config.read()
    }

    /// Whether it has conditions, rather than only measuring.
    pub(super) fn decides(&self) -> bool {
        self.assertions != Assertions::default()
    }
}

/// The size of a change and its distribution over files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub(crate) files: u64,
    pub(crate) added: u64,
    pub(crate) removed: u64,
    pub(crate) entropy: f64,
}

impl Size {
    /// Sums up a change. A file whose lines are not known counts as a file only.
    pub(crate) fn of(files: &[FileChange]) -> Size {
        let added = files.iter().filter_map(|file| file.added).sum();
        let removed = files.iter().filter_map(|file| file.removed).sum();
        Size {
            files: files.len() as u64,
            added,
            removed,
            entropy: entropy(files),
        }
    }

    fn total(self) -> u64 {
        self.added + self.removed
    }
}

/// The record of a change whose patch is in the file `patch`.
pub(crate) fn diff_record(change: &Change, patch: &Utf8Path) -> std::io::Result<DiffRecord> {
    let size = Size::of(&change.files);
    Ok(DiffRecord {
        files_changed: size.files,
        lines_added: size.added,
        lines_removed: size.removed,
        tree: change.tree.clone(),
        patch_hash: dir::hash_file(patch)?,
    })
}

/// Shannon entropy in bits of the changed lines over the files: 0 if one file has them all.
fn entropy(files: &[FileChange]) -> f64 {
    let lines: Vec<u64> = files
        .iter()
        .map(lines_of)
        .filter(|lines| *lines > 0)
        .collect();
    let total = lines.iter().sum::<u64>() as f64;
    let bits: f64 = lines
        .iter()
        .map(|lines| *lines as f64 / total)
        .map(|share| share * share.log2())
        .sum();
    // The sum of a single file is -0.
    if bits == 0.0 { 0.0 } else { -bits }
}

fn lines_of(file: &FileChange) -> u64 {
    file.added.unwrap_or(0) + file.removed.unwrap_or(0)
}

pub(super) async fn judge(
    settings: &GitDiffSettings,
    judging: &Judging<'_>,
) -> Result<Finding, String> {
    let other_base;
    let (base, files) = match &settings.base_commit {
        None => (
            judging
                .workspace
                .source_commit
                .as_ref()
                .unwrap_or(&judging.workspace.base_commit),
            &judging.change.files,
        ),
        Some(commit) => {
            other_base = judging
                .workspace
                .files_since(commit, &judging.change.tree)
                .await
                .map_err(|error| format!("cannot compare with base_commit: {error}"))?;
            (commit, &other_base)
        }
    };
    let workspace = judging.workspace;
    let from = match &settings.base_commit {
        None => workspace.base_tree.clone(),
        Some(commit) => workspace
            .tree_of(commit)
            .await
            .map_err(|error| error.to_string())?,
    };
    let counted = workspace
        .with_binary_lines(&from, &judging.change.tree, files)
        .await;
    let files = &counted.map_err(|error| format!("cannot count lines: {error}"))?;
    let size = Size::of(files);
    let mut violations = violations(&settings.assertions, size);
    let unknown = files.iter().find(|file| file.added.is_none());
    if let Some(file) = unknown.filter(|_| settings.assertions.counts_lines()) {
        violations.push(format!("{} is too large to count its lines", file.path));
    }
    let mut metrics = metrics(size, files);
    if settings.include_entropy == Some(false) {
        metrics.remove("change_entropy");
    }
    metrics.insert("base_commit".to_owned(), json!(base));
    metrics.insert("current_commit".to_owned(), json!(judging.change.head));
    if !violations.is_empty() {
        metrics.insert("violations".to_owned(), json!(violations));
    }
    let measured = describe(size);
    Ok(Finding {
        status: if violations.is_empty() {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        },
        score: None,
        message: if violations.is_empty() {
            measured
        } else {
            format!("{measured}; {}", violations.join("; "))
        },
        metrics,
        assertions: given(&settings.assertions),
        artifacts: vec![Artifact {
            kind: "diff".to_owned(),
            path: PATCH_FILE.to_owned(),
            description: "the agent's change".to_owned(),
        }],
        restored: Vec::new(),
        tampered: Vec::new(),
    })
}

fn describe(size: Size) -> String {
    format!(
        "{} changed (+{}/-{} lines)",
        text::counted(size.files, "file"),
        size.added,
        size.removed
    )
}

/// The assertions that are set, or `None` without any.
fn given(assertions: &Assertions) -> Option<Map<String, Json>> {
    match serde_json::to_value(assertions) {
        Ok(Json::Object(map)) if !map.is_empty() => Some(map),
        _ => None,
    }
}

fn violations(assertions: &Assertions, size: Size) -> Vec<String> {
    let mut found = Vec::new();
    let mut at_most = |name: &str, limit: Option<u64>, value: u64| {
        if let Some(limit) = limit.filter(|limit| value > *limit) {
            found.push(format!("{name} is {limit}, actual value {value}"));
        }
    };
    at_most(
        "max_files_changed",
        assertions.max_files_changed,
        size.files,
    );
    at_most("max_lines_added", assertions.max_lines_added, size.added);
    at_most(
        "max_lines_removed",
        assertions.max_lines_removed,
        size.removed,
    );
    at_most(
        "max_total_changes",
        assertions.max_total_changes,
        size.total(),
    );
    if let Some(limit) = assertions
        .min_change_entropy
        .filter(|limit| size.entropy < *limit)
    {
        found.push(format!(
            "min_change_entropy is {limit}, actual value {:.3}",
            size.entropy
        ));
    }
    if let Some(limit) = assertions
        .max_change_entropy
        .filter(|limit| size.entropy > *limit)
    {
        found.push(format!(
            "max_change_entropy is {limit}, actual value {:.3}",
            size.entropy
        ));
    }
    found
}

fn metrics(size: Size, files: &[FileChange]) -> Map<String, Json> {
    let changed: Vec<Json> = files
        .iter()
        .map(|file| {
            json!({
                "path": file.path,
                "additions": file.added,
                "deletions": file.removed,
                "changes": file.added.zip(file.removed).map(|(added, removed)| added + removed),
            })
        })
        .collect();
    [
        ("files_changed", json!(size.files)),
        ("lines_added", json!(size.added)),
        ("lines_removed", json!(size.removed)),
        ("total_changes", json!(size.total())),
        ("change_entropy", json!(size.entropy)),
        ("changed_files", json!(changed)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(added: u64, removed: u64) -> FileChange {
        FileChange {
            path: "f".to_owned(),
            added: Some(added),
            removed: Some(removed),
        }
    }

    #[test]
    fn entropy_is_zero_for_one_file_and_one_bit_for_two_equal_ones() {
        assert_eq!(Size::of(&[]).entropy.to_bits(), 0.0_f64.to_bits());
        assert_eq!(Size::of(&[file(9, 1)]).entropy.to_bits(), 0.0_f64.to_bits());
        assert!((Size::of(&[file(5, 0), file(0, 5)]).entropy - 1.0).abs() < 1e-12);
        assert!((Size::of(&[file(3, 0), file(1, 0)]).entropy - 0.811_278).abs() < 1e-6);
    }

    #[test]
    fn bounds_are_checked_at_and_beyond_the_limit() {
        let size = Size {
            files: 2,
            added: 3,
            removed: 4,
            entropy: 1.0,
        };
        let at = Assertions {
            max_files_changed: Some(2),
            max_lines_added: Some(3),
            max_lines_removed: Some(4),
            max_total_changes: Some(7),
            min_change_entropy: Some(1.0),
            max_change_entropy: Some(1.0),
        };
        assert_eq!(violations(&at, size), Vec::<String>::new());
        let over = Assertions {
            max_files_changed: Some(1),
            max_lines_added: Some(2),
            max_lines_removed: Some(3),
            max_total_changes: Some(6),
            min_change_entropy: Some(1.1),
            max_change_entropy: Some(0.9),
        };
        assert_eq!(violations(&over, size).len(), 6);
    }

    fn settings(yaml: &str) -> Result<GitDiffSettings, String> {
        let config = proctor_document::Format::Yaml.parse(yaml).unwrap();
        GitDiffSettings::read(&config).map_err(|fault| fault.message)
    }

    #[test]
    fn limits_of_youbencha_stand_in_config_or_in_assertions() {
        let expect = Assertions {
            max_files_changed: Some(5),
            max_total_changes: Some(200),
            ..Assertions::default()
        };
        for yaml in [
            "max_files_changed: 5\nmax_lines_changed: 200\n",
            "assertions: {max_files_changed: 5, max_total_changes: 200}\ninclude_entropy: true\n",
        ] {
            assert_eq!(settings(yaml).unwrap().assertions, expect, "{yaml}");
        }
        let both = "max_files_changed: 5\nassertions: {max_lines_added: 1}\n";
        assert!(settings(both).unwrap_err().contains("beside `assertions`"));
        assert!(settings("max_file_changed: 5\n").is_err());
    }
}
