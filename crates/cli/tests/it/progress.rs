//! Stuck agents: in a loop, or without progress for too long.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    claude_case, command_case, context, init, install_claude, messages, print, result, run, says,
    shell, with,
};

/// A use of the shell, as a step.
fn uses_shell(id: &str, command: &str) -> Value {
    json!({"line": {
        "type": "assistant", "session_id": "s-1", "parent_tool_use_id": null,
        "message": {
            "id": format!("m-{id}"), "role": "assistant", "model": "m",
            "content": [{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    }})
}

#[test]
fn an_agent_that_uses_a_tool_in_the_same_way_again_and_again_is_ended_as_a_loop() {
    let context = context();
    let mut steps = vec![init()];
    for id in ["1", "2", "3", "4"] {
        steps.push(uses_shell(id, "make test"));
        steps.push(says(&format!("s-{id}"), &format!("Attempt {id}.")));
    }
    steps.push(json!({"sleep_ms": 300_000}));
    install_claude(&context, &steps);
    let case = with(
        &claude_case(),
        &json!({"loop_limit": 4, "timeout": 200_000}),
    );
    run(&context, &case).assert_code(1);
    let record = context.record();
    assert_eq!(record["outcome"], "loop");
    assert_eq!(record["status"], "failed");
    assert_eq!(record["process"]["ended_by"], "loop");
    assert_eq!(record["limits"]["loop_limit"], 4);
    assert_ne!(
        record["verdicts"][0]["status"], "skipped",
        "its work is judged"
    );
    let reported = messages(&context.log());
    assert!(
        reported.contains("`Bash` was used with the same input 4 times"),
        "{reported}"
    );
    context.assert_nothing_left("");
}

/// With another call in between it is not a loop.
#[test]
fn repeated_call_with_another_in_between_is_not_a_loop() {
    let context = context();
    let commands = ["make", "make", "ls", "make", "make"];
    let calls = commands.iter().enumerate();
    let calls = calls.map(|(id, command)| uses_shell(&id.to_string(), command));
    let steps: Vec<Value> = [init()]
        .into_iter()
        .chain(calls)
        .chain([result()])
        .collect();
    install_claude(&context, &steps);
    run(&context, &with(&claude_case(), &json!({"loop_limit": 3}))).assert_code(0);
}

/// The cause of the retries is more informative than the loop.
#[test]
fn the_same_api_error_again_and_again_ends_the_agent_in_the_class_of_the_error() {
    let context = context();
    let retry = |attempt: u32| {
        json!({"line": {
            "type": "system", "subtype": "api_retry", "attempt": attempt, "max_retries": 10,
            "retry_delay_ms": 1000 * attempt, "error_status": 529, "error": "overloaded",
            "session_id": "s-1",
        }})
    };
    let steps: Vec<Value> = [init()]
        .into_iter()
        .chain((1..=5).map(retry))
        .chain([json!({"sleep_ms": 300_000})])
        .collect();
    install_claude(&context, &steps);
    let case = with(
        &claude_case(),
        &json!({"loop_limit": 5, "timeout": 200_000}),
    );
    run(&context, &case).assert_code(3);
    let record = context.record();
    assert_eq!(record["outcome"], "overloaded");
    assert_eq!(record["process"]["ended_by"], "loop");
}

/// It talks all the time, so that no idle limit would end it.
#[test]
fn agent_without_progress_is_ended() {
    let context = context();
    let talk = [print("waiting\n"), json!({"sleep_ms": 200})];
    let steps: Vec<Value> = talk.iter().cycle().take(1000).cloned().collect();
    context.install_fake("agent", &Value::Array(steps));
    let limits = json!({"no_progress_timeout": 2000, "timeout": 200_000});
    let began = Instant::now();
    run(&context, &with(&command_case("agent"), &limits)).assert_code(1);
    assert!(began.elapsed() < Duration::from_mins(1));
    let record = context.record();
    assert_eq!(record["outcome"], "timeout");
    assert_eq!(record["process"]["ended_by"], "no_progress");
    assert_eq!(record["limits"]["no_progress_timeout_ms"], 2000);
    assert!(messages(&context.log()).contains("no-progress timeout of 2000 ms"));
    context.assert_nothing_left("");
}

#[test]
fn silent_agent_that_writes_files_makes_progress() {
    let context = context();
    let writes = "for i in $(seq 24); do echo $i > work.txt; sleep 0.3; done";
    context.install_fake("agent", &json!([shell(writes), print("done\n")]));
    let limits = json!({"no_progress_timeout": 3000, "timeout": 200_000});
    run(&context, &with(&command_case("agent"), &limits)).assert_code(0);
    assert_eq!(context.record()["diff"]["files_changed"], 1);
}
