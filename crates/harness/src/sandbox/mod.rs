//! Where trials execute: on this machine, or each in a container of its own.

pub mod docker;
mod pool;
mod room;
mod running;

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8Path;
use tokio::sync::Mutex;

use self::docker::{Address, BuildSpec, Engine, EngineError, EngineOptions, Image};
pub use self::{
    pool::{Capacity, Pool, Seat},
    room::{Access, DockerRoom, Rights, Room, RoomSpec, StartError, View, container_env},
    running::Running,
};
use crate::{
    agent::Installed,
    area::Area,
    config::{Execution, SandboxKind},
    host::Host,
    store,
};

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
    /// What the suite says about containers.
    pub execution: Execution,
    /// The label of what this run makes.
    label: String,
    /// Images by the name that was asked for: one name is one image throughout a run.
    images: Mutex<BTreeMap<String, Image>>,
    /// The engines of the run, which may have what this one lacks.
    peers: Vec<Engine>,
    /// What was found out about programs in images.
    programs: Mutex<BTreeMap<(String, String), Option<Installed>>>,
    /// One build at a time: trials of one task want the same image.
    building: Mutex<()>,
    /// The files of containers lie here, so that a later run finds them should we be killed.
    _area: Area,
}

impl Sandbox {
    /// Make ready what the trials of the run in `run_dir` need. What dead runs left is removed.
    pub async fn open(
        execution: &Execution,
        host: &Host,
        run_dir: &Utf8Path,
    ) -> Result<Sandbox, EngineError> {
        if execution.sandbox == SandboxKind::Local {
            return Ok(Sandbox::Local);
        }
        let area = Area::create(&host.temp)
            .map_err(|error| EngineError::file("write to", host.temp.as_std_path(), &error))?;
        let engine = Engine::connect(&EngineOptions {
            address: Address::of_host(host)?,
            binary: host.binary.clone().into(),
            scratch: area.scratch.clone().into(),
            supervisor: host.supervisor.clone(),
            env: host.env.clone().into_iter().collect(),
        })
        .await?;
        let own = format!("{}:{run_dir}", host.name);
        // What bears our own label is of the run that we resume: we have made nothing yet.
        let is_needed = |label: &str| label != own && is_alive(label, host);
        engine.sweep(is_needed).await?;
        Ok(Sandbox::Docker(Box::new(DockerSandbox {
            engine,
            execution: execution.clone(),
            label: own,
            images: Mutex::default(),
            peers: Vec::new(),
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

/// Whether the run that made something still runs. Runs of other machines are left alone.
fn is_alive(label: &str, host: &Host) -> bool {
    match label.split_once(':') {
        Some((name, run_dir)) if name == host.name => {
            let run_dir = Utf8Path::new(run_dir);
            run_dir.exists() && store::is_locked(run_dir)
        }
        _ => true,
    }
}

impl DockerSandbox {
    /// The image with this name, or with the name that the suite puts in its place.
    pub async fn image(&self, name: &str) -> Result<Image, EngineError> {
        let name = self.execution.images.get(name).map_or(name, String::as_str);
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

    /// An image from another engine of the run that has it.
    async fn fetch(&self, name: &str) -> Result<Image, EngineError> {
        for peer in &self.peers {
            if peer.image(name).await.is_ok() {
                return peer.send_image(name, &self.engine).await;
            }
        }
        self.engine.image(name).await
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
            images: self.execution.images.clone(),
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

    /// What is known of `program` in an image, found out once by `ask`.
    pub(crate) async fn program(
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
