//! The `null` agent does nothing. Its score is a task's floor: a task that it passes is broken.

use super::plain::{self, UnreadPrompt};
use crate::{
    agent::{Adapter, Agent, Launch, LaunchContext, LaunchError},
    config::{AgentSection, Fault, PromptSource},
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
        Ok(plain::launch(&["true"], context))
    }
}
