//! What users write: test cases and project settings, read with their places in the file so
//! that every complaint can point at the line.

mod node;

pub use node::{Node, Span, Value};

use camino::{Utf8Path, Utf8PathBuf};

/// Something wrong in a config file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// The `agent` section of a test case, as an adapter gets it.
#[derive(Debug)]
pub struct AgentSection<'a> {
    /// The whole section.
    pub node: &'a Node,
    /// `agent.agent_name`.
    pub agent_name: Option<&'a str>,
    /// `agent.model`.
    pub model: Option<&'a str>,
    /// `agent.config`; an empty map when it is left out.
    pub config: &'a Node,
    /// The folder of the test case.
    pub folder: &'a Utf8Path,
}

/// Where a prompt comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptSource {
    /// The text itself.
    Text(String),
    /// A file in the workspace (it was not found beside the test case).
    WorkspaceFile(Utf8PathBuf),
}
