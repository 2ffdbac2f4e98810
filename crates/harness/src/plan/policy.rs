//! When an agent is restarted in the same trial, and which agent.

use std::{collections::BTreeSet, sync::Arc};

use proctor_agents::agent::{Adapter, Agent};
use proctor_document::{ConfigError, Fault};
use proctor_record::record::RetryOn;
use proctor_sandbox::packages::Package;

use crate::config::{AgentSpec, CheckLoop, Source};

/// When an agent is restarted in the same trial.
#[derive(Clone, Default)]
pub struct Policy {
    /// Restart after a failure.
    pub retry: Option<Retry>,
    /// Restart until a command succeeds.
    pub check: Option<CheckLoop>,
}

/// Retries after failures: the causes, their number, and the fallback.
#[derive(Clone)]
pub struct Retry {
    /// The causes of a retry.
    pub on: BTreeSet<RetryOn>,
    /// The maximum number of retries in one trial.
    pub times: u32,
    /// The agent of the last retry.
    pub fallback: Option<Contender>,
}

/// A contestant: an agent and the adapter that drives it.
#[derive(Clone)]
pub struct Contender {
    /// The adapter.
    pub adapter: &'static dyn Adapter,
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// Its CLI package, if a version is configured.
    pub package: Option<Package>,
}

impl Policy {
    /// Whether the agent is never restarted.
    pub fn is_empty(&self) -> bool {
        self.retry.is_none() && self.check.is_none()
    }

    /// The agent of the last retry.
    pub fn fallback(&self) -> Option<&Contender> {
        self.retry.as_ref()?.fallback.as_ref()
    }

    /// The policy of the section `spec` of the agent `first`. `make` creates the fallback.
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
                "this agent does not read a prompt: a retry would give the same result",
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

/// Checks a fallback, which continues with the prompt of the first agent.
fn check_fallback(made: &Contender, spec: &AgentSpec, source: &Source) -> Result<(), ConfigError> {
    let name = made.adapter.name();
    let fault = if made.agent.prompt().is_none() {
        Fault::new(
            spec.kind_span,
            format!("agent `{name}` cannot be a fallback: it does not read a prompt"),
        )
    } else if spec.config.get("image").is_some() {
        let message = "`fallback` cannot have its own image";
        spec.config.fault("image", message).with_hint("remove it")
    } else {
        return Ok(());
    };
    Err(source.error(vec![fault]))
}
