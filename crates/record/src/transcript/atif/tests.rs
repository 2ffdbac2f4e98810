//! Tests of trajectories.

use super::*;
use crate::{
    outcome::{Ending, Outcome},
    session::Conclusion,
    transcript::{AgentContext, Times},
    usage::{Figures, UsageSource},
};

fn message(role: Role, content: &str) -> SessionEvent<'_> {
    SessionEvent::Message {
        role,
        kind: MessageKind::Text,
        content: Text::Plain(content),
        timestamp: None,
        parent: None,
    }
}

fn call<'a>(id: Option<&'a str>, arguments: &'a str, parent: Option<&'a str>) -> SessionEvent<'a> {
    SessionEvent::ToolCall {
        id,
        name: "Bash",
        arguments: Text::Json(arguments),
        parent,
    }
}

fn result<'a>(id: &'a str, content: &'a str) -> SessionEvent<'a> {
    SessionEvent::ToolResult {
        id,
        content: Some(Text::Plain(content)),
        is_error: false,
    }
}

fn account() -> Account {
    let mut conclusion = Conclusion::of(Outcome::Completed, Vec::new());
    conclusion.usage = Some(Usage {
        total: Figures {
            input_tokens: Some(10),
            output_tokens: Some(5),
            cache_read_tokens: Some(100),
            cache_creation_tokens: Some(1000),
            ..Figures::default()
        },
        source: UsageSource::ResultEvent,
        lower_bound: false,
        per_model: std::collections::BTreeMap::new(),
    });
    let agent = AgentContext {
        name: "claude-code",
        ..AgentContext::default()
    };
    Account::new(conclusion, agent, &Ending::default(), Times::default())
}

fn trajectory(known: SessionInfo, events: &[SessionEvent<'_>]) -> Value {
    let mut writer = AtifWriter::new(Vec::new(), known);
    for event in events {
        writer.event(*event);
    }
    let bytes = writer.finish(&account()).unwrap();
    let trajectory: Value = serde_json::from_slice(&bytes).unwrap();
    check(&trajectory);
    trajectory
}

/// Checks the rules of the format.
fn check(trajectory: &Value) {
    let steps = trajectory["steps"].as_array().unwrap();
    assert!(!steps.is_empty());
    for (index, step) in steps.iter().enumerate() {
        assert_eq!(step["step_id"], index as u64 + 1);
        assert!(step["message"].is_string());
        let calls = step["tool_calls"].as_array().cloned().unwrap_or_default();
        let results = step["observation"]["results"].as_array();
        assert!(
            step["source"] == "agent" || (calls.is_empty() && step["reasoning_content"].is_null())
        );
        assert!(calls.iter().all(|call| call["arguments"].is_object()));
        for result in results.into_iter().flatten() {
            let source = &result["source_call_id"];
            assert!(source.is_null() || calls.iter().any(|call| call["tool_call_id"] == *source));
        }
    }
}

#[test]
fn turn_is_a_step_with_calls_and_results() {
    let known = SessionInfo {
        prompt: Some("Do it.".to_owned()),
        system: Some("You are an agent.".to_owned()),
        tools: vec![json!({"type": "function", "function": {"name": "Bash"}})],
    };
    let trajectory = trajectory(
        known,
        &[
            message(Role::User, "Do it."),
            message(Role::Assistant, "I look."),
            call(Some("a"), r#"{"command":"ls"}"#, None),
            call(Some("b"), r#"{"command":"pwd"}"#, None),
            result("b", "/"),
            result("a", "x.rs"),
            message(Role::Assistant, "Done."),
        ],
    );
    let sources: Vec<_> = trajectory["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["source"].clone())
        .collect();
    assert_eq!(sources, ["system", "user", "agent", "agent"]);
    assert_eq!(
        trajectory["steps"][2],
        json!({"step_id": 3, "source": "agent", "message": "I look.", "tool_calls": [
            {"tool_call_id": "a", "function_name": "Bash", "arguments": {"command": "ls"}},
            {"tool_call_id": "b", "function_name": "Bash", "arguments": {"command": "pwd"}},
        ], "observation": {"results": [
            {"source_call_id": "a", "content": "x.rs"},
            {"source_call_id": "b", "content": "/"},
        ]}})
    );
    assert_eq!(
        trajectory["agent"]["tool_definitions"][0]["type"],
        "function"
    );
    assert_eq!(
        trajectory["final_metrics"],
        json!({"total_steps": 4, "total_prompt_tokens": 1110, "total_completion_tokens": 5,
            "total_cached_tokens": 100, "extra": {"source": "result_event"}})
    );
}

#[test]
fn turns_of_a_sub_agent_are_separate_steps() {
    let trajectory = trajectory(
        SessionInfo::default(),
        &[
            call(Some("task"), "{}", None),
            call(Some("inner"), "[1]", Some("task")),
            result("inner", "one"),
            result("task", "all"),
        ],
    );
    assert_eq!(
        trajectory["steps"][0]["observation"]["results"][0]["content"],
        "all"
    );
    assert_eq!(
        trajectory["steps"][1]["extra"]["parent_tool_call_id"],
        "task"
    );
    assert_eq!(
        trajectory["steps"][1]["tool_calls"][0]["arguments"],
        json!({"input": [1]})
    );
}

#[test]
fn late_result_is_kept_and_marked() {
    let trajectory = trajectory(SessionInfo::default(), &[result("gone", "late")]);
    let kept = &trajectory["steps"][0]["observation"]["results"][0];
    assert_eq!(
        *kept,
        json!({"content": "late", "extra": {"late_answer_to": "gone"}})
    );
}

#[test]
fn empty_session_is_a_valid_trajectory() {
    let trajectory = trajectory(SessionInfo::default(), &[]);
    assert_eq!(trajectory["steps"][0]["source"], "system");
}

#[test]
fn messages_of_a_turn_are_joined() {
    let trajectory = trajectory(
        SessionInfo::default(),
        &[
            message(Role::Assistant, ""),
            message(Role::Assistant, "one \"quoted\""),
            message(Role::Assistant, "two\n"),
        ],
    );
    let step = &trajectory["steps"][0];
    assert_eq!(step["message"], "one \"quoted\"\n\ntwo\n");
    assert!(step.get("reasoning_content").is_none());
}

#[test]
fn result_belongs_to_the_first_waiting_call_of_its_id() {
    let trajectory = trajectory(
        SessionInfo::default(),
        &[
            call(Some("a"), "{}", None),
            result("a", "first"),
            call(Some("a"), "{}", None),
            result("a", "second"),
            result("a", "third"),
        ],
    );
    let content =
        |step: usize| trajectory["steps"][step]["observation"]["results"][0]["content"].clone();
    assert_eq!((content(0), content(1)), (json!("first"), json!("second")));
    let late = &trajectory["steps"][2]["observation"]["results"][0];
    assert_eq!(late["extra"]["late_answer_to"], "a");
}

proptest::proptest! {
    #[test]
    fn any_session_gives_a_trajectory_by_the_rules(kinds in proptest::collection::vec((0..5_u8, 0..4_u8), 0..60)) {
        let ids = ["a", "b", "c", "d"];
        let events: Vec<_> = kinds.iter().map(|(kind, which)| {
            let id = ids[usize::from(*which)];
            match kind {
                0 => message(Role::Assistant, id),
                1 => message(Role::User, id),
                2 => call(Some(id), "{}", None),
                3 => call(Some(id), "{}", Some("a")),
                _ => result(id, "answer"),
            }
        }).collect();
        trajectory(SessionInfo::default(), &events);
    }
}
