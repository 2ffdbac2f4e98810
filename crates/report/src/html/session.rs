//! The session of a trial in order: messages, thoughts, tool calls with their results, and the tool call that
//! started the sub-agent of each. Times come from the recorded events, whole texts from the log.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use fs_err as fs;
use proctor_record::{
    record::{EVENTS_FILE, Entry, Event, LOG_FILE},
    session::{MessageKind, Role},
    text::counted,
    transcript::{Message, ToolCall},
};
use serde::{Deserialize, Serialize};

use super::{
    bounded::{FileEnds, split},
    detail::DetailLimits,
};

/// One entry of a session. Empty parts are absent.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Moment {
    /// The number in the session.
    pub(super) n: usize,
    /// Milliseconds since the start of the trial.
    t: Option<u64>,
    kind: &'static str,
    text: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    arguments: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    result: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    /// The id of a tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The tool call that started the sub-agent of this entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// The number of bytes that are left out.
    #[serde(skip_serializing_if = "is_zero")]
    cut: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Moment {
    fn new(kind: &'static str, text: &str, most: usize) -> Moment {
        let (text, cut) = split(text, most);
        Moment {
            kind,
            text,
            cut,
            ..Moment::default()
        }
    }

    fn size(&self) -> usize {
        self.text.len() + self.arguments.len() + self.result.len() + 64
    }

    fn add_tool(&mut self, call: &ToolCall, most: usize) {
        let (arguments, cut) = split(&call.arguments, most);
        let (result, more) = split(call.result.as_deref().unwrap_or_default(), most);
        self.arguments = arguments;
        self.result = result;
        self.cut += cut + more;
        self.is_error |= call.is_error == Some(true);
        self.parent.clone_from(&call.parent);
    }
}

/// The parts of the log that the events do not have.
#[derive(Default, Deserialize)]
struct SessionLog {
    #[serde(default)]
    messages: Vec<Message>,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
}

impl SessionLog {
    fn read(path: &Utf8Path, most: u64) -> Option<SessionLog> {
        let is_small = fs::metadata(path).is_ok_and(|it| it.len() <= most);
        let bytes = is_small.then(|| fs::read(path).ok()).flatten()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// Reads a session. The second value says what is left out.
pub(super) fn read(artifacts: &Utf8Path, bounds: DetailLimits) -> (Vec<Moment>, Option<String>) {
    let ends = FileEnds::read(&artifacts.join(EVENTS_FILE), bounds.trial.saturating_mul(8));
    // With thousands of trials the page has no room for the log.
    let is_wanted = bounds.text >= 1000 || ends.is_empty();
    let log = is_wanted.then(|| SessionLog::read(&artifacts.join(LOG_FILE), bounds.log));
    let log = log.flatten().unwrap_or_default();
    let mut moments = if ends.is_empty() {
        of_messages(&log.messages, bounds.text)
    } else {
        of_events(&ends, &log, bounds.text)
    };
    for (n, moment) in moments.iter_mut().enumerate() {
        moment.n = n;
    }
    let left_out = keep_ends(&mut moments, bounds.trial / 2);
    let note = (left_out > 0 || ends.skipped > 0).then(|| {
        format!(
            "The middle of the session is left out (entries: {left_out}, bytes: {}): {EVENTS_FILE} and {LOG_FILE} have it whole.",
            ends.skipped
        )
    });
    (moments, note)
}

fn of_messages(messages: &[Message], most: usize) -> Vec<Moment> {
    let moments = messages.iter().map(|message| {
        let kind = match (message.role, message.kind) {
            (Role::Assistant, MessageKind::Thinking) => "thought",
            (Role::Assistant, _) => "said",
            _ => "message",
        };
        Moment {
            parent: message.parent.clone(),
            ..Moment::new(kind, &message.content, most)
        }
    });
    moments.collect()
}

fn of_events(ends: &FileEnds, log: &SessionLog, most: usize) -> Vec<Moment> {
    let entries: Vec<Entry> = ends
        .lines()
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let failed: BTreeSet<&str> = entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::ToolResult { id, is_error: true } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    let calls = log.tool_calls.iter();
    let calls: BTreeMap<&str, &ToolCall> = calls
        .filter_map(|it| Some((it.id.as_deref()?, it)))
        .collect();
    let mut passages = Passages::new(&log.messages);
    let mut moments = Vec::new();
    for entry in &entries {
        let Some(mut moment) = shown(&entry.event, &mut passages, most) else {
            continue;
        };
        moment.t = Some(entry.t);
        if let Event::Tool { id: Some(id), .. } = &entry.event {
            moment.is_error = failed.contains(id.as_str());
            moment.id = Some(id.clone());
            if let Some(call) = calls.get(id.as_str()) {
                moment.add_tool(call, most);
            }
        }
        moments.push(moment);
    }
    moments
}

/// The messages of the log in order, to find the whole text of each event.
struct Passages<'a> {
    messages: Vec<&'a Message>,
    next: usize,
}

impl<'a> Passages<'a> {
    fn new(messages: &'a [Message]) -> Passages<'a> {
        let own = messages.iter().filter(|it| it.role == Role::Assistant);
        Passages {
            messages: own.collect(),
            next: 0,
        }
    }

    /// The next message that begins with this text.
    fn find(&mut self, start: &str) -> Option<&'a Message> {
        let rest = self.messages.get(self.next..)?;
        let at = rest.iter().position(|it| it.content.starts_with(start))?;
        self.next += at + 1;
        Some(rest[at])
    }
}

/// The display of an event; `None` if it is not shown.
fn shown(event: &Event, passages: &mut Passages<'_>, most: usize) -> Option<Moment> {
    let new = |kind, text: &str| Moment::new(kind, text, most);
    let mut passage = |kind, text: &str, cut_bytes: usize| {
        if let Some(message) = passages.find(text) {
            return Moment {
                parent: message.parent.clone(),
                ..new(kind, &message.content)
            };
        }
        let mut moment = new(kind, text);
        moment.cut += cut_bytes;
        moment
    };
    Some(match event {
        Event::Phase { phase } => new("phase", phase.as_str()),
        Event::Iteration {
            number,
            agent,
            reason,
        } => {
            let text = format!("iteration {number}, {agent}: {}", reason.describe());
            new("phase", &text)
        }
        Event::Session { model, version, .. } => {
            let known = [model, version].into_iter().flatten();
            let text: Vec<&str> = known.map(String::as_str).collect();
            new("session", &text.join(" · "))
        }
        Event::Said(it) => passage("said", &it.text, it.cut_bytes),
        Event::Thought(it) => passage("thought", &it.text, it.cut_bytes),
        Event::Note(it) => new("note", &it.text),
        Event::Tool { tool, target, .. } => {
            let target = target.as_deref().unwrap_or_default();
            new("tool", format!("{tool} {target}").trim_end())
        }
        Event::Judged {
            evaluator,
            status,
            message,
        } => {
            let status = serde_json::to_value(status).ok()?;
            let text = format!("{evaluator}: {}: {message}", status.as_str()?);
            new("judged", &text)
        }
        Event::Lost { events } => new("lost", &format!("not kept: {}", counted(*events, "event"))),
        Event::RunStarted { .. }
        | Event::Started { .. }
        | Event::Saying(_)
        | Event::ToolResult { .. }
        | Event::Usage { .. }
        | Event::Ended(_)
        | Event::Unknown => return None,
    })
}

/// Keeps the start and the end of a session within a number of bytes. Returns the number of removed
/// entries.
fn keep_ends(moments: &mut Vec<Moment>, most: usize) -> usize {
    let fits = |sizes: &mut dyn Iterator<Item = usize>| {
        let mut sum = 0;
        sizes
            .take_while(|size| {
                sum += size;
                sum <= most / 2
            })
            .count()
    };
    let first = fits(&mut moments.iter().map(Moment::size));
    let last = fits(&mut moments.iter().rev().map(Moment::size));
    if first + last >= moments.len() {
        return 0;
    }
    let end = moments.len() - last;
    moments.drain(first..end).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_session_keeps_its_start_and_end() {
        let mut moments: Vec<Moment> = (0..100)
            .map(|n| Moment {
                n,
                ..Moment::new("said", &"x".repeat(36), 100)
            })
            .collect();
        assert_eq!(keep_ends(&mut moments, 2000), 80);
        let numbers: Vec<usize> = moments.iter().map(|it| it.n).collect();
        assert_eq!((numbers[9], numbers[10], numbers[19]), (9, 90, 99));
    }

    fn session(most: usize) -> Vec<serde_json::Value> {
        let dir = tempfile::tempdir().unwrap();
        let artifacts = Utf8Path::from_path(dir.path()).unwrap();
        let whole = format!("start{}", "x".repeat(5000));
        let said = |text: &str| json!({"role": "assistant", "content": text, "timestamp": "2026-11-01T00:00:00Z"});
        let mut inner = said("inner");
        inner["parent"] = json!("t1");
        let log = json!({"messages": [said(&whole), inner], "tool_calls": [
            {"name": "Task", "id": "t1", "arguments": "{}", "result": "r".repeat(3000), "is_error": true},
            {"name": "Read", "id": "t2", "arguments": "{}", "parent": "t1"},
        ]});
        fs::write(artifacts.join(LOG_FILE), log.to_string()).unwrap();
        let events = [
            json!({"t": 1, "event": "said", "text": whole[..4096], "cut_bytes": whole.len() - 4096}),
            json!({"t": 2, "event": "tool", "id": "t1", "tool": "Task"}),
            json!({"t": 3, "event": "said", "text": "inner"}),
            json!({"t": 4, "event": "tool", "id": "t2", "tool": "Read", "target": "a.rs"}),
        ];
        let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
        fs::write(artifacts.join(EVENTS_FILE), lines.join("\n")).unwrap();
        let bounds = DetailLimits {
            text: most,
            ..DetailLimits::ON_DEMAND
        };
        let (moments, note) = read(artifacts, bounds);
        assert_eq!(note, None);
        let moments = moments.iter().map(|it| serde_json::to_value(it).unwrap());
        moments.collect()
    }

    #[test]
    fn texts_are_whole_and_entries_of_sub_agents_name_their_tool_call() {
        let moments = session(1 << 20);
        assert_eq!(moments[0]["text"].as_str().unwrap().len(), 5005);
        assert_eq!(moments[0].get("cut"), None);
        assert_eq!(moments[1]["result"].as_str().unwrap().len(), 3000);
        assert_eq!(moments[1]["is_error"], true);
        assert_eq!(moments[1].get("parent"), None);
        assert_eq!(
            (&moments[2]["parent"], &moments[3]["parent"]),
            (&json!("t1"), &json!("t1"))
        );
    }

    #[test]
    fn long_texts_say_how_much_is_left_out() {
        let moments = session(1000);
        assert_eq!(
            (&moments[0]["cut"], &moments[1]["cut"]),
            (&json!(4005), &json!(2000))
        );
        assert_eq!(moments[3].get("cut"), None);
    }
}
