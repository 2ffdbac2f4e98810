//! The `oracle` agent applies the reference solution. Its score is a task's ceiling: a task that it
//! fails is broken.

use proctor_document::Fault;

use super::plain::{self, UnreadPrompt};
use crate::agent::{
    Adapter, Agent, AgentSection, Launch, LaunchContext, LaunchError, PromptSource, ReferenceAt,
};

/// Runs the script like Harbor, so that a script without a `#!` line works.
const RUN: &str = "\"$0\"";

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
        UnreadPrompt::check(section.config)?;
        Ok(Box::new(Applies))
    }
}

struct Applies;

impl Agent for Applies {
    fn prompt(&self) -> Option<&PromptSource> {
        None
    }

    fn wants_reference(&self) -> bool {
        true
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        match context.reference {
            Some(ReferenceAt::Patch(patch)) => {
                let apply = ["git", "apply", "--allow-empty", "--whitespace=nowarn"];
                let argv = [apply.as_slice(), &[patch.as_str()]].concat();
                Ok(plain::launch(&argv, context))
            }
            Some(ReferenceAt::Script { folder, env }) => {
                let script = folder.join("solve.sh");
                let mut launch = plain::launch(&["sh", "-c", RUN, script.as_str()], context);
                let noninteractive = ("DEBIAN_FRONTEND".to_owned(), "noninteractive".to_owned());
                launch.env.extend([noninteractive]);
                launch.env.extend(env.clone());
                let place = ("SOLUTION_DIR".to_owned(), folder.to_string());
                launch.env.extend([place]);
                Ok(launch)
            }
            None => Err(no_reference()),
        }
    }
}

/// The error of a task that has no reference solution.
pub fn no_reference() -> LaunchError {
    LaunchError {
        message: "the task has no reference solution for the oracle".to_owned(),
        hint: Some("name one in the test case: `reference: solution.patch`, or `expected_source: branch` with `expected`; a task's folder has solution/solve.sh, a repo a `reference_tag`".to_owned()),
        code: "ORACLE_NO_REFERENCE".to_owned(),
    }
}
