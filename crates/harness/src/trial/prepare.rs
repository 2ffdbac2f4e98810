//! Prepares a trial: the agents, the workspace, the prompt, the command.

use std::collections::BTreeMap;

use fs_err as fs;
use proctor_record::{outcome::Outcome, record::Phase};
use proctor_sandbox::{ExecEnv, availability::ProbeTimeout, trial_dir::TrialDir};

use super::{
    AgentStart, Agents, Cause, Contestant, Context, Prepared, Site, Stage, Trial, TrialError,
    equip::Equipment,
};
use crate::{
    model_access::{self, Models},
    workspace::Workspace,
};

/// Why the agent did not run.
pub(super) enum NotRun {
    /// The input is invalid.
    Usage(TrialError),
    /// The infrastructure failed.
    Infrastructure {
        outcome: Outcome,
        code: &'static str,
        message: String,
    },
}

impl From<TrialError> for NotRun {
    fn from(error: TrialError) -> NotRun {
        NotRun::Usage(error)
    }
}

/// Without the list of its options, the agent might get an option that its version refuses.
impl From<ProbeTimeout> for NotRun {
    fn from(error: ProbeTimeout) -> NotRun {
        NotRun::Infrastructure {
            outcome: Outcome::Sandbox,
            code: "PROBE_FAILED",
            message: error.to_string(),
        }
    }
}

impl From<std::io::Error> for NotRun {
    fn from(error: std::io::Error) -> NotRun {
        NotRun::Infrastructure {
            outcome: Outcome::Sandbox,
            code: "SANDBOX_FAILED",
            message: error.to_string(),
        }
    }
}

/// A trial that could not be prepared.
pub(super) struct NotPrepared {
    pub(super) reason: NotRun,
    /// `None` if the workspace could not be created.
    pub(super) stage: Option<Stage>,
}

impl Trial<'_> {
    /// Prepares everything until the agent can be started.
    pub(super) async fn prepare(&mut self) -> Result<Prepared, NotPrepared> {
        self.phase(Phase::Preparing);
        let context = self.context;
        let mut exec_env = ExecEnv::Local;
        let parts = Box::pin(self.make_parts(&mut exec_env));
        let made = or_cut_off(context, parts).await;
        let (agents, equipment, trial_dir, workspace) = match made {
            Ok(made) => made,
            Err(reason) => {
                self.leave(exec_env).await;
                return Err(NotPrepared {
                    reason,
                    stage: None,
                });
            }
        };
        let mut site = Site {
            exec_env,
            workspace,
            trial_dir,
        };
        let first = Box::pin(self.first_start(&agents, &mut site, equipment));
        let first = or_cut_off(context, first).await;
        match first {
            Ok((prompt, start)) => Ok(Prepared {
                agents,
                site,
                prompt,
                start,
            }),
            Err(reason) => Err(NotPrepared {
                reason,
                stage: Some(Stage { agents, site }),
            }),
        }
    }

    /// Prepares the agents and their workspace. The container is put into `exec_env`.
    async fn make_parts(
        &mut self,
        exec_env: &mut ExecEnv,
    ) -> Result<(Agents, Equipment, TrialDir, Workspace), NotRun> {
        let trial_dir = TrialDir::create(&self.context.host.temp)?;
        let image = self.image().await?;
        if image.is_some() {
            fs::create_dir_all(model_access::sockets(&trial_dir.path))?;
        }
        let mut tools = BTreeMap::new();
        for contestant in self.contestants() {
            tools.insert(contestant, self.tools_of(contestant, image.as_ref()).await?);
        }
        let is_shared = !self.plan.policy.is_empty() || self.steps.is_some();
        let models = self.context.models.filter(|_| is_shared);
        let agents = Agents {
            image,
            tools,
            contestant: Contestant::Primary,
            deadline: self.deadline(),
            budget: models.map(Models::trial_budget),
        };
        self.read_treatment().await?;
        let equipment = self.equip(&agents, &trial_dir).await?;
        let has_models = equipment.models.is_some();
        let made = self.make_workspace(&agents, &trial_dir, has_models, exec_env);
        let workspace = made.await?;
        Ok((agents, equipment, trial_dir, workspace))
    }

    /// Runs the hooks and makes the first command. Returns it with the prompt.
    async fn first_start(
        &mut self,
        agents: &Agents,
        site: &mut Site,
        equipment: Equipment,
    ) -> Result<(String, AgentStart), NotRun> {
        self.pre_execution(site).await?;
        let prompt = self.prompt(site.workspace.path(), agents.deadline.as_deref())?;
        self.lay_treatment(site).await?;
        let start = self.launch(agents, site, equipment, &prompt).await?;
        Ok((prompt, start))
    }

    /// Adds a note, once.
    pub(super) fn note(&mut self, note: String) {
        if !self.record.notes.contains(&note) {
            self.record.notes.push(note);
        }
    }

    /// The agent's deadline as text, so that the agent can plan.
    pub(super) fn deadline(&self) -> Option<String> {
        let timeout = self.plan.task.limits.timeout?;
        let timeout = jiff::SignedDuration::try_from(timeout).ok()?;
        let deadline = jiff::Timestamp::now().checked_add(timeout).ok()?;
        Some(deadline.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

/// The result of `step`, unless the trial is cancelled before its end.
async fn or_cut_off<T>(
    context: &Context<'_>,
    step: impl Future<Output = Result<T, NotRun>>,
) -> Result<T, NotRun> {
    tokio::select! {
        done = step => done,
        () = context.cancel.cancelled() => Err(cut_off(context.cause)),
    }
}

/// The excluded result of a trial that is cancelled before its agent starts.
fn cut_off(cause: &Cause<'_>) -> NotRun {
    let (outcome, code, message) = if cause.is_final() {
        let message = "the time limit of its job was reached before the agent started";
        (Outcome::Sandbox, "SANDBOX_FAILED", message)
    } else {
        let message = "the run was interrupted before the agent started";
        (Outcome::Interrupted, "INTERRUPTED", message)
    };
    NotRun::Infrastructure {
        outcome,
        code,
        message: message.to_owned(),
    }
}
