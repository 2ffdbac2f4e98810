//! Creates a trial's workspace: the files of the task, the results of its installation, the
//! baseline, and the reference solution for the oracle.

use std::sync::Arc;

use camino::Utf8Path;
use proctor_agents::agent::ReferenceAt;
use proctor_process::Background;
use proctor_record::{outcome::Outcome, record};
use proctor_sandbox::{
    ExecEnv,
    shell::{self, ShellCommand},
    trial_dir::TrialDir,
};

use super::{
    Agents, Site, Trial, TrialError, chain,
    container::{self, TrialContainer},
    prepare::NotRun,
};
use crate::{
    config::{History, Reference},
    evaluate::{copy_without_ignored, make_executable},
    task::Files,
    workspace::{
        Base, Checkout, Environment, Install, Workspace, WorkspaceError,
        source::{Source, SourceError},
    },
};

impl Trial<'_> {
    /// Creates the agent's workspace. Its container, if any, is put into `exec_env`.
    pub(super) async fn make_workspace(
        &mut self,
        agents: &Agents,
        trial_dir: &TrialDir,
        has_models: bool,
        exec_env: &mut ExecEnv,
    ) -> Result<Workspace, NotRun> {
        let task = &self.plan.task;
        let image = agents.image.as_ref();
        let path = trial_dir.path.join("src-modified");
        let mut made = match &task.files {
            Files::Repo(checkout) => {
                let container = match image {
                    None => None,
                    Some(image) => {
                        let mounts = self.mounts(agents, trial_dir, Some(&path))?;
                        let made = self.make_exec_env(image, trial_dir, mounts, has_models);
                        Some(Box::pin(made))
                    }
                };
                let start = self.plan.treatment.start(checkout);
                let (made, container, note) = self.check_out(&start, container, &path).await?;
                self.record.notes.extend(note);
                if let Some(Reference::Branch(branch)) = &task.reference {
                    // A wrong name is found before the agent costs anything.
                    let found = made.tree_of(branch).await;
                    found.map_err(|error| self.not_made(error))?;
                }
                if let Some(container) = container {
                    *exec_env = self.enter(container);
                    let own = [trial_dir.home.as_path(), &trial_dir.scratch, &path];
                    self.hand_over(exec_env, &own).await?;
                }
                self.start_elsewhere(&made, checkout).await?;
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
                        let mounts = self.mounts(agents, trial_dir, None)?;
                        let made = self.make_exec_env(image, trial_dir, mounts, has_models);
                        *exec_env = self.enter(made.await?);
                        self.make_logs(exec_env).await?;
                        self.prepare_step(exec_env).await?;
                        self.files_of_image(exec_env).await?
                    }
                };
                self.fill(self.base(source).await?, &path).await?
            }
        };
        self.record.task.commit.clone_from(&made.source_commit);
        self.record.task.tree = Some(made.base_tree.clone());
        // Two builds of one image may differ in files that do not matter: its definition has the recipe.
        let is_own = task.environment().is_none() && self.plan.treatment.revision.is_none();
        if let (Some(definition), true) = (&mut self.record.task.definition, is_own) {
            definition.find("tree", &made.base_tree);
        }
        if let Some(install) = &task.install {
            match self.install(install, exec_env, trial_dir, &path).await {
                Err(NotRun::Infrastructure {
                    outcome: Outcome::Sandbox,
                    message,
                    ..
                }) if install.is_optional => {
                    self.note(format!("the agent started despite a failure: {message}"));
                }
                installed => installed?,
            }
            self.settle(&mut made).await?;
        }
        Ok(made)
    }

    /// Makes the current content of the workspace the baseline.
    pub(super) async fn settle(&self, made: &mut Workspace) -> Result<(), NotRun> {
        let settled = made.settle().await;
        settled.map_err(|error| workspace_failed(&error))?;
        let before = self.record.task.tree.clone().unwrap_or_default();
        if made.base_tree != before {
            // The base can be restored from the commit and this patch.
            let patch = self.artifacts.join(record::INSTALL_PATCH_FILE);
            let written = made.write_patch(&before, &made.base_tree, &patch).await;
            written.map_err(|error| workspace_failed(&error))?;
        }
        Ok(())
    }

    /// Checks out the files of a repo task and creates its container at the same time: they are
    /// independent, unless the engine gets a copy of the files. Returns notes as well.
    async fn check_out(
        &self,
        from: &Checkout,
        exec_env: Option<impl Future<Output = Result<TrialContainer, NotRun>>>,
        path: &Utf8Path,
    ) -> Result<(Workspace, Option<TrialContainer>, Option<String>), NotRun> {
        fs_err::create_dir(path)?;
        let files = Box::pin(async {
            let bases = self.context.bases;
            let opened = bases.open(from, self.context.host);
            let opened = opened.await.map_err(|error| self.not_made(error))?;
            let note = "the repo has uncommitted changes; the agent started from its last commit";
            let note = opened.is_dirty.then(|| note.to_owned());
            Ok::<_, NotRun>((self.fill(opened.base, path).await?, note))
        });
        let exec_env = Box::pin(async {
            match exec_env {
                None => Ok(None),
                Some(exec_env) => exec_env.await.map(Some),
            }
        });
        let sees_files = self.docker().is_none_or(|docker| docker.engine.is_local());
        let ((made, note), exec_env) = if sees_files {
            tokio::try_join!(files, exec_env)?
        } else {
            (files.await?, exec_env.await?)
        };
        Ok((made, exec_env, note))
    }

    /// The base of a workspace that only this trial uses.
    async fn base(&self, source: Source) -> Result<Arc<Base>, NotRun> {
        let made = Base::make(source, History::None, self.context.host, &self.private).await;
        made.map(Arc::new).map_err(|error| workspace_failed(&error))
    }

    /// Creates the workspace with the files of `base`.
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

    /// Runs the install command. It belongs to the task: its failure is not the agent's.
    async fn install(
        &self,
        install: &Install,
        exec_env: &ExecEnv,
        trial_dir: &TrialDir,
        workspace: &Utf8Path,
    ) -> Result<(), NotRun> {
        let command = ShellCommand {
            argv: &shell::line(&install.command),
            env: exec_env.env(self.context.host, &trial_dir.home),
            cwd: &exec_env.inside(workspace),
            timeout: Some(install.timeout),
            logs: self.artifacts.join("install"),
            background: Background::End,
        };
        let ran = command
            .run(exec_env, self.context.host, self.context.cancel)
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
            message: format!("cannot prepare the workspace: {message}"),
        })
    }

    /// A repo that does not match the task is invalid input; an unreachable one is an
    /// infrastructure failure.
    fn source_failed(&self, source: SourceError) -> NotRun {
        if !source.is_usage() {
            return workspace_failed(&source.into());
        }
        NotRun::Usage(TrialError::Source {
            config_file: self.plan.task.config_file().to_owned(),
            problem: source,
        })
    }

    pub(super) fn not_made(&self, error: WorkspaceError) -> NotRun {
        match error {
            WorkspaceError::Source(source) => self.source_failed(source),
            other => workspace_failed(&other),
        }
    }

    /// The reference solution, for the oracle.
    pub(super) async fn reference(&self, site: &Site) -> Result<Option<ReferenceAt>, NotRun> {
        let Site {
            trial_dir,
            exec_env,
            workspace,
        } = site;
        if !self.plan.agent.wants_reference() {
            return Ok(None);
        }
        match &self.plan.task.reference {
            Some(Reference::Patch(written)) => {
                let patch = trial_dir.scratch.join("reference.patch");
                fs_err::copy(written, &patch)?;
                Ok(Some(ReferenceAt::Patch(exec_env.inside(&patch))))
            }
            Some(Reference::PatchText(text)) => {
                let patch = trial_dir.scratch.join("reference.patch");
                fs_err::write(&patch, text.as_bytes())?;
                Ok(Some(ReferenceAt::Patch(exec_env.inside(&patch))))
            }
            Some(Reference::Branch(branch)) => {
                let patch = trial_dir.scratch.join("reference.patch");
                let written = workspace.reference_patch(branch, &patch).await;
                written.map_err(|error| self.not_made(error))?;
                Ok(Some(ReferenceAt::Patch(exec_env.inside(&patch))))
            }
            Some(Reference::Script(solution)) => {
                // Below a directory that is uploaded as a whole.
                let stage = trial_dir.scratch.join("reference");
                let folder = stage.join("solution");
                fs_err::create_dir_all(&stage)?;
                match &solution.script {
                    Some(text) => {
                        fs_err::create_dir(&folder)?;
                        fs_err::write(folder.join("solve.sh"), text)?;
                    }
                    None => copy_without_ignored(&solution.folder, &folder)?,
                }
                make_executable(&folder.join("solve.sh"))?;
                let inside = match exec_env {
                    ExecEnv::Local => folder,
                    ExecEnv::Docker(exec_env) => {
                        let uploaded = exec_env.container.upload(stage.as_std_path(), "/");
                        uploaded.await.map_err(container::failed)?;
                        fs_err::remove_dir_all(&stage)?;
                        "/solution".into()
                    }
                };
                Ok(Some(ReferenceAt::Script {
                    folder: inside,
                    env: solution.env.clone(),
                }))
            }
            Some(Reference::Folder(_)) | None => Ok(None),
        }
    }
}

pub(super) fn workspace_failed(error: &WorkspaceError) -> NotRun {
    NotRun::Infrastructure {
        outcome: match error {
            WorkspaceError::Source(SourceError::Fetch { .. }) => Outcome::Network,
            _ => Outcome::Sandbox,
        },
        code: "WORKSPACE_FAILED",
        message: chain(error),
    }
}
