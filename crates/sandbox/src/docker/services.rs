//! The services, networks and volumes beside a trial's main container, as a compose file defines
//! them. Everything is removed with the main container, or by a sweep.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, EndpointSettings, HealthConfig, HostConfig, HostConfigLogConfig,
    Mount as EngineMount, MountType, NetworkCreateRequest, NetworkingConfig, RestartPolicy,
    RestartPolicyNameEnum, VolumeCreateRequest,
};
use bollard::query_parameters::{LogsOptions, StartContainerOptions};
use futures_util::{StreamExt, future};
use uuid::Uuid;

use super::health;
use super::spec::NetworkEndpoint;
use super::{
    Engine, EngineError, Image, MountSource, Restart, ServiceSettings, ServiceSpec, StartCondition,
    archive,
};

/// The maximum size of a service's log.
const LOG_BYTES: &str = "10m";
/// The length of the quoted end of a service's log.
const QUOTED_BYTES: usize = 2000;

/// Services to start, with their networks and volumes.
#[derive(Clone, Debug)]
pub struct ServicesSpec {
    /// The services and their images.
    pub services: Vec<(ServiceSpec, Image)>,
    /// The settings of the main service: its volumes are made here.
    pub main: ServiceSettings,
    /// The image of the main service, for a container that fills volumes.
    pub main_image: Image,
    /// The networks, and whether they lead nowhere else.
    pub networks: BTreeMap<String, bool>,
    /// The named volumes.
    pub volumes: BTreeSet<String>,
    /// The labels of everything that is created.
    pub labels: BTreeMap<String, String>,
}

/// Started services. Removed with networks and volumes when dropped.
#[derive(Debug)]
pub struct Services {
    engine: Engine,
    /// A prefix of all names.
    id: String,
    labels: BTreeMap<String, String>,
    networks: BTreeSet<String>,
    /// Created volumes, and their sources.
    volumes: Vec<(MountSource, String)>,
    containers: Vec<(String, String)>,
    is_removed: AtomicBool,
}

impl Engine {
    /// Starts services in the order of their dependencies, and waits until all are ready.
    pub async fn start_services(&self, spec: ServicesSpec) -> Result<Services, EngineError> {
        let engine = self.clone();
        // Completed even if the caller no longer waits, so that everything can be removed.
        self.finish(async move {
            let mut services = Services {
                id: format!("proctor-{}", &Uuid::now_v7().simple().to_string()[16..]),
                engine,
                labels: spec.labels.clone(),
                networks: BTreeSet::new(),
                volumes: Vec::new(),
                containers: Vec::new(),
                is_removed: AtomicBool::new(false),
            };
            match Box::pin(services.start(&spec)).await {
                Ok(()) => Ok(services),
                Err(error) => {
                    services.remove().await?;
                    Err(error)
                }
            }
        })
        .await
    }
}

impl Services {
    /// The names of the services.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.containers.iter().map(|(name, _)| name.as_str())
    }

    /// The output of a service so far, limited by the engine.
    pub async fn log(&self, name: &str) -> Vec<u8> {
        let found = self.containers.iter().find(|(it, _)| it == name);
        match found {
            Some((_, id)) => log(&self.engine, id).await,
            None => Vec::new(),
        }
    }

    /// Whether it has networks.
    pub(crate) fn has_networks(&self) -> bool {
        !self.networks.is_empty()
    }

    /// The networks of a service as the engine knows them.
    pub(crate) fn endpoints(&self, name: &str, settings: &ServiceSettings) -> Vec<NetworkEndpoint> {
        let networks = settings.networks.iter();
        let networks = networks.map(|(network, aliases)| NetworkEndpoint {
            network: self.name_of(network),
            aliases: std::iter::once(name.to_owned())
                .chain(aliases.iter().cloned())
                .collect(),
        });
        networks.collect()
    }

    /// The mounts of a service as the engine knows them.
    pub(crate) fn mounts(&self, settings: &ServiceSettings) -> Vec<EngineMount> {
        let mounts = settings.mounts.iter().filter(|it| !is_file(&it.source));
        let mounts = mounts.map(|mount| EngineMount {
            typ: Some(match mount.source {
                MountSource::Memory => MountType::TMPFS,
                _ => MountType::VOLUME,
            }),
            source: self.volume_of(&mount.source),
            target: Some(mount.inside.clone()),
            read_only: Some(mount.read_only),
            ..EngineMount::default()
        });
        mounts.collect()
    }

    fn volume_of(&self, source: &MountSource) -> Option<String> {
        let mut volumes = self.volumes.iter();
        let found = volumes.find(|(known, _)| known == source);
        found.map(|(_, name)| name.clone())
    }

    fn name_of(&self, key: &str) -> String {
        format!("{}-{key}", self.id)
    }

    async fn start(&mut self, spec: &ServicesSpec) -> Result<(), EngineError> {
        for (key, is_internal) in &spec.networks {
            self.make_network(key, *is_internal).await?;
        }
        self.make_volumes(spec).await?;
        let mut ids = BTreeMap::new();
        for (service, image) in &spec.services {
            let id = self.make(service, image).await?;
            ids.insert(service.name.as_str(), id);
        }
        let mut started = BTreeSet::new();
        let mut waiting: Vec<&(ServiceSpec, Image)> = spec.services.iter().collect();
        while !waiting.is_empty() {
            let is_next = |service: &ServiceSpec| {
                // The main service starts with its first command.
                let mut needed = service.depends_on.keys();
                needed.all(|it| started.contains(it.as_str()) || !ids.contains_key(it.as_str()))
            };
            let (next, later): (Vec<_>, Vec<_>) = waiting
                .into_iter()
                .partition(|(service, _)| is_next(service));
            if next.is_empty() {
                return Err(EngineError::Service {
                    service: later[0].0.name.clone(),
                    reason: "its dependencies form a cycle".to_owned(),
                });
            }
            let starts = next
                .iter()
                .map(|(service, _)| self.start_one(service, spec, &ids));
            future::try_join_all(starts).await?;
            started.extend(next.iter().map(|(service, _)| service.name.as_str()));
            waiting = later;
        }
        let ready = spec.services.iter().map(|(service, image)| {
            let condition = match service.check.with(image) {
                Some(_) => StartCondition::Healthy,
                None => StartCondition::Started,
            };
            self.wait(service, image, condition, &ids[service.name.as_str()])
        });
        future::try_join_all(ready).await?;
        Ok(())
    }

    /// Starts a service when those that it needs are ready.
    async fn start_one(
        &self,
        service: &ServiceSpec,
        spec: &ServicesSpec,
        ids: &BTreeMap<&str, String>,
    ) -> Result<(), EngineError> {
        let needed = spec.services.iter().filter_map(|(other, image)| {
            let condition = service.depends_on.get(&other.name)?;
            Some(self.wait(other, image, *condition, &ids[other.name.as_str()]))
        });
        future::try_join_all(needed).await?;
        let docker = self.engine.docker();
        let id = &ids[service.name.as_str()];
        let started = docker
            .start_container(id, None::<StartContainerOptions>)
            .await;
        started.map_err(|error| EngineError::Service {
            service: service.name.clone(),
            reason: EngineError::of("start a container", error).to_string(),
        })
    }

    /// Waits until a started service fulfils a condition.
    async fn wait(
        &self,
        service: &ServiceSpec,
        image: &Image,
        condition: StartCondition,
        id: &str,
    ) -> Result<(), EngineError> {
        let check = service.check.with(image);
        let waited = match (condition, check) {
            (StartCondition::Healthy, Some(check)) => {
                health::wait(&self.engine, id, &check).await?
            }
            (StartCondition::Completed, _) => health::wait_for_end(&self.engine, id).await?,
            (StartCondition::Healthy | StartCondition::Started, _) => {
                health::is_started(&self.engine, id).await?
            }
        };
        let Err(reason) = waited else { return Ok(()) };
        let said = log(&self.engine, id).await;
        let said = String::from_utf8_lossy(&said);
        let said = said.trim();
        let tail = &said[said.ceil_char_boundary(said.len().saturating_sub(QUOTED_BYTES))..];
        Err(EngineError::Service {
            service: service.name.clone(),
            reason: if tail.is_empty() {
                reason
            } else {
                format!("{reason}\n{tail}")
            },
        })
    }

    async fn make_network(&mut self, key: &str, is_internal: bool) -> Result<(), EngineError> {
        let name = self.name_of(key);
        let mut options = std::collections::HashMap::new();
        if is_internal && !self.engine.maker().is_podman() {
            // Without an address of the host in the network its ports cannot be reached.
            options.insert(
                "com.docker.network.bridge.inhibit_ipv4".to_owned(),
                "true".to_owned(),
            );
        }
        let request = NetworkCreateRequest {
            name: name.clone(),
            driver: Some("bridge".to_owned()),
            internal: Some(is_internal),
            labels: Some(self.labels.clone().into_iter().collect()),
            options: Some(options),
            ..NetworkCreateRequest::default()
        };
        let made = self.engine.docker().create_network(request).await;
        made.map_err(|error| EngineError::of("create a network", error))?;
        self.networks.insert(name);
        Ok(())
    }

    /// Creates the named volumes, and those with copies of the task's folders.
    async fn make_volumes(&mut self, spec: &ServicesSpec) -> Result<(), EngineError> {
        let all = spec.services.iter().map(|(service, _)| &service.settings);
        let all: Vec<&ServiceSettings> = all.chain([&spec.main]).collect();
        let named = spec.volumes.iter().cloned().map(MountSource::Volume);
        let mut sources: Vec<MountSource> = named.collect();
        for mount in all.iter().flat_map(|settings| &settings.mounts) {
            let is_made = matches!(mount.source, MountSource::Volume(_) | MountSource::Copy(_));
            if is_made && !is_file(&mount.source) && !sources.contains(&mount.source) {
                sources.push(mount.source.clone());
            }
        }
        for (number, source) in sources.into_iter().enumerate() {
            let name = self.name_of(&format!("volume-{number}"));
            let request = VolumeCreateRequest {
                name: Some(name.clone()),
                labels: Some(self.labels.clone().into_iter().collect()),
                ..VolumeCreateRequest::default()
            };
            let made = self.engine.docker().create_volume(request).await;
            made.map_err(|error| EngineError::of("create a volume", error))?;
            self.volumes.push((source, name));
        }
        let copies = self.volumes.iter();
        let copies: Vec<(&PathBuf, &String)> = copies
            .filter_map(|(source, name)| match source {
                MountSource::Copy(path) => Some((path, name)),
                _ => None,
            })
            .collect();
        if copies.is_empty() {
            return Ok(());
        }
        self.fill(&copies, &spec.main_image).await
    }

    /// Fills volumes through a container that is never started.
    async fn fill(&self, copies: &[(&PathBuf, &String)], image: &Image) -> Result<(), EngineError> {
        let inside = |number: usize| format!("/proctor-volumes/{number}");
        let mounts = copies
            .iter()
            .enumerate()
            .map(|(number, (_, name))| EngineMount {
                typ: Some(MountType::VOLUME),
                source: Some((*name).clone()),
                target: Some(inside(number)),
                ..EngineMount::default()
            });
        let body = ContainerCreateBody {
            image: Some(image.id.clone()),
            cmd: Some(vec!["/none".to_owned()]),
            labels: Some(self.labels.clone().into_iter().collect()),
            host_config: Some(HostConfig {
                mounts: Some(mounts.collect()),
                network_mode: Some("none".to_owned()),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let holder = self.engine.make_container(body).await?;
        let mut filled = Ok(());
        for (number, (path, _)) in copies.iter().enumerate() {
            let contents = archive::pack_folder(path);
            filled = self.engine.put(&holder, contents, &inside(number)).await;
            if filled.is_err() {
                break;
            }
        }
        self.engine.remove_container(&holder).await?;
        filled
    }

    async fn make(&mut self, service: &ServiceSpec, image: &Image) -> Result<String, EngineError> {
        let endpoints = self.endpoints(&service.name, &service.settings);
        let mounts = self.mounts(&service.settings);
        let mut body = body(&service.settings, image, mounts);
        body.labels = Some(self.labels.clone().into_iter().collect());
        join(&mut body, &endpoints);
        if let (Some(config), false) = (&mut body.host_config, self.engine.maker().is_podman()) {
            config.log_config = Some(HostConfigLogConfig {
                typ: Some("json-file".to_owned()),
                config: Some([("max-size".to_owned(), LOG_BYTES.to_owned())].into()),
            });
        }
        let id = self.engine.make_container(body).await?;
        self.containers.push((service.name.clone(), id.clone()));
        self.engine
            .connect_to(&id, endpoints.get(1..).unwrap_or_default())
            .await?;
        put_files(&self.engine, &id, &service.settings).await?;
        Ok(id)
    }

    /// Removes services, networks and volumes.
    pub(super) async fn remove(&self) -> Result<(), EngineError> {
        let leftovers = self.leftovers();
        leftovers.remove(&self.engine).await?;
        self.is_removed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn leftovers(&self) -> Leftovers {
        Leftovers {
            containers: self.containers.iter().map(|(_, id)| id.clone()).collect(),
            networks: self.networks.iter().cloned().collect(),
            volumes: self.volumes.iter().map(|(_, name)| name.clone()).collect(),
        }
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if *self.is_removed.get_mut() {
            return;
        }
        let (engine, leftovers) = (self.engine.clone(), self.leftovers());
        self.engine.later(async move {
            // A later run removes what could not be removed.
            let _ = leftovers.remove(&engine).await;
        });
    }
}

/// Objects of an engine to remove.
struct Leftovers {
    containers: Vec<String>,
    networks: Vec<String>,
    volumes: Vec<String>,
}

impl Leftovers {
    async fn remove(&self, engine: &Engine) -> Result<(), EngineError> {
        let containers = self.containers.iter().map(|id| engine.remove_container(id));
        future::try_join_all(containers).await?;
        for network in &self.networks {
            engine.remove_network(network).await?;
        }
        for volume in &self.volumes {
            engine.remove_volume(volume).await?;
        }
        Ok(())
    }
}

/// Copies single files of the task into a container that was just created.
pub(super) async fn put_files(
    engine: &Engine,
    id: &str,
    settings: &ServiceSettings,
) -> Result<(), EngineError> {
    for mount in &settings.mounts {
        let MountSource::Copy(path) = &mount.source else {
            continue;
        };
        if path.is_file() {
            let name = mount.inside.trim_start_matches('/').to_owned();
            let file = archive::pack_file(name, path);
            engine.put(id, file, "/").await?;
        }
    }
    Ok(())
}

/// Whether it is a single file, which is copied into the container itself.
fn is_file(source: &MountSource) -> bool {
    matches!(source, MountSource::Copy(path) if path.is_file())
}

/// Adds the first network to a request; engines accept only one there.
pub(super) fn join(body: &mut ContainerCreateBody, endpoints: &[NetworkEndpoint]) {
    let Some(first) = endpoints.first() else {
        return;
    };
    body.networking_config = Some(NetworkingConfig {
        endpoints_config: Some([(first.network.clone(), first.settings())].into()),
    });
}

impl NetworkEndpoint {
    pub(super) fn settings(&self) -> EndpointSettings {
        EndpointSettings {
            aliases: Some(self.aliases.clone()),
            ..EndpointSettings::default()
        }
    }
}

fn body(
    settings: &ServiceSettings,
    image: &Image,
    mounts: Vec<EngineMount>,
) -> ContainerCreateBody {
    // With its own entry point a service does not get the image's command.
    let is_own = settings.entrypoint.is_some();
    let memory = settings.limits.memory.map(u64::cast_signed);
    let first = settings.networks.keys().next();
    let env = settings
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    ContainerCreateBody {
        image: Some(image.id.clone()),
        entrypoint: settings.entrypoint.clone(),
        cmd: settings.command.clone().or_else(|| is_own.then(Vec::new)),
        env: Some(env.collect()),
        working_dir: settings.workdir.clone(),
        user: settings.user.clone(),
        hostname: settings.hostname.clone(),
        // Proctor runs the check itself: engines without systemd or with long intervals do not.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        host_config: Some(HostConfig {
            mounts: Some(mounts),
            tmpfs: Some(settings.tmpfs.iter().map(|path| tmpfs(path)).collect()),
            cap_add: Some(settings.capabilities.clone()),
            extra_hosts: Some(settings.extra_hosts.clone()),
            shm_size: settings.shm_size.map(u64::cast_signed),
            init: Some(settings.has_init),
            restart_policy: Some(RestartPolicy {
                name: Some(match settings.restart {
                    Restart::No => RestartPolicyNameEnum::NO,
                    Restart::OnFailure => RestartPolicyNameEnum::ON_FAILURE,
                    Restart::Always => RestartPolicyNameEnum::ALWAYS,
                }),
                maximum_retry_count: None,
            }),
            network_mode: first.is_none().then(|| "none".to_owned()),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the number of CPUs is small"
            )]
            nano_cpus: settings.limits.cpus.map(|cpus| (cpus * 1e9) as i64),
            memory,
            memory_swap: memory,
            pids_limit: settings.limits.pids.map(i64::from),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// A path of a file system in memory, and its options.
fn tmpfs(text: &str) -> (String, String) {
    let (path, options) = text.split_once(':').unwrap_or((text, ""));
    (path.to_owned(), options.to_owned())
}

/// The output of a container so far.
async fn log(engine: &Engine, id: &str) -> Vec<u8> {
    let options = LogsOptions {
        stdout: true,
        stderr: true,
        ..LogsOptions::default()
    };
    let mut parts = engine.docker().logs(id, Some(options));
    let mut said = Vec::new();
    let read = async {
        while let Some(Ok(part)) = parts.next().await {
            said.extend_from_slice(&part.into_bytes());
        }
    };
    // A log is only informative.
    let _ = tokio::time::timeout(Duration::from_secs(10), read).await;
    said
}
