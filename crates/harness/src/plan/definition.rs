//! The definitions of the agent, the task and the evaluators of a planned trial. Trials of different definitions are
//! never pooled, so that a definition has all that changes what an agent does, and nothing else: no secrets, no places
//! of this machine, and no parallelism.

use std::sync::Arc;

use camino::Utf8Path;
use proctor_agents::agent::{Adapter, Agent};
use proctor_record::{
    fs::dir,
    record::{
        LimitsRecord,
        definition::{Definition, DefinitionRecord, PairDigests},
    },
    secrets::is_telling,
};
use proctor_sandbox::{Network, SandboxKind, host::Host};
use serde_json::{Map, Value, json};

use super::run_plan::TrialPlan;
use crate::{
    config::{AgentSpec, Execution, GatewaySettings, RecordingMode},
    task::Task,
};

/// Settings that belong to the task.
const OF_THE_TASK: [&str; 2] = ["prompt", "prompt_file"];
/// A larger file is known by its size.
const LARGEST_FILE: u64 = 64 << 20;
/// The text that stands in the place of a secret.
pub(super) const SECRET: &str = "<secret>";

/// The definitions of a trial.
#[derive(Clone, Debug)]
pub struct TrialDefinitions {
    /// The agent, and where and how it runs.
    pub agent: Arc<Definition>,
    /// The prompt and the input of the agent.
    pub task: Arc<Definition>,
    /// How its work is judged.
    pub evaluators: Arc<Definition>,
}

impl TrialDefinitions {
    /// The digests, for the plan's file.
    pub(crate) fn pair(&self, agent: &str, task: &str) -> PairDigests {
        PairDigests {
            agent: agent.to_owned(),
            task: task.to_owned(),
            agent_digest: self.agent.digest.clone(),
            task_digest: self.task.digest.clone(),
            evaluators_digest: self.evaluators.digest.clone(),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> [&Arc<Definition>; 3] {
        [&self.agent, &self.task, &self.evaluators]
    }

    /// The agent's, for its record.
    pub(crate) fn agent_record(&self) -> DefinitionRecord {
        DefinitionRecord::new(&self.agent.digest)
    }

    /// The task's, for its record.
    pub(crate) fn task_record(&self) -> DefinitionRecord {
        DefinitionRecord::new(&self.task.digest)
    }
}

/// Gives each trial its definitions. Shared data is read once.
pub(super) fn define(trials: &mut [TrialPlan], execution: &Execution, host: &Host) {
    let mut tasks: Vec<(Arc<Task>, [Arc<Definition>; 2])> = Vec::new();
    let mut agents: Vec<(Value, Arc<Definition>)> = Vec::new();
    for trial in trials {
        let known = tasks
            .iter()
            .find(|(task, _)| Arc::ptr_eq(task, &trial.task));
        let [task, evaluators] = if let Some((_, known)) = known {
            known.clone()
        } else {
            let made = of_task(&trial.task, host);
            tasks.push((Arc::clone(&trial.task), made.clone()));
            made
        };
        let whole = of_agent(trial, execution);
        let known = agents.iter().find(|(value, _)| *value == whole);
        let agent = if let Some((_, known)) = known {
            Arc::clone(known)
        } else {
            let made = Arc::new(Definition::new(whole.clone()));
            agents.push((whole, Arc::clone(&made)));
            made
        };
        trial.definitions = Some(TrialDefinitions {
            agent,
            task,
            evaluators,
        });
    }
}

/// The definitions of a task and of its evaluators.
pub(crate) fn of_task(task: &Task, host: &Host) -> [Arc<Definition>; 2] {
    let portable = Portable {
        folder: &task.folder,
        host,
    };
    [task.definition(), task.judging_definition()]
        .map(|value| Arc::new(Definition::new(portable.value(value))))
}

/// The agent's section, with the content of the files that it names.
pub(super) fn of_section(
    spec: &AgentSpec,
    (adapter, agent): (&dyn Adapter, &dyn Agent),
    folder: &Utf8Path,
    host: &Host,
) -> Value {
    let portable = Portable { folder, host };
    let section = spec.section(adapter, folder);
    let mut config: Map<String, Value> = spec.config.read().unwrap_or_default();
    config.retain(|key, _| !OF_THE_TASK.contains(&key.as_str()));
    let part = |key: &str| {
        let node = spec.node.get(key)?;
        node.read::<Value>().ok().map(|it| portable.files(it))
    };
    let beside = agent.definitions_folder().map(|name| folder.join(name));
    let beside = beside.filter(|path| path.is_dir());
    json!({
        "type": adapter.name(),
        "agent_name": section.agent_name,
        "model": section.model,
        "version": spec.version,
        "config": portable.files(Value::Object(config)),
        "retry": part("retry"),
        "loop": part("loop"),
        "script": agent.script().map(content),
        "definitions": beside.map(|path| dir::digest(&path)),
    })
}

/// An agent without settings.
pub(super) fn of_kind(adapter: &dyn Adapter) -> Value {
    json!({"type": adapter.name()})
}

/// The agent with all that applies to it where it runs.
fn of_agent(trial: &TrialPlan, execution: &Execution) -> Value {
    let mut whole = Value::clone(&trial.section);
    let gateway = trial.gateway.as_ref().or(execution.gateway.as_ref());
    whole["sandbox"] = of_sandbox(execution);
    whole["gateway"] = gateway.map(of_gateway).into();
    whole["passed_variables"] = json!(execution.pass_through);
    whole
}

fn of_sandbox(execution: &Execution) -> Value {
    if execution.sandbox == SandboxKind::Local {
        return json!({"kind": "local"});
    }
    let network = execution.network.as_ref().map(|network| match network {
        Network::Allowlist(hosts) => json!({"allowlist": hosts}),
        other => json!(other.as_str()),
    });
    json!({
        "kind": "container",
        "image": execution.image,
        "limits": LimitsRecord::from(execution.limits),
        "network": network,
        "without_gateway": execution.refuses_gateway,
    })
}

fn of_gateway(gateway: &GatewaySettings) -> Value {
    let script = gateway.script.as_ref();
    let replay = gateway.recordings.as_ref().map(|it| it.mode);
    json!({
        "budget_usd": gateway.budget_usd,
        "budget_tokens": gateway.budget_tokens,
        "budget_calls": gateway.budget_calls,
        "models": gateway.models,
        "rename": gateway.rename,
        "temperature": gateway.temperature.map(|it| format!("{it:?}")),
        "max_tokens": gateway.max_tokens.map(|it| format!("{it:?}")),
        "server_tools": gateway.server_tools.map(|it| format!("{it:?}")),
        "retries": gateway.retries,
        "faults": gateway.faults.as_ref().map(|it| format!("{it:?}")),
        "script": script.map(|it| Definition::new(format!("{it:?}").into()).digest),
        "replay": replay.as_ref().is_some_and(|it| matches!(it, RecordingMode::Replay(_))),
        "litellm": gateway.litellm.is_some(),
    })
}

/// Makes values the same on every machine.
struct Portable<'a> {
    /// The folder that paths start from.
    folder: &'a Utf8Path,
    host: &'a Host,
}

impl Portable<'_> {
    /// The same without secrets and places of this machine.
    fn value(&self, value: Value) -> Value {
        map_strings(value, &|text| self.text(&text).into())
    }

    /// The same with the content of each file that a text names.
    fn files(&self, value: Value) -> Value {
        map_strings(value, &|text| {
            let path = self.folder.join(&text);
            if text.is_empty() || text.contains('\n') || !path.is_file() {
                return self.text(&text).into();
            }
            let is_relative = Utf8Path::new(&text).is_relative();
            let name = path.file_name().unwrap_or_default();
            json!({"file": if is_relative { &text } else { name }, "content": content(&path)})
        })
    }

    fn text(&self, text: &str) -> String {
        let mut text = self.host.secrets.replace(text, SECRET).into_owned();
        let home = self.host.home.as_deref();
        for (path, name) in [(Some(self.folder), "."), (home, "~")] {
            let path = path.map(Utf8Path::as_str).unwrap_or_default();
            if path.len() > 1 {
                text = text.replace(path, name);
            }
        }
        text
    }
}

/// The digest of a file, or the size of a large one.
fn content(path: &Utf8Path) -> String {
    match fs_err::metadata(path) {
        Ok(about) if about.len() > LARGEST_FILE => format!("{} bytes", about.len()),
        _ => dir::digest(path),
    }
}

/// The same value with each text in it replaced.
fn map_strings(value: Value, replace: &dyn Fn(String) -> Value) -> Value {
    match value {
        Value::String(text) => replace(text),
        Value::Array(items) => {
            let items = items.into_iter();
            items.map(|item| map_strings(item, replace)).collect()
        }
        Value::Object(map) => {
            let entries = map.into_iter();
            let replaced = entries.map(|(key, value)| {
                let value = match value {
                    Value::String(_) if is_telling(&key) => SECRET.into(),
                    other => map_strings(other, replace),
                };
                (key, value)
            });
            Value::Object(replaced.collect())
        }
        other => other,
    }
}
