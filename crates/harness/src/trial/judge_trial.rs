//! Runs judging agents as trials.

use std::sync::Arc;

use proctor_agents::agent::PromptSource;
use proctor_record::record::TaskKind;

use super::{Cause, Context};
use crate::{
    config::{History, Hooks, KeepWorkspace, OutputLimits, ProgressLimits, Repo},
    evaluate::{JudgeFuture, JudgeTrial},
    plan::{Policy, TrialPlan},
    task::{Asks, Files, RunFolder, Task, TaskLimits},
    workspace::{Bases, Checkout},
};

/// Runs a judge as a trial. The future is boxed because trials run judges, which are trials.
pub(crate) fn run_judge(trial: JudgeTrial<'_>) -> JudgeFuture<'_> {
    Box::pin(async move {
        let judging = trial.judging;
        let context = Context {
            host: judging.host,
            sandbox: judging.sandbox,
            models: trial.models,
            pass_through: &[],
            keep_workspace: KeepWorkspace::None,
            judges: None,
            cache: judging.context.cache,
            bases: &Bases::default(),
            run_id: judging.context.run_id,
            folder: trial.folder,
            listener: &|_| {},
            cancel: judging.cancel,
            cause: &Cause::default(),
        };
        let ran = Box::pin(super::run(&plan(&trial), &context)).await;
        Ok(ran?)
    })
}

fn plan(trial: &JudgeTrial<'_>) -> TrialPlan {
    TrialPlan {
        policy: Policy::default(),
        step_agents: Arc::default(),
        task: Arc::new(task(trial)),
        adapter: trial.adapter,
        name: trial.label.to_owned(),
        agent: Arc::clone(trial.agent),
        package: None,
        number: 1,
        gateway: None,
        treatment: Arc::default(),
        variant_of: None,
        section: Arc::default(),
        definitions: None,
    }
}

/// The judging as a task, whose workspace is a copy of the judged work.
fn task(trial: &JudgeTrial<'_>) -> Task {
    Task {
        notes: Vec::new(),
        unset: Vec::new(),
        name: "judge".to_owned(),
        description: "judge the work of an agent".to_owned(),
        kind: TaskKind::Testcase,
        category: None,
        aliases: Vec::new(),
        steps: None,
        tools: crate::task::TaskTools::default(),
        asks: Asks::Prompt(PromptSource::Text(trial.request.to_owned())),
        reference: None,
        limits: TaskLimits {
            timeout: Some(trial.timeout),
            idle_timeout: None,
            progress: ProgressLimits::default(),
            output: OutputLimits::default(),
            tells_deadline: false,
        },
        files: Files::Repo(Checkout {
            repo: Repo::Path(trial.copy.to_owned()),
            branch: None,
            commit: None,
            history: History::None,
        }),
        install: None,
        evaluators: Vec::new().into(),
        patterns: Vec::new(),
        hooks: Hooks::default(),
        run_folder: RunFolder::default(),
        folder: trial.base_dir.to_owned(),
        config_hash: trial.source.hash(),
        source: Arc::clone(trial.source),
    }
}
