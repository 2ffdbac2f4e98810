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
    let names = declared(file).map_err(unusable)?;
    Ok(if require == Some(false) {
        Vec::new()
    } else {
        names
    })
}

/// The servers in a file of `mcp_config`; none if the file is not valid.
pub fn mcp_servers(file: &Utf8Path) -> Vec<String> {
    declared(file).unwrap_or_default()
}

fn declared(file: &Utf8Path) -> Result<Vec<String>, String> {
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    let servers: Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    let names = servers.get("mcpServers").and_then(Value::as_object);
    Ok(names
        .into_iter()
        .flat_map(|names| names.keys().cloned())
        .collect())
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

/// Report servers that did not connect, by an agent that reports no others.
pub(super) fn report_failed<'a>(names: impl Iterator<Item = &'a str>, host: &mut dyn SessionHost) {
    let servers = names.map(|name| McpServer {
        name: name.to_owned(),
        status: "failed".to_owned(),
    });
    let servers: Vec<McpServer> = servers.collect();
    host.event(SessionEvent::McpServers(&servers));
}
