//! The `null` agent does nothing. Its score is a task's floor: a task that it passes is broken.

use std::collections::BTreeMap;

use proctor_document::Fault;

use super::plain::{self, UnreadPrompt};
use crate::agent::{
    Adapter, Agent, AgentSection, Launch, LaunchContext, LaunchError, PromptSource,
};

/// The adapter.
pub struct Null;

impl Adapter for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn summary(&self) -> &'static str {
        "does nothing: the floor of a task"
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<UnreadPrompt>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        section
            .config
            .read::<UnreadPrompt>()
            .map_err(|fault| vec![fault])?;
        Ok(Box::new(Nothing))
    }
}

struct Nothing;

impl Agent for Nothing {
    fn prompt(&self) -> Option<&PromptSource> {
        None
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        Ok(plain::launch(does_nothing(context.env), context))
    }
}

/// A command that ends well at once. Windows has no `true`; its environment, which is not that of a container on
/// it, names the shell.
fn does_nothing(env: &BTreeMap<String, String>) -> &'static [&'static str] {
    if env.keys().any(|name| name.eq_ignore_ascii_case("ComSpec")) {
        &["cmd.exe", "/d", "/c", "exit", "0"]
    } else {
        &["true"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_command_that_does_nothing_everywhere() {
        let env = |name: &str| BTreeMap::from([(name.to_owned(), String::new())]);
        assert_eq!(does_nothing(&env("PATH")), ["true"]);
        assert_eq!(does_nothing(&env("COMSPEC"))[0], "cmd.exe");
    }
}
