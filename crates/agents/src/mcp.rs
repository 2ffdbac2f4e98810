//! MCP servers that a test case gives to an agent: the names in the file of `mcp_config`.

use camino::Utf8Path;
use proctor_document::Fault;
use proctor_record::session::{McpServer, SessionEvent, SessionHost};
use serde_json::Value;

use crate::agent::AgentSection;

/// The servers that the agent cannot do without: those of the file, unless `require_mcp` is false.
pub(super) fn required(
    section: &AgentSection<'_>,
    file: Option<&Utf8Path>,
    require: Option<bool>,
) -> Result<Vec<String>, Fault> {
    let fault = |key: &str, message: String| section.config.fault(key, message);
    let Some(file) = file else {
        return if require.is_none() {
            Ok(Vec::new())
        } else {
            let message = "`require_mcp` does nothing without `mcp_config`";
            Err(fault("require_mcp", message.to_owned()))
        };
    };
    let unusable = |problem: String| {
        let name = file.file_name().unwrap_or_default();
        fault(
            "mcp_config",
            format!("mcp_config `{name}` cannot be used: {problem}"),
        )
    };
    let bytes = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
    let servers: Value = serde_json::from_slice(&bytes)
        .map_err(|error| unusable(format!("it is not JSON: {error}")))?;
    let names = servers.get("mcpServers").and_then(Value::as_object);
    let names = names.into_iter().flat_map(|names| names.keys().cloned());
    Ok(if require == Some(false) {
        Vec::new()
    } else {
        names.collect()
    })
}

/// Report a list of servers, each with a `name` and a `status`.
pub(super) fn report(servers: &Value, host: &mut dyn SessionHost) {
    let Some(servers) = servers.as_array() else {
        return;
    };
    let status = |server: &Value| {
        server
            .get("status")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let servers = servers.iter().filter_map(|server| {
        Some(McpServer {
            name: server.get("name")?.as_str()?.to_owned(),
            status: status(server).unwrap_or_else(|| "unknown".to_owned()),
        })
    });
    let servers: Vec<McpServer> = servers.collect();
    host.event(SessionEvent::McpServers(&servers));
}
