//! MCP servers and skills of a task, used by the real Claude Code in the task's container.

use proctor_scripted_model::{Answer, Script, ScriptedModel};
use serde_json::json;

use super::{Rig, models, shell};

/// A server of one tool, `ping`, on standard input and output.
const STDIO: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  version=$(printf '%s' "$line" | sed -n 's/.*"protocolVersion":"\([^"]*\)".*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":"'$version'","capabilities":{"tools":{}},"serverInfo":{"name":"near","version":"1"}}' ;;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"ping","description":"answers","inputSchema":{"type":"object","properties":{}}}]}' ;;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"pong of stdio"}]}' ;;
    *) result='{}' ;;
  esac
  if [ -n "$id" ]; then printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"; fi
done
"#;

/// The same over HTTP.
const HTTP: &str = r#"use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 8123, Listen => 20, ReuseAddr => 1) or die;
while (my $c = $server->accept) {
  my ($method, $length, $body) = ("", 0, "");
  while (my $line = <$c>) {
    $method = $1 if $line =~ /^(\w+) \//;
    $length = $1 if $line =~ /^content-length: (\d+)/i;
    last if $line =~ /^\r?\n$/;
  }
  read($c, $body, $length) if $length;
  my ($id) = $body =~ /"id":(\d+)/;
  my ($version) = $body =~ /"protocolVersion":"([^"]*)"/;
  my $result = '{}';
  $result = '{"protocolVersion":"' . $version . '","capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}' if $body =~ /"method":"initialize"/;
  $result = '{"tools":[{"name":"ping","description":"answers","inputSchema":{"type":"object","properties":{}}}]}' if $body =~ /"method":"tools\/list"/;
  $result = '{"content":[{"type":"text","text":"pong of http"}]}' if $body =~ /"method":"tools\/call"/;
  my ($status, $answer) = ("405 Method Not Allowed", "");
  ($status, $answer) = ("202 Accepted", "") if $method eq "POST";
  ($status, $answer) = ("200 OK", '{"jsonrpc":"2.0","id":' . $id . ',"result":' . $result . '}') if defined $id;
  print $c "HTTP/1.1 $status\r\nContent-Type: application/json\r\nContent-Length: " . length($answer) . "\r\nConnection: close\r\n\r\n$answer";
  close $c;
}
"#;

const TOML: &str = r#"
[environment]
skills_dir = "/srv/skills"
[[environment.mcp_servers]]
name = "near"
transport = "stdio"
command = "sh"
args = ["/srv/near.sh"]
[[environment.mcp_servers]]
name = "web"
transport = "streamable-http"
url = "http://127.0.0.1:8123/mcp"
"#;

fn task(rig: &Rig, image: &str) {
    let folder = rig.context.root().join("tasks/tools");
    let dockerfile = format!(
        "FROM {image}\nWORKDIR /app\nCOPY files/ /srv/\nENTRYPOINT [\"sh\", \"/srv/entry.sh\"]\n"
    );
    for (name, text) in [
        ("task.toml", TOML),
        ("instruction.md", "Use the tools.\n"),
        ("environment/Dockerfile", dockerfile.as_str()),
        ("environment/files/near.sh", STDIO),
        ("environment/files/web.pl", HTTP),
        (
            "environment/files/entry.sh",
            "perl /srv/web.pl & exec \"$@\"\n",
        ),
        (
            "environment/files/skills/tides/SKILL.md",
            "---\nname: tides\ndescription: Tells when the water of the harbour is high\n---\nAsk the moon.\n",
        ),
        (
            "tests/test.sh",
            "test -s /app/done && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
        ),
        ("solution/solve.sh", "echo ok > done\n"),
    ] {
        let path = folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
}

#[test]
fn claude_code_uses_mcp_servers_and_skills_of_a_task() {
    let Some(rig) = Rig::new() else { return };
    let Some(image) = models::claude_image(&rig) else {
        return;
    };
    task(&rig, image);
    let model = ScriptedModel::start_blocking(Script::new([
        Answer::tool_use("mcp__near__ping", json!({})),
        Answer::tool_use("mcp__web__ping", json!({})),
        Answer::tool_use("Bash", json!({"command": "echo ok > /app/done"})),
        Answer::text("done"),
    ]));
    let model = model.unwrap();
    let agents = json!([
        {"name": "claude", "type": "claude-code"},
        {"name": "floor", "type": "null"},
        {"name": "ceiling", "type": "oracle"},
    ]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/tools"}]}));
    models::run(&rig, &model, &path);
    let record = rig.record("claude");
    assert_eq!(record["status"], "passed", "{record:#}");
    let servers = record["agent"]["mcp_servers"].to_string();
    assert!(
        servers.contains("near") && servers.contains("web"),
        "{servers}"
    );
    let printed = rig.printed("claude");
    assert!(printed.contains("pong of stdio"), "{printed}");
    assert!(printed.contains("pong of http"), "{printed}");
    let asked: Vec<String> = model
        .turns()
        .iter()
        .map(|turn| turn.body.to_string())
        .collect();
    let skill = "Tells when the water of the harbour is high";
    assert!(asked.iter().any(|body| body.contains(skill)), "{asked:?}");
    for (agent, reward) in [("floor", 0.0), ("ceiling", 1.0)] {
        let record = rig.record(agent);
        assert_eq!(
            record["verdicts"][0]["metrics"]["reward"], reward,
            "{record:#}"
        );
    }
    // An agent that cannot use them is excluded.
    let agents = json!([shell("other", "echo ok > done")]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/tools"}]}));
    rig.run(&path, &["--retry-infra", "0"]).assert_code(3);
    let record = rig.record("other");
    assert_eq!(record["status"], "error", "{record:#}");
    assert_eq!(
        record["errors"][0]["code"], "TASK_TOOLS_UNSUPPORTED",
        "{record:#}"
    );
}
