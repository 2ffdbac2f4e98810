//! The plan: test cases and suites resolved to trials that cannot be wrong any more.

use std::sync::Arc;

use camino::Utf8Path;

use crate::{
    agent::{Adapter, Agent},
    agents::{self, ADAPTERS},
    config::{
        self, AgentSection, AgentSpec, AgentType, ConfigError, PromptSource, ResolvedCase,
        ResolvedSuite, Settings, Source,
    },
    evaluate::Evaluator,
    host::Host,
    shuffle::Shuffle,
};

/// One agent on one task once, ready to run.
#[derive(Clone)]
pub struct TrialPlan {
    /// The test case.
    pub case: Arc<ResolvedCase>,
    /// The code that drives the agent.
    pub adapter: &'static dyn Adapter,
    /// The contender's name: that of its kind, unless a suite gives it one.
    pub name: String,
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// How it is judged.
    pub evaluators: Arc<[Evaluator]>,
    /// The number of the trial, from 1.
    pub number: u32,
}

impl TrialPlan {
    /// Read a test case and check all of it.
    pub fn load(
        path: &Utf8Path,
        host: &Host,
        settings: &Settings,
    ) -> Result<TrialPlan, ConfigError> {
        let case = Arc::new(config::load(path, &host.env, settings)?);
        let adapter = adapter(&case.agent, &case.source, host)?;
        let section = case.agent.section(adapter, &case.folder);
        TrialPlan::assemble(&case, adapter, &section)
    }

    /// A built-in agent on a task, whichever agent its test case names.
    pub fn built_in(kind: &str, case: &Arc<ResolvedCase>) -> Result<TrialPlan, ConfigError> {
        let adapter = agents::find(kind).expect("built-in agents are there");
        let empty = config::Node::empty_map(config::Span::default());
        let section = AgentSection {
            config: &empty,
            ..case.agent.section(adapter, &case.folder)
        };
        TrialPlan::assemble(case, adapter, &section)
    }

    /// Configure agent and evaluators; what is wrong with either is told together.
    fn assemble(
        case: &Arc<ResolvedCase>,
        adapter: &'static dyn Adapter,
        section: &AgentSection<'_>,
    ) -> Result<TrialPlan, ConfigError> {
        let mut faults = Vec::new();
        let agent = adapter
            .configure(section)
            .map_err(|more| faults.extend(more));
        let evaluators = evaluators(case, &mut faults)?;
        let (Ok(agent), true) = (agent, faults.is_empty()) else {
            return Err(case.source.error(faults));
        };
        Ok(TrialPlan {
            case: Arc::clone(case),
            adapter,
            name: adapter.name().to_owned(),
            agent: agent.into(),
            evaluators,
            number: 1,
        })
    }
}

/// The evaluators of a test case; faults that stand in it are collected.
fn evaluators(
    case: &ResolvedCase,
    faults: &mut Vec<config::Fault>,
) -> Result<Arc<[Evaluator]>, ConfigError> {
    let mut evaluators = Vec::new();
    for spec in &case.evaluators {
        match Evaluator::configure(spec, &case.folder) {
            Ok(evaluator) => evaluators.push(evaluator),
            Err(fault) if Arc::ptr_eq(&spec.source, &case.source) => faults.push(fault),
            Err(fault) => return Err(spec.error(vec![fault])),
        }
    }
    Ok(evaluators.into())
}

/// The trials of a suite, in the order in which they start.
pub struct SuitePlan {
    /// The trials.
    pub trials: Vec<TrialPlan>,
    /// What their order comes from.
    pub seed: u64,
}

/// Which part of a suite is meant; empty is all of it.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Names of agents.
    pub agents: Vec<String>,
    /// Names of tasks.
    pub tasks: Vec<String>,
}

/// A filter that matches nothing, and what it could have named.
#[derive(Debug, thiserror::Error)]
#[error("no {what} is called `{name}`")]
pub struct NoMatch {
    /// What was looked for.
    pub what: &'static str,
    /// The name that matches nothing.
    pub name: String,
    /// The names that there are.
    pub known: Vec<String>,
}

impl Filter {
    /// Keep what the filter names.
    pub fn apply(&self, suite: &mut ResolvedSuite) -> Result<(), NoMatch> {
        let agents = suite.agents.iter().map(|agent| agent.name.clone());
        check("agent", &self.agents, agents.collect())?;
        let tasks = suite.cases.iter().map(|case| case.name.clone());
        check("task", &self.tasks, tasks.collect())?;
        let is_meant = |names: &[String], name: &String| names.is_empty() || names.contains(name);
        suite
            .agents
            .retain(|agent| is_meant(&self.agents, &agent.name));
        suite.cases.retain(|case| is_meant(&self.tasks, &case.name));
        Ok(())
    }
}

fn check(what: &'static str, wanted: &[String], known: Vec<String>) -> Result<(), NoMatch> {
    match wanted.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(NoMatch {
            what,
            name: name.clone(),
            known,
        }),
    }
}

impl SuitePlan {
    /// Every agent on every task, as often as the suite says. Each round has every pair once, in
    /// an order of its own: what slows a provider down for a while hits all agents alike.
    pub fn make(
        suite: &ResolvedSuite,
        host: &Host,
        seed: u64,
    ) -> Result<SuitePlan, Vec<ConfigError>> {
        let mut pairs = Vec::new();
        let mut errors = Vec::new();
        for case in &suite.cases {
            match pairs_of(suite, case, host) {
                Ok(more) => pairs.extend(more),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            errors.dedup_by(|one, other| one.to_string() == other.to_string());
            return Err(errors);
        }
        let mut shuffle = Shuffle::new(seed);
        let mut trials = Vec::new();
        for number in 1..=suite.trials {
            shuffle.apply(&mut pairs);
            trials.extend(pairs.iter().map(|pair| TrialPlan {
                number,
                ..pair.clone()
            }));
        }
        Ok(SuitePlan { trials, seed })
    }
}

/// Every agent of the suite on one task.
fn pairs_of(
    suite: &ResolvedSuite,
    case: &Arc<ResolvedCase>,
    host: &Host,
) -> Result<Vec<TrialPlan>, ConfigError> {
    let prompt = case.prompt()?;
    let mut faults = Vec::new();
    let judges = evaluators(case, &mut faults)?;
    if !faults.is_empty() {
        return Err(case.source.error(faults));
    }
    let contenders = suite.agents.iter();
    contenders
        .map(|contender| {
            let adapter = adapter(&contender.spec, &suite.source, host)?;
            let agent = configure(suite, &contender.spec, adapter, &prompt)?;
            Ok(TrialPlan {
                case: Arc::clone(case),
                adapter,
                name: contender.name.clone(),
                agent: agent.into(),
                evaluators: Arc::clone(&judges),
                number: 1,
            })
        })
        .collect()
}

/// An agent of a suite, with what a task asks.
fn configure(
    suite: &ResolvedSuite,
    spec: &AgentSpec,
    adapter: &'static dyn Adapter,
    prompt: &PromptSource,
) -> Result<Box<dyn Agent>, ConfigError> {
    let section = AgentSection {
        prompt: Some(prompt),
        ..spec.section(adapter, &suite.folder)
    };
    adapter
        .configure(&section)
        .map_err(|faults| suite.source.error(faults))
}

/// The adapter that a section names; for `auto` the first whose CLI is installed.
fn adapter(
    spec: &AgentSpec,
    source: &Source,
    host: &Host,
) -> Result<&'static dyn Adapter, ConfigError> {
    let found = match &spec.kind {
        AgentType::Named(name) => agents::find(name),
        AgentType::Auto => ADAPTERS.iter().copied().find(|adapter| {
            adapter
                .cli()
                .is_some_and(|cli| host.find_program(cli.program).is_some())
        }),
    };
    let known: Vec<&str> = ADAPTERS.iter().map(|adapter| adapter.name()).collect();
    found.ok_or_else(|| source.error(vec![spec.unknown(&known)]))
}
