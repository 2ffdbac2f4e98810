//! MCP servers that a test case gives to an agent: the names in the file of `mcp_config`. Those of
//! a task, as a file.

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::Fault;
use proctor_record::session::{McpServer, SessionEvent, SessionHost};
use serde_json::{Value, json};

use crate::agent::{AgentSection, LaunchContext};

/// The file with the MCP servers of the task, in the trial's scratch directory.
const TASK_FILE: &str = "task-mcp.json";

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

/// The file with the MCP servers of the task, in the format that most CLIs share.
pub(super) fn task_file(context: &LaunchContext<'_>) -> Option<(Utf8PathBuf, Vec<u8>)> {
    if context.mcp_servers.is_empty() {
        return None;
    }
    let text = json!({ "mcpServers": context.mcp_servers }).to_string();
    Some((context.scratch.join(TASK_FILE), text.into_bytes()))
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

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::{
        agent::{Adapter, Launch},
        registry,
        replay::{Start, endpoint},
    };

    fn servers() -> Map<String, Value> {
        let servers = json!({
            "near \"x\"": {"type": "stdio", "command": "sh", "args": ["-c", "a \"b\""]},
            "web": {"type": "http", "url": "http://web/mcp", "headers": {"X-A": "b c"}},
        });
        servers.as_object().unwrap().clone()
    }

    fn launch(adapter: &dyn Adapter) -> Launch {
        let start = Start {
            help: "--mcp-config --strict-mcp-config --additional-mcp-config --output-format --input-format --verbose --model",
            endpoint: Some(endpoint()),
            mcp_servers: servers(),
            ..Start::default()
        };
        let config = json!({"prompt": "x", "model": "claude-sonnet-4-5"});
        start.launch(adapter, config).unwrap()
    }

    fn file(launch: &Launch, end: &str) -> String {
        let found = launch
            .files
            .iter()
            .find(|(path, _)| path.as_str().ends_with(end));
        let (_, bytes) = found.unwrap_or_else(|| panic!("no {end}"));
        String::from_utf8(bytes.clone()).unwrap()
    }

    #[test]
    fn agents_get_the_servers_of_a_task() {
        let adapter = |name| registry::find(name).unwrap();
        for (name, arg) in [
            ("claude-code", "/scratch/task-mcp.json"),
            ("copilot-cli", "@/scratch/task-mcp.json"),
        ] {
            let launch = launch(adapter(name));
            assert!(launch.argv.iter().any(|it| it == arg), "{:?}", launch.argv);
            let file: Value = serde_json::from_str(&file(&launch, "task-mcp.json")).unwrap();
            assert_eq!(file, json!({"mcpServers": servers()}), "{name}");
        }
        let settings = file(&launch(adapter("gemini-cli")), ".gemini/settings.json");
        let settings: Value = serde_json::from_str(&settings).unwrap();
        assert_eq!(settings["mcpServers"], json!(servers()));
        let settings = file(&launch(adapter("opencode")), "opencode.json");
        let settings: Value = serde_json::from_str(&settings).unwrap();
        let expected = json!({
            "near \"x\"": {"type": "local", "command": ["sh", "-c", "a \"b\""]},
            "web": {"type": "remote", "url": "http://web/mcp", "headers": {"X-A": "b c"}},
        });
        assert_eq!(settings["mcp"], expected);
        insta::assert_snapshot!(
            file(&launch(adapter("codex")), "config.toml").split_once("[mcp").unwrap().1,
            @r#"
        _servers."near \"x\""]
        required = true
        command = "sh"
        args = ["-c", "a \"b\""]
        [mcp_servers."web"]
        required = true
        url = "http://web/mcp"
        http_headers = { "X-A" = "b c" }
        "#
        );
    }
}
