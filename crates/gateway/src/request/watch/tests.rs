//! Tests of the watcher: the same treatment in the requests of every API.

use serde_json::json;

use super::*;

const RULES: &str =
    "# Rules\n\nAlways   write \"tests\" first.\nPrefer small functions over clever ones.\n";

fn watch_all() -> Watcher {
    Watcher::new(vec![
        Watch::Text(TextProbe::of(RULES)),
        Watch::Skill {
            name: "deploy".to_owned(),
            description: TextProbe::of("Ships a release to the staging cluster."),
            body: TextProbe::of("Run the blue-green script with both regions."),
        },
        Watch::McpServer("issue-tracker".to_owned()),
    ])
}

/// The call and part of a treatment's first appearance, and the call of its first use.
type Delivered = (Option<(u64, RequestPart)>, Option<u64>);

#[track_caller]
fn check(wire: Wire, requests: &[Value], expected: [Delivered; 3]) {
    let watcher = watch_all();
    for (number, request) in requests.iter().enumerate() {
        watcher.observe(wire, request.to_string().as_bytes(), number as u64 + 1);
    }
    let seen = watcher.report().into_iter().map(|it| {
        let reached = it.reached.map(|it| (it.call, it.place));
        (reached, it.used)
    });
    assert_eq!(seen.collect::<Vec<_>>(), expected, "{wire:?}");
}

const EXPECTED: [Delivered; 3] = [
    (Some((2, RequestPart::System)), None),
    (Some((2, RequestPart::Tools)), Some(3)),
    (Some((2, RequestPart::Tools)), Some(3)),
];

#[test]
fn delivery_is_seen_in_anthropic_requests() {
    let tools = json!([
        {"name": "Skill", "description": "Skills:\n- deploy: Ships a release to the staging\n cluster."},
        {"name": "mcp__issue-tracker__search", "description": "search"},
    ]);
    let system = json!([{"type": "text", "text": format!("Context:\n{RULES}")}]);
    let title = json!({"system": "A title.", "messages": [{"role": "user", "content": "hi"}]});
    let first = json!({"system": system, "tools": tools, "messages": []});
    let second = json!({"system": system, "tools": tools, "messages": [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "name": "Skill", "input": {"skill": "deploy"}},
            {"type": "tool_use", "name": "mcp__issue-tracker__search", "input": {}},
        ]},
    ]});
    check(Wire::Anthropic, &[title, first, second], EXPECTED);
}

/// Claude Code lists the names of tools, and sends a definition when the model asks for it.
#[test]
fn deferred_tools_of_a_server_are_delivered_by_name() {
    let listed = |line: &str| {
        let text = format!("Deferred tools:\nWebFetch\n{line}\n\nAgents:");
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]})
    };
    for (line, is_delivered) in [
        ("mcp__issue-tracker__search", true),
        ("mcp__other__search", false),
        ("use mcp__issue-tracker__search for issues", false),
    ] {
        let watcher = watch_all();
        watcher.observe(Wire::Anthropic, listed(line).to_string().as_bytes(), 1);
        let seen = &watcher.report()[2];
        assert_eq!(seen.reached.is_some(), is_delivered, "{line}");
        assert_eq!(seen.used, None, "{line}");
    }
}

#[test]
fn delivery_is_seen_in_openai_chat_requests() {
    let tools = json!([
        {"type": "function", "function": {"name": "skill", "description": "Ships a release to the staging cluster."}},
        {"type": "function", "function": {"name": "issue_tracker_search"}},
    ]);
    let system = json!({"role": "system", "content": RULES});
    let first = json!({"messages": [system], "tools": tools});
    let second = json!({"tools": tools, "messages": [system, {"role": "assistant", "tool_calls": [
        {"function": {"name": "skill", "arguments": "{\"name\": \"deploy\"}"}},
        {"function": {"name": "issue_tracker_search", "arguments": "{}"}},
    ]}]});
    check(Wire::OpenAiChat, &[json!({}), first, second], EXPECTED);
}

#[test]
fn delivery_is_seen_in_openai_responses_requests() {
    let tools = json!([
        {"type": "function", "name": "x", "description": "Ships a release to the staging cluster."},
        {"type": "function", "name": "mcp__issue_tracker__search"},
    ]);
    let developer = json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": RULES}]});
    let first = json!({"input": [developer], "tools": tools});
    let second = json!({"tools": tools, "input": [
        developer,
        {"type": "function_call", "name": "mcp__issue_tracker__search", "arguments": "{}"},
        {"type": "function_call_output", "output": "Run the blue-green script with both regions."},
    ]});
    check(Wire::OpenAiResponses, &[json!({}), first, second], EXPECTED);
}

#[test]
fn delivery_is_seen_in_gemini_requests() {
    let tools = json!([{"functionDeclarations": [
        {"name": "activate_skill", "description": "Ships a release to the staging cluster."},
        {"name": "mcp_issue-tracker_search"},
    ]}]);
    let system = json!({"parts": [{"text": RULES}]});
    let first = json!({"systemInstruction": system, "tools": tools, "contents": []});
    let second = json!({"systemInstruction": system, "tools": tools, "contents": [
        {"role": "model", "parts": [
            {"functionCall": {"name": "activate_skill", "args": {"name": "deploy"}}},
            {"functionCall": {"name": "mcp_issue-tracker_search", "args": {}}},
        ]},
    ]});
    check(Wire::Gemini, &[json!({}), first, second], EXPECTED);
}

#[test]
fn words_of_the_model_do_not_count() {
    let request = json!({"messages": [
        {"role": "assistant", "content": [
            {"type": "text", "text": RULES},
            {"type": "tool_use", "name": "Write", "input": {"content": RULES}},
        ]},
        {"role": "user", "content": [{"type": "text", "text": "Prefer small functions."}]},
    ]});
    check(
        Wire::Anthropic,
        &[request],
        [(None, None), (None, None), (None, None)],
    );
}

#[test]
fn file_that_the_agent_reads_is_seen_with_line_numbers() {
    let numbered = "     1\t# Rules\n     3\tAlways   write \"tests\" first.\n     4\tPrefer small functions over clever ones.";
    let request = json!({"messages": [{"role": "user", "content": [
        {"type": "tool_result", "content": [{"type": "text", "text": numbered}]},
    ]}]});
    let reached = Some((1, RequestPart::ToolResult));
    check(
        Wire::Anthropic,
        &[request],
        [(reached, None), (None, None), (None, None)],
    );
}

#[test]
fn short_text_cannot_be_recognized() {
    assert!(TextProbe::of("").is_empty() && TextProbe::of("# Hi\n\n- no\n").is_empty());
    let long = "One line of prose that is long.\n".to_owned() + &"word \n".repeat(1000);
    assert_eq!(TextProbe::of(&long).parts.len(), 1);
    let lines: Vec<String> = (0..1000).map(|n| format!("the line number {n}")).collect();
    assert_eq!(TextProbe::of(&lines.join("\n")).parts.len(), MOST_PARTS);
}

#[test]
fn session_events_are_read_without_a_gateway() {
    let watcher = watch_all();
    watcher
        .observe_session(br#"{"type": "system", "tools": ["Bash", "mcp__issue-tracker__search"]}"#);
    watcher.observe_session(b"not JSON");
    let call = json!({"type": "assistant", "message": {"role": "assistant", "content": [
        {"type": "tool_use", "name": "Skill", "input": {"skill": "deploy"}},
    ]}});
    watcher.observe_session(call.to_string().as_bytes());
    let seen = watcher.report();
    assert_eq!(seen[0], Observation::default());
    assert_eq!(seen[1].used, Some(0));
    assert_eq!(seen[2].reached.map(|it| it.place), Some(RequestPart::Tools));
}
