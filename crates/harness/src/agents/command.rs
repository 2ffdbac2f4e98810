//! The `command` agent: any program as an agent, with no code. The prompt comes on standard
//! input and in the file named by `PROCTOR_PROMPT_FILE`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::plain::PlainSession;
use crate::{
    agent::{Adapter, Agent, Input, Launch, LaunchContext, LaunchError, Terminal},
    config::{AgentSection, Fault, PromptSource, resolve_prompt},
};

/// The adapter.
pub struct Command;

/// `agent.config`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// What is asked: this or `prompt_file`.
    prompt: Option<String>,
    /// A file with what is asked.
    prompt_file: Option<String>,
    /// The program and its arguments. A path with a slash is relative to the test case.
    #[schemars(length(min = 1))]
    command: Vec<String>,
    /// More environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
}

impl Adapter for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn summary(&self) -> &'static str {
        "any program, with the prompt on its standard input"
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Settings>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let mut settings: Settings = section.config.read().map_err(|fault| vec![fault])?;
        let span = section
            .config
            .get("command")
            .map_or(section.config.span, |node| node.span);
        let Some(program) = settings
            .command
            .first_mut()
            .filter(|program| !program.is_empty())
        else {
            return Err(vec![Fault {
                span,
                message: "`command` names no program".to_owned(),
                hint: None,
            }]);
        };
        if program.contains('/') {
            *program = section.folder.join(program.as_str()).into_string();
        }
        let prompt = resolve_prompt(
            settings.prompt.as_deref(),
            settings.prompt_file.as_deref(),
            section,
        )
        .map_err(|fault| vec![fault])?;
        Ok(Box::new(Program { prompt, settings }))
    }
}

struct Program {
    prompt: PromptSource,
    settings: Settings,
}

impl Agent for Program {
    fn prompt(&self) -> Option<&PromptSource> {
        Some(&self.prompt)
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.settings.env
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        let file = context.scratch.join("prompt.md");
        let mut env = context.env.clone();
        env.insert("PROCTOR_PROMPT_FILE".to_owned(), file.to_string());
        env.extend(self.settings.env.clone());
        Ok(Launch {
            argv: self.settings.command.clone(),
            env,
            files: vec![(file, context.prompt.as_bytes().to_vec())],
            collect: Vec::new(),
            input: Input::Bytes(context.prompt.as_bytes().to_vec()),
            terminal: Terminal::Pipes,
            message_deadline: None,
            session: Box::new(PlainSession::default()),
        })
    }
}
