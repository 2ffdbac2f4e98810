//! Making a trial's workspace: the files of the task, what its installation adds, the baseline,
//! and the reference solution for the agent that applies it.

use camino::{Utf8Path, Utf8PathBuf};

use super::{Trial, TrialError, chain, prepare::NotRun};
use crate::{
    agent::ReferenceAt,
    area::Area,
    config::Repo,
    evaluate::{
        copy_without_ignored, make_executable,
        shell::{self, ShellCommand},
    },
    outcome::Outcome,
    sandbox::docker::Image,
    source::{Source, SourceError},
    store,
    task::{Environment, Files, Install, Reference},
    workspace::{Workspace, WorkspaceError},
};

impl Trial<'_> {
    /// The agent's workspace, ready for it.
    pub(super) async fn make_workspace(
        &mut self,
        area: &Area,
        image: Option<&Image>,
    ) -> Result<Utf8PathBuf, NotRun> {
        let task = std::sync::Arc::clone(&self.plan.task);
        let source = match &task.files {
            Files::Repo {
                repo,
                branch,
                commit,
            } => {
                let revision = commit.as_deref().or(branch.as_deref());
                self.open_repo(repo, revision).await?
            }
            Files::Existing { directory, base } => {
                let host = self.context.host;
                let base = Source::of_existing(directory, base.as_deref(), host, &self.private);
                base.await.map_err(|error| self.source_failed(error))?
            }
            Files::Image(environment) => match image {
                None => self.lay_out(environment)?,
                Some(image) => {
                    self.enter(image, area, None).await?;
                    self.files_of_image().await?
                }
            },
        };
        let path = area.path.join("src-modified");
        let mut made = Workspace::create(source, self.context.host, &path, &self.private)
            .await
            .map_err(|error| workspace_failed(&error))?;
        self.record.task.commit.clone_from(&made.source_commit);
        self.record.task.tree = Some(made.base_tree.clone());
        made.leave_out(self.plan.agent.litter())?;
        if let Files::Existing { directory, .. } = &task.files {
            made.take_over(directory)?;
        }
        if let (Some(image), Files::Repo { .. }) = (image, &task.files) {
            self.enter(image, area, Some(&path)).await?;
            self.hand_over(area, &path).await?;
        }
        if let Some(install) = &task.install {
            self.install(install, area, &path).await?;
            self.settle(&mut made).await?;
        }
        self.workspace = Some(made);
        Ok(path)
    }

    /// What is in the workspace now is not the agent's work.
    pub(super) async fn settle(&self, made: &mut Workspace) -> Result<(), NotRun> {
        let settled = made.settle().await;
        settled.map_err(|error| workspace_failed(&error))?;
        let before = self.record.task.tree.clone().unwrap_or_default();
        if made.base_tree != before {
            // The base can be made again from the commit and this.
            let patch = self.artifacts.join(store::INSTALL_PATCH_FILE);
            let written = made.write_patch(&before, &made.base_tree, &patch).await;
            written.map_err(|error| workspace_failed(&error))?;
        }
        Ok(())
    }

    async fn open_repo(&mut self, repo: &Repo, revision: Option<&str>) -> Result<Source, NotRun> {
        let host = self.context.host;
        let (source, is_dirty) = tokio::join!(
            Source::open(repo, revision, host, &self.private),
            Source::has_uncommitted_changes(repo, revision, host),
        );
        let source = source.map_err(|error| self.source_failed(error))?;
        if is_dirty {
            let note = "the repo has uncommitted changes; the agent started from its last commit";
            self.record.notes.push(note.to_owned());
        }
        Ok(source)
    }

    /// What the task's Dockerfile copies into its working directory.
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
                written.map_err(|error| match error {
                    WorkspaceError::Source(source) => self.source_failed(source),
                    other => workspace_failed(&other),
                })?;
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
