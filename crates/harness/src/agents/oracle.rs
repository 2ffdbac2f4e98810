//! The `oracle` agent applies the reference solution. Its score is a task's ceiling: a task
//! that it fails is broken.

use super::plain::{self, UnreadPrompt};
use crate::{
    agent::{Adapter, Agent, Launch, LaunchContext, LaunchError},
    config::{AgentSection, Fault, PromptSource},
};

/// The adapter.
pub struct Oracle;

impl Adapter for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn summary(&self) -> &'static str {
        "applies the reference solution: the ceiling of a task"
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<UnreadPrompt>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        section
            .config
            .read::<UnreadPrompt>()
            .map_err(|fault| vec![fault])?;
        Ok(Box::new(Applies))
    }
}

struct Applies;

impl Agent for Applies {
    fn prompt(&self) -> Option<&PromptSource> {
        None
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        let patch = context.reference.ok_or_else(|| LaunchError {
            message: "the oracle has no reference solution to apply".to_owned(),
            hint: Some("name one in the test case: `reference: solution.patch`, or `expected_source: branch` with `expected`".to_owned()),
            code: "ORACLE_NO_REFERENCE",
        })?;
        Ok(plain::launch(
            &[
                "git",
                "apply",
                "--allow-empty",
                "--whitespace=nowarn",
                patch.as_str(),
            ],
            context,
        ))
    }
}
