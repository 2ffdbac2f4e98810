//! Networks without access beyond their own bridge.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bollard::models::NetworkCreateRequest;
use uuid::Uuid;

use super::{Engine, EngineError};

/// A network without external access, removed when dropped.
#[derive(Debug)]
pub struct InternalNetwork {
    engine: Engine,
    name: String,
    gateway: Option<IpAddr>,
}

impl Engine {
    /// Creates a network whose members can connect to each other and its bridge, and to no other
    /// host.
    pub async fn internal_network(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> Result<InternalNetwork, EngineError> {
        let doing = "make a network";
        let name = format!("proctor-{}", Uuid::now_v7().simple());
        let request = NetworkCreateRequest {
            name: name.clone(),
            internal: Some(true),
            labels: Some(labels.clone().into_iter().collect()),
            ..Default::default()
        };
        let made = self.docker().create_network(request).await;
        made.map_err(|error| EngineError::of(doing, error))?;
        let mut network = InternalNetwork {
            engine: self.clone(),
            name,
            gateway: None,
        };
        let seen = self.docker().inspect_network(&network.name, None).await;
        let seen = seen.map_err(|error| EngineError::of(doing, error))?;
        let pools = seen.ipam.and_then(|ipam| ipam.config).unwrap_or_default();
        let gateway = pools.into_iter().find_map(|pool| pool.gateway);
        network.gateway = gateway.and_then(|gateway| gateway.parse().ok());
        Ok(network)
    }
}

impl InternalNetwork {
    /// Its name, for [`Network::Named`](super::Network::Named).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of its bridge on the engine's machine.
    pub fn gateway(&self) -> Option<IpAddr> {
        self.gateway
    }
}

impl Drop for InternalNetwork {
    fn drop(&mut self) {
        let (engine, name) = (self.engine.clone(), std::mem::take(&mut self.name));
        self.engine.later(async move {
            // A later run removes what could not be removed.
            let _ = engine.docker().remove_network(&name).await;
        });
    }
}
