//! Rescores runs of Thunderdome: `diff.patch` is applied to the tag of the task, as the suite
//! defines it now. Scores in `meta.json` are replaced; the old ones are moved to `history`.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use futures_util::{StreamExt, stream};
use proctor_record::record::{self, META_FILE, StoreError, Verdict, meta_scores, score::Score};
use proctor_report::foreign::{self, ForeignMeta, PATCH_FILE};
use proctor_sandbox::{ExecEnv, ExecEnvSpec, Sandbox, trial_dir::TrialDir};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    NotJudged, Rating, Rescore, RescoreContext, RescoreError, RescoreOutcome, RescoreSummary,
    Rescored, Tasks, Which, summary,
    trial::{RestoredWork, Subject},
};
use crate::{
    config::History,
    plan::{ResolvedSuite, load_suite},
    task::{Files, Task},
    trial,
    workspace::{Base, Change, Checkout, Workspace, source::Source},
};

/// The path of a repo task's workspace in containers.
const WORKSPACE: &str = "/workspace";

/// A trial that Thunderdome ran.
struct ForeignTrial {
    folder: Utf8PathBuf,
    meta: ForeignMeta,
}

impl Rescore<'_> {
    /// Judges the trials of a Thunderdome run again. The file of each trial is replaced atomically.
    pub(super) async fn run_foreign(
        &self,
        run: &Utf8Path,
        cancel: &CancellationToken,
    ) -> Result<RescoreSummary, RescoreError> {
        let suite = match self.suite_file {
            None => None,
            Some(file) => {
                let suite = load_suite(file, &self.host.env, self.settings);
                Some(suite.map_err(RescoreError::Config)?)
            }
        };
        let tasks = Tasks::of(suite.as_ref());
        let sandbox = tasks.execution.sandbox;
        let context = self.context(tasks, sandbox, run, cancel).await?;
        let folders = foreign::trial_folders(run);
        let judged = stream::iter(folders)
            .map(|folder| Box::pin(self.judge_foreign(folder, suite.as_ref(), &context)))
            .buffer_unordered(self.parallel.max(1))
            .collect::<Vec<_>>()
            .await;
        context.resources.close().await;
        summary(run, judged)
    }

    async fn judge_foreign(
        &self,
        folder: Utf8PathBuf,
        suite: Option<&ResolvedSuite>,
        context: &RescoreContext<'_>,
    ) -> Result<RescoreOutcome, StoreError> {
        let read = ForeignMeta::read(&folder);
        let (meta, problem) = match read {
            Ok(meta) => (meta, None),
            Err(problem) => (ForeignMeta::named_by(&folder), Some(problem)),
        };
        if self.which == Which::Errors && problem.is_none() && meta.validation_errors.is_empty() {
            return Ok(RescoreOutcome::LeftAlone);
        }
        let trial = ForeignTrial { folder, meta };
        let verdicts = match problem {
            Some(problem) => Err(format!("cannot read its meta.json: {problem}")),
            None => Box::pin(self.foreign_verdicts(&trial, suite, context)).await,
        };
        let (task, verdicts) = match verdicts {
            Ok(_) if context.cancel.is_cancelled() => {
                return Ok(trial.not_judged("the rescoring was interrupted".to_owned()));
            }
            Ok(judged) => judged,
            Err(reason) => return Ok(trial.not_judged(reason)),
        };
        let (before, outcome) = (trial.standing(), trial.meta.outcome());
        let status = trial::status(outcome, &verdicts, false);
        let score = Score::of(outcome, status, &verdicts);
        trial.write(&task, status, score.as_ref())?;
        let score = score.map(|score| score.value);
        Ok(RescoreOutcome::Judged(Box::new(Rescored {
            agent: trial.meta.orchestrator.clone(),
            task: trial.meta.task.clone(),
            trial: trial.meta.trial,
            before,
            after: Rating { status, score },
        })))
    }

    /// The verdicts on a trial's work, or the reason that there are none.
    async fn foreign_verdicts(
        &self,
        trial: &ForeignTrial,
        suite: Option<&ResolvedSuite>,
        context: &RescoreContext<'_>,
    ) -> Result<(Arc<Task>, Vec<Verdict>), String> {
        let (suite, task) = trial.task(suite)?;
        let trial_dir = TrialDir::create(&self.host.temp).map_err(|error| error.to_string())?;
        let artifacts = trial.folder.join("artifacts");
        let engine_slot = context.resources.engine_slot().await;
        let sandbox = engine_slot.sandbox();
        let (workspace, change) = self.restore_foreign(trial, &task, &trial_dir).await?;
        // Last, because a container has to be removed again.
        let exec_env = trial.exec_env(suite, &task, sandbox).await?;
        let workdir = match &exec_env {
            ExecEnv::Local => workspace.path().to_owned(),
            ExecEnv::Docker(_) => WORKSPACE.into(),
        };
        let restored = RestoredWork {
            workspace,
            change,
            exec_env,
            workdir,
        };
        let subject = Subject {
            agent: &trial.meta.orchestrator,
            trial: trial.meta.trial,
            task: &task,
            artifacts: &artifacts,
            judged: trial.meta.history.len(),
            verdicts: &[],
            usage: None,
            sandbox,
        };
        let verdicts = self.judged(&subject, restored, &trial_dir, context).await?;
        Ok((task, verdicts))
    }

    /// Restores the agent's work: its patch on the tag of the task.
    async fn restore_foreign(
        &self,
        trial: &ForeignTrial,
        task: &Task,
        trial_dir: &TrialDir,
    ) -> Result<(Workspace, Change), String> {
        let Files::Repo(Checkout { repo, branch, .. }) = &task.files else {
            return Err("the task is not a repo task".to_owned());
        };
        let tag = branch.as_deref().unwrap_or("HEAD");
        let private = trial_dir.path.join("private");
        let path = trial_dir.path.join("src-modified");
        let made = async {
            fs_err::create_dir_all(&private)?;
            let source =
                Source::open(repo, branch.as_deref(), History::None, self.host, &private).await?;
            let base = Arc::new(Base::make(source, History::None, self.host, &private).await?);
            Workspace::create(&base, self.host, &path, &private).await
        };
        let mut workspace = made
            .await
            .map_err(|error| format!("cannot check out {tag} of {repo}: {error}"))?;
        let diff = trial.folder.join(PATCH_FILE);
        let change = workspace
            .redo(None, &diff)
            .await
            .map_err(|error| format!("cannot apply {PATCH_FILE} to {tag} of {repo}: {error}"))?;
        Ok((workspace, change))
    }
}

impl Tasks {
    fn of(suite: Option<&ResolvedSuite>) -> Tasks {
        let mut tasks = Tasks::default();
        if let Some(suite) = suite {
            tasks.execution = suite.execution.clone();
            for task in &suite.tasks {
                tasks
                    .by_name
                    .insert(task.name.clone(), Ok(Arc::clone(task)));
            }
        }
        tasks
    }
}

impl ForeignTrial {
    fn standing(&self) -> Rating {
        Rating {
            status: self.meta.status(),
            score: self.meta.score(),
        }
    }

    fn not_judged(&self, reason: String) -> RescoreOutcome {
        RescoreOutcome::NotJudged(NotJudged {
            agent: self.meta.orchestrator.clone(),
            task: self.meta.task.clone(),
            trial: self.meta.trial,
            reason,
        })
    }

    /// The task of a trial that can be judged.
    fn task<'s>(
        &self,
        suite: Option<&'s ResolvedSuite>,
    ) -> Result<(&'s ResolvedSuite, Arc<Task>), String> {
        if let Some(failure) = self.meta.failure() {
            return Err(format!("the trial is excluded: {failure}"));
        }
        if !self.folder.join(PATCH_FILE).is_file() {
            return Err(format!("{PATCH_FILE} with the agent's change is missing"));
        }
        let Some(suite) = suite else {
            let hint = "pass the thunderdome.yaml with --config";
            return Err(format!("the task's definition is unknown: {hint}"));
        };
        let name = &self.meta.task;
        match suite.tasks.iter().find(|task| task.is_called(name)) {
            Some(task) => Ok((suite, Arc::clone(task))),
            None => Err(format!("{} has no task `{name}`", suite.source.path())),
        }
    }

    /// The judging environment: a container of the validation image or the orchestrator's, or this
    /// machine.
    async fn exec_env(
        &self,
        suite: &ResolvedSuite,
        task: &Task,
        sandbox: &Sandbox,
    ) -> Result<ExecEnv, String> {
        let Sandbox::Docker(docker) = sandbox else {
            return Ok(ExecEnv::Local);
        };
        let named = suite.agents.iter();
        let agent = named.filter(|agent| agent.name == self.meta.orchestrator);
        let own = agent.filter_map(|agent| agent.spec.config.get("image")?.as_str());
        let judges = task.evaluators.iter().filter_map(|one| one.image());
        let image = judges.chain(own).next();
        let image = image.or(suite.execution.image.as_deref()).ok_or_else(|| {
            let name = &self.meta.orchestrator;
            format!("no image for judging: the task has no `validation_image`, and the suite has no orchestrator `{name}`")
        })?;
        let text = |error: proctor_sandbox::docker::EngineError| error.to_string();
        let image = docker.image(image, |_| ()).await.map_err(text)?;
        let exec_env = docker
            .exec_env(ExecEnvSpec::plain(image))
            .await
            .map_err(text)?;
        Ok(ExecEnv::Docker(Box::new(exec_env)))
    }

    /// Replaces the scores; the old ones are moved to `history`.
    fn write(
        &self,
        task: &Task,
        status: record::TrialStatus,
        score: Option<&Score>,
    ) -> Result<(), StoreError> {
        let path = self.folder.join(META_FILE);
        let failed = |source| StoreError {
            path: path.clone(),
            source,
        };
        let bytes = fs_err::read(&path).map_err(failed)?;
        let mut meta: Value =
            serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?;
        let history = json!({
            "replaced_at": jiff::Timestamp::now().to_string(),
            "scores": meta["scores"], "composite_score": meta["composite_score"],
            "status": meta["status"], "validation_errors": meta["validation_errors"],
        });
        let mut all = self.meta.history.clone();
        all.push(history);
        meta["scores"] = json!(score.map(meta_scores).unwrap_or_default());
        meta["composite_score"] = json!(score.map(|score| score.value));
        meta["status"] = json!(status);
        meta["judged_by"] = json!({
            "proctor": env!("CARGO_PKG_VERSION"), "file": task.config_file(), "sha256": task.config_hash,
        });
        meta["history"] = json!(all);
        if let Some(entries) = meta.as_object_mut() {
            entries.remove("validation_errors");
        }
        record::write_json(&path, &meta)
    }
}
