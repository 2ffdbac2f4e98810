//! The treatment of an agent on one task: its files and skills with their places, checked against the task.

use std::collections::BTreeMap;

use proctor_agents::agent::{Adapter, Agent};
use proctor_document::{ConfigError, Fault};
use proctor_sandbox::host::Host;
use serde_json::{Map, Value, json};

use super::definition;

use crate::{
    config::{
        FileSource, PromptParts, Skill, Source, SuiteAgent, Treatment, TreatmentPath, TreatmentRoot,
    },
    evaluate::Evaluator,
    task::{Files, Task},
    workspace::Checkout,
};

/// The treatment of an agent on one task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlannedTreatment {
    /// The files, with those of the skills.
    pub files: BTreeMap<TreatmentPath, FileSource>,
    /// The skills, with their folders in the workspace.
    pub skills: Vec<(String, Skill)>,
    /// Additions to the prompt.
    pub prompt: PromptParts,
    /// The revision that the agent starts from, instead of the task's.
    pub revision: Option<String>,
    /// The MCP servers that its settings name.
    pub mcp_servers: Vec<String>,
}

impl PlannedTreatment {
    /// Whether the agent gets nothing of its own.
    pub fn is_empty(&self) -> bool {
        *self == PlannedTreatment::default()
    }

    /// The checkout that the agent starts from.
    pub(crate) fn start(&self, checkout: &Checkout) -> Checkout {
        match &self.revision {
            None => checkout.clone(),
            Some(revision) => Checkout {
                branch: Some(revision.clone()),
                commit: None,
                ..checkout.clone()
            },
        }
    }
}

/// Places and checks the treatment of an agent on a task.
pub(super) fn plan(
    contender: &SuiteAgent,
    (adapter, agent): (&dyn Adapter, &dyn Agent),
    task: &Task,
    source: &Source,
) -> Result<PlannedTreatment, ConfigError> {
    let treatment = &contender.treatment;
    let refused = |message: String, hint: &str| {
        let fault = Fault::new(contender.spec.kind_span, message).with_hint(hint);
        Err(source.error(vec![fault]))
    };
    let name = &contender.name;
    let mut files = treatment.files.clone();
    let mut skills = Vec::new();
    if let (false, None) = (treatment.skills.is_empty(), adapter.skills_folder()) {
        let message = format!("`skills` of `{name}`: `{}` has no skills", adapter.name());
        return refused(message, "remove them, or use `files`");
    }
    for skill in &treatment.skills {
        let place = format!(
            "{}/{}",
            adapter.skills_folder().unwrap_or_default(),
            skill.name
        );
        for (path, content) in &skill.files {
            let path = TreatmentPath::in_workspace(format!("{place}/{path}"));
            let content = FileSource::Content(content.clone());
            if files.insert(path.clone(), content).is_some() {
                let message = format!("`{path}` of `{name}` is in `files` and in `skills`");
                return refused(message, "remove one of them");
            }
        }
        skills.push((place, skill.clone()));
    }
    if let Some((message, hint)) = problem(contender, &files, agent, task) {
        return refused(message, hint);
    }
    let mcp_config = contender.spec.config.get("mcp_config");
    let folder = source.path().parent().unwrap_or("".into());
    let mcp_config = mcp_config.and_then(|node| node.as_str());
    let servers = mcp_config.map(|file| proctor_agents::mcp_servers(&folder.join(file)));
    Ok(PlannedTreatment {
        files,
        skills,
        prompt: treatment.prompt.clone(),
        revision: treatment.revision.clone(),
        mcp_servers: servers.unwrap_or_default(),
    })
}

/// Why a treatment does not fit the agent or the task, with a hint.
fn problem(
    contender: &SuiteAgent,
    files: &BTreeMap<TreatmentPath, FileSource>,
    agent: &dyn Agent,
    task: &Task,
) -> Option<(String, &'static str)> {
    let (name, of) = (&contender.name, &task.name);
    let is_repo = matches!(task.files, Files::Repo(_));
    let treatment = &contender.treatment;
    if agent.prompt().is_none() && treatment.prompt != PromptParts::default() {
        let message = format!("the prompt parts of `{name}` have no effect: it has no prompt");
        return Some((message, "remove them"));
    }
    for (path, source) in files {
        if path.root == TreatmentRoot::Home && agent.inherits_user() {
            let message = format!("`{path}` of `{name}` would change your own HOME");
            return Some((
                message,
                "remove the setting that makes the agent use your HOME",
            ));
        }
        if matches!(source, FileSource::Git { .. }) && !is_repo {
            let message = format!("`{path}` of `{name}`: task `{of}` is not a repository");
            return Some((message, "name a file instead of `git:…`"));
        }
        if path.root == TreatmentRoot::Workspace
            && let Some((why, by)) = claimed(task, path.path.as_str())
        {
            let message =
                format!("`{path}` of agent `{name}` is {why} of task `{of}` (evaluator `{by}`)");
            return Some((
                message,
                "choose another path: the task's own file is judged",
            ));
        }
    }
    treatment.revision.as_ref()?;
    let message = |why: &str| format!("`ref` of `{name}` cannot be used with task `{of}`: {why}");
    let hint = "use `files` with `git:REVISION:PATH` instead";
    let mut evaluators = task.evaluators.iter();
    if !is_repo {
        Some((message("it is not a repository"), "remove it"))
    } else if evaluators.any(|it| it.hidden_revision().is_some()) {
        let why = "its hidden tests are defined by the difference to its own revision";
        Some((message(why), hint))
    } else if agent.wants_reference() || task.evaluators.iter().any(Evaluator::needs_reference) {
        let why = "its reference solution is a change of its own revision";
        Some((message(why), hint))
    } else {
        None
    }
}

/// The first evaluator that takes this file from the task, and why.
pub(crate) fn claimed<'a>(task: &'a Task, path: &str) -> Option<(&'static str, &'a str)> {
    let mut evaluators = task.evaluators.iter();
    evaluators.find_map(|it| Some((it.claims(path)?, it.name.as_str())))
}

/// The keys of a treatment in the agent's definition. An empty treatment has none, so that digests of agents without
/// one do not depend on it.
pub(super) fn define(treatment: &Treatment, host: &Host, section: &mut Value) {
    let Value::Object(section) = section else {
        return;
    };
    let files: Map<String, Value> = treatment
        .files
        .iter()
        .map(|(path, source)| {
            let source = match source {
                FileSource::Content(content) => json!({"sha256": content.digest()}),
                FileSource::Git { revision, path } => json!({"git": revision, "path": path}),
                FileSource::Removed => json!("removed"),
            };
            (path.to_string(), source)
        })
        .collect();
    if !files.is_empty() {
        section.insert("files".to_owned(), files.into());
    }
    let skills = treatment.skills.iter();
    let skills: Map<String, Value> = skills
        .map(|skill| (skill.name.clone(), json!({"sha256": skill.digest()})))
        .collect();
    if !skills.is_empty() {
        section.insert("skills".to_owned(), skills.into());
    }
    for (key, text) in treatment.prompt.texts() {
        let text = host.secrets.replace(text, definition::SECRET);
        section.insert(key.to_owned(), json!(text));
    }
    if let Some(revision) = &treatment.revision {
        section.insert("ref".to_owned(), json!(revision));
    }
}
