//! The gateways of a run of test cases, each of which may ask for one.

use std::collections::BTreeMap;

use proctor_gateway::GatewayError;

use super::{Models, Place};
use crate::config::GatewaySettings;

/// The gateways of a run of test cases: one for each way in which they are set up.
#[derive(Debug, Default)]
pub struct RunGateways {
    started: Vec<Models>,
}

impl RunGateways {
    /// The gateway that is set up like this; `None` when there is to be none.
    pub fn of(
        &mut self,
        settings: Option<&GatewaySettings>,
        env: &BTreeMap<String, String>,
    ) -> Result<Option<&Models>, GatewayError> {
        let Some(settings) = settings else {
            return Ok(None);
        };
        let known = |models: &Models| models.settings == *settings;
        let at = self.started.iter().position(known);
        if at.is_none() {
            let mut models = Models::at(settings, env, Place::default())?;
            let limit = settings.run_budget_usd;
            let same = |models: &&Models| models.settings.run_budget_usd == limit;
            if let Some(other) = self.started.iter().find(same) {
                // What all trials may spend together is one sum.
                models.shared.clone_from(&other.shared);
            }
            self.started.push(models);
        }
        let at = at.unwrap_or(self.started.len() - 1);
        Ok(self.started.get(at))
    }
}
