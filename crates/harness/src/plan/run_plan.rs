//! The trials of a run, resolved and validated.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_agents::{
    self as agents, ADAPTERS,
    agent::{Adapter, Agent, AgentSection, PromptSource},
};
use proctor_document::{ConfigError, Fault, Node, Span};
use proctor_gateway::Prices;
use proctor_record::{record::cli::Registry, shuffle::Shuffle, usage::Usd};
use proctor_sandbox::{SandboxKind, host::Host, packages::Package};
use serde_json::Value;

use super::{
    BisectionPlan, ExperimentPlan, PlannedTreatment, ResolvedSuite, TrialDefinitions, definition,
    experiment,
    policy::{Contender, Policy},
    treatment, vary,
};
use crate::{
    config::{AgentSpec, AgentType, Execution, Executor, GatewaySettings, Source, SuiteAgent},
    model_access,
    task::Task,
};

/// One agent on one task once, ready to run.
#[derive(Clone)]
pub struct TrialPlan {
    /// The task.
    pub task: Arc<Task>,
    /// The adapter.
    pub adapter: &'static dyn Adapter,
    /// The agent's name: its type, unless a suite sets one.
    pub name: String,
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// Its CLI package, if a version is configured; otherwise the installed CLI is used.
    pub package: Option<Package>,
    /// When the agent is restarted in the same trial.
    pub policy: Policy,
    /// The agent with the prompt of each step of the task. Empty for an agent that has no prompt,
    /// and for a task without steps.
    pub(crate) step_agents: Arc<[StepAgent]>,
    /// The number of the trial, from 1.
    pub number: u32,
    /// The gateway settings of its test case; those of a suite belong to the whole run.
    pub gateway: Option<GatewaySettings>,
    /// The files, skills, prompt parts and start revision of the agent.
    pub treatment: Arc<PlannedTreatment>,
    /// The agent that it is a variant of.
    pub variant_of: Option<String>,
    /// The agent's section, for its definition.
    pub(crate) section: Arc<Value>,
    /// The definitions of its agent, its task and its evaluators; `None` for judges.
    pub definitions: Option<TrialDefinitions>,
}

/// The agent of one step.
#[derive(Clone)]
pub(crate) struct StepAgent {
    agent: Arc<dyn Agent>,
    policy: Policy,
}

impl TrialPlan {
    /// The plan of each step. A task without steps is its own only step.
    pub(crate) fn steps(&self) -> Vec<TrialPlan> {
        let Some(steps) = &self.task.steps else {
            return vec![self.clone()];
        };
        let all = steps.all.iter().enumerate();
        all.map(|(number, step)| {
            let mut plan = self.clone();
            plan.task = Arc::clone(&step.task);
            if let Some(own) = self.step_agents.get(number) {
                plan.agent = Arc::clone(&own.agent);
                plan.policy = own.policy.clone();
            }
            plan
        })
        .collect()
    }

    /// A built-in agent on a task, instead of the task's own agent.
    pub fn built_in(kind: &str, task: &Arc<Task>) -> Result<TrialPlan, ConfigError> {
        let adapter = agents::find(kind).expect("built-in agents exist");
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
            step_agents: Arc::default(),
            number: 1,
            gateway: None,
            treatment: Arc::default(),
            variant_of: None,
            section: Arc::new(definition::of_kind(adapter)),
            definitions: None,
        }
    }
}

/// Checks that a task can and may run on this machine, without a container.
fn check_sandbox(task: &Task, execution: &Execution) -> Result<(), ConfigError> {
    if !execution.chose_sandbox && task.kind.is_foreign() {
        let message = "the scripts of a task folder and the code of an instance run on this machine only if that is chosen";
        let fault = Fault::new(Span::default(), message);
        let hint = "use `--sandbox docker` (in a suite `sandbox: docker`), or `--sandbox local` if you trust the task";
        return Err(task.source.error(vec![fault.with_hint(hint)]));
    }
    task.needs_container().map_or(Ok(()), Err)
}

/// Whether an agent can run on this machine: one with an image needs a container, and its program must be there.
pub(super) fn check_machine(
    agent: &dyn Agent,
    spec: &AgentSpec,
    source: &Source,
    host: &Host,
) -> Result<(), ConfigError> {
    if agent.image().is_some() {
        let message = "an agent with an `image` requires containers";
        let fault = spec.config.fault("image", message);
        let hint = "add `sandbox: docker` to a suite; without `image` its adapter runs on this machine, as you";
        return Err(source.error(vec![fault.with_hint(hint)]));
    }
    match agent.program() {
        Some(program) if host.find_program(program).is_none() => {
            let message = format!("program not found: {program}");
            let fault = spec.config.fault("command", message);
            let hint = "install it, correct its name, or run the agent in a container that has it";
            Err(source.error(vec![fault.with_hint(hint)]))
        }
        _ => Ok(()),
    }
}

/// The capabilities of a trial's gateway.
pub(super) struct Means<'a> {
    gateway: Option<&'a GatewaySettings>,
    /// The prices of models, if they are needed.
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

    /// Checks that the gateway supports the agent's settings.
    pub(super) fn check(
        &self,
        agent: &dyn Agent,
        spec: &AgentSpec,
        source: &Source,
    ) -> Result<(), ConfigError> {
        if agent.gateway_temperature().is_some() && self.gateway.is_none() {
            let message =
                "`temperature` requires the gateway: the agent's CLI has no option for it";
            let fault = spec.config.fault("temperature", message);
            let hint = "add `gateway: {}` at the top of the file, or remove `temperature`";
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
        let message = format!("no price for `{model}`: a limit in dollars cannot be enforced");
        let holder = [&spec.node, &spec.config];
        let holder = holder.into_iter().find(|node| node.get("model").is_some());
        let fault = match holder {
            Some(node) => node.fault("model", message),
            None => Fault::new(spec.kind_span, message),
        };
        let hint = "add one with `gateway: {prices: FILE}` or `--prices FILE` (`proctor prices` lists the known ones), or limit `budget_tokens` or `budget_calls` instead";
        Err(source.error(vec![fault.with_hint(hint)]))
    }
}

/// The trials of a run, in their start order.
pub struct RunPlan {
    /// The trials.
    pub trials: Vec<TrialPlan>,
    /// The seed of the order.
    pub seed: u64,
    /// The labels that the user gave the run.
    pub labels: BTreeMap<String, String>,
    /// The input files of the plan.
    pub input: Input,
    /// The plan of its experiment.
    pub experiment: Option<ExperimentPlan>,
    /// The cost of all trials after which no trial is started.
    pub max_cost: Option<Usd>,
    /// The search that decides which trials run.
    pub search: Option<BisectionPlan>,
}

/// The input files of a plan.
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

/// Two trials of a run with the same name.
#[derive(Debug, thiserror::Error)]
#[error("duplicate trial of {agent} on `{task}`: rename one of the test cases")]
pub struct SameName {
    /// The agent.
    pub agent: String,
    /// The task.
    pub task: String,
}

impl RunPlan {
    /// A plan of test cases with this many trials each. Without a seed they start in the given
    /// order.
    pub fn of_cases(
        mut cases: Vec<TrialPlan>,
        trials: u32,
        seed: Option<u64>,
        execution: &Execution,
        host: &Host,
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
        definition::define(&mut cases, execution, host);
        let trials = rounds(cases, trials, seed);
        Ok(RunPlan {
            trials,
            seed: seed.unwrap_or(0),
            labels: BTreeMap::new(),
            input: Input::Cases,
            experiment: None,
            max_cost: None,
            search: None,
        })
    }

    /// The number of trials that the run is to have. With adaptive allocation, the plan has more to
    /// choose from.
    pub fn budget(&self) -> usize {
        let Some(experiment) = &self.experiment else {
            return self.trials.len();
        };
        let schedule = &experiment.schedule;
        self.trials.len() / schedule.most_trials().max(1) * schedule.trials
    }

    /// The file of the suite; `None` for test cases.
    pub fn suite_file(&self) -> Option<&Utf8Path> {
        match &self.input {
            Input::Suite { file, .. } => Some(file),
            Input::Cases => None,
        }
    }

    /// Whether the run is a single test case, whose trial is in the run's own directory.
    pub(crate) fn is_flat(&self) -> bool {
        matches!(self.input, Input::Cases) && self.trials.len() == 1
    }

    /// A plan of every agent on every task, with the suite's number of trials. Each round has every
    /// pair once, in its own order, so that a slow provider affects all agents alike.
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
        let settings = suite.experiment.as_ref();
        let experiment = settings.map(|it| experiment::plan(it, suite, seed));
        let experiment = experiment.transpose().unwrap_or_else(|error| {
            errors.push(error);
            None
        });
        if !errors.is_empty() {
            return Err(errors);
        }
        read_sections(&mut pairs, suite, host);
        definition::define(&mut pairs, &suite.execution, host);
        vary::check(suite, &pairs).map_err(|error| vec![error])?;
        let most = experiment.as_ref().map(|it| it.schedule.most_trials());
        let number = most.and_then(|most| u32::try_from(most).ok());
        let mut trials = rounds(pairs, number.unwrap_or(suite.trials), Some(seed));
        if let Some(experiment) = &experiment {
            experiment::arrange(experiment, &mut trials);
        }
        let max_cost = settings.and_then(|it| it.max_cost_usd);
        Ok(RunPlan {
            trials,
            experiment,
            max_cost: max_cost.and_then(Usd::from_dollars),
            search: None,
            seed,
            labels: BTreeMap::new(),
            input: Input::Suite {
                file: suite.source.path().to_owned(),
                text: suite.source.text().to_owned(),
            },
        })
    }
}

/// Give each pair the section of its agent, which is read once for all tasks.
fn read_sections(pairs: &mut [TrialPlan], suite: &ResolvedSuite, host: &Host) {
    let mut sections: BTreeMap<String, Arc<Value>> = BTreeMap::new();
    for pair in pairs {
        let mut agents = suite.agents.iter();
        let Some(agent) = agents.find(|agent| agent.name == pair.name) else {
            continue;
        };
        let read = || {
            let contender = (pair.adapter, pair.agent.as_ref());
            let mut section = definition::of_section(&agent.spec, contender, &suite.folder, host);
            treatment::define(&agent.treatment, host, &mut section);
            section.into()
        };
        let section = sections.entry(pair.name.clone()).or_insert_with(read);
        pair.section = Arc::clone(section);
    }
}

/// Every pair once per round, each round shuffled if there is a seed.
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

/// Merges errors: faults of the same file become one error, without duplicates.
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
        task.check_variables()?;
        if is_local {
            check_sandbox(task, &suite.execution)?;
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
    let (agent, policy) = asked(suite, (contender, adapter, prompt), means, host)?;
    let mut step_agents = Vec::new();
    for step in task.steps.iter().flat_map(|steps| &steps.all) {
        let prompt = step.task.prompt()?;
        let (agent, policy) = asked(suite, (contender, adapter, &prompt), means, host)?;
        let agent = agent.into();
        step_agents.push(StepAgent { agent, policy });
    }
    let is_here = suite.execution.executor == Executor::Local;
    if suite.execution.sandbox == SandboxKind::Local && is_here {
        check_machine(agent.as_ref(), &contender.spec, &suite.source, host)?;
    }
    means.check(agent.as_ref(), &contender.spec, &suite.source)?;
    let planned = (adapter, agent.as_ref());
    let treatment = treatment::plan(contender, planned, task, &suite.source)?;
    Ok(TrialPlan {
        name: contender.name.clone(),
        treatment: Arc::new(treatment),
        variant_of: contender.variant_of.clone(),
        package: package(&contender.spec, adapter, &suite.source)?,
        policy,
        step_agents: step_agents.into(),
        ..TrialPlan::of(Arc::clone(task), adapter, agent)
    })
}

/// An agent of the suite with a prompt, and when it is restarted.
fn asked(
    suite: &ResolvedSuite,
    (contender, adapter, prompt): (&SuiteAgent, &'static dyn Adapter, &PromptSource),
    means: &Means<'_>,
    host: &Host,
) -> Result<(Box<dyn Agent>, Policy), ConfigError> {
    let agent = configure(suite, &contender.spec, adapter, prompt)?;
    let policy = Policy::of(&contender.spec, agent.as_ref(), &suite.source, |spec| {
        let place = (suite.source.as_ref(), suite.folder.as_path());
        let made = self::contender(spec, place, Some(prompt), host)?;
        means.check(made.agent.as_ref(), spec, &suite.source)?;
        Ok(made)
    })?;
    Ok((agent, policy))
}

/// The fallback agent of a trial. If it is the first agent with another model, it has the first
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

/// An agent of a suite with the prompt of a task.
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

/// The CLI package of the version in a section.
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
            format!("`version` has no effect: `{name}` is built in"),
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

/// The adapter of a section; for `auto` the first with an installed CLI.
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
                let message = format!("no agent installed; tried: {}", tried.join(", "));
                let hint = "`proctor doctor` shows how to install them; `null`, `oracle` and `command` need no installation";
                Fault::new(spec.kind_span, message).with_hint(hint)
            }
        }])
    })
}

/// The adapters that `auto` tries, in order: the named ones, else all with a program.
pub fn auto_order(named: &[String]) -> Vec<&'static dyn Adapter> {
    if named.is_empty() {
        let all = ADAPTERS.iter().copied();
        return all.filter(|adapter| adapter.cli().is_some()).collect();
    }
    named.iter().filter_map(|name| agents::find(name)).collect()
}
