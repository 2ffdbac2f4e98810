//! Plans of test cases.

use std::sync::Arc;

use camino::Utf8Path;
use proctor_agents as agents;
use proctor_document::ConfigError;
use proctor_sandbox::{SandboxKind, host::Host};

use super::{
    definition,
    policy::Policy,
    run_plan::{Means, TrialPlan, adapter, check_machine, contender, package},
};
use crate::{
    config::{self, AgentSpec, GatewayOverrides, GatewaySettings, ResolvedCase, Settings},
    task::{Asks, Task, case},
};

/// The options of the command line that override test cases.
#[derive(Clone, Debug, Default)]
pub struct CaseOptions {
    /// Kinds of agents that replace the test case's own.
    pub agents: Vec<String>,
    /// The sandbox.
    pub sandbox: SandboxKind,
    /// The gateway settings.
    pub gateway: GatewayOverrides,
}

impl TrialPlan {
    /// Reads and checks a test case: one trial for each agent.
    pub fn load(
        path: &Utf8Path,
        host: &Host,
        settings: &Settings,
        options: &CaseOptions,
    ) -> Result<Vec<TrialPlan>, ConfigError> {
        let case = config::load(path, &host.env, settings)?;
        let mut gateway = case.gateway.clone();
        options.gateway.apply(&mut gateway, settings);
        let plans = if options.agents.is_empty() {
            vec![TrialPlan::of_case(case, host, options, gateway)?]
        } else {
            TrialPlan::with_agents(case, host, (settings, options), gateway.as_ref())?
        };
        for plan in &plans {
            plan.check_gateway()?;
        }
        Ok(plans)
    }

    /// The test case with other agents and the same prompt.
    fn with_agents(
        case: ResolvedCase,
        host: &Host,
        (settings, options): (&Settings, &CaseOptions),
        gateway: Option<&GatewaySettings>,
    ) -> Result<Vec<TrialPlan>, ConfigError> {
        let mut faults = Vec::new();
        let evaluators = case::evaluators(&case, &mut faults)?;
        if !faults.is_empty() {
            return Err(case.source.error(faults));
        }
        let task = Arc::new(Task::from_case(case, evaluators));
        let prompt = task.prompt()?;
        let plan = |kind: &String| {
            let spec = AgentSpec::of_kind(kind, settings);
            let place = (task.source.as_ref(), task.folder.as_path());
            let made = contender(&spec, place, Some(&prompt), host)?;
            let contender = (made.adapter, made.agent.as_ref());
            let section = definition::of_section(&spec, contender, &task.folder, host);
            Ok(TrialPlan {
                task: Arc::clone(&task),
                adapter: made.adapter,
                name: made.adapter.name().to_owned(),
                agent: made.agent,
                package: made.package,
                policy: Policy::default(),
                step_agents: Arc::default(),
                number: 1,
                gateway: gateway.cloned(),
                treatment: Arc::default(),
                variant_of: None,
                section: Arc::new(section),
                definitions: None,
            })
        };
        options.agents.iter().map(plan).collect()
    }

    /// The test case with its own agent.
    fn of_case(
        case: ResolvedCase,
        host: &Host,
        options: &CaseOptions,
        gateway: Option<GatewaySettings>,
    ) -> Result<TrialPlan, ConfigError> {
        let adapter = adapter(&case.agent, &case.source, host)?;
        let section = case.agent.section(adapter, &case.folder);
        // Faults of both are reported together.
        let mut faults = Vec::new();
        let agent = agents::configure(adapter, &section).map_err(|more| faults.extend(more));
        let evaluators = case::evaluators(&case, &mut faults)?;
        let (Ok(agent), true) = (agent, faults.is_empty()) else {
            return Err(case.source.error(faults));
        };
        if options.sandbox == SandboxKind::Local {
            check_machine(agent.as_ref(), &case.agent, &case.source, host)?;
        }
        let policy = Policy::of(&case.agent, agent.as_ref(), &case.source, |fallback| {
            contender(fallback, (&case.source, &case.folder), agent.prompt(), host)
        })?;
        let package = package(&case.agent, adapter, &case.source)?;
        let contender = (adapter, agent.as_ref());
        let section = definition::of_section(&case.agent, contender, &case.folder, host);
        let task = Arc::new(Task::from_case(case, evaluators));
        Ok(TrialPlan {
            package,
            policy,
            gateway,
            section: Arc::new(section),
            ..TrialPlan::of(task, adapter, agent)
        })
    }

    /// Checks that the gateway supports the configuration of the agent and its fallback.
    fn check_gateway(&self) -> Result<(), ConfigError> {
        let Asks::Section(spec) = &self.task.asks else {
            return Ok(());
        };
        let means = Means::of(self.gateway.as_ref());
        means.check(self.agent.as_ref(), spec, &self.task.source)?;
        match (self.policy.fallback(), spec.policy.fallback()) {
            (Some(fallback), Some(spec)) => {
                means.check(fallback.agent.as_ref(), spec, &self.task.source)
            }
            _ => Ok(()),
        }
    }
}
