//! The input of evaluators: the work, its workspace and the means to judge it.

use std::{
    error::Error,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::agent::{Adapter, Agent, PromptSource};
use proctor_record::{fs::dir, record::Record, usage::Usage};
use proctor_sandbox::{
    Access, ExecEnv, ExecEnvSpec, Mount, Privileges, Sandbox, docker::ContainerNetwork, host::Host,
};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Reference, Source},
    model_access::Models,
    workspace::{Change, Environment, Workspace},
};

/// The user id for judging in containers.
const JUDGE: u32 = 1001;

/// The directory for evaluators' files, below a trial's artifacts.
pub const EVIDENCE: &str = "evaluators";

/// The input of evaluators.
pub struct Judging<'a> {
    /// The workspace and its baseline.
    pub workspace: &'a Workspace,
    /// The change of the agent.
    pub change: &'a Change,
    /// The task's reference solution.
    pub reference: Option<&'a Reference>,
    /// The usage of the agent, from the authoritative account; `None` if unknown.
    pub usage: Option<&'a Usage>,
    /// The trial's artifacts.
    pub artifacts: &'a Utf8Path,
    /// The directory for evaluators' files, below the artifacts.
    pub evidence: &'a str,
    /// The directory of clean copies.
    pub scratch: &'a Utf8Path,
    /// The sandbox of the trial.
    pub sandbox: &'a Sandbox,
    /// The environment of the agent.
    pub exec_env: &'a ExecEnv,
    /// The agent's working directory in that environment.
    pub workdir: &'a Utf8Path,
    /// The task's own environment.
    pub environment: Option<&'a Environment>,
    /// The host.
    pub host: &'a Host,
    /// The input of judges.
    pub context: JudgeContext<'a>,
    /// The cancellation token of the run.
    pub cancel: &'a CancellationToken,
}

/// The input of judges that are agents or models.
pub struct JudgeContext<'a> {
    /// The description of the task.
    pub about: About,
    /// How agents access models, including judges that are agents.
    pub models: Option<&'a Models>,
    /// The gateway for models as judges.
    pub judges: Option<&'a Models>,
    /// The directory of the answer cache, which all runs share.
    pub cache: &'a Utf8Path,
    /// Older cached answers are not used; `None` allows all.
    pub kept_since: Option<SystemTime>,
    /// The id of the run.
    pub run_id: &'a str,
    /// The trial's identity as a path: judges' calls are recorded below it.
    pub label: Utf8PathBuf,
    /// Runs a judge that is an agent.
    pub run_trial: RunTrial,
}

/// Runs a judge as its own trial. Trials call evaluators, so evaluators get this as a callback.
pub type RunTrial = for<'a> fn(JudgeTrial<'a>) -> JudgeFuture<'a>;

/// The record of a judge's trial, or the reason that the trial could not be started.
pub type JudgeFuture<'a> = Pin<Box<dyn Future<Output = Result<Record, Box<dyn Error>>> + 'a>>;

/// A trial of a judging agent.
#[derive(Clone, Copy)]
pub struct JudgeTrial<'a> {
    /// The judging that the trial is part of.
    pub judging: &'a Judging<'a>,
    /// The code that drives the judge.
    pub adapter: &'static dyn Adapter,
    /// The judge.
    pub agent: &'a Arc<dyn Agent>,
    /// The judge's name in recordings.
    pub label: &'a str,
    /// The prompt.
    pub request: &'a str,
    /// The copy of the work that is judged.
    pub copy: &'a Utf8Path,
    /// How long one answer may take.
    pub timeout: Duration,
    /// The file that defines the judge.
    pub source: &'a Arc<Source>,
    /// The folder that its paths start from.
    pub base_dir: &'a Utf8Path,
    /// The gateway of the judge.
    pub models: Option<&'a Models>,
    /// The folder of the judge's results.
    pub folder: &'a Utf8Path,
}

/// The description of a task, for a judge.
#[derive(Clone, Debug)]
pub struct About {
    /// Its description.
    pub description: String,
    /// The prompt of agents, if any.
    pub prompt: Option<PromptSource>,
}

impl Judging<'_> {
    /// A fresh environment of the agent's kind with these folders mounted, optionally in another
    /// image. `filled` fills the folders at the same time. The judging user is never the agent's
    /// user.
    pub(super) async fn fresh_exec_env(
        &self,
        mounts: Vec<Mount>,
        image: Option<&str>,
        network: ContainerNetwork,
        filled: impl Future<Output = Result<(), String>>,
    ) -> Result<ExecEnv, String> {
        let (Sandbox::Docker(docker), ExecEnv::Docker(agents)) = (self.sandbox, self.exec_env)
        else {
            filled.await?;
            return Ok(ExecEnv::Local);
        };
        let (uid, gid) = if self.host.is_root {
            (JUDGE, JUDGE)
        } else {
            self.host.ids
        };
        let written = mounts.iter().filter(|mount| mount.access == Access::Write);
        let written: Vec<_> = written.map(|mount| mount.host.clone()).collect();
        let filled = Box::pin(async {
            filled.await?;
            self.hand_over(&written, dir::give)
        });
        let image = match image {
            Some(name) => docker
                .image(name, |_| ())
                .await
                .map_err(|error| error.to_string())?,
            None => agents.image.clone(),
        };
        let exec_env = docker.exec_env(ExecEnvSpec {
            image,
            mounts,
            privileges: Privileges::Hardened {
                user: format!("{uid}:{gid}"),
            },
            network,
            limits: docker.settings.limits,
            main: None,
            readiness: None,
            sockets: None,
        });
        let exec_env = Box::pin(async { exec_env.await.map_err(|error| error.to_string()) });
        let exec_env = if docker.engine.is_local() {
            tokio::try_join!(filled, exec_env)?.1
        } else {
            // The folders are copied into the environment when it is created.
            filled.await?;
            exec_env.await?
        };
        Ok(ExecEnv::Docker(Box::new(exec_env)))
    }

    /// Changes the owner of paths to the judging user: with `give` their content, too, or not.
    pub(super) fn hand_over(
        &self,
        paths: &[Utf8PathBuf],
        give: fn(&Path, u32) -> io::Result<()>,
    ) -> Result<(), String> {
        for path in paths.iter().filter(|_| self.host.is_root) {
            give(path.as_std_path(), JUDGE)
                .map_err(|error| format!("cannot change the owner of {path}: {error}"))?;
        }
        Ok(())
    }
}
