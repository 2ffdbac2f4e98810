//! What the settings of all CLIs have in common: prompt and model, flags that must be listed in
//! the installed version's help, and options of other agents that are refused by name.

use std::collections::BTreeMap;

use proctor_document::Fault;
use serde::de::DeserializeOwned;

use crate::{
    agent::{
        AgentSection, Authentication, LaunchContext, LaunchError, PromptSource, resolve_prompt,
    },
    record::cli::Installed,
};

/// What every agent is given.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) prompt: PromptSource,
    pub(super) model: Option<String>,
}

/// `agent.config` keys that some other agent has, and what to do here instead: so that
/// changing `agent.type` alone never drops a setting silently.
const ELSEWHERE: &[(&str, &str)] = &[
    ("agent_name", "leave it out"),
    ("agents", "leave it out"),
    (
        "allowed_tools",
        "leave it out: every tool is allowed in the trial's own workspace",
    ),
    ("append_system_prompt", "put it in the prompt"),
    ("include_partial_messages", "leave it out"),
    (
        "inherit",
        "leave it out: this agent always has a HOME of its own; name variables in `env`",
    ),
    ("max_tokens", "leave it out"),
    (
        "max_turns",
        "use the test case's `timeout` and `idle_timeout`",
    ),
    ("mcp_config", "leave it out"),
    ("message_timeout", "use the test case's `idle_timeout`"),
    ("output_format", "leave it out"),
    (
        "permission_mode",
        "leave it out: everything is allowed in the trial's own workspace",
    ),
    (
        "permission_policy",
        "leave it out: everything is allowed in the trial's own workspace",
    ),
    (
        "prompt_delivery",
        "leave it out: prompts of any length arrive",
    ),
    ("pty_mode", "leave it out"),
    ("system_prompt", "put it in the prompt"),
    ("temperature", "leave it out"),
    ("transport", "leave it out"),
];

/// The settings of `agent`, unless there are options among them that it cannot honour. `own` has what to use instead where
/// it has a way of its own; `taken` names keys of others that it does have.
pub(super) fn read<T: DeserializeOwned>(
    section: &AgentSection<'_>,
    agent: &str,
    own: &[(&str, &str)],
    taken: &[&str],
) -> Result<T, Vec<Fault>> {
    let refused = refuse(section, agent, own, taken);
    if refused.is_empty() {
        section.config.read().map_err(|fault| vec![fault])
    } else {
        Err(refused)
    }
}

fn refuse(
    section: &AgentSection<'_>,
    agent: &str,
    own: &[(&str, &str)],
    taken: &[&str],
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (key, usual) in ELSEWHERE {
        if taken.contains(key) {
            continue;
        }
        let instead = own.iter().find(|(name, _)| name == key);
        let hint = instead.map_or(*usual, |(_, hint)| hint);
        let span = if section.config.get(key).is_some() {
            section.config.key_span_of(key)
        } else if *key == "agent_name" && section.agent_name.is_some() {
            section.node.key_span_of(key)
        } else {
            continue;
        };
        let message = format!("{agent} has no option for `{key}`");
        faults.push(Fault::new(span, message).with_hint(hint));
    }
    faults
}

/// The prompt and the model, from wherever they are written.
pub(super) fn common(
    section: &AgentSection<'_>,
    prompt: Option<&str>,
    prompt_file: Option<&str>,
    model: Option<&str>,
) -> Result<Common, Vec<Fault>> {
    let mut faults = Vec::new();
    if let (Some(outer), Some(inner)) = (section.model, model)
        && outer != inner
    {
        let message =
            format!("`agent.model` says `{outer}` and `agent.config.model` says `{inner}`");
        faults.push(
            section
                .config
                .fault("model", message)
                .with_hint("keep one of the two"),
        );
    }
    let model = model.or(section.model);
    let is_name = |model: &str| {
        !model.is_empty() && !model.starts_with('-') && !model.contains(char::is_whitespace)
    };
    if model.is_some_and(|model| !is_name(model)) {
        faults.push(model_fault(section, "this is no name of a model"));
    }
    match resolve_prompt(prompt, prompt_file, section) {
        Ok(prompt) if faults.is_empty() => Ok(Common {
            prompt,
            model: model.map(str::to_owned),
        }),
        Ok(_) => Err(faults),
        Err(fault) => {
            faults.insert(0, fault);
            Err(faults)
        }
    }
}

/// A complaint about the model, wherever it is written.
pub(super) fn model_fault(section: &AgentSection<'_>, message: impl Into<String>) -> Fault {
    let inner = section.config.get("model").is_some();
    let node = if inner { section.config } else { section.node };
    node.fault("model", message)
}

/// The model as `maker/name`: as it is written, or by what the names of the makers' models
/// begin with. `google` is what Google is called. `None` when the maker is not known.
pub(super) fn qualified(model: &str, google: &str) -> Option<String> {
    let begins = |words: &[&str]| words.iter().any(|word| model.starts_with(word));
    let maker = match model {
        _ if model.contains('/') => return Some(model.to_owned()),
        _ if begins(&["claude-"]) => "anthropic",
        _ if begins(&["gpt-", "chatgpt-", "codex-", "o1", "o3", "o4"]) => "openai",
        _ if begins(&["gemini-"]) => google,
        _ => return None,
    };
    Some(format!("{maker}/{model}"))
}

/// A command line that is fitted to the installed version.
pub(super) struct CommandLine<'a> {
    cli: &'a Installed,
    code: &'static str,
    pub(super) argv: Vec<String>,
}

impl<'a> CommandLine<'a> {
    /// Begin with the program, then `words`. `code` is for what the version cannot do.
    pub(super) fn new(
        context: &LaunchContext<'a>,
        words: &[&str],
        code: &'static str,
    ) -> Result<CommandLine<'a>, LaunchError> {
        let cli = context.cli.ok_or_else(|| LaunchError {
            message: "the agent's program was not found".to_owned(),
            hint: None,
            code,
        })?;
        let mut line = CommandLine {
            cli,
            code,
            argv: vec![cli.path.to_string()],
        };
        line.push(words);
        Ok(line)
    }

    /// Add words that every version takes.
    pub(super) fn push(&mut self, words: &[&str]) {
        let words = words.iter().map(|word| (*word).to_owned());
        self.argv.extend(words);
    }

    /// Add a flag (with its values) that this version lists in its help, or one that only
    /// makes it quieter and can be left out.
    pub(super) fn if_listed(&mut self, words: &[&str]) {
        let flag = words.first().copied().unwrap_or_default();
        if self.cli.help.is_empty() || self.cli.has_flag(flag) {
            self.push(words);
        }
    }

    /// Add a flag that the user asked for, or say that this version has none.
    pub(super) fn listed(&mut self, flag: &str, value: &str) -> Result<(), LaunchError> {
        if !self.cli.help.is_empty() && !self.cli.has_flag(flag) {
            let version = self.cli.version.as_deref().unwrap_or("of this version");
            return Err(LaunchError {
                message: format!("{} {version} has no option {flag}", self.name()),
                hint: Some("install another version, or leave the setting out".to_owned()),
                code: self.code,
            });
        }
        self.push(&[flag, value]);
        Ok(())
    }

    fn name(&self) -> &str {
        self.cli.path.file_name().unwrap_or("the program")
    }
}

/// The login by one of these variables, or what is known without.
pub(super) fn authentication(
    env: &BTreeMap<String, String>,
    names: &[&str],
    otherwise: Authentication,
) -> Authentication {
    key_in(env, names).map_or(otherwise, |name| Authentication::Found(name.to_owned()))
}

/// Whether one of these variables has a value, and which.
pub(super) fn key_in<'a>(env: &BTreeMap<String, String>, names: &[&'a str]) -> Option<&'a str> {
    let has = |name: &&&str| env.get(**name).is_some_and(|value| !value.is_empty());
    names.iter().find(has).copied()
}
