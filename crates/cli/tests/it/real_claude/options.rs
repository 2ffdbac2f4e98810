//! Settings reach the real Claude Code, and nothing of the user's does.

use proctor_scripted_model::{Answer, Script};
use proctor_testkit::llm;
use serde_json::{Value, json};

use super::{LATEST, Trial, codes, expect};

/// A server of one tool, `ping`, for `mcp_config`.
pub(super) const MCP_SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  version=$(printf '%s' "$line" | sed -n 's/.*"protocolVersion":"\([^"]*\)".*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":"'$version'","capabilities":{"tools":{}},"serverInfo":{"name":"tiny","version":"1"}}' ;;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"ping","description":"answers","inputSchema":{"type":"object","properties":{}}}]}' ;;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"pong"}]}' ;;
    *) result='{}' ;;
  esac
  if [ -n "$id" ]; then
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
  fi
done
"#;

fn writes() -> Script {
    llm::writes_file_then_says("hello.txt", "hi\n", "written")
}

#[test]
fn model_length_and_system_prompt_reach_the_api() {
    let Some(trial) = Trial::of(LATEST, llm::says("done")) else {
        return;
    };
    let appended = "Speak `briefly`, \"$USER\".";
    let config = json!({
        "model": "claude-sonnet-4-5",
        "max_tokens": 1234,
        "append_system_prompt": appended,
        "include_partial_messages": true,
    });
    trial.run(config).assert_code(0);
    let turn = &trial.model.turns()[0];
    assert_eq!(turn.model(), Some("claude-sonnet-4-5"));
    assert_eq!(turn.body["max_tokens"], 1234);
    assert!(
        turn.system_text().contains(appended),
        "{}",
        turn.system_text()
    );
    let record = trial.record();
    expect(&record, "/agent/model_requested", "claude-sonnet-4-5");
    expect(&record, "/agent/model", "claude-sonnet-4-5");
    expect(&record, "/usage/input_tokens", llm::USAGE.input);
    expect(&record, "/counts/unknown_events", 0);
    assert_eq!(trial.last_event("stream_event")["type"], "stream_event");
}

#[test]
fn a_system_prompt_replaces_the_one_of_the_cli() {
    let Some(trial) = Trial::of(LATEST, llm::says("done")) else {
        return;
    };
    let prompt = "You are a parrot.";
    trial.run(json!({"system_prompt": prompt})).assert_code(0);
    let system = trial.model.turns()[0].system_text();
    assert!(system.contains(prompt) && system.len() < 1000, "{system}");
}

#[test]
fn a_turn_limit_is_giving_up() {
    for version in [LATEST, "2.1.30"] {
        let Some(trial) = Trial::of(version, writes()) else {
            continue;
        };
        trial.run(json!({"max_turns": 1})).assert_code(1);
        let record = trial.record();
        expect(&record, "/outcome", "gave_up");
        expect(&record, "/usage/input_tokens", llm::USAGE.input);
        assert_eq!(codes(&record)[0], "CLAUDE_MAX_TURNS");
        assert_eq!(trial.model.turns().len(), 1);
    }
}

#[test]
fn custom_agent_of_the_test_case_is_not_in_the_change() {
    for version in [LATEST, "2.1.30"] {
        let Some(trial) = Trial::of(version, writes()) else {
            continue;
        };
        let zed = json!({"description": "Reviews", "prompt": "You are Zed of the test case."});
        let config = json!({"agent_name": "zed", "agents": {"zed": zed}});
        trial.run(config).assert_code(0);
        let system = trial.model.turns()[0].system_text();
        assert!(system.contains("You are Zed of the test case."), "{system}");
        expect(&trial.record(), "/diff/files_changed", 1);
    }
}

#[test]
fn custom_agent_next_to_test_case_is_not_part_of_the_change() {
    let Some(trial) = Trial::of(LATEST, writes()) else {
        return;
    };
    let folder = trial.ctx.root().join("cases/.claude/agents");
    fs_err::create_dir_all(&folder).unwrap();
    let text = "---\nname: zed\ndescription: Reviews\n---\n\nYou are Zed of the file.\n";
    fs_err::write(folder.join("zed.md"), text).unwrap();
    trial.run(json!({"agent_name": "zed"})).assert_code(0);
    let system = trial.model.turns()[0].system_text();
    assert!(system.contains("You are Zed of the file."), "{system}");
    expect(&trial.record(), "/diff/files_changed", 1);
    let workspace = trial.ctx.only_run_dir().join("src-modified");
    assert!(workspace.join("hello.txt").is_file() && !workspace.join(".claude").exists());
}

#[test]
fn an_unknown_agent_is_an_error_that_lists_the_known_ones() {
    let Some(trial) = Trial::of(LATEST, writes()) else {
        return;
    };
    let zed = json!({"description": "d", "prompt": "p"});
    let output = trial.run(json!({"agent_name": "zad", "agents": {"zed": zed}}));
    output.assert_code(2);
    assert!(
        output.stderr.contains("the known ones are: zed"),
        "{output}"
    );
    assert!(trial.model.requests().is_empty());
}

#[test]
fn the_tools_of_an_mcp_server_can_be_called_and_the_server_ends_with_the_trial() {
    let Some(trial) = Trial::of(
        LATEST,
        Script::new([
            Answer::tool_use("mcp__tiny__ping", json!({})),
            Answer::text("pinged"),
        ]),
    ) else {
        return;
    };
    let cases = trial.ctx.root().join("cases");
    let server = cases.join("server.sh");
    fs_err::write(&server, MCP_SERVER).unwrap();
    let servers = json!({"mcpServers": {"tiny": {"command": "/bin/sh", "args": [server]}}});
    fs_err::write(cases.join("mcp.json"), servers.to_string()).unwrap();
    trial.run(json!({"mcp_config": "mcp.json"})).assert_code(0);
    let log = trial.ctx.log();
    expect(&log, "/tool_calls/0/name", "mcp__tiny__ping");
    let result = log["tool_calls"][0]["result"].to_string();
    assert!(result.contains("pong"), "{log:#}");
    expect(&trial.record(), "/diff/files_changed", 0);
}

/// Writes a file under these permissions; whether it is there afterwards, and how many uses of
/// tools were refused.
#[track_caller]
fn wrote(version: &str, config: Value) -> Option<(bool, u64)> {
    let trial = Trial::of(version, writes())?;
    trial.run(config).assert_code(0);
    let record = trial.record();
    let refused = record["counts"]["permission_denials"].as_u64().unwrap();
    Some((record["diff"]["files_changed"] == 1, refused))
}

#[test]
fn permission_requests_are_answered_by_the_policy() {
    let config = |policy: &str, tools: Value| {
        let mut config = json!({"transport": "control", "permission_policy": policy});
        if !tools.is_null() {
            config["allowed_tools"] = tools;
        }
        config
    };
    for (config, expected) in [
        (config("allow_all", Value::Null), (true, 0)),
        (config("deny", Value::Null), (false, 1)),
        (config("allow_listed", json!(["Write"])), (true, 0)),
        (
            config("allow_listed", json!(["Read", "Bash(git *)"])),
            (false, 1),
        ),
    ] {
        if let Some(found) = wrote(LATEST, config.clone()) {
            assert_eq!(found, expected, "{config}");
        }
    }
}

#[test]
fn permission_requests_on_a_websocket_are_answered_by_the_policy() {
    let config = json!({"transport": "websocket", "permission_policy": "deny"});
    if let Some(found) = wrote("2.1.30", config) {
        assert_eq!(found, (false, 1));
    }
}

#[test]
fn allowed_tools_are_patterns() {
    let commands = ["git status --short", "touch refused.txt"];
    let uses = commands
        .map(|command| Answer::tool_use("Bash", json!({"command": command, "description": "d"})));
    let script = Script::new(uses.into_iter().chain([Answer::text("done")]));
    let Some(trial) = Trial::of(LATEST, script) else {
        return;
    };
    trial
        .run(json!({"allowed_tools": ["Read", "Bash(git *)"]}))
        .assert_code(0);
    let log = trial.ctx.log();
    expect(&log, "/tool_calls/0/is_error", false);
    expect(&log, "/tool_calls/1/is_error", true);
    expect(&trial.record(), "/counts/permission_denials", 1);
    expect(&trial.record(), "/diff/files_changed", 0);
}

#[test]
fn only_the_key_is_taken_from_the_user() {
    let script =
        llm::runs_command_then_says("env; ls -a ~ ~/.claude; cat ~/.claude/CLAUDE.md", "looked");
    let Some(trial) = Trial::of(LATEST, script) else {
        return;
    };
    let config = trial.ctx.home().join(".claude");
    fs_err::create_dir_all(config.join("skills/leaked")).unwrap();
    fs_err::write(config.join("CLAUDE.md"), "LEAKED-MEMORY").unwrap();
    fs_err::write(
        config.join("settings.json"),
        json!({"env": {"LEAKED_SETTING": "1"}, "model": "leaked-model"}).to_string(),
    )
    .unwrap();
    let skill = "---\nname: leaked\ndescription: LEAKED-SKILL\n---\nx\n";
    fs_err::write(config.join("skills/leaked/SKILL.md"), skill).unwrap();
    let output = trial
        .program(json!({}))
        .env("LEAKED_SECRET", "LEAKED-VALUE")
        .env("AWS_SECRET_ACCESS_KEY", "LEAKED-AWS")
        .run();
    output.assert_code(0);
    trial.assert_tidy();
    let turns = trial.model.turns();
    assert_eq!(turns[0].api_key(), Some("sk-ant-fake"));
    let seen: String = turns.iter().map(|turn| turn.body.to_string()).collect();
    assert!(!seen.to_lowercase().contains("leaked"), "{seen}");
    let result = turns[1].last_tool_result().unwrap();
    let home = result
        .lines()
        .find_map(|line| line.strip_prefix("HOME="))
        .unwrap();
    assert!(
        home.starts_with(trial.ctx.root().join("tmp").as_str()),
        "{home}"
    );
}

#[test]
fn inherit_user_includes_the_users_settings() {
    let Some(trial) = Trial::of(LATEST, llm::says("done")) else {
        return;
    };
    let config = trial.ctx.home().join(".claude");
    fs_err::create_dir_all(&config).unwrap();
    fs_err::write(config.join("CLAUDE.md"), "Speak like a pirate.").unwrap();
    // The CLI's own temporary files are the user's then, and stay.
    trial
        .program(json!({"inherit": "user"}))
        .run()
        .assert_code(0);
    trial.ctx.assert_nothing_left("");
    let asked = trial.model.turns()[0].body.to_string();
    assert!(asked.contains("Speak like a pirate."), "{asked}");
}

#[test]
fn usage_includes_sub_agents() {
    for version in [LATEST, "2.1.30"] {
        let script = llm::delegates_then_says("count the files", "there are 7", "seven");
        let Some(trial) = Trial::of(version, script) else {
            continue;
        };
        trial.run(json!({})).assert_code(0);
        let record = trial.record();
        expect(&record, "/usage/input_tokens", 3 * llm::USAGE.input);
        expect(&record, "/usage/output_tokens", 3 * llm::USAGE.output);
        expect(&record, "/usage/lower_bound", false);
        // The main thread alone is what the result's `usage` says.
        let main = trial.last_event("result")["usage"]["input_tokens"].clone();
        assert_eq!(main, 2 * llm::USAGE.input);
    }
}

#[test]
fn background_processes_are_awaited_and_counted() {
    for transport in ["print", "control"] {
        let delegate = json!({
            "description": "scripted", "prompt": "count the files", "subagent_type": "general-purpose",
            "run_in_background": true,
        });
        let write = json!({"file_path": "hello.txt", "content": "hi\n"});
        // Later than the time that is given to a CLI that has ended its work.
        let late = std::time::Duration::from_secs(4);
        let script = Script::new([
            Answer::tool_use("Task", delegate).usage(llm::USAGE),
            Answer::text("started it").usage(llm::USAGE),
            Answer::text("the client reconnected").usage(llm::USAGE),
            Answer::tool_use("Write", write)
                .usage(llm::USAGE)
                .when("count the files")
                .after(late),
            Answer::text("seven")
                .usage(llm::USAGE)
                .when("count the files"),
        ]);
        let Some(trial) = Trial::of(LATEST, script) else {
            return;
        };
        trial.run(json!({"transport": transport})).assert_code(0);
        let record = trial.record();
        expect(&record, "/diff/files_changed", 1);
        expect(&record, "/usage/input_tokens", 5 * llm::USAGE.input);
        expect(&record, "/usage/output_tokens", 5 * llm::USAGE.output);
        expect(&record, "/process/exit_code", 0);
        let messages = trial.ctx.log()["messages"].to_string();
        assert!(messages.contains("the client reconnected"), "{messages}");
    }
}
