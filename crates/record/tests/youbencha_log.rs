//! The log is valid for youBencha for every outcome, and also if little is known.

#![allow(clippy::unwrap_used, reason = "a test panics on an error")]

use proctor_record::{
    outcome::{EndedBy, Ending, Outcome},
    session::{Conclusion, LogError, MessageKind, Role, SessionEvent, Text},
    transcript::{Account, AgentContext, LogWriter, Times},
    usage::{Figures, Usage, UsageSource},
};
use proctor_testkit::youbencha;
use serde_json::Value;

/// Endings of a process, from one that never started to one that was killed.
const ENDINGS: [Ending; 5] = [
    ending(None, None, None),
    ending(Some(0), None, None),
    ending(Some(1), None, None),
    ending(None, Some(9), None),
    ending(None, Some(15), Some(EndedBy::WallLimit)),
];

const fn ending(code: Option<i32>, signal: Option<i32>, ended_by: Option<EndedBy>) -> Ending {
    Ending {
        code,
        signal,
        ended_by,
    }
}

fn message(timestamp: Option<&str>) -> SessionEvent<'_> {
    SessionEvent::Message {
        role: Role::Assistant,
        kind: MessageKind::Text,
        content: Text::Plain("said"),
        timestamp,
        parent: None,
    }
}

fn write(mut writer: LogWriter<Vec<u8>>, conclusion: Conclusion, ending: &Ending) -> Value {
    writer.event(message(None));
    writer.event(message(Some("2026-01-01T00:00:00Z")));
    writer.event(message(None));
    writer.event(SessionEvent::ToolResult {
        id: "unknown call",
        content: None,
        is_error: true,
    });
    let contender = AgentContext {
        name: "claude-code",
        ..AgentContext::default()
    };
    let account = Account::new(conclusion, contender, ending, Times::default());
    serde_json::from_slice(&writer.finish(&account).unwrap()).unwrap()
}

fn usages() -> [Option<Usage>; 2] {
    let usage = Usage {
        total: Figures {
            output_tokens: Some(5),
            ..Figures::default()
        },
        source: UsageSource::Messages,
        lower_bound: true,
        per_model: std::collections::BTreeMap::new(),
    };
    [None, Some(usage)]
}

#[test]
fn log_of_every_outcome_is_valid() {
    for outcome in Outcome::ALL {
        for (ending, usage) in ENDINGS
            .iter()
            .flat_map(|it| usages().map(|usage| (it, usage)))
        {
            // The evidence never makes such a process complete.
            let is_possible = outcome != Outcome::Completed || ending.code != Some(1);
            let is_possible =
                is_possible && (outcome != Outcome::Completed || ending.signal != Some(9));
            if !is_possible {
                continue;
            }
            let error = LogError::new("CLAUDE_FAILED", "it failed");
            let conclusion = || Conclusion {
                usage: usage.clone(),
                ..Conclusion::of(outcome, vec![error.clone()])
            };
            for writer in [LogWriter::new(Vec::new()), LogWriter::recorded(Vec::new())] {
                let log = write(writer, conclusion(), ending);
                youbencha::check_log(&log);
                let status = serde_json::to_value(outcome.status()).unwrap();
                assert_eq!(log["execution"]["status"], status);
                let source = if usage.is_some() {
                    "messages"
                } else {
                    "unknown"
                };
                assert_eq!(log["usage"]["source"], source);
            }
        }
    }
}

#[test]
fn recorded_message_without_time_has_the_time_before() {
    let conclusion = Conclusion::of(Outcome::Completed, Vec::new());
    let log = write(LogWriter::recorded(Vec::new()), conclusion, &ENDINGS[1]);
    let times: Vec<&str> = log["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["timestamp"].as_str().unwrap())
        .collect();
    assert_eq!(
        times,
        [
            "1970-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z"
        ]
    );
}
