//! Tools that a task gives to its agent: MCP servers, and skills of its image.

use camino::Utf8PathBuf;
use serde_json::{Map, Value, json};

/// The tools of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskTools {
    /// MCP servers by name, as in the field `mcpServers` of Claude Code and others.
    pub mcp_servers: Map<String, Value>,
    /// The directory of skills in the image.
    pub skills_dir: Option<Utf8PathBuf>,
}

impl TaskTools {
    /// Whether the task has none.
    pub fn is_empty(&self) -> bool {
        *self == TaskTools::default()
    }

    /// The part of the task's definition that concerns the agent.
    pub(super) fn definition(&self) -> Value {
        json!({"mcp_servers": self.mcp_servers, "skills_dir": self.skills_dir})
    }
}
