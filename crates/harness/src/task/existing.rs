//! A task from a directory with existing work, which is only judged.

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8Path;
use proctor_agents::agent::PromptSource;
use proctor_document::ConfigError;
use proctor_record::record::TaskKind;

use super::{Asks, Files, RunFolder, Task, TaskLimits, TaskTools, case::configure};
use crate::config::{self, OutputLimits, ProgressLimits, Settings};

/// Reads the input of `proctor eval`. `directory` takes precedence over the one in the file.
pub fn load(
    path: &Utf8Path,
    directory: Option<&Utf8Path>,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<Task, ConfigError> {
    let eval = config::load_eval(path, directory, env, settings)?;
    let mut faults = Vec::new();
    let evaluators = configure(&eval.evaluators, &eval.folder, &eval.source, &mut faults)?;
    if !faults.is_empty() {
        return Err(eval.source.error(faults));
    }
    Ok(Task {
        notes: Vec::new(),
        unset: Vec::new(),
        name: eval.name,
        steps: None,
        tools: TaskTools::default(),
        asks: Asks::Prompt(PromptSource::Text(eval.description.clone())),
        description: eval.description,
        kind: TaskKind::Directory,
        category: None,
        aliases: Vec::new(),
        reference: eval.reference,
        limits: TaskLimits {
            timeout: None,
            idle_timeout: None,
            progress: ProgressLimits::default(),
            output: OutputLimits::default(),
            tells_deadline: false,
        },
        files: Files::Existing {
            directory: eval.directory,
            base: eval.base,
        },
        install: None,
        evaluators,
        patterns: Vec::new(),
        hooks: eval.hooks,
        run_folder: RunFolder {
            parent: eval.output_dir,
            name: Some("eval".to_owned()),
        },
        folder: eval.folder,
        config_hash: eval.source.hash(),
        source: Arc::clone(&eval.source),
    })
}
