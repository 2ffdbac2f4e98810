//! The `evaluators` of a test case: which way of judging, and the part that only it reads.

use std::sync::Arc;

use camino::Utf8Path;
use proctor_document::{ConfigError, Fault, Node, Span, Value, unknown_name};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{interpolate::Variables, source::Source};
use crate::fs::named;

/// One entry of `evaluators`.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluatorSpec {
    /// Which evaluator.
    pub name: String,
    /// Its description, from its definition file.
    pub description: Option<String>,
    /// How much it counts in the trial's score, and where that is written.
    pub weight: Option<(f64, Span)>,
    /// Its own settings; an empty map when they are left out.
    pub config: Node,
    /// Where the name is written.
    pub span: Span,
    /// The file that `span` and `config` point into: the test case, or a definition file.
    pub source: Arc<Source>,
}

impl EvaluatorSpec {
    /// The complaint that no evaluator has this name.
    pub fn unknown(&self, known: &[&str]) -> Fault {
        unknown_name(self.span, "evaluator", &self.name, known)
    }

    /// An error about this entry, in the file where it is written.
    pub fn error(&self, faults: Vec<Fault>) -> ConfigError {
        self.source.error(faults)
    }
}

/// One way of judging: an evaluator by name, or a file that defines it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Evaluator")]
pub(super) struct EvaluatorAsWritten {
    /// The evaluator, such as `git-diff`.
    pub(super) name: Option<String>,
    /// A definition file (`name`, `description`, `config`), relative to the test case.
    pub(super) file: Option<String>,
    /// How much it counts in the trial's score; 1 when left out, 0 for not at all.
    #[schemars(range(min = 0.0))]
    pub(super) weight: Option<f64>,
    /// What only this evaluator knows.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub(super) config: Option<IgnoredAny>,
}

/// A definition file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    name: String,
    description: Option<String>,
    weight: Option<f64>,
    #[expect(
        dead_code,
        reason = "read from the tree; named here so that it is a known key"
    )]
    config: Option<IgnoredAny>,
}

/// An entry: complete, or to be completed from a file.
enum Entry {
    Inline {
        name: String,
        weight: Option<(f64, Span)>,
        config: Node,
        span: Span,
    },
    File {
        path: String,
        /// Wins over that of the file.
        weight: Option<(f64, Span)>,
        span: Span,
    },
}

/// The input of `read` other than the entries.
pub(super) struct Context<'a> {
    /// The test case.
    pub(super) source: &'a Arc<Source>,
    /// The folder of the test case.
    pub(super) folder: &'a Utf8Path,
    /// The variables for definition files.
    pub(super) variables: &'a Variables<'a>,
}

/// Faults of the entries.
pub(super) enum Refused {
    /// Faults in the test case.
    Here(Vec<Fault>),
    /// Faults in a definition file.
    InFile(ConfigError),
}

/// Read all entries. Definition files are looked at only when the list itself is in order.
pub(super) fn read(items: &[Node], context: &Context<'_>) -> Result<Vec<EvaluatorSpec>, Refused> {
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

fn entry(item: &Node) -> Result<Entry, Fault> {
    if let Value::String(name) = &item.value {
        let config = Node::empty_map(item.span);
        check_name(name, item.span)?;
        return Ok(Entry::Inline {
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
            Ok(Entry::Inline {
                name,
                weight,
                config,
                span,
            })
        }
        (None, Some(path)) if written.config.is_none() => Ok(Entry::File {
            path,
            weight,
            span: item.span_of("file"),
        }),
        (None, Some(_)) => Err(Fault::new(
            item.key_span_of("config"),
            "`config` has no effect beside `file`",
        )
        .with_hint("put it into the definition file")),
        (Some(_), Some(_)) => Err(Fault::new(
            item.key_span_of("file"),
            "both `name` and `file` are given",
        )
        .with_hint("keep one of them")),
        (None, None) => Err(Fault::new(item.span, "neither `name` nor `file` is given")
            .with_hint("name the evaluator, such as `name: git-diff`")),
    }
}

/// A weight is a number that is not below 0.
fn weight_of(node: &Node, written: Option<f64>) -> Result<Option<(f64, Span)>, Fault> {
    match written {
        None => Ok(None),
        Some(weight) if weight.is_finite() && weight >= 0.0 => {
            Ok(Some((weight, node.span_of("weight"))))
        }
        Some(_) => Err(node.fault("weight", "`weight` is a number from 0 on")),
    }
}

fn complete(entry: Entry, context: &Context<'_>) -> Result<EvaluatorSpec, Refused> {
    match entry {
        Entry::Inline {
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
        Entry::File {
            path: file,
            weight,
            span,
        } => {
            // Read by the path that follows from what is written: that one the user knows.
            named::file_in(context.folder, &file).map_err(|error| {
                let message = format!("the definition file `{file}` cannot be used: {error}");
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
        let definition: Definition = root.read()?;
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
