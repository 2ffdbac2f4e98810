//! The `null` agent does nothing. Its score is a task's floor: a task that it passes is broken.

use std::collections::BTreeMap;

use proctor_document::Fault;

use super::plain::{self, UnreadPrompt};
use crate::agent::{
    Adapter, Agent, AgentSection, Launch, LaunchContext, LaunchError, PromptSource,
};

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
        UnreadPrompt::check(section.config)?;
        Ok(Box::new(NullAgent))
    }
}

struct NullAgent;

impl Agent for NullAgent {
    fn prompt(&self) -> Option<&PromptSource> {
        None
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        Ok(plain::launch(does_nothing(context.env), context))
    }
}

/// A command that succeeds at once. Windows has no `true`; there the environment contains the
/// shell, which differs from a container's.
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
    fn null_command_exists_on_all_platforms() {
        let env = |name: &str| BTreeMap::from([(name.to_owned(), String::new())]);
        assert_eq!(does_nothing(&env("PATH")), ["true"]);
        assert_eq!(does_nothing(&env("COMSPEC"))[0], "cmd.exe");
    }
}
