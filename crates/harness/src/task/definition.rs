//! The definition of a task: all that the agent gets, and all that judges it, without names and places of this
//! machine.

use proctor_agents::agent::PromptSource;
use proctor_record::{fs::dir, record::AgentLimitsRecord};
use serde_json::{Value, json};

use super::{Asks, Files, Step, Task};
use crate::{
    config::{History, Hook, Reference, Solution},
    evaluate::{Evaluator, of_image},
    workspace::Environment,
};

impl Task {
    /// The input of the agent. The content of a repo at its revision is known only when a trial runs.
    pub(crate) fn definition(&self) -> Value {
        let mut definition = json!({
            "kind": self.kind,
            "prompt": self.prompt_definition(),
            "limits": AgentLimitsRecord::from(&self.limits),
            "announces_deadline": self.limits.tells_deadline,
            "max_output_bytes": self.limits.output.max_bytes,
            "pre_execution": self.hooks.pre_execution.iter().map(of_hook).collect::<Vec<_>>(),
        });
        if let Some(install) = &self.install {
            definition["install"] = json!([install.command, install.timeout.as_secs()]);
        }
        match &self.files {
            Files::Repo(checkout) => {
                definition["revision"] = json!(checkout.revision());
                definition["full_history"] = json!(checkout.history == History::Full);
            }
            Files::Existing { base, .. } => definition["revision"] = json!(base),
            Files::Image(environment) => {
                definition["environment"] = of_environment(environment);
            }
        }
        if !self.tools.is_empty() {
            definition["tools"] = self.tools.definition();
        }
        if let Some(steps) = &self.steps {
            let all: Vec<Value> = steps.all.iter().map(Step::definition).collect();
            definition["steps"] = all.into();
            definition["step_strategy"] = json!(steps.strategy.as_str());
        }
        definition
    }

    /// How the work is judged.
    pub(crate) fn judging_definition(&self) -> Value {
        let evaluators = self.evaluators.iter().map(Evaluator::definition);
        let mut definition = json!({
            "evaluators": evaluators.collect::<Vec<_>>(),
            "patterns": self.patterns,
            "reference": self.reference.as_ref().map(of_reference),
        });
        if let Some(steps) = &self.steps {
            let of = |step: &Step| step.task.reference.as_ref().map(of_reference);
            definition["solutions"] = steps.all.iter().map(of).collect::<Vec<_>>().into();
        }
        definition
    }

    fn prompt_definition(&self) -> Value {
        let prompt = match &self.asks {
            Asks::Prompt(prompt) => Ok(prompt.clone()),
            Asks::Section(spec) => spec.prompt(&self.folder),
        };
        match prompt {
            Ok(PromptSource::Text(text)) => json!(text),
            Ok(PromptSource::WorkspaceFile(file)) => json!({"workspace_file": file}),
            // Only agents without a prompt run such a task.
            Err(_) => Value::Null,
        }
    }
}

fn of_hook(hook: &Hook) -> Value {
    match hook {
        Hook::Script(script) => json!({
            "command": script.command,
            "args": script.args,
            "env": script.env,
        }),
        Hook::Webhook(_) | Hook::Database(_) => Value::Null,
    }
}

fn of_environment(environment: &Environment) -> Value {
    let network = environment.network.as_ref();
    let mut definition = json!({
        "image": of_image(&environment.image),
        "cpus": environment.cpus,
        "memory_mb": environment.memory_mb,
        "storage_mb": environment.storage_mb,
        "pids": environment.pids,
        "workdir": environment.workdir,
        "env": environment.env,
        "user": environment.user,
        "network": network.map(|it| format!("{it:?}")),
        "healthcheck": environment.healthcheck.as_ref().map(|it| &it.command),
    });
    if let Some(compose) = &environment.compose {
        // Paths of this machine are left out; the files below the task count.
        definition["compose"] = json!(compose.definition());
    }
    definition
}

fn of_reference(reference: &Reference) -> Value {
    match reference {
        Reference::Branch(branch) => json!({"revision": branch}),
        Reference::Patch(path) | Reference::Folder(path) => json!({"sha256": dir::digest(path)}),
        Reference::PatchText(text) => json!({"patch": &**text}),
        Reference::Script(Solution {
            script: Some(text), ..
        }) => json!({"script": text}),
        Reference::Script(solution) => json!({"sha256": dir::digest(&solution.folder)}),
    }
}
