//! A task from a youBencha test case.

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8Path;
use proctor_document::{ConfigError, Fault};
use proctor_record::record::TaskKind;

use super::{Asks, Files, RunFolder, Task, TaskLimits, TaskTools};
use crate::{
    config::{self, EvaluatorSpec, ResolvedCase, Settings, Source},
    evaluate::Evaluator,
    workspace::Checkout,
};

/// Reads and checks a test case, except its agent.
pub fn load(
    path: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<Task, ConfigError> {
    let case = config::load(path, env, settings)?;
    let mut faults = Vec::new();
    let evaluators = evaluators(&case, &mut faults)?;
    if faults.is_empty() {
        Ok(Task::from_case(case, evaluators))
    } else {
        Err(case.source.error(faults))
    }
}

/// The evaluators of a test case. Collects faults.
pub fn evaluators(
    case: &ResolvedCase,
    faults: &mut Vec<Fault>,
) -> Result<Arc<[Evaluator]>, ConfigError> {
    let evaluators = configure(&case.evaluators, &case.folder, &case.source, faults)?;
    if case.reference.is_none() {
        // An invalid entry has no evaluator and is already reported.
        let pairs = case.evaluators.iter().zip(evaluators.iter());
        let asking = pairs.filter(|(_, evaluator)| evaluator.asks_for_sentinels());
        let message = "`sentinels` requires a reference solution";
        for (spec, _) in asking.filter(|_| case.evaluators.len() == evaluators.len()) {
            let fault = spec.config.fault("sentinels", message);
            if !Arc::ptr_eq(&spec.source, &case.source) {
                return Err(spec.error(vec![fault]));
            }
            faults.push(fault);
        }
    }
    let solution = case.solution_paths.as_ref();
    let confined = evaluators.iter().map(|it| it.clone().confined_to(solution));
    Ok(confined.collect())
}

/// The evaluators of a file. Collects faults.
pub(super) fn configure(
    specs: &[EvaluatorSpec],
    folder: &Utf8Path,
    source: &Arc<Source>,
    faults: &mut Vec<Fault>,
) -> Result<Arc<[Evaluator]>, ConfigError> {
    let mut evaluators = Vec::new();
    for spec in specs {
        match Evaluator::configure(spec, folder) {
            Ok(evaluator) => evaluators.push(evaluator),
            Err(fault) if Arc::ptr_eq(&spec.source, source) => faults.push(fault),
            Err(fault) => return Err(spec.error(vec![fault])),
        }
    }
    Ok(evaluators.into())
}

impl Task {
    /// The task of a test case with these evaluators.
    pub fn from_case(case: ResolvedCase, evaluators: Arc<[Evaluator]>) -> Task {
        Task {
            notes: Vec::new(),
            unset: Vec::new(),
            aliases: case.repo.names(),
            name: case.name,
            description: case.description,
            kind: TaskKind::Testcase,
            category: None,
            steps: None,
            tools: TaskTools::default(),
            asks: Asks::Section(Box::new(case.agent)),
            reference: case.reference,
            limits: TaskLimits {
                timeout: case.timeout,
                tells_deadline: case.tells_deadline,
                idle_timeout: case.idle_timeout,
                progress: case.progress,
                output: case.output,
            },
            files: Files::Repo(Checkout {
                repo: case.repo,
                branch: case.branch,
                commit: case.commit,
                history: case.history,
            }),
            install: None,
            evaluators,
            patterns: case.solution_patterns,
            hooks: case.hooks,
            run_folder: RunFolder {
                parent: case.workspace_dir,
                name: case.workspace_name,
            },
            folder: case.folder,
            config_hash: case.config_hash,
            source: case.source,
        }
    }
}
