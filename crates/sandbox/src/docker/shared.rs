//! Directories that all containers of a remote engine read: each is copied there once, into a named
//! volume.

use std::io;

use bollard::models::{
    ContainerCreateBody, HostConfig, Mount as EngineMount, MountType, VolumeCreateRequest,
};
use bollard::query_parameters::{
    CreateContainerOptions, DownloadFromContainerOptions, UploadToContainerOptions,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::spec::volume_name;
use super::{BindMount, Engine, EngineError, archive};

/// The mount point of the volume while it is filled.
const INSIDE: &str = "/shared";

/// The file that marks a complete volume; it is written last.
const COMPLETE: &str = ".complete";

impl Engine {
    /// Fills the volume of a shared directory, if necessary. `image` is any image of the engine:
    /// nothing of it runs.
    pub(super) async fn share(&self, folder: &BindMount, image: &str) -> Result<(), EngineError> {
        let name = volume_name(folder);
        let mut filled = self.filled().lock().await;
        if filled.contains(&name) {
            return Ok(());
        }
        let request = VolumeCreateRequest {
            name: Some(name.clone()),
            ..Default::default()
        };
        let made = self.docker().create_volume(request).await;
        made.map_err(|error| EngineError::of("make a volume", error))?;
        let container = self.holder(&name, image).await?;
        let done = self.fill_once(&container, folder).await;
        self.remove_container(&container).await?;
        done?;
        filled.insert(name);
        Ok(())
    }

    /// A container that is never started: volumes can be filled only through a container.
    async fn holder(&self, volume: &str, image: &str) -> Result<String, EngineError> {
        let mount = EngineMount {
            typ: Some(MountType::VOLUME),
            source: Some(volume.to_owned()),
            target: Some(INSIDE.to_owned()),
            ..Default::default()
        };
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            cmd: Some(vec!["/none".to_owned()]),
            host_config: Some(HostConfig {
                mounts: Some(vec![mount]),
                network_mode: Some("none".to_owned()),
                ..Default::default()
            }),
            ..Default::default()
        };
        self.make_container(body).await
    }

    /// Creates a container that is never started. Returns its id.
    pub(super) async fn make_container(
        &self,
        body: ContainerCreateBody,
    ) -> Result<String, EngineError> {
        let made = self
            .docker()
            .create_container(None::<CreateContainerOptions>, body);
        let made = made.await;
        let made = made.map_err(|error| EngineError::of("make a container", error))?;
        Ok(made.id)
    }

    /// Extracts an archive into a directory of a container.
    pub(super) async fn put(
        &self,
        container: &str,
        archive: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
        to: &str,
    ) -> Result<(), EngineError> {
        let options = UploadToContainerOptions {
            path: to.to_owned(),
            ..Default::default()
        };
        let body = bollard::body_try_stream(archive);
        let docker = self.patient();
        let done = docker.upload_to_container(container, Some(options), body);
        done.await
            .map_err(|error| EngineError::of(&format!("copy files to {to}"), error))
    }

    async fn fill_once(&self, container: &str, folder: &BindMount) -> Result<(), EngineError> {
        let options = DownloadFromContainerOptions {
            path: format!("{INSIDE}/{COMPLETE}"),
        };
        let mut there = self
            .docker()
            .download_from_container(container, Some(options));
        if let Some(Ok(_)) = there.next().await {
            return Ok(());
        }
        drop(there);
        let all = archive::pack_folder(&folder.host);
        self.put(container, all, INSIDE).await?;
        let mark = archive::pack(|archive| {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            header.set_mode(0o444);
            archive.append_data(&mut header, COMPLETE, std::io::empty())
        });
        self.put(container, mark, INSIDE).await
    }
}
