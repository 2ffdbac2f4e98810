//! Where trials execute: on this machine, or each in a container of its own.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    fs::{LOCK_FILE, is_locked},
    record::{cli::Installed, lease::Holder},
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{
    area::Area,
    docker::{self, Address, BuildSpec, Engine, EngineError, EngineOptions, Image},
    host::Host,
    peer::Peer,
    settings::{SandboxKind, SandboxSettings},
};

/// The variables of podman, of the `ssh` to other machines, and of credentials for registries.
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

/// Where the trials of a run execute.
#[derive(Debug)]
pub enum Sandbox {
    /// In folders and process trees of this machine.
    Local,
    /// In containers.
    Docker(Box<DockerSandbox>),
}

/// A Docker engine, and what is known of it by now.
#[derive(Debug)]
pub struct DockerSandbox {
    /// The engine.
    pub engine: Engine,
    pub settings: SandboxSettings,
    /// The label of what this run makes.
    label: String,
    /// Images by the name that was asked for: one name is one image throughout a run.
    images: Mutex<BTreeMap<String, Image>>,
    /// How it is reached.
    options: EngineOptions,
    /// The engines of the run, which may have what this one lacks.
    pub(crate) peers: Vec<Peer>,
    /// The engine of this machine, which may have it when these do not.
    pub(crate) own: Option<Address>,
    /// The cached probes of programs in images.
    programs: Mutex<BTreeMap<(String, String), Option<Installed>>>,
    /// One build at a time: trials of one task want the same image.
    building: Mutex<()>,
    /// The files of containers lie here, so that a later run finds them should we be killed.
    _area: Area,
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
        let area = Area::create(&host.temp)
            .map_err(|error| EngineError::file("write to", host.temp.as_std_path(), &error))?;
        let options = EngineOptions {
            address: Address::find(host)?,
            binary: host.binary.clone().into(),
            scratch: area.scratch.clone().into(),
            supervisor: host.supervisor.clone(),
            env: host.helper_env(&OF_ENGINES).into_iter().collect(),
        };
        let engine = Engine::connect(&options).await?;
        let us = Owner {
            folder: run_dir.to_owned(),
            process: Holder::here(&host.name, None),
        };
        let is_needed = |label: &str| {
            let is_past = |owner: Owner| owner.process.is_of_an_earlier_boot(&us.process);
            // Containers of this machine do not outlive it either.
            let is_past = engine.is_local() && Owner::read(label).is_some_and(is_past);
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
            _area: area,
        })))
    }

    /// The engine, where there is one.
    pub fn engine(&self) -> Option<&Engine> {
        match self {
            Sandbox::Local => None,
            Sandbox::Docker(docker) => Some(&docker.engine),
        }
    }

    /// Wait until nothing of it is left.
    pub async fn close(&self) {
        if let Sandbox::Docker(docker) = self {
            docker.engine.close().await;
            if docker.engine.has_lost() {
                // Should the engine still be away, the next run sweeps.
                let _ = docker.engine.sweep(|label| label != docker.label).await;
            }
        }
    }
}

/// The creator of an object of an engine: its label.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    /// The folder of the run, or of the one trial that the process is for.
    folder: Utf8PathBuf,
    process: Holder,
}

impl Owner {
    /// The data of a label; `None` if it is not Proctor's.
    fn read(label: &str) -> Option<Owner> {
        serde_json::from_str(label).ok()
    }

    fn label(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }
}

/// Whether an object with a label may still be needed. Objects of other machines, and those in
/// doubt, are kept.
fn is_alive(label: &str, us: &Owner) -> bool {
    let Some(owner) = Owner::read(label) else {
        return true;
    };
    if owner.process.host != us.process.host {
        return true;
    }
    if owner.process.is_gone() {
        return false;
    }
    // Numbers of processes say nothing where there are several spaces of them, but the folder of a run has a
    // lock; that of the run that we resume is in our own hands. The folder of a trial has none, and counts as held.
    let is_ours = owner.folder == us.folder && owner.folder.join(LOCK_FILE).exists();
    let is_we = owner.process.id == us.process.id;
    is_we || !is_ours && is_locked(&owner.folder)
}

impl DockerSandbox {
    /// The image with this name, or with the name that the suite puts in its place.
    pub async fn image(&self, name: &str) -> Result<Image, EngineError> {
        let name = self.settings.images.get(name).map_or(name, String::as_str);
        let mut images = self.images.lock().await;
        if let Some(known) = images.get(name) {
            return Ok(known.clone());
        }
        let image = match self.engine.image(name).await {
            Err(EngineError::ImageMissing { .. }) => self.fetch(name).await?,
            other => other?,
        };
        images.insert(name.to_owned(), image.clone());
        Ok(image)
    }

    /// An image from another engine of the run that has it, or from that of this machine.
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

    /// The engine of this machine, when others do the work and it is there.
    async fn own_engine(&self) -> Option<Engine> {
        let options = EngineOptions {
            address: self.own.clone()?,
            ..self.options.clone()
        };
        Engine::connect(&options).await.ok()
    }

    /// The image that a Dockerfile makes, built once and within a time. `sink` is given what the
    /// build says.
    pub async fn build(
        &self,
        context: &Utf8Path,
        dockerfile: &Utf8Path,
        limit: Option<Duration>,
        sink: impl FnMut(&str),
    ) -> Result<Image, EngineError> {
        let _one_at_a_time = self.building.lock().await;
        // The engine sees the folder alone, and so names files below it.
        let below = dockerfile.strip_prefix(context).unwrap_or(dockerfile);
        let spec = BuildSpec {
            context: context.into(),
            dockerfile: below.to_string(),
            images: self.settings.images.clone(),
            args: BTreeMap::new(),
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
                message: format!("it took longer than {} s", limit.as_secs_f64()),
            })
        })
    }

    /// The labels of what this run makes.
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

    fn owner(folder: &Utf8Path) -> Owner {
        Owner {
            folder: folder.to_owned(),
            process: Holder::here("here", None),
        }
    }

    #[test]
    fn what_the_dead_left_is_theirs_no_more_and_what_the_living_use_stays() {
        let dir = tempfile::tempdir().unwrap();
        let trial = Utf8Path::from_path(dir.path()).unwrap();
        let us = owner(trial);
        // Another process with the same trial, on the same machine.
        assert!(is_alive(&owner(trial).label(), &us), "it lives");
        let mut dead = owner(trial);
        // No process has this number.
        dead.process.pid = u32::MAX;
        assert!(!is_alive(&dead.label(), &us));
        dead.process.host = "elsewhere".to_owned();
        assert!(is_alive(&dead.label(), &us), "nobody here can tell");
        assert!(is_alive("made by something else", &us));
    }

    #[test]
    fn what_the_run_that_is_resumed_left_goes_also_when_its_process_cannot_be_told() {
        let dir = tempfile::tempdir().unwrap();
        let run = Utf8Path::from_path(dir.path()).unwrap();
        let mut before = owner(run);
        before.process.birth = None;
        let us = owner(run);
        assert!(is_alive(&before.label(), &us), "a folder without a lock");
        fs_err::write(run.join(LOCK_FILE), "").unwrap();
        assert!(!is_alive(&before.label(), &us));
        let other = owner(Utf8Path::new("/nowhere"));
        assert!(!is_alive(&before.label(), &other), "nobody holds the lock");
    }
}
