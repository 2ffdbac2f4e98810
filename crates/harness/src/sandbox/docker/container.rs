//! One container: made, filled, started as often as there are jobs for it, and removed on every way out.

use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bollard::query_parameters::{
    CreateContainerOptions, DownloadFromContainerOptions, UploadToContainerOptions,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use proctor_process::{Job, JobReport, Limits, REPORT_FILE};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::engine::joined;
use super::spec::{OwnFiles, request};
use super::{ContainerProcess, ContainerSpec, DiskLimit, Engine, EngineError, Mount, archive};

/// The most bytes of a report; more is not ours.
const LONGEST_REPORT: u64 = 1024 * 1024;

/// A container, removed with everything in it when dropped. See [`Engine::close`].
#[derive(Debug)]
pub struct Container {
    inner: Arc<Inner>,
}

type Removal = JoinHandle<Result<(), EngineError>>;

/// What a container and its running process share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) engine: Engine,
    pub(super) id: String,
    mounts: Vec<Mount>,
    disk: Option<(u64, DiskLimit)>,
    /// Job and report, on local engines.
    files: Option<TempDir>,
    is_removed: AtomicBool,
    /// A removal that has begun already.
    removal: Mutex<Option<Removal>>,
}

impl Engine {
    /// Makes a container and puts into it what its specification names.
    pub async fn create(&self, spec: ContainerSpec) -> Result<Container, EngineError> {
        // Carried through even if nobody waits for it any more: else nobody would know what to remove.
        let engine = self.clone();
        let made = self.finish(async move { Inner::make(engine, spec).await });
        Ok(Container {
            inner: Arc::new(made.await?),
        })
    }
}

impl Container {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Who bounds what it writes; `None` if nothing does.
    pub fn disk_limit(&self) -> Option<DiskLimit> {
        self.inner.disk_limit()
    }

    /// Starts a job. Files are as the one before left them; of its processes none is left.
    pub async fn start(&self, job: Job, limits: Limits) -> Result<ContainerProcess, EngineError> {
        ContainerProcess::start(Arc::clone(&self.inner), job, limits).await
    }

    /// Puts everything in a folder of this machine into a folder of the container, which must exist.
    pub async fn upload(&self, folder: &Path, to: &str) -> Result<(), EngineError> {
        self.inner.put(archive::pack_folder(folder), to).await
    }

    /// Gets everything in a folder of the container into a folder of this machine, which must exist.
    pub async fn download(&self, from: &str, to: &Path) -> Result<(), EngineError> {
        let contents = format!("{}/.", from.trim_end_matches('/'));
        let archive = Box::pin(self.inner.get(contents));
        let unpacked = archive::unpack(archive, to).await?;
        unpacked.map_err(|error| EngineError::file("unpack into", to, &error))
    }

    /// Brings writable mounts back from an engine that had only copies; elsewhere they are up to date.
    pub async fn collect(&self) -> Result<(), EngineError> {
        if self.inner.files.is_some() {
            return Ok(());
        }
        let writable = self.inner.mounts.iter().filter(|mount| !mount.read_only);
        for mount in writable.filter(|mount| mount.host.is_dir()) {
            let failed = |error: &io::Error| EngineError::file("replace", &mount.host, error);
            let beside = mount.host.parent().unwrap_or(Path::new("/"));
            let fresh = TempDir::with_prefix_in(".collect-", beside);
            let fresh = fresh.map_err(|error| failed(&error))?;
            self.download(&mount.inside, fresh.path()).await?;
            std::fs::remove_dir_all(&mount.host).map_err(|error| failed(&error))?;
            std::fs::rename(fresh.keep(), &mount.host).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Begins to remove it while other work goes on; [`remove`](Self::remove) waits for that.
    pub fn dismiss(&self) {
        let mut removal = self.inner.removal();
        if removal.is_none() {
            let (engine, id) = (self.inner.engine.clone(), self.inner.id.clone());
            let work = async move { engine.remove_container(&id).await };
            *removal = Some(self.inner.engine.begin(work));
        }
    }

    /// Removes it now, with everything in it and whatever runs.
    pub async fn remove(self) -> Result<(), EngineError> {
        let begun = self.inner.removal().take();
        match begun {
            Some(begun) => joined(begun.await)?,
            None => self.inner.engine.remove_container(&self.inner.id).await?,
        }
        self.inner.is_removed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Inner {
    async fn make(engine: Engine, spec: ContainerSpec) -> Result<Self, EngineError> {
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
        let quota = spec.disk.filter(|_| engine.has_quotas());
        let (id, quota) = match create(&engine, &spec, &own, quota).await {
            Ok(id) => (id, quota),
            // The file system has no quotas after all.
            Err(error) if quota.is_some() && !error.is_gone() && !error.is_missing() => {
                (create(&engine, &spec, &own, None).await?, None)
            }
            Err(error) => return Err(error),
        };
        let by = quota.map_or(DiskLimit::Watched, |_| DiskLimit::Engine);
        let inner = Self {
            engine,
            id,
            mounts: spec.mounts,
            disk: spec.disk.map(|limit| (limit, by)),
            files,
            is_removed: AtomicBool::new(false),
            removal: Mutex::default(),
        };
        if inner.files.is_none() {
            inner.fill().await?;
        }
        Ok(inner)
    }

    /// Copies binary and mounts into a container whose engine does not see our files.
    async fn fill(&self) -> Result<(), EngineError> {
        let binary = self.engine.binary().to_owned();
        let own = archive::pack(move |archive| {
            archive.append_path_with_name(&binary, "proctor")?;
            let mut folder = header(0, 0o755);
            folder.set_entry_type(tar::EntryType::Directory);
            archive.append_data(&mut folder, "job", io::empty())?;
            archive.append_data(&mut header(0, 0o666), "report.json", io::empty())
        });
        self.put(own, "/proctor").await?;
        for mount in &self.mounts {
            if mount.host.is_dir() {
                let contents = archive::pack_folder(&mount.host);
                self.put(contents, &mount.inside).await?;
            } else {
                self.put_file(mount).await?;
            }
        }
        Ok(())
    }

    async fn put_file(&self, mount: &Mount) -> Result<(), EngineError> {
        let (folder, name) = mount.inside.rsplit_once('/').unwrap_or(("", &mount.inside));
        let (host, name) = (mount.host.clone(), name.to_owned());
        let file = archive::pack(move |archive| archive.append_path_with_name(&host, &name));
        self.put(file, &format!("{folder}/")).await
    }

    /// Says what to run at the next start.
    pub(super) async fn write_job(&self, job: &Job) -> Result<(), EngineError> {
        let job = serde_json::to_vec(job).expect("a job is plain data");
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
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644))?;
            // Not replaced, because the container has this very file.
            std::fs::write(files.path().join("report.json"), "")
        };
        write().map_err(|error| EngineError::file("write a job into", files.path(), &error))
    }

    /// What the first process said in the end; `None` if it could not say anything.
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
            // Whatever else came than the report is as good as none.
            let _ = archive::unpack(archive, folder.path()).await?;
            std::fs::read(folder.path().join("report.json")).unwrap_or_default()
        };
        Ok(serde_json::from_slice(&bytes).ok())
    }

    fn removal(&self) -> std::sync::MutexGuard<'_, Option<Removal>> {
        self.removal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit that we have to watch ourselves.
    pub(super) fn watched_disk(&self) -> Option<u64> {
        let (limit, by) = self.disk?;
        (by == DiskLimit::Watched).then_some(limit)
    }

    /// Who bounds what is written.
    pub(super) fn disk_limit(&self) -> Option<DiskLimit> {
        self.disk.map(|(_, by)| by)
    }

    /// Folders of this machine that the container can write to.
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
        let options = UploadToContainerOptions {
            path: to.to_owned(),
            ..Default::default()
        };
        let body = bollard::body_try_stream(archive);
        let docker = self.engine.docker();
        let done = docker.upload_to_container(&self.id, Some(options), body);
        done.await
            .map_err(|error| EngineError::of(&format!("put files into {to}"), error))
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

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.is_removed.get_mut() {
            return;
        }
        let (engine, id) = (self.engine.clone(), std::mem::take(&mut self.id));
        let files = self.files.take();
        self.engine.later(async move {
            // The sweep of a later run finds what could not be removed.
            let _ = engine.remove_container(&id).await;
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
    let body = request(spec, own, quota);
    let made = engine
        .docker()
        .create_container(None::<CreateContainerOptions>, body);
    match made.await {
        Ok(made) => Ok(made.id),
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

/// The folder of job and report. Nobody but us gets to it from outside; inside, everyone may.
fn own_files(scratch: &Path) -> Result<TempDir, EngineError> {
    let make = || {
        let folder = TempDir::with_prefix_in("container-", scratch)?;
        let mode = std::fs::Permissions::from_mode;
        std::fs::set_permissions(folder.path(), mode(0o700))?;
        let job = folder.path().join("job");
        std::fs::create_dir(&job)?;
        std::fs::set_permissions(&job, mode(0o755))?;
        let report = folder.path().join("report.json");
        std::fs::write(&report, "")?;
        std::fs::set_permissions(&report, mode(0o666))?;
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
