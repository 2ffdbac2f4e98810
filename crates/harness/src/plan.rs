//! The plan: test cases resolved to trials that cannot be wrong any more.

use std::sync::Arc;

use camino::Utf8Path;

use crate::{
    agent::{Adapter, Agent},
    agents::{self, ADAPTERS},
    config::{self, AgentType, ConfigError, ResolvedCase, Settings},
    evaluate::Evaluator,
    host::Host,
};

/// One agent on one task, ready to run.
pub struct TrialPlan {
    /// The test case.
    pub case: ResolvedCase,
    /// The code that drives the agent.
    pub adapter: &'static dyn Adapter,
    /// The agent.
    pub agent: Box<dyn Agent>,
    /// How it is judged.
    pub evaluators: Vec<Evaluator>,
}

impl TrialPlan {
    /// Read a test case and check all of it.
    pub fn load(
        path: &Utf8Path,
        host: &Host,
        settings: &Settings,
    ) -> Result<TrialPlan, ConfigError> {
        let case = config::load(path, &host.env, settings)?;
        let adapter = adapter(&case, host)?;
        let section = case.agent.section(adapter, &case.folder);
        let mut faults = Vec::new();
        let agent = adapter
            .configure(&section)
            .map_err(|more| faults.extend(more));
        let mut evaluators = Vec::new();
        for spec in &case.evaluators {
            match Evaluator::configure(spec, &case.folder) {
                Ok(evaluator) => evaluators.push(evaluator),
                Err(fault) if Arc::ptr_eq(&spec.source, &case.source) => faults.push(fault),
                Err(fault) => return Err(spec.error(vec![fault])),
            }
        }
        let (Ok(agent), true) = (agent, faults.is_empty()) else {
            return Err(case.source.error(faults));
        };
        Ok(TrialPlan {
            case,
            adapter,
            agent,
            evaluators,
        })
    }
}

/// The adapter that the test case names; for `auto` the first whose CLI is installed.
fn adapter(case: &ResolvedCase, host: &Host) -> Result<&'static dyn Adapter, ConfigError> {
    let found = match &case.agent.kind {
        AgentType::Named(name) => agents::find(name),
        AgentType::Auto => ADAPTERS.iter().copied().find(|adapter| {
            adapter
                .cli()
                .is_some_and(|cli| host.find_program(cli.program).is_some())
        }),
    };
    let known: Vec<&str> = ADAPTERS.iter().map(|adapter| adapter.name()).collect();
    found.ok_or_else(|| case.source.error(vec![case.agent.unknown(&known)]))
}
