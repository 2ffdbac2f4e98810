//! One container: created, filled, started once for each job, and always removed.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bollard::models::{ChangeType, ContainerCreateBody, FilesystemChange, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptions, DownloadFromContainerOptions, KillContainerOptions,
    StartContainerOptions,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use proctor_process::{Job, JobReport, Limits, REPORT_FILE};
use proctor_record::{fs::dir, platform};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::announcement::Announcement;
use super::engine::joined;
use super::multiplexer::NetworkRelay;
use super::services::{self, Services};
use super::spec::{MainService, OwnFiles, request};
use super::{
    BindMount, ContainerNetwork, ContainerProcess, ContainerSpec, DiskLimit, Engine, EngineError,
    Root, archive, process,
};

/// The maximum size of a report.
const LONGEST_REPORT: u64 = 1024 * 1024;

/// A container, removed with its content when dropped. See [`Engine::close`].
#[derive(Debug)]
pub struct Container {
    inner: Arc<Inner>,
}

type Removal = JoinHandle<Result<(), EngineError>>;

/// State shared by a container and its running process.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) engine: Engine,
    pub(super) id: String,
    mounts: Vec<BindMount>,
    disk: Option<(u64, DiskLimit)>,
    /// Job and report, on local engines.
    files: Option<TempDir>,
    /// A container with the same volumes that is never started, on remote engines: mounts are
    /// filled through it, because a container with a read-only root does not accept an archive that
    /// sets the owner of a volume's top directory.
    holder: Option<String>,
    /// The second container that carries its connections, on remote engines.
    carrier: Option<Box<Carrier>>,
    /// The services beside it.
    services: Option<Services>,
    /// Set while processes of an earlier job are kept, stopped, for the next one.
    kept: Mutex<Option<KeptProcesses>>,
    is_removed: AtomicBool,
    /// A removal in progress.
    removal: Mutex<Option<Removal>>,
}

/// A file of a container that differs from its image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFileChange {
    /// The path inside the container.
    pub path: String,
    /// Whether the image does not have the file.
    pub is_new: bool,
}

/// Processes of an earlier job that wait for the next one.
#[derive(Debug)]
pub(super) struct KeptProcesses {
    /// How the end of that job will be announced.
    pub(super) announcement: Announcement,
    /// Their number, without those of the service.
    pub(super) count: usize,
}

/// A container in the network of another one, and the connections that it carries.
#[derive(Debug)]
struct Carrier {
    _relay: NetworkRelay,
    container: Inner,
}

impl Engine {
    /// Creates a container and copies the files of its specification.
    pub async fn create(&self, spec: ContainerSpec) -> Result<Container, EngineError> {
        // Completed even if the caller no longer waits: otherwise the container could not be
        // removed.
        let engine = self.clone();
        let made = self.finish(async move { Inner::make(engine, spec).await });
        Ok(Container {
            inner: Arc::new(made.await?),
        })
    }
}

impl Container {
    /// The services beside it.
    pub fn services(&self) -> Option<&Services> {
        self.inner.services.as_ref()
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The enforcement of its disk limit; `None` without a limit.
    pub fn disk_limit(&self) -> Option<DiskLimit> {
        self.inner.disk_limit()
    }

    /// Starts a job. Files are kept from the previous job; its processes are dead, or kept as
    /// [`Background`](proctor_process::Background) says.
    pub async fn start(&self, job: Job, limits: Limits) -> Result<ContainerProcess, EngineError> {
        ContainerProcess::start(Arc::clone(&self.inner), job, limits).await
    }

    /// Whether an earlier job left processes for the next one. Those of the service do not count.
    pub fn has_background(&self) -> bool {
        self.inner
            .kept()
            .as_ref()
            .is_some_and(|kept| kept.count > 0)
    }

    /// Ends the processes that earlier jobs left for later ones.
    pub async fn end_background(&self) -> Result<(), EngineError> {
        if self.inner.take_kept().is_none() {
            return Ok(());
        }
        // It may have ended meanwhile.
        let _ = self.inner.signal("SIGKILL").await;
        process::wait(Arc::clone(&self.inner)).await.map(|_| ())
    }

    /// Copies the content of a directory on this machine into an existing directory of the
    /// container.
    pub async fn upload(&self, folder: &Path, to: &str) -> Result<(), EngineError> {
        self.inner.put(archive::pack_folder(folder), to).await
    }

    /// Copies the content of a directory of the container into an existing directory on this
    /// machine.
    pub async fn download(&self, from: &str, to: &Path) -> Result<(), EngineError> {
        self.inner.download(from, to).await
    }

    /// Copies a file or directory of the container, with its name, into an existing directory on
    /// this machine. Returns whether it exists.
    pub async fn fetch(&self, from: &str, to: &Path) -> Result<bool, EngineError> {
        let archive = Box::pin(self.inner.get(from.trim_end_matches('/').to_owned()));
        match archive::unpack(archive, to).await {
            Ok(unpacked) => {
                unpacked.map_err(|error| EngineError::file("unpack into", to, &error))?;
                Ok(true)
            }
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Replaces the container's copy of our own binary, which processes of root could change.
    pub async fn renew_binary(&self) -> Result<(), EngineError> {
        if self.shares_folders() {
            return Ok(());
        }
        self.inner.fill().await
    }

    /// The changed and new files, compared with its image.
    pub async fn changes(&self) -> Result<Vec<ContainerFileChange>, EngineError> {
        let engine = &self.inner.engine;
        let changes = engine.docker().container_changes(&self.inner.id).await;
        let changes =
            changes.map_err(|error| EngineError::of("list changed files of a container", error))?;
        let changes = changes.unwrap_or_default().into_iter();
        let change = |change: FilesystemChange| ContainerFileChange {
            path: change.path,
            is_new: change.kind == ChangeType::_1,
        };
        Ok(changes.map(change).collect())
    }

    /// The newest modification time in a directory of the container.
    pub async fn newest_change(&self, folder: &str) -> Result<Option<SystemTime>, EngineError> {
        let contents = format!("{}/.", folder.trim_end_matches('/'));
        let newest = archive::newest_change(Box::pin(self.inner.get(contents))).await?;
        newest.map_err(|error| EngineError::file("read an archive of", Path::new(folder), &error))
    }

    /// Whether it uses the given directories directly, not copies.
    pub fn shares_folders(&self) -> bool {
        self.inner.engine.is_local()
    }

    /// Starts to remove it in the background; [`remove`](Self::remove) waits for that.
    pub fn dismiss(&self) {
        let mut removal = self.inner.removal();
        if removal.is_none() {
            let (engine, id) = (self.inner.engine.clone(), self.inner.id.clone());
            let work = async move { engine.remove_container(&id).await };
            *removal = Some(self.inner.engine.begin(work));
        }
    }

    /// Removes it now, with its content and processes.
    pub async fn remove(self) -> Result<(), EngineError> {
        self.inner.remove().await?;
        if let Some(carrier) = &self.inner.carrier {
            carrier.container.remove().await?;
        }
        if let Some(services) = &self.inner.services {
            services.remove().await?;
        }
        Ok(())
    }
}

impl Inner {
    async fn make(engine: Engine, mut spec: ContainerSpec) -> Result<Self, EngineError> {
        let mut carrier = None;
        if !engine.is_local()
            && let Some(sockets) = spec.sockets.take()
        {
            let made = Box::pin(Carrier::make(&engine, &spec, &sockets)).await?;
            spec.network = ContainerNetwork::Named(format!("container:{}", made.container.id));
            carrier = Some(Box::new(made));
        }
        let files = if engine.is_local() {
            Some(own_files(engine.scratch())?)
        } else {
            None
        };
        let place = files.as_ref().map(|files| {
            let folder = files.path();
            (folder.join("job"), folder.join("report.json"))
        });
        let own = match &place {
            Some((job, report)) => OwnFiles::Mounted {
                binary: engine.binary(),
                job,
                report,
            },
            None => OwnFiles::Volume,
        };
        if files.is_none() {
            for shared in &spec.shared {
                engine.share(shared, &spec.image).await?;
            }
        }
        let quota = spec.disk.filter(|_| engine.has_quotas());
        let (id, quota) = match create(&engine, &spec, &own, quota).await {
            Ok(id) => (id, quota),
            // The file system does not support quotas.
            Err(error) if quota.is_some() && !error.is_gone() && !error.is_missing() => {
                (create(&engine, &spec, &own, None).await?, None)
            }
            Err(error) => return Err(error),
        };
        let by = quota.map_or(DiskLimit::Watched, |_| DiskLimit::Engine);
        let (settings, services) = match spec.service {
            Some(MainService { settings, services }) => (Some(settings), Some(services)),
            None => (None, None),
        };
        let mut inner = Self {
            engine,
            id,
            mounts: spec.mounts,
            disk: spec.disk.map(|limit| (limit, by)),
            files,
            holder: None,
            carrier,
            services,
            kept: Mutex::default(),
            is_removed: AtomicBool::new(false),
            removal: Mutex::default(),
        };
        if let Some(settings) = settings {
            services::put_files(&inner.engine, &inner.id, &settings).await?;
        }
        if inner.files.is_none() {
            inner.fill().await?;
        }
        if inner.files.is_none() && !inner.mounts.is_empty() {
            let body = holder(&spec.image, spec.labels, &inner.id);
            inner.holder = Some(inner.engine.make_container(body).await?);
        }
        Ok(inner)
    }

    async fn remove(&self) -> Result<(), EngineError> {
        let begun = self.removal().take();
        match begun {
            Some(begun) => joined(begun.await)?,
            None => self.engine.remove_container(&self.id).await?,
        }
        if let Some(holder) = &self.holder {
            self.engine.remove_container(holder).await?;
        }
        self.is_removed.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) async fn start(&self) -> Result<(), EngineError> {
        let docker = self.engine.docker();
        let started = docker.start_container(&self.id, None::<StartContainerOptions>);
        let started = started.await;
        started.map_err(|error| EngineError::of("start a container", error))
    }

    /// Sends a signal to its first process.
    pub(super) async fn signal(&self, signal: &str) -> Result<(), EngineError> {
        let options = KillContainerOptions {
            signal: signal.to_owned(),
        };
        let docker = self.engine.docker();
        let sent = docker.kill_container(&self.id, Some(options)).await;
        sent.map_err(|error| EngineError::of("signal a container", error))
    }

    /// Remembers that processes wait for the next job.
    pub(super) fn keep(&self, processes: KeptProcesses) {
        *self.kept() = Some(processes);
    }

    /// The announcement of the next job's end, if processes wait for that job.
    pub(super) fn take_kept(&self) -> Option<Announcement> {
        self.kept().take().map(|kept| kept.announcement)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<KeptProcesses>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another container carries its connections.
    pub(super) fn is_carried(&self) -> bool {
        self.carrier.is_some()
    }

    /// Copies our binary into a container whose engine cannot access it.
    async fn fill(&self) -> Result<(), EngineError> {
        let binary = self.engine.binary().to_owned();
        let own = archive::pack(move |archive| {
            let mut file = std::fs::File::open(&binary)?;
            let mut program = header(file.metadata()?.len(), 0o755);
            archive.append_data(&mut program, "proctor", &mut file)?;
            let mut folder = header(0, 0o755);
            folder.set_entry_type(tar::EntryType::Directory);
            archive.append_data(&mut folder, "job", io::empty())?;
            archive.append_data(&mut header(0, 0o666), "report.json", io::empty())
        });
        self.put(own, "/proctor").await
    }

    /// Copies mounts into a container whose engine cannot access them.
    pub(super) async fn bring_in(&self) -> Result<(), EngineError> {
        for mount in self.mounts.iter().filter(|_| self.files.is_none()) {
            if mount.host.is_dir() {
                // Docker ignores the owner of a volume that is the root of an archive, and podman
                // extracts an archive for `/` into the root below the volume.
                let (to, name) = if self.engine.maker().is_podman() {
                    (mount.inside.as_str(), ".")
                } else {
                    ("/", mount.inside.trim_start_matches('/'))
                };
                let contents = archive::pack_folder_as(name.to_owned(), &mount.host);
                let holder = self.holder.as_deref().unwrap_or(&self.id);
                self.engine.put(holder, contents, to).await?;
            } else {
                self.put_file(mount).await?;
            }
        }
        Ok(())
    }

    /// Copies writable mounts back from a remote engine; local ones are up to date.
    pub(super) async fn collect(&self) -> Result<(), EngineError> {
        if self.files.is_some() {
            return Ok(());
        }
        let writable = self.mounts.iter().filter(|mount| !mount.read_only);
        for mount in writable.filter(|mount| mount.host.is_dir()) {
            let failed = |error: &io::Error| EngineError::file("replace", &mount.host, error);
            let beside = mount.host.parent().unwrap_or(Path::new("/"));
            let fresh = TempDir::with_prefix_in(".collect-", beside);
            let fresh = fresh.map_err(|error| failed(&error))?;
            self.download(&mount.inside, fresh.path()).await?;
            dir::remove(&mount.host).map_err(|error| failed(&error))?;
            platform::rename(&fresh.keep(), &mount.host).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    async fn download(&self, from: &str, to: &Path) -> Result<(), EngineError> {
        let contents = format!("{}/.", from.trim_end_matches('/'));
        let archive = Box::pin(self.get(contents));
        let unpacked = archive::unpack(archive, to).await?;
        unpacked.map_err(|error| EngineError::file("unpack into", to, &error))
    }

    async fn put_file(&self, mount: &BindMount) -> Result<(), EngineError> {
        let (folder, name) = mount.inside.rsplit_once('/').unwrap_or(("", &mount.inside));
        let file = archive::pack_file(name.to_owned(), &mount.host);
        self.put(file, &format!("{folder}/")).await
    }

    /// Writes the job of the next start.
    pub(super) async fn write_job(&self, job: &Job) -> Result<(), EngineError> {
        let job = serde_json::to_vec(job).expect("a job can be serialized");
        let Some(files) = &self.files else {
            let archive = archive::pack(move |archive| {
                let mut head = header(job.len() as u64, 0o644);
                archive.append_data(&mut head, "job/job.json", &job[..])?;
                archive.append_data(&mut header(0, 0o666), "report.json", io::empty())
            });
            return self.put(archive, "/proctor").await;
        };
        let write = || {
            let path = files.path().join("job/job.json");
            std::fs::write(&path, &job)?;
            platform::set_mode(&path, 0o644)?;
            // Not replaced, because the container has mounted this file.
            std::fs::write(files.path().join("report.json"), "")
        };
        write().map_err(|error| EngineError::file("write a job into", files.path(), &error))
    }

    /// The report of the first process; `None` if it could not write one.
    pub(super) async fn report(&self) -> Result<Option<JobReport>, EngineError> {
        let bytes = if let Some(files) = &self.files {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(files.path().join("report.json"));
            let read = file.and_then(|file| file.take(LONGEST_REPORT).read_to_end(&mut bytes));
            read.map_err(|error| EngineError::file("read a report from", files.path(), &error))?;
            bytes
        } else {
            let folder = TempDir::new_in(self.engine.scratch());
            let folder = folder
                .map_err(|error| EngineError::file("write to", self.engine.scratch(), &error))?;
            let archive = Box::pin(self.get(REPORT_FILE.to_owned()));
            // Other data than a report is ignored.
            let _ = archive::unpack(archive, folder.path()).await?;
            std::fs::read(folder.path().join("report.json")).unwrap_or_default()
        };
        Ok(serde_json::from_slice(&bytes).ok())
    }

    fn removal(&self) -> std::sync::MutexGuard<'_, Option<Removal>> {
        self.removal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk limit that Proctor itself has to enforce.
    pub(super) fn watched_disk(&self) -> Option<u64> {
        let (limit, by) = self.disk?;
        (by == DiskLimit::Watched).then_some(limit)
    }

    /// The enforcement of the disk limit.
    pub(super) fn disk_limit(&self) -> Option<DiskLimit> {
        self.disk.map(|(_, by)| by)
    }

    /// Directories of this machine that the container can write to.
    pub(super) fn writable_mounts(&self) -> Vec<PathBuf> {
        let writable = self.mounts.iter().filter(|mount| !mount.read_only);
        writable
            .filter(|_| self.files.is_some())
            .map(|mount| mount.host.clone())
            .collect()
    }

    async fn put(
        &self,
        archive: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
        to: &str,
    ) -> Result<(), EngineError> {
        self.engine.put(&self.id, archive, to).await
    }

    fn get(&self, from: String) -> impl Stream<Item = Result<Bytes, EngineError>> {
        let doing = format!("get files from {from}");
        let options = DownloadFromContainerOptions { path: from };
        let archive = self
            .engine
            .docker()
            .download_from_container(&self.id, Some(options));
        archive.map(move |chunk| chunk.map_err(|error| EngineError::of(&doing, error)))
    }
}

impl Carrier {
    /// Creates a container of the same image and network as `spec` that carries its relays to
    /// sockets in this directory.
    async fn make(
        engine: &Engine,
        spec: &ContainerSpec,
        sockets: &Path,
    ) -> Result<Self, EngineError> {
        let own = ContainerSpec {
            labels: spec.labels.clone(),
            user: Some("65534:65534".to_owned()),
            root: Root::ReadOnly,
            network: spec.network.clone(),
            carries: spec
                .relays
                .iter()
                .map(|relay| relay.listen.port())
                .collect(),
            ..ContainerSpec::new(spec.image.clone())
        };
        let container = Inner::make(engine.clone(), own).await?;
        let attached = process::connect(&container).await?;
        container.start().await?;
        let names = spec
            .relays
            .iter()
            .filter_map(|relay| relay.socket.file_name());
        let sockets = names.map(|name| sockets.join(name)).collect();
        Ok(Self {
            _relay: NetworkRelay::open(engine, attached, sockets).await?,
            container,
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.is_removed.get_mut() {
            return;
        }
        let (engine, id) = (self.engine.clone(), std::mem::take(&mut self.id));
        let holder = self.holder.take();
        let files = self.files.take();
        self.engine.later(async move {
            // A later run removes what could not be removed.
            let _ = engine.remove_container(&id).await;
            if let Some(holder) = holder {
                let _ = engine.remove_container(&holder).await;
            }
            drop(files);
        });
    }
}

async fn create(
    engine: &Engine,
    spec: &ContainerSpec,
    own: &OwnFiles<'_>,
    quota: Option<u64>,
) -> Result<String, EngineError> {
    let is_limited = spec.cpus.is_some() || spec.memory.is_some() || spec.pids.is_some();
    if is_limited && !engine.has_groups() {
        return Err(EngineError::Refused {
            doing: "limit a container".to_owned(),
            status: 0,
            message: "it is rootless and cannot use cgroups of version 1".to_owned(),
        });
    }
    let mut body = request(spec, own, quota);
    let endpoints = match &spec.network {
        ContainerNetwork::Joined(endpoints) => endpoints.as_slice(),
        _ => &[],
    };
    services::join(&mut body, endpoints);
    if let Some(config) = &mut body.host_config {
        config.userns_mode = engine.user_namespace();
    }
    let made = engine
        .docker()
        .create_container(None::<CreateContainerOptions>, body);
    match made.await {
        Ok(made) => {
            let others = endpoints.get(1..).unwrap_or_default();
            let joined = engine.connect_to(&made.id, others).await;
            if joined.is_err() {
                engine.remove_container(&made.id).await?;
            }
            joined.map(|()| made.id)
        }
        Err(error) => Err(match EngineError::of("make a container", error) {
            EngineError::Refused {
                status: 404,
                message,
                ..
            } if message.contains("image") => EngineError::ImageMissing {
                image: spec.image.clone(),
            },
            other => other,
        }),
    }
}

/// A container with the volumes of another one, for access to their files.
fn holder(image: &str, labels: BTreeMap<String, String>, of: &str) -> ContainerCreateBody {
    ContainerCreateBody {
        image: Some(image.to_owned()),
        cmd: Some(vec!["/none".to_owned()]),
        labels: Some(labels.into_iter().collect()),
        host_config: Some(HostConfig {
            volumes_from: Some(vec![of.to_owned()]),
            network_mode: Some("none".to_owned()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The directory of job and report. Outside only Proctor can access it; inside it is open to all
/// users.
fn own_files(scratch: &Path) -> Result<TempDir, EngineError> {
    let make = || {
        let folder = TempDir::with_prefix_in("container-", scratch)?;
        platform::set_mode(folder.path(), 0o700)?;
        let job = folder.path().join("job");
        std::fs::create_dir(&job)?;
        platform::set_mode(&job, 0o755)?;
        let report = folder.path().join("report.json");
        std::fs::write(&report, "")?;
        platform::set_mode(&report, 0o666)?;
        Ok(folder)
    };
    make().map_err(|error: io::Error| EngineError::file("write to", scratch, &error))
}

fn header(size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header
}
