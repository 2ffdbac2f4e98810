//! The services of a trial's compose environment: their images, networks, limits and logs.

use fs_err as fs;
use proctor_sandbox::{
    DockerSandbox, ExecEnv, Network, ResourceLimits,
    docker::{Image, MainService, ServicesSpec},
};

use super::{Trial, container::failed, prepare::NotRun};
use crate::workspace::{
    Image as TaskImage,
    compose::{Compose, ServiceImage},
};

/// The directory of the services' logs, next to the record of the trial.
const LOGS: &str = "services";

/// Started services, and what remains for the main one.
pub(super) struct StartedServices {
    pub(super) main: MainService,
    /// The limits of the main service as the compose file has them.
    own: ResourceLimits,
    /// The share of the main service in the limits of the suite.
    share: ResourceLimits,
}

impl StartedServices {
    /// The limits of the main service: its share, else the task's, else its own.
    pub(super) fn limits(&self, task: ResourceLimits) -> ResourceLimits {
        ResourceLimits {
            cpus: self.share.cpus.or(task.cpus).or(self.own.cpus),
            memory: self.share.memory.or(task.memory).or(self.own.memory),
            pids: self.share.pids.or(task.pids).or(self.own.pids),
            disk: task.disk,
        }
    }
}

impl Trial<'_> {
    /// Starts the services of a compose environment. Their networks lead to the internet only if
    /// the trial's own network is open.
    pub(super) async fn start_services(
        &self,
        compose: &Compose,
        image: &Image,
        reach: &Network,
    ) -> Result<StartedServices, NotRun> {
        let docker = self.docker().expect("an image requires an engine");
        let own = compose.services.iter().map(|it| it.spec.settings.limits);
        let own: Vec<ResourceLimits> = own.collect();
        let (share, others) = shares(docker.settings.limits, &own);
        let mut services = Vec::new();
        for (sidecar, limits) in compose.services.iter().zip(others) {
            let image = match &sidecar.image {
                ServiceImage::Main => image.clone(),
                ServiceImage::Own(own) => self.service_image(docker, own).await?,
            };
            let mut spec = sidecar.spec.clone();
            spec.settings.limits = limits;
            services.push((spec, image));
        }
        let is_closed = *reach != Network::Open;
        let networks = compose.networks.iter().filter(|_| compose.has_services());
        let started = docker.engine.start_services(ServicesSpec {
            services,
            main: compose.main.clone(),
            main_image: image.clone(),
            networks: networks
                .map(|(name, is_internal)| (name.clone(), *is_internal || is_closed))
                .collect(),
            volumes: compose.volumes.clone(),
            labels: docker.labels(),
        });
        Ok(StartedServices {
            main: MainService {
                settings: compose.main.clone(),
                services: started.await.map_err(failed)?,
            },
            own: compose.main.limits,
            share,
        })
    }

    async fn service_image(
        &self,
        docker: &DockerSandbox,
        image: &TaskImage,
    ) -> Result<Image, NotRun> {
        let found = match image {
            TaskImage::Named(name) => docker.image(name, |_| ()).await,
            TaskImage::Build {
                context,
                dockerfile,
                options,
            } => {
                let environment = self.plan.task.environment();
                let limit = environment.map(|environment| environment.build_timeout);
                let files = (context.as_path(), dockerfile.as_path());
                docker.build(files, options, limit, |_| ()).await
            }
        };
        found.map_err(failed)
    }

    /// Keeps the output of the services.
    pub(super) async fn keep_service_logs(&self, exec_env: &ExecEnv) {
        let ExecEnv::Docker(exec_env) = exec_env else {
            return;
        };
        let Some(services) = exec_env.container.services() else {
            return;
        };
        let folder = self.artifacts.join(LOGS);
        for name in services.names() {
            let log = services.log(name).await;
            // Logs are only informative.
            let _ = fs::create_dir_all(&folder);
            let _ = fs::write(folder.join(format!("{name}.log")), log);
        }
    }
}

/// The limits of the main service and of the others, whose sum is not more than that of the suite:
/// each of the others gets its own limit, but at most an equal share, and the main one the rest.
fn shares(all: ResourceLimits, others: &[ResourceLimits]) -> (ResourceLimits, Vec<ResourceLimits>) {
    let count = others.len() + 1;
    let mut main = all;
    let mut shares = Vec::new();
    for own in others {
        let cpus = least(own.cpus, all.cpus.map(|all| all / count_f64(count)));
        let memory = least(own.memory, all.memory.map(|all| all / count as u64));
        let pids = all
            .pids
            .map(|all| all / u32::try_from(count).unwrap_or(u32::MAX));
        let pids = least(own.pids, pids);
        main.cpus = main.cpus.zip(cpus).map(|(main, it)| main - it);
        main.memory = main.memory.zip(memory).map(|(main, it)| main - it);
        main.pids = main.pids.zip(pids).map(|(main, it)| main - it);
        shares.push(ResourceLimits {
            cpus,
            memory,
            pids,
            disk: None,
        });
    }
    (main, shares)
}

fn count_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// The lower one of two limits.
fn least<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if one < other { one } else { other }),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_suite_apply_to_the_sum() {
        let all = ResourceLimits {
            cpus: Some(3.0),
            memory: Some(3 << 30),
            pids: Some(300),
            disk: None,
        };
        let small = ResourceLimits {
            memory: Some(1 << 28),
            ..ResourceLimits::default()
        };
        let (main, others) = shares(all, &[small, ResourceLimits::default()]);
        assert_eq!(others[0].memory, Some(1 << 28), "its own limit is lower");
        assert_eq!(others[1].memory, Some(1 << 30));
        assert_eq!(main.memory, Some((3 << 30) - (1 << 28) - (1 << 30)));
        assert_eq!((main.cpus, main.pids), (Some(1.0), Some(100)));
        let (main, others) = shares(ResourceLimits::default(), &[small]);
        assert_eq!((main.memory, others[0].memory), (None, Some(1 << 28)));
    }
}
