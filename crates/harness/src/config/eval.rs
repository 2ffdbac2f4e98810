//! An evaluation of existing work: a directory, and how it is judged. No agent runs.

use std::{collections::BTreeMap, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Node, Span};
use proctor_record::{fs::named, platform, record};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    evaluator::{self, EvaluatorAsWritten, EvaluatorSpec, Refused},
    hooks::{self, HookAsWritten},
    relative_to::RelativeTo,
    repo,
    settings::Settings,
    shared,
    source::Source,
};
use crate::config::{Hooks, Reference};

/// The file that `proctor eval -c` reads.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvalCase {
    /// The JSON Schema that editors use to check the file.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// A short name.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// A description of the work to judge.
    #[schemars(length(min = 1, max = 1000))]
    pub description: String,
    /// The directory, relative to this file or else to the working directory; `--dir` comes first.
    pub directory: Option<String>,
    /// The branch, tag or commit to compare with. Default: HEAD of the directory, or no comparison
    /// if it is not a git repository.
    pub base: Option<String>,
    /// A directory with the reference solution.
    pub expected_directory: Option<String>,
    /// The evaluators.
    #[schemars(with = "Vec<EvaluatorAsWritten>", length(min = 1))]
    pub evaluators: Vec<IgnoredAny>,
    /// The hooks that process the results.
    #[schemars(with = "Option<Vec<HookAsWritten>>")]
    pub post_evaluation: Option<Vec<IgnoredAny>>,
    /// The directory for the results, relative to this file.
    pub output_dir: Option<String>,
}

/// A validated evaluation.
#[derive(Clone, Debug)]
pub struct ResolvedEval {
    /// A short name.
    pub name: String,
    /// A description of the work to judge.
    pub description: String,
    /// The directory to judge.
    pub directory: Utf8PathBuf,
    /// The base of the comparison.
    pub base: Option<String>,
    /// The reference solution.
    pub reference: Option<Reference>,
    /// The evaluators; at least one.
    pub evaluators: Vec<EvaluatorSpec>,
    /// The hooks that process the results.
    pub hooks: Hooks,
    /// The directory for the results, if set.
    pub output_dir: Option<Utf8PathBuf>,
    /// The directory of the file.
    pub folder: Utf8PathBuf,
    /// The evaluation file.
    pub source: Arc<Source>,
}

/// Reads an evaluation. `directory` takes precedence over the one in the file.
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
    context: &evaluator::EvaluatorContext<'_>,
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
        faults.push(root.fault("base", format!("invalid `base`: {problem}")));
    }
    let place = |written: &str| context.relative_to.existing(context.folder, written);
    let named = match (directory, &written.directory) {
        (Some(directory), _) => Some((root.span, named::absolute(directory))),
        (None, Some(written)) => Some((root.span_of("directory"), place(written))),
        (None, None) => {
            let fault = Fault::new(root.span, "no directory to judge");
            faults.push(fault.with_hint("add `directory`, or pass `--dir DIR`"));
            None
        }
    };
    let directory = named.and_then(|named| existing(named, "directory", &mut faults));
    let expected = written.expected_directory.as_ref().and_then(|written| {
        let span = root.span_of("expected_directory");
        existing((span, place(written)), "expected_directory", &mut faults)
    });
    let output_dir = written.output_dir;
    let output_dir = output_dir.map(|dir| context.relative_to.place(context.folder, dir));
    if let (Some(output), Some(judged)) = (&output_dir, &directory)
        && output.starts_with(judged)
        && !is_left_out(output, context.relative_to)
    {
        let message = "`output_dir` is inside the directory to judge";
        let fault = root.fault("output_dir", message);
        faults.push(
            fault.with_hint("choose a directory elsewhere; the judged directory must not change"),
        );
    }
    let hooks = hooks::read(root, context, &mut faults);
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

/// Whether results in `output` are not part of the directory around them. Only youBencha writes them
/// into the directory that it judges.
fn is_left_out(output: &Utf8Path, relative_to: RelativeTo) -> bool {
    let name = output.file_name().unwrap_or_default();
    relative_to == RelativeTo::WorkingDirectory && record::RUN_DIRS.contains(&name)
}

/// The canonical path of a directory that must exist.
fn existing(
    (span, path): (Span, Utf8PathBuf),
    key: &str,
    faults: &mut Vec<Fault>,
) -> Option<Utf8PathBuf> {
    match platform::canonical(&path) {
        Ok(real) if real.is_dir() => Some(real),
        _ => {
            let message = format!("invalid `{key}`: {path} is not a directory");
            faults.push(Fault::new(span, message));
            None
        }
    }
}
