//! Making a trial's workspace: the files of the task, what its installation adds, the baseline,
//! and the reference solution for the agent that applies it.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use super::{Trial, TrialError, chain, container::Made, prepare::NotRun};
use crate::{
    agent::ReferenceAt,
    area::Area,
    config::History,
    evaluate::{copy_without_ignored, make_executable},
    outcome::Outcome,
    record,
    sandbox::{
        docker::Image,
        shell::{self, ShellCommand},
    },
    task::{Checkout, Environment, Files, Install, Reference},
    workspace::{
        Base, Workspace, WorkspaceError,
        source::{Source, SourceError},
    },
};

impl Trial<'_> {
    /// The agent's workspace, ready for it.
    pub(super) async fn make_workspace(
        &mut self,
        area: &Area,
        image: Option<&Image>,
    ) -> Result<Utf8PathBuf, NotRun> {
        let task = Arc::clone(&self.plan.task);
        let path = area.path.join("src-modified");
        let mut made = match &task.files {
            Files::Repo(checkout) => {
                let room = image.map(|image| Box::pin(self.make_room(image, area, Some(&path))));
                let (made, room, note) = self.check_out(checkout, room, &path).await?;
                self.record.notes.extend(note);
                if let Some(room) = room {
                    self.enter(room);
                    self.hand_over(&[&area.home, &area.scratch, &path]).await?;
                }
                made
            }
            Files::Existing { directory, base } => {
                let host = self.context.host;
                let base = Source::of_existing(directory, base.as_deref(), host, &self.private);
                let source = base.await.map_err(|error| self.source_failed(error))?;
                let made = self.fill(self.base(source).await?, &path).await?;
                made.take_over(directory)?;
                made
            }
            Files::Image(environment) => {
                let source = match image {
                    None => self.lay_out(environment)?,
                    Some(image) => {
                        let room = self.make_room(image, area, None).await?;
                        self.enter(room);
                        self.files_of_image().await?
                    }
                };
                self.fill(self.base(source).await?, &path).await?
            }
        };
        self.record.task.commit.clone_from(&made.source_commit);
        self.record.task.tree = Some(made.base_tree.clone());
        if let Some(install) = &task.install {
            match self.install(install, area, &path).await {
                Err(NotRun::Infrastructure {
                    outcome: Outcome::Sandbox,
                    message,
                    ..
                }) if install.is_optional => {
                    self.note(format!("the agent started although {message}"));
                }
                installed => installed?,
            }
            self.settle(&mut made).await?;
        }
        self.workspace = Some(made);
        Ok(path)
    }

    /// The current content of the workspace is not the agent's work.
    pub(super) async fn settle(&self, made: &mut Workspace) -> Result<(), NotRun> {
        let settled = made.settle().await;
        settled.map_err(|error| workspace_failed(&error))?;
        let before = self.record.task.tree.clone().unwrap_or_default();
        if made.base_tree != before {
            // The base can be made again from the commit and this.
            let patch = self.artifacts.join(record::INSTALL_PATCH_FILE);
            let written = made.write_patch(&before, &made.base_tree, &patch).await;
            written.map_err(|error| workspace_failed(&error))?;
        }
        Ok(())
    }

    /// The files of a repo's task, and at the same time the container that sees them: neither
    /// needs the other before the agent starts, unless the engine has to be sent a copy. With
    /// them comes what is to be noted.
    async fn check_out(
        &self,
        from: &Checkout,
        room: Option<impl Future<Output = Result<Made, NotRun>>>,
        path: &Utf8Path,
    ) -> Result<(Workspace, Option<Made>, Option<String>), NotRun> {
        fs_err::create_dir(path)?;
        let files = Box::pin(async {
            let bases = self.context.bases;
            let opened = bases.open(from, self.context.host);
            let opened = opened.await.map_err(|error| self.not_made(error))?;
            let note = "the repo has uncommitted changes; the agent started from its last commit";
            let note = opened.is_dirty.then(|| note.to_owned());
            Ok::<_, NotRun>((self.fill(opened.base, path).await?, note))
        });
        let room = Box::pin(async {
            match room {
                None => Ok(None),
                Some(room) => room.await.map(Some),
            }
        });
        let sees_files = self.docker().is_none_or(|docker| docker.engine.is_local());
        let ((made, note), room) = if sees_files {
            tokio::try_join!(files, room)?
        } else {
            (files.await?, room.await?)
        };
        Ok((made, room, note))
    }

    /// The source of a workspace of this trial alone.
    async fn base(&self, source: Source) -> Result<Arc<Base>, NotRun> {
        let made = Base::make(source, History::None, self.context.host, &self.private).await;
        made.map(Arc::new).map_err(|error| workspace_failed(&error))
    }

    /// The workspace with the files of `base`.
    async fn fill(&self, base: Arc<Base>, path: &Utf8Path) -> Result<Workspace, NotRun> {
        let made = Workspace::create(&base, self.context.host, path, &self.private).await;
        let made = made.map_err(|error| workspace_failed(&error))?;
        let plans = self.contestants().map(|it| self.plan_of(it));
        let litter: Vec<&str> = plans.flat_map(|it| it.agent.litter()).copied().collect();
        made.leave_out(&litter)?;
        Ok(made)
    }

    /// The files that the task's Dockerfile copies into its working directory.
    fn lay_out(&mut self, environment: &Environment) -> Result<Source, NotRun> {
        let recipe = environment.local.as_ref();
        let recipe = recipe.map_err(|error| TrialError::NeedsContainer(error.clone()))?;
        let path = self.private.join("files");
        recipe.lay_out(&path)?;
        let lost = self.plan.task.lost_isolation().join("; ");
        let note = format!("without a container: {lost}");
        self.record.notes.push(note);
        Ok(Source::Folder { path })
    }

    /// Run what makes the workspace ready. It is the task's own: when it fails, no agent did.
    async fn install(
        &self,
        install: &Install,
        area: &Area,
        workspace: &Utf8Path,
    ) -> Result<(), NotRun> {
        let command = ShellCommand {
            argv: &shell::line(&install.command),
            env: self.room.env(self.context.host, &area.home),
            cwd: &self.room.inside(workspace),
            timeout: Some(install.timeout),
            logs: self.artifacts.join("install"),
        };
        let ran = command
            .run(&self.room, self.context.host, self.context.cancel)
            .await;
        let ended = ran.and_then(|ran| Ok((ran.code(&install.command)?, ran.last_line)));
        let message = match ended {
            Ok((0, _)) => return Ok(()),
            Ok((code, last)) => format!("`{}` exited with code {code}: {last}", install.command),
            Err(message) => message,
        };
        Err(NotRun::Infrastructure {
            outcome: if self.context.cancel.is_cancelled() {
                Outcome::Interrupted
            } else {
                Outcome::Sandbox
            },
            code: "INSTALL_FAILED",
            message: format!("the workspace could not be made ready: {message}"),
        })
    }

    /// A repo that is not what the task says is bad input; one out of reach is not.
    fn source_failed(&self, source: SourceError) -> NotRun {
        if !source.is_usage() {
            return workspace_failed(&source.into());
        }
        NotRun::Usage(TrialError::Source {
            config_file: self.plan.task.config_file().to_owned(),
            problem: source,
        })
    }

    fn not_made(&self, error: WorkspaceError) -> NotRun {
        match error {
            WorkspaceError::Source(source) => self.source_failed(source),
            other => workspace_failed(&other),
        }
    }

    /// The reference solution, for the agent that applies it.
    pub(super) async fn reference(&self, area: &Area) -> Result<Option<ReferenceAt>, NotRun> {
        if !self.plan.agent.wants_reference() {
            return Ok(None);
        }
        match (&self.plan.task.reference, &self.workspace) {
            (Some(Reference::Patch(written)), _) => {
                let patch = area.scratch.join("reference.patch");
                fs_err::copy(written, &patch)?;
                Ok(Some(ReferenceAt::Patch(self.room.inside(&patch))))
            }
            (Some(Reference::Branch(branch)), Some(workspace)) => {
                let patch = area.scratch.join("reference.patch");
                let written = workspace.reference_patch(branch, &patch).await;
                written.map_err(|error| self.not_made(error))?;
                Ok(Some(ReferenceAt::Patch(self.room.inside(&patch))))
            }
            (Some(Reference::Script(solution)), _) => {
                let folder = area.scratch.join("solution");
                copy_without_ignored(&solution.folder, &folder)?;
                make_executable(&folder.join("solve.sh"))?;
                Ok(Some(ReferenceAt::Script {
                    folder: self.room.inside(&folder),
                    env: solution.env.clone(),
                }))
            }
            _ => Ok(None),
        }
    }
}

fn workspace_failed(error: &WorkspaceError) -> NotRun {
    NotRun::Infrastructure {
        outcome: match error {
            WorkspaceError::Source(SourceError::Fetch { .. }) => Outcome::Network,
            _ => Outcome::Sandbox,
        },
        code: "WORKSPACE_FAILED",
        message: chain(error),
    }
}
