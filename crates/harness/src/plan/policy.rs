//! When an agent is started once more in the same trial, and who starts then.

use std::{collections::BTreeSet, sync::Arc};

use proctor_document::{ConfigError, Fault};

use crate::{
    agent::{Adapter, Agent},
    config::{AgentSpec, CheckLoop, Source},
    packages::Package,
    record::RetryOn,
};

/// When an agent is started once more in the same trial.
#[derive(Clone, Default)]
pub struct Policy {
    /// After something that went wrong.
    pub retry: Option<Retry>,
    /// Until a command succeeds.
    pub check: Option<CheckLoop>,
}

/// After what an agent is started once more, how often, and who takes over in the end.
#[derive(Clone)]
pub struct Retry {
    /// After what.
    pub on: BTreeSet<RetryOn>,
    /// How often in one trial.
    pub times: u32,
    /// The fallback for the last retry.
    pub fallback: Option<Contender>,
}

/// A contestant: an agent and the adapter that drives it.
#[derive(Clone)]
pub struct Contender {
    /// The code that drives the agent.
    pub adapter: &'static dyn Adapter,
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// Its CLI, when a version of it is named.
    pub package: Option<Package>,
}

impl Policy {
    /// Whether the agent is started once and never again.
    pub fn is_empty(&self) -> bool {
        self.retry.is_none() && self.check.is_none()
    }

    /// The fallback for the last retry.
    pub fn fallback(&self) -> Option<&Contender> {
        self.retry.as_ref()?.fallback.as_ref()
    }

    /// The policy of the section `spec`, of which `first` was made; `make` makes its fallback.
    pub(super) fn of(
        spec: &AgentSpec,
        first: &dyn Agent,
        source: &Source,
        make: impl FnOnce(&AgentSpec) -> Result<Contender, ConfigError>,
    ) -> Result<Policy, ConfigError> {
        if let (Some(key), None) = (spec.policy.key(), first.prompt()) {
            let span = spec.node.key_span_of(key);
            let fault = Fault::new(
                span,
                "this agent reads no prompt: it would do the same again",
            );
            return Err(source.error(vec![fault.with_hint(format!("remove `{key}`"))]));
        }
        let Some(written) = &spec.policy.retry else {
            return Ok(Policy {
                retry: None,
                check: spec.policy.check.clone(),
            });
        };
        let fallback = written.fallback.as_deref().map(|fallback| {
            let contender = make(fallback)?;
            check_fallback(&contender, fallback, source)?;
            Ok(contender)
        });
        Ok(Policy {
            retry: Some(Retry {
                on: written.on.clone(),
                times: written.times,
                fallback: fallback.transpose()?,
            }),
            check: spec.policy.check.clone(),
        })
    }
}

/// A fallback goes on where the first agent was, with what it was asked.
fn check_fallback(made: &Contender, spec: &AgentSpec, source: &Source) -> Result<(), ConfigError> {
    let name = made.adapter.name();
    let fault = if made.agent.prompt().is_none() {
        Fault::new(
            spec.kind_span,
            format!("`{name}` reads no prompt, so it is no fallback"),
        )
    } else if spec.config.get("image").is_some() {
        let message = "a fallback works in the image of the first agent";
        spec.config.fault("image", message).with_hint("remove it")
    } else {
        return Ok(());
    };
    Err(source.error(vec![fault]))
}
