//! MCP servers of a task as the real CLI reads them from its launch.

use camino::Utf8Path;
use proctor_agents::agent::{AgentSection, LaunchContext, PromptSource};
use proctor_document::parse_yaml;
use proctor_record::record::cli::Installed;
use proctor_testkit::TestContext;
use serde_json::{Value, json};

#[test]
fn codex_reads_the_mcp_servers_of_a_task() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_proctor"));
    if !context.install_real("codex") {
        return;
    }
    let servers = json!({
        "near": {"type": "stdio", "command": "sh", "args": ["-c", "a \"b\"\n\\"]},
        "web.1": {"type": "http", "url": "http://web/mcp", "headers": {"X-A": "b c"}},
        "plain": {"type": "http", "url": "http://web/mcp", "headers": {}},
    });
    write_launch(&context, &servers);
    let codex = context.bin().join("codex");
    let list = context.program(&codex, ["mcp", "list", "--json"]).run();
    list.assert_code(0);
    let mut read: Vec<Value> = serde_json::from_str(&list.stdout).unwrap();
    read.sort_by_key(|server| server["name"].to_string());
    let parts = |server: &Value| {
        let transport = &server["transport"];
        json!([
            server["name"],
            transport["command"],
            transport["args"],
            transport["url"],
            transport["http_headers"]
        ])
    };
    let read: Vec<Value> = read.iter().map(parts).collect();
    assert_eq!(
        json!(read),
        json!([
            ["near", "sh", ["-c", "a \"b\"\n\\"], null, null],
            ["plain", null, null, "http://web/mcp", {}],
            ["web.1", null, null, "http://web/mcp", {"X-A": "b c"}],
        ])
    );
}

/// Writes the files that the adapter gives to Codex.
fn write_launch(context: &TestContext, servers: &Value) {
    let config = parse_yaml("{}").unwrap();
    let prompt = PromptSource::Text("Do it.".to_owned());
    let section = AgentSection {
        node: &config,
        agent_name: None,
        model: None,
        config: &config,
        folder: context.root(),
        prompt: Some(&prompt),
    };
    let adapter = proctor_agents::find("codex").unwrap();
    let Ok(agent) = adapter.configure(&section) else {
        panic!("the adapter has no required settings");
    };
    let cli = Installed {
        path: "/bin/codex".into(),
        version: None,
        help: String::new(),
    };
    let launch = agent.launch(&LaunchContext {
        workspace: Utf8Path::new("/work"),
        home: &context.home(),
        scratch: context.root(),
        prompt: "Do it.",
        cli: Some(&cli),
        env: &std::collections::BTreeMap::new(),
        is_root: true,
        socket: None,
        reference: None,
        definitions: &std::collections::BTreeMap::new(),
        endpoint: None,
        script: None,
        mcp_servers: servers.as_object().unwrap(),
    });
    for (path, bytes) in launch.unwrap().files {
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, bytes).unwrap();
    }
}
