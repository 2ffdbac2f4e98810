//! Rescores one trial. The work is restored from base and patch, and must have the recorded tree.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    outcome::Outcome,
    record::{
        self, Judgement, Meta, Record, Results, SandboxRecord, StoreError, Verdict, VerdictStatus,
        score::Score,
    },
    transcript,
    usage::Usage,
};
use proctor_sandbox::{ExecEnv, ExecEnvSpec, Sandbox, docker::EngineError, trial_dir::TrialDir};

use super::{
    Definitions, NotJudged, Rating, Rescore, RescoreContext, RescoreOutcome, Rescored, Tasks, Which,
};
use crate::{
    config::History,
    evaluate::{self, EVIDENCE, JudgeContext, Judging, VerifierMode},
    task::{Files, Task},
    trial,
    workspace::{Base, Change, Checkout, Workspace, source::Source},
};

/// A recorded trial.
struct RecordedTrial<'a> {
    record: &'a Record,
    task: &'a Task,
    artifacts: &'a Utf8Path,
}

/// The restored work of a trial.
pub(super) struct RestoredWork {
    pub(super) workspace: Workspace,
    pub(super) change: Change,
    pub(super) exec_env: ExecEnv,
    pub(super) workdir: Utf8PathBuf,
}

/// The trial to judge.
pub(super) struct Subject<'a> {
    pub(super) agent: &'a str,
    pub(super) trial: u32,
    pub(super) task: &'a Task,
    pub(super) artifacts: &'a Utf8Path,
    /// The number of earlier judgements.
    pub(super) judged: usize,
    /// The recorded verdicts.
    pub(super) verdicts: &'a [Verdict],
    /// The recorded usage.
    pub(super) usage: Option<&'a Usage>,
    pub(super) sandbox: &'a Sandbox,
}

impl Rescore<'_> {
    pub(super) async fn judge(
        &self,
        folder: Utf8PathBuf,
        mut record: Record,
        context: &RescoreContext<'_>,
    ) -> Result<RescoreOutcome, StoreError> {
        let before = Rating::of(&record);
        let is_broken = |verdict: &Verdict| verdict.status == VerdictStatus::Error;
        if self.which == Which::Errors && !record.verdicts.iter().any(is_broken) {
            return Ok(RescoreOutcome::LeftAlone);
        }
        let judged = match self.task(&record, &context.tasks) {
            Ok(task) => {
                let judged = self.verdicts(&folder, &record, &task, context);
                Box::pin(judged).await.map(|verdicts| (verdicts, task))
            }
            Err(reason) => Err(reason),
        };
        let (verdicts, task) = match judged {
            Ok(_) if context.cancel.is_cancelled() => {
                return Ok(not_judged(&record, "the rescoring was interrupted"));
            }
            Ok(judged) => judged,
            Err(reason) => return Ok(not_judged(&record, &reason)),
        };
        replace(&mut record, verdicts);
        let is_other = task.config_hash != record.task.config_hash;
        record.judged_by = is_other.then(|| task.config_hash.clone());
        // A record of an older version stays one without digests.
        if let (Some(digest), Some(judging)) = (
            &mut record.task.evaluators,
            context.tasks.judging.get(&record.task.name),
        ) {
            digest.clone_from(&judging.digest);
        }
        write(&folder, &record)?;
        Ok(RescoreOutcome::Judged(Box::new(Rescored {
            agent: record.agent.name.clone(),
            task: record.task.name.clone(),
            trial: record.trial,
            before,
            after: Rating::of(&record),
        })))
    }

    /// The task of a trial that can be judged.
    fn task(&self, record: &Record, tasks: &Tasks) -> Result<Arc<Task>, String> {
        let outcome = record.outcome;
        if outcome.is_infrastructure() || outcome == Outcome::Interrupted {
            return Err(format!("the outcome is {}", outcome.as_str()));
        }
        if record.completed_at.is_none() || record.diff.is_none() {
            return Err("the agent's change is not recorded".to_owned());
        }
        let task = match tasks.by_name.get(&record.task.name) {
            Some(Ok(task)) => Arc::clone(task),
            Some(Err(problem)) => return Err(format!("cannot read the task: {problem}")),
            None => return Err("the suite has no task of this name".to_owned()),
        };
        let is_same = task.config_hash == record.task.config_hash;
        if self.definitions == Definitions::Recorded && !is_same {
            let hint = "pass `--current` to use the current definition";
            return Err(format!("the task has changed since; {hint}"));
        }
        if task.steps.is_some() {
            let why = "its steps were judged one after another in the agent's container";
            return Err(why.to_owned());
        }
        let is_shared = |mode| mode == VerifierMode::Shared;
        let is_shared = task
            .verifier()
            .is_some_and(|verifier| is_shared(verifier.mode));
        match record.sandbox {
            SandboxRecord::Docker(_) if is_shared => Err(
                "the trial was judged in the agent's container, which no longer exists".to_owned(),
            ),
            _ => Ok(task),
        }
    }

    async fn verdicts(
        &self,
        folder: &Utf8Path,
        record: &Record,
        task: &Task,
        context: &RescoreContext<'_>,
    ) -> Result<Vec<Verdict>, String> {
        let trial_dir = evaluate::private_dir(self.host)?;
        let engine_slot = context.resources.engine_slot().await;
        let sandbox = match &record.sandbox {
            SandboxRecord::Docker(_) => engine_slot.sandbox(),
            SandboxRecord::Local => &Sandbox::Local,
        };
        let artifacts = folder.join("artifacts");
        let trial = RecordedTrial {
            record,
            task,
            artifacts: &artifacts,
        };
        let restored = self.restore(&trial, sandbox, &trial_dir).await?;
        let subject = Subject {
            agent: &record.agent.name,
            trial: record.trial,
            task,
            artifacts: &artifacts,
            judged: record.history.len() + 1,
            verdicts: &record.verdicts,
            usage: record.usage.as_ref(),
            sandbox,
        };
        self.judged(&subject, restored, &trial_dir, context).await
    }

    /// The verdicts on a trial's work.
    pub(super) async fn judged(
        &self,
        subject: &Subject<'_>,
        restored: RestoredWork,
        trial_dir: &TrialDir,
        context: &RescoreContext<'_>,
    ) -> Result<Vec<Verdict>, String> {
        let task = subject.task;
        let evidence = match subject.judged {
            0 => EVIDENCE.to_owned(),
            before => format!("{EVIDENCE}-{}", before + 1),
        };
        let access = context.resources.gateways.of(None);
        let judging = Judging {
            workspace: &restored.workspace,
            change: &restored.change,
            reference: task.reference.as_ref(),
            usage: subject.usage,
            artifacts: subject.artifacts,
            evidence: &evidence,
            scratch: &trial_dir.scratch,
            sandbox: subject.sandbox,
            exec_env: &restored.exec_env,
            workdir: &restored.workdir,
            environment: task.environment(),
            host: self.host,
            context: JudgeContext {
                about: task.about(),
                models: access.agents,
                judges: access.judges,
                cache: &context.resources.cache,
                kept_since: context.kept_since,
                run_id: &context.run_id,
                label: record::trial_path(subject.agent, &task.name, subject.trial),
                run_trial: trial::run_judge,
            },
            cancel: context.cancel,
        };
        let mut verdicts = Vec::new();
        for (number, evaluator) in task.evaluators.iter().enumerate() {
            let kept = subject.verdicts.get(number).filter(|verdict| {
                let is_sound = verdict.status != VerdictStatus::Error;
                self.which == Which::Errors && is_sound && verdict.evaluator == evaluator.name
            });
            verdicts.push(match kept {
                Some(verdict) => verdict.clone(),
                None => evaluator.judge(&judging, number + 1).await,
            });
        }
        let left = restored.exec_env.leave().await;
        left.map_err(|error| error.to_string())?;
        Ok(verdicts)
    }

    /// Restores the work from the base and the patches.
    async fn restore(
        &self,
        trial: &RecordedTrial<'_>,
        sandbox: &Sandbox,
        trial_dir: &TrialDir,
    ) -> Result<RestoredWork, String> {
        let (record, task) = (trial.record, trial.task);
        let text = |error: EngineError| error.to_string();
        let exec_env = exec_env(record, sandbox).await.map_err(text)?;
        let private = trial_dir.path.join("private");
        let path = trial_dir.path.join("src-modified");
        let made = async {
            fs_err::create_dir_all(&private)?;
            let source = self.source(record, task, &exec_env, &private).await?;
            let base = Arc::new(Base::make(source, History::None, self.host, &private).await?);
            let mut workspace = Workspace::create(&base, self.host, &path, &private).await?;
            if record.task.tree.as_deref() != Some(workspace.base_tree.as_str()) {
                return Ok(Err("the base of the task has changed since".to_owned()));
            }
            let install = trial.artifacts.join(record::INSTALL_PATCH_FILE);
            let install = install.is_file().then_some(install);
            let agents = trial.artifacts.join(record::PATCH_FILE);
            let change = workspace.redo(install.as_deref(), &agents).await?;
            Ok::<_, crate::workspace::WorkspaceError>(Ok((workspace, change)))
        };
        let made = made.await;
        let (workspace, change) =
            made.map_err(|error| format!("cannot restore the work: {error}"))??;
        let tree = record.diff.as_ref().map(|diff| diff.tree.as_str());
        if tree != Some(change.tree.as_str()) {
            return Err("base and patch do not restore the recorded tree".to_owned());
        }
        let workdir = match (&exec_env, task.environment()) {
            (ExecEnv::Local, _) => path,
            (ExecEnv::Docker(_), None) => "/workspace".into(),
            (ExecEnv::Docker(exec_env), Some(environment)) => environment
                .workdir
                .clone()
                .unwrap_or_else(|| exec_env.image.workdir.clone().into()),
        };
        Ok(RestoredWork {
            workspace,
            change,
            exec_env,
            workdir,
        })
    }

    /// The source of the agent's workspace.
    async fn source(
        &self,
        record: &Record,
        task: &Task,
        exec_env: &ExecEnv,
        private: &Utf8Path,
    ) -> Result<Source, crate::workspace::WorkspaceError> {
        let environment = match &task.files {
            Files::Repo(Checkout { repo, branch, .. }) => {
                let commit = record.task.commit.as_deref();
                let opened = Source::open(repo, commit, History::None, self.host, private).await;
                return match opened {
                    // Not all servers allow fetching a commit by its id.
                    Err(_) if branch.is_some() => Ok(Source::open(
                        repo,
                        branch.as_deref(),
                        History::None,
                        self.host,
                        private,
                    )
                    .await?),
                    other => Ok(other?),
                };
            }
            Files::Existing { directory, base } => {
                let base = record.task.commit.as_deref().or(base.as_deref());
                let base = Source::of_existing(directory, base, self.host, private).await;
                return Ok(base?);
            }
            Files::Image(environment) => environment,
        };
        let path = private.join("files");
        match (exec_env, &environment.local) {
            (ExecEnv::Docker(exec_env), _) => {
                fs_err::create_dir_all(&path)?;
                let own = environment.workdir.as_ref().map(ToString::to_string);
                let workdir = own.unwrap_or_else(|| exec_env.image.workdir.clone());
                let brought = exec_env.container.download(&workdir, path.as_std_path());
                brought.await.map_err(std::io::Error::other)?;
            }
            (ExecEnv::Local, Ok(recipe)) => recipe.lay_out(&path)?,
            (ExecEnv::Local, Err(error)) => {
                return Err(std::io::Error::other(error.to_string()).into());
            }
        }
        Ok(Source::Folder { path })
    }
}

/// An empty container of the trial's image, or this machine.
async fn exec_env(record: &Record, sandbox: &Sandbox) -> Result<ExecEnv, EngineError> {
    match (&record.sandbox, sandbox) {
        (SandboxRecord::Docker(container), Sandbox::Docker(docker)) => {
            let image = docker.engine.image(&container.image_id).await?;
            let exec_env = docker.exec_env(ExecEnvSpec::plain(image)).await?;
            Ok(ExecEnv::Docker(Box::new(exec_env)))
        }
        _ => Ok(ExecEnv::Local),
    }
}

fn not_judged(record: &Record, reason: &str) -> RescoreOutcome {
    RescoreOutcome::NotJudged(NotJudged {
        agent: record.agent.name.clone(),
        task: record.task.name.clone(),
        trial: record.trial,
        reason: reason.to_owned(),
    })
}

/// Replaces the verdicts; the old ones are moved to the history.
fn replace(record: &mut Record, verdicts: Vec<Verdict>) {
    record.history.push(Judgement {
        replaced_at: jiff::Timestamp::now().to_string(),
        status: record.status,
        score: record.score.take(),
        verdicts: std::mem::replace(&mut record.verdicts, verdicts),
        judged_by: record.judged_by.take(),
    });
    record.status = trial::status(record.outcome, &record.verdicts, false);
    record.score = Score::of(record.outcome, record.status, &record.verdicts);
}

/// The parts of a `results.json` that are not in the record. Earlier versions wrote null for an
/// unknown exit code.
#[derive(serde::Deserialize)]
struct OldResults {
    test_case: record::TestCaseResult,
    agent: OldAgent,
}

#[derive(serde::Deserialize)]
struct OldAgent {
    exit_code: Option<i32>,
}

/// Writes the record last: a trial with a new record has no old files.
fn write(folder: &Utf8Path, record: &Record) -> Result<(), StoreError> {
    let artifacts = folder.join("artifacts");
    let results = artifacts.join(record::RESULTS_FILE);
    let old: Option<OldResults> = fs_err::read(&results)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if let Some(old) = old {
        let exit_code = transcript::exit_code(record.outcome, old.agent.exit_code);
        let new = Results::of(record, old.test_case, exit_code, folder);
        record::write_json(&results, &new)?;
    }
    if folder.join("meta.json").is_file() {
        record::write_json(&folder.join("meta.json"), &Meta::of(record))?;
    }
    record::write_json(&artifacts.join(record::RECORD_FILE), record)
}
