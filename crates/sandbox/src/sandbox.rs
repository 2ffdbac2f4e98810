//! The sandboxes of trials: this machine, or a container for each trial.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    fs::{LOCK_FILE, is_locked},
    record::{cli::Installed, lease::Holder},
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{
    docker::{self, Address, BuildOptions, BuildSpec, Engine, EngineError, EngineOptions, Image},
    host::Host,
    peer::Peer,
    settings::{SandboxKind, SandboxSettings},
    trial_dir::TrialDir,
};

/// The variables of podman, of `ssh` to other machines, and of registry credentials.
const OF_ENGINES: [&str; 8] = [
    "PODMAN_",
    "CONTAINERS_",
    "CONTAINER_",
    "STORAGE_",
    "REGISTRY_",
    "DOCKER_",
    "DBUS_",
    "SSH_",
];

/// The sandbox of the trials of a run.
#[derive(Debug)]
pub enum Sandbox {
    /// Directories and process trees of this machine.
    Local,
    /// In containers.
    Docker(Box<DockerSandbox>),
}

/// A Docker engine with cached data.
#[derive(Debug)]
pub struct DockerSandbox {
    /// The engine.
    pub engine: Engine,
    pub settings: SandboxSettings,
    /// The label of this run's resources.
    label: String,
    /// Images by requested name: a name is the same image throughout a run.
    images: Mutex<BTreeMap<String, Image>>,
    /// The connection options.
    options: EngineOptions,
    /// The engines of the run, which may have images that this one lacks.
    pub(crate) peers: Vec<Peer>,
    /// The engine of this machine, which may have images that the others lack.
    pub(crate) own: Option<Address>,
    /// The cached probes of programs in images.
    programs: Mutex<BTreeMap<(String, String), Option<Installed>>>,
    /// One build at a time: trials of one task need the same image.
    building: Mutex<()>,
    /// The directory of container files, which a later run can find if Proctor is killed.
    _area: TrialDir,
}

impl Sandbox {
    /// Prepares the resources for the trials of the run in `run_dir`. Leftovers of dead runs are
    /// removed.
    pub async fn open(
        settings: &SandboxSettings,
        host: &Host,
        run_dir: &Utf8Path,
    ) -> Result<Sandbox, EngineError> {
        if settings.kind == SandboxKind::Local {
            return Ok(Sandbox::Local);
        }
        let trial_dir = TrialDir::create(&host.temp)
            .map_err(|error| EngineError::file("write to", host.temp.as_std_path(), &error))?;
        let options = EngineOptions {
            address: Address::find(host)?,
            binary: host.binary.clone().into(),
            scratch: trial_dir.scratch.clone().into(),
            supervisor: host.supervisor.clone(),
            env: host.helper_env(&OF_ENGINES).into_iter().collect(),
        };
        let engine = Engine::connect(&options).await?;
        let us = ObjectOwner {
            folder: run_dir.to_owned(),
            process: Holder::here(&host.name, None),
        };
        let is_needed = |label: &str| {
            let is_past = |owner: ObjectOwner| owner.process.is_of_an_earlier_boot(&us.process);
            // Containers of this machine do not survive its restart.
            let is_past = engine.is_local() && ObjectOwner::read(label).is_some_and(is_past);
            !is_past && is_alive(label, &us)
        };
        engine.sweep(is_needed).await?;
        Ok(Sandbox::Docker(Box::new(DockerSandbox {
            engine,
            settings: settings.clone(),
            label: us.label(),
            images: Mutex::default(),
            options,
            peers: Vec::new(),
            own: None,
            programs: Mutex::default(),
            building: Mutex::default(),
            _area: trial_dir,
        })))
    }

    /// The engine, if any.
    pub fn engine(&self) -> Option<&Engine> {
        match self {
            Sandbox::Local => None,
            Sandbox::Docker(docker) => Some(&docker.engine),
        }
    }

    /// Waits until all resources are removed.
    pub async fn close(&self) {
        if let Sandbox::Docker(docker) = self {
            docker.engine.close().await;
            if docker.engine.has_lost() {
                // If the engine is still unavailable, the next run removes the leftovers.
                let _ = docker.engine.sweep(|label| label != docker.label).await;
            }
        }
    }
}

/// The creator of an object of an engine: its label.
#[derive(Debug, Serialize, Deserialize)]
struct ObjectOwner {
    /// The directory of the run, or of the single trial of the process.
    folder: Utf8PathBuf,
    process: Holder,
}

impl ObjectOwner {
    /// The data of a label; `None` if it is not Proctor's.
    fn read(label: &str) -> Option<ObjectOwner> {
        serde_json::from_str(label).ok()
    }

    fn label(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers can be serialized")
    }
}

/// Whether an object with a label may still be needed. Objects of other machines, and those in
/// doubt, are kept.
fn is_alive(label: &str, us: &ObjectOwner) -> bool {
    let Some(owner) = ObjectOwner::read(label) else {
        return true;
    };
    if owner.process.host != us.process.host {
        return true;
    }
    if owner.process.is_gone() {
        return false;
    }
    // Pids are not comparable across pid namespaces, but the directory of a run has a lock; we hold
    // the lock of a resumed run. The directory of a trial has no lock, and counts as locked.
    let is_ours = owner.folder == us.folder && owner.folder.join(LOCK_FILE).exists();
    let is_we = owner.process.id == us.process.id;
    is_we || !is_ours && is_locked(&owner.folder)
}

impl DockerSandbox {
    /// The image with this name, or its replacement in the suite; pulled if no engine of the run
    /// has it. `sink` gets the progress.
    pub async fn image(&self, name: &str, sink: impl FnMut(&str)) -> Result<Image, EngineError> {
        let name = self.settings.images.get(name).map_or(name, String::as_str);
        let mut images = self.images.lock().await;
        if let Some(known) = images.get(name) {
            return Ok(known.clone());
        }
        let image = match self.engine.image(name).await {
            Err(EngineError::ImageMissing { .. }) => match self.fetch(name).await {
                Err(error @ EngineError::ImageMissing { .. }) if !error.is_shipped_image() => {
                    self.engine.pull(name, sink).await?
                }
                other => other?,
            },
            other => other?,
        };
        images.insert(name.to_owned(), image.clone());
        Ok(image)
    }

    /// An image from another engine of the run, or from this machine's.
    async fn fetch(&self, name: &str) -> Result<Image, EngineError> {
        let mut failed = None;
        for peer in &self.peers {
            match peer.send(name, &self.engine).await {
                Some(Ok(image)) => return Ok(image),
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
        }
        if let Some(own) = self.own_engine().await
            && own.image(name).await.is_ok()
        {
            return own.send_image(name, &self.engine).await;
        }
        match failed {
            Some(error) => Err(error),
            None => self.engine.image(name).await,
        }
    }

    /// The engine of this machine, if other engines run the trials and it is available.
    async fn own_engine(&self) -> Option<Engine> {
        let options = EngineOptions {
            address: self.own.clone()?,
            ..self.options.clone()
        };
        Engine::connect(&options).await.ok()
    }

    /// The image of a Dockerfile, built once and within a time limit. `sink` gets the build output.
    pub async fn build(
        &self,
        (context, dockerfile): (&Utf8Path, &Utf8Path),
        options: &BuildOptions,
        limit: Option<Duration>,
        sink: impl FnMut(&str),
    ) -> Result<Image, EngineError> {
        let _one_at_a_time = self.building.lock().await;
        // File names are relative to the build context.
        let below = dockerfile.strip_prefix(context).unwrap_or(dockerfile);
        let spec = BuildSpec {
            context: context.into(),
            dockerfile: below.to_string(),
            images: self.settings.images.clone(),
            args: options.args.clone(),
            target: options.target.clone(),
            name: "proctor-task".to_owned(),
            labels: BTreeMap::new(),
            network: None,
        };
        let built = self.engine.build(&spec, sink);
        let limit = limit.unwrap_or(Duration::MAX);
        let built = tokio::time::timeout(limit, built).await;
        built.unwrap_or_else(|_| {
            Err(EngineError::Build {
                tag: spec.name.clone(),
                message: format!("the build took longer than {} s", limit.as_secs_f64()),
            })
        })
    }

    /// The labels of this run's resources.
    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(docker::RUN_LABEL.to_owned(), self.label.clone())])
    }

    /// The probe of `program` in an image, computed once by `ask`.
    pub async fn program(
        &self,
        image: &Image,
        program: String,
        ask: impl Future<Output = Result<Option<Installed>, EngineError>>,
    ) -> Result<Option<Installed>, EngineError> {
        let mut programs = self.programs.lock().await;
        let key = (image.id.clone(), program);
        if let Some(known) = programs.get(&key) {
            return Ok(known.clone());
        }
        let found = ask.await?;
        programs.insert(key, found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(folder: &Utf8Path) -> ObjectOwner {
        ObjectOwner {
            folder: folder.to_owned(),
            process: Holder::here("here", None),
        }
    }

    #[test]
    fn resources_of_dead_processes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let trial = Utf8Path::from_path(dir.path()).unwrap();
        let us = owner(trial);
        // Another process runs the same trial on the same machine.
        assert!(is_alive(&owner(trial).label(), &us), "the process is alive");
        let mut dead = owner(trial);
        // No process has this pid.
        dead.process.pid = u32::MAX;
        assert!(!is_alive(&dead.label(), &us));
        dead.process.host = "elsewhere".to_owned();
        assert!(
            is_alive(&dead.label(), &us),
            "another machine's process is unknown"
        );
        assert!(is_alive("made by something else", &us));
    }

    #[test]
    fn resources_of_a_resumed_run_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let run = Utf8Path::from_path(dir.path()).unwrap();
        let mut before = owner(run);
        before.process.birth = None;
        let us = owner(run);
        assert!(is_alive(&before.label(), &us), "a folder without a lock");
        fs_err::write(run.join(LOCK_FILE), "").unwrap();
        assert!(!is_alive(&before.label(), &us));
        let other = owner(Utf8Path::new("/nowhere"));
        assert!(!is_alive(&before.label(), &other), "the lock is free");
    }
}
