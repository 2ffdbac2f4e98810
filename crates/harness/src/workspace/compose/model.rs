//! A compose environment as typed values.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8PathBuf;
use proctor_sandbox::docker::{ServiceCheck, ServiceSettings, ServiceSpec};

use crate::workspace::Image;

/// The inputs of a compose file.
#[derive(Clone, Debug)]
pub struct ComposeContext<'a> {
    /// The service of the agent: `main` in Harbor's tasks, `client` in Terminal-Bench's.
    pub main: &'a str,
    /// The folder that relative paths refer to.
    pub folder: Utf8PathBuf,
    /// The folder of the task: mounted files must be inside it.
    pub task: Utf8PathBuf,
    /// Variables of the task's format.
    pub variables: BTreeMap<String, String>,
    /// The image of the main service if the file defines none.
    pub image: Image,
    /// The name by which the file refers to that image.
    pub image_name: String,
}

/// A compose environment.
#[derive(Clone, Debug)]
pub struct Compose {
    /// The name of the main service.
    pub main_name: String,
    /// The image of the main service.
    pub image: Image,
    /// The settings of the main service.
    pub main: ServiceSettings,
    /// The readiness check of the main service.
    pub check: ServiceCheck,
    /// The other services.
    pub services: Vec<Sidecar>,
    /// The networks, and whether the file itself makes them internal.
    pub networks: BTreeMap<String, bool>,
    /// The named volumes.
    pub volumes: BTreeSet<String>,
    /// The digest of the folder of the file, which contains all that it refers to.
    pub digest: String,
    /// Keys without effect.
    pub notes: Vec<String>,
}

impl Compose {
    /// The settings, without places of this machine, and the content that services are built from.
    pub(crate) fn definition(&self) -> serde_json::Value {
        serde_json::json!({ "sha256": self.digest })
    }

    /// The image of the main service with the settings that replace those of the image.
    pub fn overlay(&self, image: &mut proctor_sandbox::docker::Image) {
        image.env.extend(self.main.env.clone());
        if let Some(workdir) = &self.main.workdir {
            image.workdir.clone_from(workdir);
        }
        if self.main.user.is_some() {
            image.user.clone_from(&self.main.user);
        }
        image.healthcheck = self.check.with(image);
    }

    /// Whether the main service needs its own networks: for other services, or for names.
    pub fn has_services(&self) -> bool {
        !self.services.is_empty()
    }
}

/// A service beside the main one.
#[derive(Clone, Debug)]
pub struct Sidecar {
    /// Its image.
    pub image: ServiceImage,
    /// Its container.
    pub spec: ServiceSpec,
}

/// The image of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceImage {
    /// That of the main service.
    Main,
    /// Another one.
    Own(Image),
}
