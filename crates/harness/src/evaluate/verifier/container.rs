//! The verifier in containers: in the agent's container after all of its processes are dead, or in
//! a fresh one with the artifacts.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_process::Background;
use proctor_record::{fs::dir, platform};
use proctor_sandbox::{
    self as sandbox, ContainerEnv, ExecEnvSpec, Privileges, Sandbox, container_env,
    docker::{self, ContainerNetwork, EngineError},
    shell::{self, ShellCommand, ShellResult},
};

use super::{Verifier, VerifierMode, artifacts, background, conclude, interpreters, lay_out_tests};
use crate::{
    evaluate::{EvidenceDir, Finding, Judging, reward},
    model_access::{self, TrialModels},
    workspace::{Environment, Image},
};

/// Folders of tests and rewards, which are cleared before the verifier runs.
pub(crate) const CLEARED: [&str; 2] = ["/tests", "/logs/verifier"];
/// The command of Harbor, which keeps the output next to the reward.
const RUN: &str = "(/tests/test.sh) > /logs/verifier/test-stdout.txt 2>&1";

/// A verification in a container.
struct CleanCopy<'a> {
    verifier: &'a Verifier,
    judging: &'a Judging<'a>,
    exec_env: &'a ContainerEnv,
    way: Option<&'a Way>,
    logs: Utf8PathBuf,
    workdir: Utf8PathBuf,
}

pub(super) async fn judge(
    verifier: &Verifier,
    judging: &Judging<'_>,
    agents: &ContainerEnv,
    evidence: &EvidenceDir,
) -> Result<Finding, String> {
    let stage = judging
        .scratch
        .join(format!("verifier-{}", evidence.number));
    let unprepared = |error: std::io::Error| format!("cannot prepare the verifier: {error}");
    lay_out(verifier, &stage).map_err(unprepared)?;
    let collected = judging.artifacts.join(artifacts::FOLDER);
    // The agent's container no longer exists when a trial is judged again.
    let manifest = if let Some(manifest) = artifacts::earlier(&collected) {
        manifest
    } else {
        gather(verifier, judging, agents, evidence).await?;
        let wanted = &verifier.artifacts;
        artifacts::collect(wanted, agents, judging.workdir, &collected).await?
    };
    let mut workdir = judging.workdir.to_owned();
    let fresh;
    let mut way = None;
    let exec_env = match verifier.mode {
        VerifierMode::Shared => agents,
        VerifierMode::Separate => {
            let ended = agents.container.end_background().await;
            ended.map_err(|error| error.to_string())?;
            let reach = reach(verifier, judging);
            way = Way::open(&reach, judging, evidence)?;
            let made = separate(verifier, judging, agents, (&reach, way.as_ref()));
            let made = Box::pin(made).await;
            fresh = made.map_err(|error| error.to_string())?;
            let replaced = artifacts::replaced(&manifest);
            let removed = fresh.remove(&replaced).await;
            removed.map_err(|error| error.to_string())?;
            artifacts::lay_out(&manifest, &collected, &stage).map_err(unprepared)?;
            workdir = workdir_of(verifier, judging, &fresh);
            &fresh
        }
    };
    let bench = CleanCopy {
        verifier,
        judging,
        exec_env,
        way: way.as_ref(),
        logs: judging.artifacts.join(&evidence.folder),
        workdir,
    };
    let mut tampered = bench.tampered(&stage).await;
    let done = bench.verify(&stage, &mut tampered).await;
    if let Some(way) = way {
        way.close(judging).await;
    }
    let (ran, rewards) = done?;
    dir::remove(&stage).map_err(|error| format!("cannot clean up after the verifier: {error}"))?;
    Ok(Finding {
        tampered,
        ..conclude(verifier, &ran, &rewards, evidence)?
    })
}

/// The network access of a separate verifier container.
struct Way {
    models: TrialModels,
    sockets: Utf8PathBuf,
}

impl Way {
    fn open(
        reach: &sandbox::Network,
        judging: &Judging<'_>,
        evidence: &EvidenceDir,
    ) -> Result<Option<Way>, String> {
        let sandbox::Network::Allowlist(hosts) = reach else {
            return Ok(None);
        };
        let models = judging.context.models;
        let models = models.ok_or("allowed hosts require the gateway, which is off")?;
        let sockets = judging.scratch.join(format!("way-{}", evidence.number));
        let logs = judging.artifacts.join(&evidence.folder);
        fs::create_dir_all(&sockets).map_err(|error| error.to_string())?;
        fs::create_dir_all(&logs).map_err(|error| error.to_string())?;
        let label = format!("{}/verifier", judging.context.label);
        let opened = models.open(model_access::Needs {
            label: &label,
            artifacts: &logs,
            sockets: Some(&sockets),
            allow_hosts: hosts.clone(),
            temperature: None,
            budget: None,
            passed_keys: Vec::new(),
            is_sealed: true,
            watch: Vec::new(),
        });
        let models = opened.map_err(|error| error.to_string())?;
        Ok(Some(Way { models, sockets }))
    }

    async fn close(self, judging: &Judging<'_>) {
        if let Some(models) = judging.context.models {
            models.close(self.models).await;
        }
    }
}

/// Runs the commands that collect files for the verifier in the agent's container.
async fn gather(
    verifier: &Verifier,
    judging: &Judging<'_>,
    exec_env: &ContainerEnv,
    evidence: &EvidenceDir,
) -> Result<(), String> {
    let bench = CleanCopy {
        verifier,
        judging,
        exec_env,
        way: None,
        logs: judging.artifacts.join(&evidence.folder),
        workdir: judging.workdir.to_owned(),
    };
    for (number, collect) in verifier.collect.iter().enumerate() {
        let own = collect.user.as_deref();
        let user = own.or(exec_env.image.user.as_deref()).unwrap_or("0:0");
        let name = format!("collect-{}", number + 1);
        let line = &collect.command;
        // As in Harbor, a failure does not prevent the verification: its output is kept.
        bench.run(line, Some(user), collect.timeout, &name).await?;
    }
    Ok(())
}

/// Creates the folders below `/logs`, which every user of the container can write to.
pub(crate) fn make_logs(stage: &Utf8Path) -> std::io::Result<()> {
    for name in ["verifier", "agent", "artifacts"] {
        let folder = stage.join("logs").join(name);
        fs::create_dir_all(&folder)?;
        platform::set_mode(folder.as_std_path(), 0o777)?;
    }
    Ok(())
}

/// The working directory of a separate verifier: that of its own image, if it has one.
fn workdir_of(verifier: &Verifier, judging: &Judging<'_>, fresh: &ContainerEnv) -> Utf8PathBuf {
    let own = verifier.environment.as_deref();
    let environment = own.or(judging.environment);
    let named = environment.and_then(|environment| environment.workdir.clone());
    named.unwrap_or_else(|| fresh.image.workdir.clone().into())
}

/// The folders of the container: `/tests` and the folders below `/logs`.
fn lay_out(verifier: &Verifier, stage: &Utf8Path) -> std::io::Result<()> {
    make_logs(stage)?;
    lay_out_tests(verifier, &stage.join("tests"))
}

/// A fresh container of the verifier's image, or of the agent's.
async fn separate(
    verifier: &Verifier,
    judging: &Judging<'_>,
    agents: &ContainerEnv,
    (reach, way): (&sandbox::Network, Option<&Way>),
) -> Result<ContainerEnv, EngineError> {
    let Sandbox::Docker(engine) = judging.sandbox else {
        unreachable!("there is a container, so there is an engine");
    };
    let own = verifier.environment.as_deref();
    let image = match own.map(|own| &own.image) {
        Some(Image::Named(name)) => engine.image(name, |_| ()).await?,
        Some(Image::Build {
            context,
            dockerfile,
            options,
        }) => {
            let limit = own.map(|own| own.build_timeout);
            let files = (context.as_path(), dockerfile.as_path());
            engine.build(files, options, limit, |_| ()).await?
        }
        None => agents.image.clone(),
    };
    engine
        .exec_env(ExecEnvSpec {
            image,
            mounts: Vec::new(),
            privileges: Privileges::Usual {
                user: verifier.user.clone(),
            },
            network: match reach {
                sandbox::Network::Open => ContainerNetwork::Open,
                _ => ContainerNetwork::None,
            },
            limits: engine.settings.limits,
            main: None,
            readiness: readiness(verifier.environment.as_deref()),
            sockets: way.map(|way| (way.sockets.clone(), vec![model_access::relay()])),
        })
        .await
}

/// The network of a separate verifier: from the suite, else from its task, else the agent's.
fn reach(verifier: &Verifier, judging: &Judging<'_>) -> sandbox::Network {
    let asked = match judging.sandbox {
        Sandbox::Docker(docker) => docker.settings.network.as_ref(),
        Sandbox::Local => None,
    };
    let own = verifier.environment.as_deref();
    let own = own.and_then(|own| own.network.as_ref());
    let agents = judging.environment;
    let agents = agents.and_then(|environment| environment.network.as_ref());
    match (asked, verifier.network.as_ref().or(own).or(agents)) {
        // A verifier does not need a model.
        (Some(sandbox::Network::Gateway), _) => sandbox::Network::None,
        (Some(asked), _) => asked.clone(),
        (None, own) => own.cloned().unwrap_or(sandbox::Network::Open),
    }
}

/// The readiness check of the verifier's own environment.
fn readiness(own: Option<&Environment>) -> Option<proctor_process::Readiness> {
    own?.healthcheck.as_ref().map(Into::into)
}

/// Leaves HOME to the image, or else to the user of a command, who has one in the container.
pub(crate) fn use_own_home(env: &mut BTreeMap<String, String>, image: &docker::Image) {
    match image.env.get("HOME") {
        Some(home) => env.insert("HOME".to_owned(), home.clone()),
        None => env.remove("HOME"),
    };
}

impl CleanCopy<'_> {
    /// Programs in the agent's container that run the tests and differ from those of its image.
    /// Empty if the engine cannot list changes.
    async fn tampered(&self, stage: &Utf8Path) -> Vec<String> {
        if self.verifier.mode == VerifierMode::Separate {
            return Vec::new();
        }
        let script = fs::read(stage.join("tests/test.sh")).unwrap_or_default();
        let changes = self.exec_env.container.changes().await.unwrap_or_default();
        interpreters::changed(&changes, &self.exec_env.image, &script)
    }

    async fn verify(
        &self,
        stage: &Utf8Path,
        tampered: &mut Vec<String>,
    ) -> Result<(ShellResult, Result<reward::Rewards, String>), String> {
        let text = |error: EngineError| error.to_string();
        self.place(stage).await.map_err(text)?;
        if self.exec_env.container.has_background() {
            let changed = background::changed(self.exec_env, stage).await;
            tampered.extend(changed?);
            self.place(stage).await.map_err(text)?;
        }
        let own = self.verifier.user.as_deref();
        let user = own.or(self.exec_env.image.user.as_deref());
        let user = user.unwrap_or("0:0");
        let ran = self
            .run(RUN, Some(user), self.verifier.timeout, "run")
            .await?;
        let kept = self.logs.join("verifier");
        fs::create_dir_all(&kept).map_err(|error| error.to_string())?;
        let got = self
            .exec_env
            .container
            .download("/logs/verifier", kept.as_std_path());
        let rewards = match got.await {
            Ok(()) => reward::read(&self.logs, self.verifier.reward_key.as_deref()),
            // If memory ran out, the container may have ended with the tests.
            Err(error) if matches!(ran.exit.status, Some(proctor_process::Status::Signal(_))) => {
                Err(text(error))
            }
            Err(error) => return Err(text(error)),
        };
        Ok((ran, rewards))
    }

    /// Copies tests into the container, in place of earlier ones.
    async fn place(&self, stage: &Utf8Path) -> Result<(), EngineError> {
        if self.verifier.mode == VerifierMode::Shared {
            // The agent may have replaced programs of the image.
            self.exec_env.remove(&CLEARED).await?;
        }
        let container = &self.exec_env.container;
        container.upload(stage.as_std_path(), "/").await
    }

    async fn run(
        &self,
        line: &str,
        user: Option<&str>,
        timeout: std::time::Duration,
        name: &str,
    ) -> Result<ShellResult, String> {
        // The reward is read when no process can change it any more.
        let (logs, background) = match name {
            "run" => (self.logs.clone(), Background::End),
            _ => (self.logs.join(name), Background::Keep),
        };
        let command = ShellCommand {
            argv: &shell::line(line),
            env: self.env(),
            cwd: &self.workdir,
            timeout: Some(timeout),
            logs,
            background,
        };
        command
            .run_as(user, self.exec_env, self.judging.cancel)
            .await
    }

    /// The variables of the image and of the task.
    fn env(&self) -> BTreeMap<String, String> {
        let mut env = container_env(&self.exec_env.image, Utf8Path::new("/root"));
        use_own_home(&mut env, &self.exec_env.image);
        env.extend(
            self.environment()
                .map(|own| own.env.clone())
                .unwrap_or_default(),
        );
        env.extend(self.verifier.env.clone());
        env.extend(
            self.way
                .map(|way| way.models.proxy_env())
                .unwrap_or_default(),
        );
        env
    }

    fn environment(&self) -> Option<&Environment> {
        let own = self.verifier.environment.as_deref();
        own.or(self.judging.environment)
    }
}
