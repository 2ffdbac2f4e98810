//! An evaluation of work that is done already: a directory, and how it is judged. No agent runs.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Node, Span};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    evaluator::{self, EvaluatorAsWritten, EvaluatorSpec, Refused},
    hooks::{self, HookAsWritten},
    repo,
    settings::Settings,
    shared,
    source::Source,
};
use crate::{
    config::{Hooks, Reference},
    fs::named,
    platform,
};

/// What `proctor eval -c` reads, as it is written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvalCase {
    /// The schema that an editor checks the file against.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// A short name.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// What is judged.
    #[schemars(length(min = 1, max = 1000))]
    pub description: String,
    /// The directory, relative to this file; `--dir` comes first.
    pub directory: Option<String>,
    /// What its work is compared with: a branch, tag or commit of it. Default: its HEAD, or
    /// nothing when it is no git repository.
    pub base: Option<String>,
    /// A directory that holds the reference solution.
    pub expected_directory: Option<String>,
    /// How the work is judged.
    #[schemars(with = "Vec<EvaluatorAsWritten>", length(min = 1))]
    pub evaluators: Vec<IgnoredAny>,
    /// What is done with the results.
    #[schemars(with = "Option<Vec<HookAsWritten>>")]
    pub post_evaluation: Option<Vec<IgnoredAny>>,
    /// Where the results go, relative to this file.
    pub output_dir: Option<String>,
}

/// An evaluation that is in order.
#[derive(Clone, Debug)]
pub struct ResolvedEval {
    /// A short name.
    pub name: String,
    /// What is judged.
    pub description: String,
    /// The directory.
    pub directory: Utf8PathBuf,
    /// The base of the comparison.
    pub base: Option<String>,
    /// The reference solution.
    pub reference: Option<Reference>,
    /// How it is judged; at least one.
    pub evaluators: Vec<EvaluatorSpec>,
    /// What is done with the results.
    pub hooks: Hooks,
    /// The directory for the results, if set.
    pub output_dir: Option<Utf8PathBuf>,
    /// The folder of the file.
    pub folder: Utf8PathBuf,
    /// The file itself.
    pub source: Arc<Source>,
}

/// Read an evaluation; `directory` comes before the one in the file.
pub fn load_eval(
    path: &Utf8Path,
    directory: Option<&Utf8Path>,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedEval, ConfigError> {
    shared::open(path, env, settings, |root, context| {
        read(root, directory, context)
    })
}

fn read(
    root: &Node,
    directory: Option<&Utf8Path>,
    context: &evaluator::Context<'_>,
) -> Result<ResolvedEval, Refused> {
    let written: EvalCase = root.read().map_err(|fault| Refused::Here(vec![fault]))?;
    let mut faults = Vec::new();
    for (key, text) in [
        ("name", &written.name),
        ("description", &written.description),
    ] {
        if text.trim().is_empty() {
            faults.push(root.fault(key, format!("`{key}` is empty")));
        }
    }
    if let Some(problem) = written.base.as_deref().and_then(repo::revision_problem) {
        faults.push(root.fault("base", format!("`base` cannot be used: {problem}")));
    }
    let named = match (directory, &written.directory) {
        (Some(directory), _) => Some((root.span, named::absolute(directory))),
        (None, Some(written)) => Some((root.span_of("directory"), context.folder.join(written))),
        (None, None) => {
            let fault = Fault::new(root.span, "there is no directory to judge");
            faults.push(fault.with_hint("add `directory`, or say `--dir DIR`"));
            None
        }
    };
    let directory = named.and_then(|named| existing(named, "directory", &mut faults));
    let expected = written.expected_directory.as_ref().and_then(|written| {
        let span = root.span_of("expected_directory");
        let path = context.folder.join(written);
        existing((span, path), "expected_directory", &mut faults)
    });
    let output_dir = written
        .output_dir
        .map(|dir| named::absolute(&context.folder.join(dir)));
    if let (Some(output), Some(judged)) = (&output_dir, &directory)
        && output.starts_with(judged)
    {
        let message = "`output_dir` lies in the directory that is judged";
        let fault = root.fault("output_dir", message);
        faults.push(fault.with_hint("name a folder elsewhere: the directory is not touched"));
    }
    let hooks = hooks::read(root, context.folder, &mut faults);
    let evaluators = shared::evaluators(root, context, &mut faults)?;
    match (directory, faults.is_empty()) {
        (Some(directory), true) => Ok(ResolvedEval {
            name: written.name,
            description: written.description,
            directory,
            base: written.base,
            reference: expected.map(Reference::Folder),
            evaluators,
            hooks,
            output_dir,
            folder: context.folder.to_owned(),
            source: Arc::clone(context.source),
        }),
        _ => Err(Refused::Here(faults)),
    }
}

/// The real path of a directory that has to be there.
fn existing(
    (span, path): (Span, Utf8PathBuf),
    key: &str,
    faults: &mut Vec<Fault>,
) -> Option<Utf8PathBuf> {
    match platform::canonical(&path) {
        Ok(real) if real.is_dir() => Some(real),
        _ => {
            let message = format!("`{key}` cannot be used: {path} is no directory");
            faults.push(Fault::new(span, message));
            None
        }
    }
}
