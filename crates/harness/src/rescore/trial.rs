//! Rescoring of one trial. The work is restored from base and patch, and must have the tree that is
//! on record.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    Definitions, NotJudged, Rating, Rescore, RescoreContext, RescoreOutcome, Rescored, Tasks, Which,
};
use crate::{
    area::Area,
    config::History,
    evaluate::{self, About, Desk, EVIDENCE, Judging},
    outcome::Outcome,
    record::{
        self, Judgement, Meta, Record, Results, SandboxRecord, StoreError, Verdict, VerdictStatus,
        score::Score,
    },
    sandbox::{Room, RoomSpec, Sandbox, docker::EngineError},
    task::{Checkout, Files, Task, VerifierMode},
    trial,
    usage::Usage,
    workspace::{Base, Change, Workspace, source::Source},
};

/// A trial on record.
struct RecordedTrial<'a> {
    record: &'a Record,
    task: &'a Task,
    artifacts: &'a Utf8Path,
}

/// The restored work of a trial.
pub(super) struct RestoredWork {
    pub(super) workspace: Workspace,
    pub(super) change: Change,
    pub(super) room: Room,
    pub(super) workdir: Utf8PathBuf,
}

/// The trial that is judged.
pub(super) struct Subject<'a> {
    pub(super) agent: &'a str,
    pub(super) trial: u32,
    pub(super) task: &'a Task,
    pub(super) artifacts: &'a Utf8Path,
    /// The number of earlier judgements.
    pub(super) judged: usize,
    /// The verdicts on record.
    pub(super) verdicts: &'a [Verdict],
    /// The usage on record.
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
                judged.await.map(|verdicts| (verdicts, task))
            }
            Err(reason) => Err(reason),
        };
        let (verdicts, task) = match judged {
            Ok(_) if context.cancel.is_cancelled() => {
                return Ok(not_judged(&record, "it was interrupted"));
            }
            Ok(judged) => judged,
            Err(reason) => return Ok(not_judged(&record, &reason)),
        };
        replace(&mut record, verdicts);
        let is_other = task.config_hash != record.task.config_hash;
        record.judged_by = is_other.then(|| task.config_hash.clone());
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
            return Err("the agent's change is not on record".to_owned());
        }
        let task = match tasks.by_name.get(&record.task.name) {
            Some(Ok(task)) => Arc::clone(task),
            Some(Err(problem)) => return Err(format!("the task cannot be read: {problem}")),
            None => return Err("the suite has no task of this name".to_owned()),
        };
        let is_same = task.config_hash == record.task.config_hash;
        if self.definitions == Definitions::Recorded && !is_same {
            let hint = "`--current` judges by it as it is now";
            return Err(format!("the task has changed since; {hint}"));
        }
        let is_shared = |mode| mode == VerifierMode::Shared;
        let is_shared = task
            .verifier()
            .is_some_and(|verifier| is_shared(verifier.mode));
        match record.sandbox {
            SandboxRecord::Docker(_) if is_shared => {
                Err("it was judged in the agent's own container, which is gone".to_owned())
            }
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
        let area = evaluate::place(self.host)?;
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
        let restored = self.restore(&trial, sandbox, &area).await?;
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
        self.judged(&subject, restored, &area, context).await
    }

    /// The verdicts on a trial's work.
    pub(super) async fn judged(
        &self,
        subject: &Subject<'_>,
        restored: RestoredWork,
        area: &Area,
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
            scratch: &area.scratch,
            sandbox: subject.sandbox,
            room: &restored.room,
            workdir: &restored.workdir,
            environment: task.environment(),
            host: self.host,
            desk: Desk {
                about: About::of(task),
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
        let left = restored.room.leave().await;
        left.map_err(|error| error.to_string())?;
        Ok(verdicts)
    }

    /// Restore the work from the base and the patches.
    async fn restore(
        &self,
        trial: &RecordedTrial<'_>,
        sandbox: &Sandbox,
        area: &Area,
    ) -> Result<RestoredWork, String> {
        let (record, task) = (trial.record, trial.task);
        let text = |error: EngineError| error.to_string();
        let room = room(record, sandbox).await.map_err(text)?;
        let private = area.path.join("private");
        let path = area.path.join("src-modified");
        let made = async {
            fs_err::create_dir_all(&private)?;
            let source = self.source(record, task, &room, &private).await?;
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
            return Err("base and patch do not give the tree on record".to_owned());
        }
        let workdir = match (&room, task.environment()) {
            (Room::Local, _) => path,
            (Room::Docker(_), None) => "/workspace".into(),
            (Room::Docker(room), Some(environment)) => environment
                .workdir
                .clone()
                .unwrap_or_else(|| room.image.workdir.clone().into()),
        };
        Ok(RestoredWork {
            workspace,
            change,
            room,
            workdir,
        })
    }

    /// The source of the agent's workspace.
    async fn source(
        &self,
        record: &Record,
        task: &Task,
        room: &Room,
        private: &Utf8Path,
    ) -> Result<Source, crate::workspace::WorkspaceError> {
        let environment = match &task.files {
            Files::Repo(Checkout { repo, branch, .. }) => {
                let commit = record.task.commit.as_deref();
                let opened = Source::open(repo, commit, History::None, self.host, private).await;
                return match opened {
                    // Not every server gives a commit by its name.
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
        match (room, &environment.local) {
            (Room::Docker(room), _) => {
                fs_err::create_dir_all(&path)?;
                let own = environment.workdir.as_ref().map(ToString::to_string);
                let workdir = own.unwrap_or_else(|| room.image.workdir.clone());
                let brought = room.container.download(&workdir, path.as_std_path());
                brought.await.map_err(std::io::Error::other)?;
            }
            (Room::Local, Ok(recipe)) => recipe.lay_out(&path)?,
            (Room::Local, Err(error)) => {
                return Err(std::io::Error::other(error.to_string()).into());
            }
        }
        Ok(Source::Folder { path })
    }
}

/// An empty container of the trial's image, or this machine.
async fn room(record: &Record, sandbox: &Sandbox) -> Result<Room, EngineError> {
    match (&record.sandbox, sandbox) {
        (SandboxRecord::Docker(container), Sandbox::Docker(docker)) => {
            let image = docker.engine.image(&container.image_id).await?;
            let room = docker.room(RoomSpec::plain(image)).await?;
            Ok(Room::Docker(Box::new(room)))
        }
        _ => Ok(Room::Local),
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

/// Replace the verdicts; the old ones go to the history.
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

/// Write the record last: a trial whose record is new has no old file.
fn write(folder: &Utf8Path, record: &Record) -> Result<(), StoreError> {
    let artifacts = folder.join("artifacts");
    let results = artifacts.join(record::RESULTS_FILE);
    let old: Option<Results> = fs_err::read(&results)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if let Some(old) = old {
        let new = Results::of(record, old.test_case, old.agent.exit_code);
        record::write_json(&results, &new)?;
    }
    if folder.join("meta.json").is_file() {
        record::write_json(&folder.join("meta.json"), &Meta::of(record))?;
    }
    record::write_json(&artifacts.join(record::RECORD_FILE), record)
}
