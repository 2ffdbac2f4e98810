//! The trials of a run, resolved so that they cannot be wrong any more.

use std::{collections::BTreeSet, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{ConfigError, Fault, Node, Span};
use proctor_gateway::Prices;

use super::{
    ResolvedSuite,
    policy::{Contender, Policy},
};
use crate::{
    agent::{Adapter, Agent, AgentSection, PromptSource},
    agents::{self, ADAPTERS},
    config::{AgentSpec, AgentType, GatewaySettings, Source, SuiteAgent},
    host::Host,
    model_access,
    packages::Package,
    record::cli::Registry,
    sandbox::SandboxKind,
    shuffle::Shuffle,
    task::Task,
};

/// One agent on one task once, ready to run.
#[derive(Clone)]
pub struct TrialPlan {
    /// What is asked.
    pub task: Arc<Task>,
    /// The code that drives the agent.
    pub adapter: &'static dyn Adapter,
    /// The contender's name: that of its kind, unless a suite gives it one.
    pub name: String,
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// Its CLI, when a version of it is named; else the one that is there is used.
    pub package: Option<Package>,
    /// When the agent is started once more in the same trial.
    pub policy: Policy,
    /// The number of the trial, from 1.
    pub number: u32,
    /// The gateway that its test case asks for; one of a suite belongs to the whole run.
    pub gateway: Option<GatewaySettings>,
}

impl TrialPlan {
    /// A built-in agent on a task, regardless of the task's own agent.
    pub fn built_in(kind: &str, task: &Arc<Task>) -> Result<TrialPlan, ConfigError> {
        let adapter = agents::find(kind).expect("built-in agents are there");
        let empty = Node::empty_map(Span::default());
        let section = AgentSection {
            node: &empty,
            agent_name: None,
            model: None,
            config: &empty,
            folder: &task.folder,
            prompt: None,
        };
        let agent = agents::configure(adapter, &section);
        let agent = agent.map_err(|faults| task.source.error(faults))?;
        Ok(TrialPlan::of(Arc::clone(task), adapter, agent))
    }

    /// Existing work, as a trial without an agent.
    pub fn of_existing(task: &Arc<Task>) -> Result<TrialPlan, ConfigError> {
        Ok(TrialPlan {
            name: "existing".to_owned(),
            ..TrialPlan::built_in("null", task)?
        })
    }

    pub(super) fn of(
        task: Arc<Task>,
        adapter: &'static dyn Adapter,
        agent: Box<dyn Agent>,
    ) -> TrialPlan {
        TrialPlan {
            task,
            adapter,
            name: adapter.name().to_owned(),
            agent: agent.into(),
            package: None,
            policy: Policy::default(),
            number: 1,
            gateway: None,
        }
    }
}

/// Whether a task can be done where trials run: on this machine, without a container.
fn check_sandbox(task: &Task) -> Result<(), ConfigError> {
    task.needs_container().map_or(Ok(()), Err)
}

/// Whether an agent can run where trials run: one with an image needs a container.
pub(super) fn check_image(
    agent: &dyn Agent,
    spec: &AgentSpec,
    source: &Source,
) -> Result<(), ConfigError> {
    if agent.image().is_none() {
        return Ok(());
    }
    let message = "an agent with an `image` needs containers";
    let fault = spec.config.fault("image", message);
    let hint = "add `sandbox: docker` to a suite; without `image` its adapter runs on this machine, as you";
    Err(source.error(vec![fault.with_hint(hint)]))
}

/// The abilities of a trial's gateway.
pub(super) struct Means<'a> {
    gateway: Option<&'a GatewaySettings>,
    /// The prices of models, where needed.
    prices: Option<Prices>,
}

impl<'a> Means<'a> {
    pub(super) fn of(gateway: Option<&'a GatewaySettings>) -> Means<'a> {
        let counts = gateway.filter(|gateway| gateway.has_money_limit());
        Means {
            gateway,
            prices: counts.map(model_access::prices),
        }
    }

    /// Whether that is enough for what the agent asks for.
    pub(super) fn check(
        &self,
        agent: &dyn Agent,
        spec: &AgentSpec,
        source: &Source,
    ) -> Result<(), ConfigError> {
        if agent.gateway_temperature().is_some() && self.gateway.is_none() {
            let message = "`temperature` needs the gateway: the agent's CLI has no option for it";
            let fault = spec.config.fault("temperature", message);
            let hint = "add `gateway: {}` at the top of the file, or leave it out";
            return Err(source.error(vec![fault.with_hint(hint)]));
        }
        let (Some(gateway), Some(prices)) = (self.gateway, &self.prices) else {
            return Ok(());
        };
        let Some(model) = agent.wire_model().map(|model| gateway.sent_model(model)) else {
            return Ok(());
        };
        if prices.find(model).is_some() {
            return Ok(());
        }
        let message =
            format!("there is no price for `{model}`, so that a limit in dollars cannot hold");
        let holder = [&spec.node, &spec.config];
        let holder = holder.into_iter().find(|node| node.get("model").is_some());
        let fault = match holder {
            Some(node) => node.fault("model", message),
            None => Fault::new(spec.kind_span, message),
        };
        let hint = "add one with `gateway: {prices: FILE}` or `--prices FILE` (`proctor prices` shows those that there are), or limit `budget_tokens` or `budget_calls` instead";
        Err(source.error(vec![fault.with_hint(hint)]))
    }
}

/// The trials of a run, in the order in which they start.
pub struct RunPlan {
    /// The trials.
    pub trials: Vec<TrialPlan>,
    /// The seed of their order.
    pub seed: u64,
    /// The files that the plan was made from.
    pub input: Input,
}

/// The files that a plan was made from.
#[derive(Clone, Debug)]
pub enum Input {
    /// Test cases.
    Cases,
    /// A suite.
    Suite {
        /// The file.
        file: Utf8PathBuf,
        /// Its text, kept with the results.
        text: String,
    },
}

/// Two trials of a run that would have the same name.
#[derive(Debug, thiserror::Error)]
#[error("two test cases run {agent} on `{task}`: give one of them another name")]
pub struct SameName {
    /// The agent.
    pub agent: String,
    /// The task.
    pub task: String,
}

impl RunPlan {
    /// Test cases, each as often as asked for. Without a seed they start in the order given.
    pub fn of_cases(
        cases: Vec<TrialPlan>,
        trials: u32,
        seed: Option<u64>,
    ) -> Result<RunPlan, SameName> {
        let mut names = BTreeSet::new();
        for case in &cases {
            if !names.insert((&case.name, &case.task.name)) {
                return Err(SameName {
                    agent: case.name.clone(),
                    task: case.task.name.clone(),
                });
            }
        }
        Ok(RunPlan {
            trials: rounds(cases, trials, seed),
            seed: seed.unwrap_or(0),
            input: Input::Cases,
        })
    }

    /// The file of the suite; `None` for test cases.
    pub fn suite_file(&self) -> Option<&Utf8Path> {
        match &self.input {
            Input::Suite { file, .. } => Some(file),
            Input::Cases => None,
        }
    }

    /// Whether the run is a single test case, whose trial lies in the folder of the run itself.
    pub(crate) fn is_flat(&self) -> bool {
        matches!(self.input, Input::Cases) && self.trials.len() == 1
    }

    /// Every agent on every task, as often as the suite says. Each round has every pair once, in
    /// an order of its own: what slows a provider down for a while hits all agents alike.
    pub fn make(
        suite: &ResolvedSuite,
        host: &Host,
        seed: u64,
    ) -> Result<RunPlan, Vec<ConfigError>> {
        let mut pairs = Vec::new();
        let mut errors = Vec::new();
        if let Err(error) = suite.check_variables() {
            errors.push(error);
        }
        let means = Means::of(suite.execution.gateway.as_ref());
        for task in &suite.tasks {
            for pair in pairs_of(suite, task, &means, host) {
                match pair {
                    Ok(pair) => pairs.push(pair),
                    Err(error) => merge(&mut errors, error),
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(RunPlan {
            trials: rounds(pairs, suite.trials, Some(seed)),
            seed,
            input: Input::Suite {
                file: suite.source.path().to_owned(),
                text: suite.source.text().to_owned(),
            },
        })
    }
}

/// Every pair once per round, each round shuffled when there is a seed.
fn rounds(mut pairs: Vec<TrialPlan>, rounds: u32, seed: Option<u64>) -> Vec<TrialPlan> {
    let mut shuffle = seed.map(Shuffle::new);
    let mut trials = Vec::new();
    for number in 1..=rounds {
        if let Some(shuffle) = &mut shuffle {
            shuffle.apply(&mut pairs);
        }
        trials.extend(pairs.iter().map(|pair| TrialPlan {
            number,
            ..pair.clone()
        }));
    }
    trials
}

/// Add an error to others: faults of the same file are one error, each fault once.
fn merge(errors: &mut Vec<ConfigError>, error: ConfigError) {
    let is_same = |known: &&mut ConfigError| known.path == error.path && known.text == error.text;
    let Some(known) = errors.iter_mut().find(is_same) else {
        errors.push(error);
        return;
    };
    for fault in error.faults {
        if !known.faults.contains(&fault) {
            known.faults.push(fault);
        }
    }
    known.faults.sort_by_key(|fault| fault.span.start);
}

/// Every agent of the suite on one task.
fn pairs_of(
    suite: &ResolvedSuite,
    task: &Arc<Task>,
    means: &Means<'_>,
    host: &Host,
) -> Vec<Result<TrialPlan, ConfigError>> {
    let is_local = suite.execution.sandbox == SandboxKind::Local;
    let checked = task.prompt().and_then(|prompt| {
        if is_local {
            check_sandbox(task)?;
        }
        Ok(prompt)
    });
    match checked {
        Ok(prompt) => {
            let agents = suite.agents.iter();
            agents
                .map(|agent| pair(suite, (agent, task, &prompt), means, host))
                .collect()
        }
        Err(error) => vec![Err(error)],
    }
}

/// One agent of the suite on one task.
fn pair(
    suite: &ResolvedSuite,
    (contender, task, prompt): (&SuiteAgent, &Arc<Task>, &PromptSource),
    means: &Means<'_>,
    host: &Host,
) -> Result<TrialPlan, ConfigError> {
    let adapter = adapter(&contender.spec, &suite.source, host)?;
    let agent = configure(suite, &contender.spec, adapter, prompt)?;
    if suite.execution.sandbox == SandboxKind::Local {
        check_image(agent.as_ref(), &contender.spec, &suite.source)?;
    }
    means.check(agent.as_ref(), &contender.spec, &suite.source)?;
    let policy = Policy::of(&contender.spec, agent.as_ref(), &suite.source, |spec| {
        let place = (suite.source.as_ref(), suite.folder.as_path());
        let made = self::contender(spec, place, Some(prompt), host)?;
        means.check(made.agent.as_ref(), spec, &suite.source)?;
        Ok(made)
    })?;
    Ok(TrialPlan {
        name: contender.name.clone(),
        package: package(&contender.spec, adapter, &suite.source)?,
        policy,
        ..TrialPlan::of(Arc::clone(task), adapter, agent)
    })
}

/// A fallback agent of a trial. If it is the first agent with another model, it has the first
/// agent's prompt in its section; any other gets the same prompt.
pub(super) fn contender(
    spec: &AgentSpec,
    (source, folder): (&Source, &Utf8Path),
    prompt: Option<&PromptSource>,
    host: &Host,
) -> Result<Contender, ConfigError> {
    let adapter = adapter(spec, source, host)?;
    let mut own = ["prompt", "prompt_file"].into_iter();
    let has_own = own.any(|key| spec.config.get(key).is_some());
    let section = AgentSection {
        prompt: prompt.filter(|_| !has_own),
        ..spec.section(adapter, folder)
    };
    let agent = agents::configure(adapter, &section);
    Ok(Contender {
        adapter,
        agent: agent.map_err(|faults| source.error(faults))?.into(),
        package: package(spec, adapter, source)?,
    })
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
    agents::configure(adapter, &section).map_err(|faults| suite.source.error(faults))
}

/// The CLI at the version that a section names.
pub(super) fn package(
    spec: &AgentSpec,
    adapter: &'static dyn Adapter,
    source: &Source,
) -> Result<Option<Package>, ConfigError> {
    let Some(version) = &spec.version else {
        return Ok(None);
    };
    let refused = |message: String, hint: &str| {
        let fault = spec.node.fault("version", message).with_hint(hint);
        Err(source.error(vec![fault]))
    };
    let name = adapter.name();
    let Some(cli) = adapter.cli() else {
        return refused(
            format!("`{name}` has no version: it is built in"),
            "remove it",
        );
    };
    let name = match cli.package {
        Registry::Npm(name) | Registry::PyPi { name, .. } => name,
    };
    Ok(Some(Package {
        registry: cli.package,
        name,
        program: cli.program,
        version: version.clone(),
    }))
}

/// The adapter that a section names; for `auto` the first whose CLI is installed.
pub(super) fn adapter(
    spec: &AgentSpec,
    source: &Source,
    host: &Host,
) -> Result<&'static dyn Adapter, ConfigError> {
    let found = match &spec.kind {
        AgentType::Named(name) => agents::find(name),
        AgentType::Auto => auto_order(&spec.order).into_iter().find(|adapter| {
            adapter
                .cli()
                .is_some_and(|cli| host.find_program(cli.program).is_some())
        }),
    };
    found.ok_or_else(|| {
        let known = |adapter: &&dyn Adapter| adapter.name();
        source.error(vec![match &spec.kind {
            AgentType::Named(_) => spec.unknown(&ADAPTERS.iter().map(known).collect::<Vec<_>>()),
            AgentType::Auto => {
                let tried: Vec<&str> = auto_order(&spec.order).iter().map(known).collect();
                let message = format!("none of these agents is installed: {}", tried.join(", "));
                let hint = "`proctor doctor` says how to install them; `null`, `oracle` and `command` need none";
                Fault::new(spec.kind_span, message).with_hint(hint)
            }
        }])
    })
}

/// The adapters that `auto` tries, in their order: those that are named, else all with a program.
pub fn auto_order(named: &[String]) -> Vec<&'static dyn Adapter> {
    if named.is_empty() {
        let all = ADAPTERS.iter().copied();
        return all.filter(|adapter| adapter.cli().is_some()).collect();
    }
    named.iter().filter_map(|name| agents::find(name)).collect()
}
