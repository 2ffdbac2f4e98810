//! Plans of test cases.

use std::sync::Arc;

use camino::Utf8Path;
use proctor_document::ConfigError;

use super::{
    policy::Policy,
    run_plan::{Means, TrialPlan, adapter, check_image, contender, package},
};
use crate::{
    agents,
    config::{self, AgentSpec, GatewayOverrides, GatewaySettings, ResolvedCase, Settings},
    host::Host,
    sandbox::SandboxKind,
    task::{Asks, Task, case},
};

/// The options of the command line that override test cases.
#[derive(Clone, Debug, Default)]
pub struct CaseOptions {
    /// Kinds of agents that run in the place of the test case's own.
    pub agents: Vec<String>,
    /// Where trials execute.
    pub sandbox: SandboxKind,
    /// How agents reach models.
    pub gateway: GatewayOverrides,
}

impl TrialPlan {
    /// Read a test case and check all of it: one trial for each agent.
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

    /// The test case with other agents than its own, which are asked the same.
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
            Ok(TrialPlan {
                task: Arc::clone(&task),
                adapter: made.adapter,
                name: made.adapter.name().to_owned(),
                agent: made.agent,
                package: made.package,
                policy: Policy::default(),
                number: 1,
                gateway: gateway.cloned(),
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
        // Errors of both are reported together.
        let mut faults = Vec::new();
        let agent = agents::configure(adapter, &section).map_err(|more| faults.extend(more));
        let evaluators = case::evaluators(&case, &mut faults)?;
        let (Ok(agent), true) = (agent, faults.is_empty()) else {
            return Err(case.source.error(faults));
        };
        if options.sandbox == SandboxKind::Local {
            check_image(agent.as_ref(), &case.agent, &case.source)?;
        }
        let policy = Policy::of(&case.agent, agent.as_ref(), &case.source, |fallback| {
            contender(fallback, (&case.source, &case.folder), agent.prompt(), host)
        })?;
        let package = package(&case.agent, adapter, &case.source)?;
        let task = Arc::new(Task::from_case(case, evaluators));
        Ok(TrialPlan {
            package,
            policy,
            gateway,
            ..TrialPlan::of(task, adapter, agent)
        })
    }

    /// Check that the gateway can do what the agent and its fallback are configured for.
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
