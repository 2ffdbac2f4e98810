//! Shared by test cases and evaluations: a file with evaluators. The error contains all faults at
//! once.

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8Path;
use proctor_document::{ConfigError, Fault, Node, Value};
use proctor_record::fs::named;

use super::{
    evaluator::{self, EvaluatorSpec, Refused},
    interpolate::Variables,
    settings::Settings,
    source::Source,
};

/// Tells users who have no test case yet how to get one.
fn with_init_hint(mut error: ConfigError) -> ConfigError {
    if error.text.is_none() && !error.path.exists() {
        for fault in &mut error.faults {
            fault.hint =
                Some("check the path; `proctor init` writes an example test case".to_owned());
        }
    }
    error
}

/// Opens a file and reads it.
pub(super) fn open<T>(
    path: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
    read: impl FnOnce(&Node, &evaluator::EvaluatorContext<'_>) -> Result<T, Refused>,
) -> Result<T, ConfigError> {
    let variables = Variables {
        project: &settings.variables,
        env,
    };
    let (source, root) = Source::read(path, &variables).map_err(with_init_hint)?;
    let source = Arc::new(source);
    let folder = named::absolute(path.parent().unwrap_or(Utf8Path::new("")));
    let context = evaluator::EvaluatorContext {
        source: &source,
        folder: &folder,
        variables: &variables,
        relative_to: settings.relative_to,
    };
    read(&root, &context).map_err(|refused| match refused {
        Refused::Here(faults) => source.error(faults),
        Refused::InFile(error) => error,
    })
}

/// Reads the evaluators. Faults of the list are added to `faults`; definition files are read only
/// if there are none.
pub(super) fn evaluators(
    root: &Node,
    context: &evaluator::EvaluatorContext<'_>,
    faults: &mut Vec<Fault>,
) -> Result<Vec<EvaluatorSpec>, Refused> {
    let items = match root.get("evaluators").map(|node| &node.value) {
        Some(Value::List(items)) => items.as_slice(),
        // Reading the whole test case reports a list that is missing or has a wrong type.
        _ => return Ok(Vec::new()),
    };
    if items.is_empty() {
        let fault = root.fault("evaluators", "`evaluators` is empty");
        faults.push(fault.with_hint("name at least one, such as `- git-diff`"));
    }
    match evaluator::read(items, context) {
        Ok(evaluators) => return Ok(evaluators),
        Err(Refused::Here(more)) => faults.extend(more),
        Err(Refused::InFile(error)) if faults.is_empty() => return Err(Refused::InFile(error)),
        Err(Refused::InFile(_)) => {}
    }
    Ok(Vec::new())
}
