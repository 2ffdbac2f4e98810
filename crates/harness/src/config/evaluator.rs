//! The `evaluators` of a test case: their names, and settings that only the evaluator reads.

use std::sync::Arc;

use camino::Utf8Path;
use proctor_document::{ConfigError, Fault, Node, Span, Value, unknown_name};
use proctor_record::fs::named;
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{interpolate::Variables, relative_to::RelativeTo, source::Source};

/// One entry of `evaluators`.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluatorSpec {
    /// The evaluator's name.
    pub name: String,
    /// Its description, from its definition file.
    pub description: Option<String>,
    /// Its weight in the trial's score, with its position.
    pub weight: Option<(f64, Span)>,
    /// Its own settings; an empty map by default.
    pub config: Node,
    /// The position of the name.
    pub span: Span,
    /// The file that `span` and `config` point into: the test case, or a definition file.
    pub source: Arc<Source>,
}

impl EvaluatorSpec {
    /// The fault for an unknown evaluator name.
    pub fn unknown(&self, known: &[&str]) -> Fault {
        unknown_name(self.span, "evaluator", &self.name, known)
    }

    /// An error about this entry, in the file that defines it.
    pub fn error(&self, faults: Vec<Fault>) -> ConfigError {
        self.source.error(faults)
    }
}

/// An evaluator: its name, or a file that defines it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Evaluator")]
pub(super) struct EvaluatorAsWritten {
    /// The evaluator, such as `git-diff`.
    pub(super) name: Option<String>,
    /// A definition file (`name`, `description`, `config`), relative to the test case.
    pub(super) file: Option<String>,
    /// Its weight in the trial's score. Default 1; 0 excludes it from the score.
    #[schemars(range(min = 0.0))]
    pub(super) weight: Option<f64>,
    /// Settings of this evaluator.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub(super) config: Option<IgnoredAny>,
}

/// A definition file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvaluatorDefinition {
    name: String,
    description: Option<String>,
    weight: Option<f64>,
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    config: Option<IgnoredAny>,
}

/// An entry: complete, or a reference to a definition file.
enum EvaluatorEntry {
    Inline {
        name: String,
        weight: Option<(f64, Span)>,
        config: Node,
        span: Span,
    },
    File {
        path: String,
        /// Takes precedence over the weight of the file.
        weight: Option<(f64, Span)>,
        span: Span,
    },
}

/// The input of `read` apart from the entries.
pub(super) struct EvaluatorContext<'a> {
    /// The test case.
    pub(super) source: &'a Arc<Source>,
    /// The folder of the test case.
    pub(super) folder: &'a Utf8Path,
    /// The variables for definition files.
    pub(super) variables: &'a Variables<'a>,
    /// Where relative paths of directories and hooks begin.
    pub(super) relative_to: RelativeTo,
}

/// Faults of the entries.
pub(super) enum Refused {
    /// Faults in the test case.
    Here(Vec<Fault>),
    /// Faults in a definition file.
    InFile(ConfigError),
}

/// Reads all entries. Definition files are read only if the list itself is valid.
pub(super) fn read(
    items: &[Node],
    context: &EvaluatorContext<'_>,
) -> Result<Vec<EvaluatorSpec>, Refused> {
    let mut faults = Vec::new();
    let mut entries = Vec::new();
    for item in items {
        match entry(item) {
            Ok(entry) => entries.push(entry),
            Err(fault) => faults.push(fault),
        }
    }
    if !faults.is_empty() {
        return Err(Refused::Here(faults));
    }
    entries
        .into_iter()
        .map(|entry| complete(entry, context))
        .collect()
}

fn entry(item: &Node) -> Result<EvaluatorEntry, Fault> {
    if let Value::String(name) = &item.value {
        let config = Node::empty_map(item.span);
        check_name(name, item.span)?;
        return Ok(EvaluatorEntry::Inline {
            name: name.clone(),
            weight: None,
            config,
            span: item.span,
        });
    }
    let written: EvaluatorAsWritten = item.read()?;
    let weight = weight_of(item, written.weight)?;
    match (written.name, written.file) {
        (Some(name), None) => {
            let span = item.span_of("name");
            check_name(&name, span)?;
            let config = config_of(item)?;
            Ok(EvaluatorEntry::Inline {
                name,
                weight,
                config,
                span,
            })
        }
        (None, Some(path)) if written.config.is_none() => Ok(EvaluatorEntry::File {
            path,
            weight,
            span: item.span_of("file"),
        }),
        (None, Some(_)) => Err(Fault::new(
            item.key_span_of("config"),
            "`config` has no effect with `file`",
        )
        .with_hint("move it to the definition file")),
        (Some(_), Some(_)) => Err(Fault::new(
            item.key_span_of("file"),
            "`name` and `file` cannot be combined",
        )
        .with_hint("remove one of them")),
        (None, None) => Err(Fault::new(item.span, "missing key `name` or `file`")
            .with_hint("name the evaluator, such as `name: git-diff`")),
    }
}

/// A weight is a number of at least 0.
fn weight_of(node: &Node, written: Option<f64>) -> Result<Option<(f64, Span)>, Fault> {
    match written {
        None => Ok(None),
        Some(weight) if weight.is_finite() && weight >= 0.0 => {
            Ok(Some((weight, node.span_of("weight"))))
        }
        Some(_) => Err(node.fault("weight", "`weight` must be at least 0")),
    }
}

fn complete(
    entry: EvaluatorEntry,
    context: &EvaluatorContext<'_>,
) -> Result<EvaluatorSpec, Refused> {
    match entry {
        EvaluatorEntry::Inline {
            name,
            weight,
            config,
            span,
        } => Ok(EvaluatorSpec {
            name,
            description: None,
            weight,
            config,
            span,
            source: Arc::clone(context.source),
        }),
        EvaluatorEntry::File {
            path: file,
            weight,
            span,
        } => {
            // Messages show the path as the user wrote it, not the resolved one.
            named::file_in(context.folder, &file).map_err(|error| {
                let message = format!("cannot read the definition file `{file}`: {error}");
                Refused::Here(vec![Fault::new(span, message)])
            })?;
            let defined = define(&context.folder.join(&file), context.variables);
            let defined = defined.map_err(Refused::InFile)?;
            Ok(EvaluatorSpec {
                weight: weight.or(defined.weight),
                ..defined
            })
        }
    }
}

fn define(path: &Utf8Path, variables: &Variables<'_>) -> Result<EvaluatorSpec, ConfigError> {
    let (source, root) = Source::read(path, variables)?;
    let source = Arc::new(source);
    let read = || -> Result<EvaluatorSpec, Fault> {
        let definition: EvaluatorDefinition = root.read()?;
        let span = root.span_of("name");
        check_name(&definition.name, span)?;
        Ok(EvaluatorSpec {
            name: definition.name,
            description: definition.description,
            weight: weight_of(&root, definition.weight)?,
            config: config_of(&root)?,
            span,
            source: Arc::clone(&source),
        })
    };
    read().map_err(|fault| source.error(vec![fault]))
}

fn config_of(node: &Node) -> Result<Node, Fault> {
    match node.get("config") {
        None => Ok(Node::empty_map(node.span_of("name"))),
        Some(config) if matches!(config.value, Value::Map(_)) => Ok(config.clone()),
        Some(config) => {
            Err(node.fault("config", format!("expected a map, found {}", config.value)))
        }
    }
}

fn check_name(name: &str, span: Span) -> Result<(), Fault> {
    if name.is_empty() {
        return Err(Fault::new(span, "the evaluator's name is empty"));
    }
    Ok(())
}
