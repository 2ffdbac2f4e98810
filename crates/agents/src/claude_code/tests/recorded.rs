//! Tests of recorded sessions and message shapes.

use proctor_record::{
    outcome::{Outcome, Status},
    session::{MessageKind, Role},
    usage::UsageSource,
};
use proptest::prelude::*;

use super::*;

#[test]
fn recorded_session_has_exact_figures_and_all_messages() {
    let log = log_of(HELLO, Some(0));
    let account = &log.account;
    assert_eq!(account.agent_info.version, "2.1.197");
    assert_eq!(account.model_info.name, "claude-opus-4-8[1m]");
    assert_eq!(account.model_info.provider, "anthropic");
    assert_eq!(account.execution.status, Status::Success);
    assert_eq!(account.execution.turns, Some(2));
    assert_eq!(account.execution.duration_ms, Some(1664));
    let started = account.execution.started_at.as_deref();
    assert_eq!(started, Some("2026-11-15T19:16:40.012Z"));
    let usage = account.usage.as_ref().unwrap();
    assert_eq!(usage.source, UsageSource::ResultEvent);
    assert_eq!(usage.total.input_tokens, Some(2000));
    assert_eq!(usage.total.output_tokens, Some(100));
    assert_eq!(usage.total.total_tokens, Some(2100));
    assert_eq!(usage.total.cache_read_tokens, Some(600));
    assert_eq!(usage.total.cache_creation_tokens, Some(400));
    assert_eq!(usage.total.cost_usd.unwrap().nanos(), 15_300_000);
    assert!(!usage.lower_bound);
    let said: Vec<_> = log.messages.iter().map(|m| m.content.as_str()).collect();
    assert_eq!(
        said,
        [
            "I will write the file. ",
            "Done: wrote hello.txt with \"quotes\" and ünïcode 🎉. "
        ]
    );
    let [call] = log.tool_calls.as_slice() else {
        panic!("one call, not {}", log.tool_calls.len());
    };
    assert_eq!((call.name.as_str(), call.is_error), ("Write", Some(false)));
    assert_eq!(
        call.arguments,
        "{\"file_path\":\"/repo/hello.txt\",\"content\":\"hello\\n\"}"
    );
    assert!(call.result.as_ref().unwrap().starts_with("File created"));
    assert!(account.errors.is_empty());
}

#[test]
fn usage_is_the_sum_over_all_models() {
    let usage = log_of(SIMPLE, Some(0)).account.usage.unwrap();
    let main = &usage.per_model["claude-sonnet-4-5-20250929"];
    assert_eq!(main.input_tokens, Some(761));
    assert_eq!(main.output_tokens, Some(2400));
    assert_eq!(main.cache_read_tokens, Some(265_178));
    assert_eq!(main.cache_creation_tokens, Some(15_077));
    assert_eq!(usage.total.input_tokens, Some(761 + 7410));
    assert_eq!(usage.total.output_tokens, Some(2400 + 330));
    assert_eq!(usage.total.cost_usd.unwrap().nanos(), 299_685_250);

    let log = log_of(SUBAGENTS, Some(0));
    let usage = log.account.usage.unwrap();
    assert_eq!(usage.total.cost_usd.unwrap().nanos(), 1_332_948_250);
    assert_eq!(usage.total.input_tokens, Some(42_540 + 43));
    assert_eq!(usage.total.cache_read_tokens, Some(250_735 + 1_108_672));
    assert_eq!(usage.per_model.len(), 2);
    assert_eq!(log.account.counts.hooks, 2);
    assert_eq!(log.account.counts.subagent_tool_calls, 100);
    assert_eq!(log.tool_calls.len(), 137);
    assert!(log.tool_calls.iter().all(|call| call.result.is_some()));
    let below = log.tool_calls.iter().filter(|call| call.parent.is_some());
    assert_eq!(below.count(), 100);
    assert_eq!(log.account.counts.unknown_events, 0);
    assert_eq!(log.account.model_info.name, "claude-opus-4-6");
}

#[test]
fn incomplete_account_by_model_is_a_lower_bound() {
    // 2.0.30 omits the input of all messages in the figures by model.
    let result = r#"{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.0006,
        "usage":{"input_tokens":200,"cache_creation_input_tokens":600,"cache_read_input_tokens":2000,"output_tokens":40},
        "modelUsage":{"claude-sonnet-4-5":{"inputTokens":0,"outputTokens":40,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.0006}}}"#;
    let usage = log_of(result.replace('\n', ""), Some(0))
        .account
        .usage
        .unwrap();
    assert_eq!(usage.total.input_tokens, Some(200));
    assert_eq!(usage.total.cache_read_tokens, Some(2000));
    assert_eq!(usage.total.cache_creation_tokens, Some(600));
    assert_eq!(usage.total.output_tokens, Some(40));
    assert!(usage.lower_bound);
}

/// 1.0.88 has no figures by model, and those of its result are of the last call only.
#[test]
fn result_of_the_last_call_only_is_not_the_total() {
    let call = |id: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","model":"claude-sonnet-4","role":"assistant","content":[],"usage":{{"input_tokens":100,"cache_creation_input_tokens":300,"cache_read_input_tokens":1000,"output_tokens":20}}}}}}"#
        )
    };
    let result = r#"{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.00405,"usage":{"input_tokens":100,"cache_creation_input_tokens":300,"cache_read_input_tokens":1000,"output_tokens":25}}"#;
    let stream = [call("m1"), call("m2"), result.to_owned()].join("\n");
    let usage = log_of(stream, Some(0)).account.usage.unwrap();
    assert_eq!(usage.total.input_tokens, Some(200));
    assert_eq!(usage.total.output_tokens, Some(40));
    assert_eq!(usage.total.cache_read_tokens, Some(2000));
    assert_eq!(usage.total.cost_usd.unwrap().nanos(), 4_050_000);
    assert_eq!(usage.source, UsageSource::Messages);
    assert!(usage.lower_bound);

    let stream = [call("m1"), result.to_owned()].join("\n");
    let usage = log_of(stream, Some(0)).account.usage.unwrap();
    assert_eq!(usage.source, UsageSource::ResultEvent);
    assert!(!usage.lower_bound);
}

#[test]
fn error_during_execution_with_exit_0_is_a_failure_without_cost() {
    let log = log_of(INTERRUPTED, Some(0));
    assert_eq!(log.account.execution.outcome, Outcome::AgentError);
    assert_eq!(log.account.execution.exit_code, -1);
    let usage = log.account.usage.as_ref().unwrap();
    assert_eq!(usage.source, UsageSource::ResultEvent);
    assert_eq!(usage.total.cost_usd.unwrap().nanos(), 0);
    assert_eq!(usage.total.total_tokens, Some(0));
    assert_eq!(codes(&log)[0], "CLAUDE_EXECUTION_ERROR");
    let reported = &log.account.errors[1];
    assert!(reported.message.starts_with("Error: EACCES"));
    assert!(reported.stack_trace.as_ref().unwrap().contains("mkdirSync"));
}

#[test]
fn all_message_shapes_are_read() {
    let log = log_of(SHAPES, Some(1));
    let counts = log.account.counts;
    assert_eq!(counts.unknown_events, 0);
    assert_eq!(counts.malformed_lines, 0);
    assert_eq!((counts.hooks, counts.compactions), (1, 1));
    let said: Vec<_> = log
        .messages
        .iter()
        .map(|m| (m.role, m.kind, m.content.as_str()))
        .collect();
    assert_eq!(
        said,
        [
            (Role::Assistant, MessageKind::Thinking, "Let me look"),
            (Role::Assistant, MessageKind::Thinking, "[redacted]"),
            (Role::Assistant, MessageKind::Text, "I will read the file"),
            (Role::Assistant, MessageKind::Text, "with citations"),
            (
                Role::User,
                MessageKind::Text,
                "[Request interrupted by user]"
            ),
            (Role::User, MessageKind::Text, "plain user string"),
        ]
    );
    let calls: Vec<_> = log
        .tool_calls
        .iter()
        .map(|c| (c.name.as_str(), c.result.as_deref(), c.is_error))
        .collect();
    // One call has five results in this file: the first belongs to it, the others are kept.
    assert_eq!(
        calls,
        [
            ("Read", Some("plain string"), Some(false)),
            ("unknown", Some("oops"), Some(true)),
            (
                "unknown",
                Some("Task/MCP tool result as array"),
                Some(false)
            ),
            ("unknown", Some("[image]"), Some(false)),
            ("unknown", None, Some(false)),
            ("web_search", None, None),
        ]
    );
    assert_eq!(counts.unmatched_results, 4);
}

#[test]
fn each_message_shape_is_read_separately() {
    for shape in SHAPES.lines() {
        let log = log_of(shape, None);
        assert_eq!(log.account.counts.unknown_events, 0, "{shape}");
        assert_eq!(log.account.counts.malformed_lines, 0, "{shape}");
    }
}

#[test]
fn unknown_and_malformed_lines_are_counted() {
    let lines: Vec<_> = HELLO.lines().collect();
    let output = format!(
        "{}\n{{\"type\":\"from_the_future\"}}\n{{\"type\":\"system\",\"subtype\":\"new\"}}\n\
         {{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"hologram\"}}]}}}}\n\
         {{\"type\":\"assistant\",\"mess\nnot json\n{}",
        lines[0],
        lines[1..].join("\n")
    );
    let log = log_of(&output, Some(0));
    assert_eq!(log.account.counts.unknown_events, 3);
    assert_eq!(log.account.counts.malformed_lines, 2);
    assert_eq!(codes(&log), ["CLAUDE_MALFORMED_LINE"; 2]);
    assert_eq!(log.account.execution.outcome, Outcome::Completed);
    assert_eq!(log.messages.len(), 2);
}

#[test]
fn pty_capture_is_read_like_a_pipe() {
    assert!(PTY.contains("\r\n") && PTY.ends_with("\x1b[?25h"));
    let log = log_of(PTY, Some(0));
    assert_eq!(log.account.counts.malformed_lines, 0);
    assert_eq!(log.account.execution.outcome, Outcome::Completed);
    assert_eq!(log.account.agent_info.version, "2.1.325");
    assert_eq!(log.tool_calls.len(), 1);

    let hello = HELLO.replace('\n', "\r\n");
    let noisy = format!("^D\x08\x08{hello}\x1b[?1006l\x1b]0;\x07\x1b[?25h\r\n\x1b[0m");
    let log = log_of(noisy, Some(0));
    assert_eq!(log.account.counts.malformed_lines, 0);
    assert_eq!(log.account.agent_info.version, "2.1.197");
}

#[test]
fn session_file_has_messages_version_and_figures() {
    let log = log_of(SESSION_FILE, None);
    let account = &log.account;
    assert_eq!(account.counts.unknown_events, 0);
    assert_eq!(account.agent_info.version, "2.1.325");
    assert_eq!(account.model_info.name, "claude-opus-5-5");
    assert_eq!(account.execution.outcome, Outcome::Completed);
    assert_eq!(account.execution.exit_code, 0);
    assert!(account.execution.session_id.is_some());
    assert!(account.execution.started_at < account.execution.completed_at);
    assert_eq!(account.execution.duration_ms, Some(890));
    let usage = account.usage.as_ref().unwrap();
    assert_eq!(usage.total.cost_usd.unwrap().nanos(), 12_180_000);
    assert_eq!(usage.total.output_tokens, Some(103));
    assert_eq!(log.messages[0].role, Role::User);
    assert_eq!(log.messages[0].content, "hi");
    assert_eq!(log.tool_calls.len(), 1);

    // Without the account at its end, the messages are counted.
    let lines: Vec<_> = SESSION_FILE.lines().collect();
    let older = lines[..lines.len() - 1].join("\n");
    let usage = log_of(older, None).account.usage.unwrap();
    assert_eq!(usage.source, UsageSource::Messages);
    assert_eq!(usage.total.output_tokens, Some(103));
    assert_eq!((usage.lower_bound, usage.total.cost_usd), (true, None));

    let midway = lines[..23].join("\n");
    let log = log_of(midway, None);
    assert_eq!(log.account.execution.outcome, Outcome::AgentError);
}

#[test]
fn interrupted_run_counts_each_message_once() {
    let log = log_of(CUT_OFF, Some(143));
    assert_eq!(log.account.execution.outcome, Outcome::AgentError);
    assert_eq!(codes(&log), ["CLAUDE_EXIT"]);
    let usage = log.account.usage.unwrap();
    assert_eq!(usage.source, UsageSource::Messages);
    assert!(usage.lower_bound && usage.total.cost_usd.is_none());
    // Five messages of the main thread with their final counts, from the stream; those of the
    // sub-agents with the counts at their start.
    assert_eq!(usage.total.output_tokens, Some(50 + 51 + 52 + 53 + 53 + 4));
    assert_eq!(usage.total.input_tokens, Some(9000));
}

#[test]
fn last_of_several_results_is_used() {
    let log = log_of(format!("{CUT_OFF}{TWO_RESULTS}"), Some(0));
    let usage = log.account.usage.unwrap();
    assert_eq!(usage.total.input_tokens, Some(15_000));
    assert_eq!(usage.total.output_tokens, Some(687));
    assert_eq!(usage.total.cost_usd.unwrap().nanos(), 89_640_000);
    assert_eq!(log.account.execution.turns, Some(5));
}

#[test]
fn terminal_escapes_are_removed_from_results() {
    let log = log_of(CUT_OFF, None);
    let results: Vec<_> = log
        .tool_calls
        .iter()
        .filter_map(|c| c.result.as_ref())
        .collect();
    assert!(results.iter().any(|result| *result == "Exit code 3\nred"));
    assert!(!results.iter().any(|result| result.contains('\x1b')));
    assert_eq!(log.tool_calls[0].name, "Write");
    assert_eq!(log.tool_calls[1].name, "Agent");
}

#[test]
fn parts_of_a_message_are_reported_before_the_whole() {
    let delta = |text: &str, parent: &str| {
        format!(
            r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}},"parent_tool_use_id":{parent}}}"#
        )
    };
    let stop = r#"{"type":"stream_event","event":{"type":"content_block_stop","index":0},"parent_tool_use_id":null}"#;
    let thinking = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}},"parent_tool_use_id":null}"#;
    let output = [
        delta("a ", "null"),
        delta(r"line\nb", "null"),
        delta("not ours", "\"toolu_1\""),
        thinking.to_owned(),
        stop.to_owned(),
        delta("c", "null"),
        stop.to_owned(),
    ];
    let (_, host) = conclude(StreamFormat::StreamJson, &output.join("\n"), exited(0));
    let parts: Vec<&str> = host.events.iter().map(String::as_str).collect();
    assert_eq!(
        parts,
        [r#"Partial(Plain("a line\nb"))"#, r#"Partial(Plain("c"))"#]
    );
}

#[test]
fn synthetic_message_does_not_define_the_model() {
    let line = r#"{"type":"assistant","message":{"id":"x","model":"<synthetic>","content":[{"type":"text","text":"API Error"}],"usage":{"input_tokens":0,"output_tokens":0}}}"#;
    let log = log_of(line, Some(1));
    assert_eq!(log.account.model_info.name, "configured");
    assert_eq!(log.account.usage, None);
    let (conclusion, _) = conclude(
        StreamFormat::StreamJson,
        &format!("{HELLO}{line}"),
        exited(0),
    );
    assert_eq!(conclusion.model.as_deref(), Some("claude-opus-4-8[1m]"));
}

#[test]
fn all_logs_match_the_schema() {
    let schema = serde_json::to_value(proctor_record::transcript::schema()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    for output in [
        HELLO,
        SUBAGENTS,
        INTERRUPTED,
        SESSION_FILE,
        PTY,
        CUT_OFF,
        SHAPES,
        "",
        "text",
    ] {
        let log = json_of(output, None);
        let log: serde_json::Value = serde_json::from_slice(&log).unwrap();
        let faults: Vec<_> = schema.iter_errors(&log).map(|e| e.to_string()).collect();
        assert!(faults.is_empty(), "{faults:?}");
    }
    let no_log = serde_json::json!({ "version": "1.0.0", "messages": [], "tool_calls": [] });
    assert!(!schema.is_valid(&no_log));
}

#[test]
fn events_with_invalid_utf_8_are_read() {
    let mut output = HELLO.as_bytes().to_vec();
    let at = HELLO.find("I will write").unwrap();
    output[at] = 0xff;
    let log = log_of(output, Some(0));
    assert_eq!(log.account.counts.malformed_lines, 0);
    assert_eq!(log.messages[0].content, "\u{fffd} will write the file. ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_give_a_document(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        log_of(bytes, None);
    }

    #[test]
    fn damaged_lines_give_a_document(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let mut output = format!("{SHAPES}{HELLO}").into_bytes();
        for (at, byte) in damage {
            *at.get_mut(&mut output) = byte;
        }
        log_of(output, Some(0));
    }

    /// Each truncated line is counted, and nothing else.
    #[test]
    fn truncated_lines_are_counted(
        lines in proptest::collection::vec((any::<prop::sample::Index>(), 10..200_usize), 1..20),
    ) {
        // Truncation within an ignored structure may not be detected.
        let lines_of = SHAPES.lines().chain(HELLO.lines());
        let whole: Vec<_> = lines_of.filter(|line| !line.contains("tool_use_result")).collect();
        let mut output = HELLO.lines().next().unwrap().to_owned();
        let mut cut = 0;
        for (line, percent) in lines {
            let line = line.get(&whole);
            let length = line.len() * percent / 100;
            let kept = &line[..line.floor_char_boundary(length)];
            cut += u64::from(kept.len() < line.len());
            output.push('\n');
            output.push_str(kept);
        }
        let counts = log_of(output, Some(0)).account.counts;
        prop_assert_eq!(counts.malformed_lines, cut);
        prop_assert_eq!(counts.unknown_events, 0);
    }
}
