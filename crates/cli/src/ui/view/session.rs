//! The session of the selected trial: its events as items, wrapped when first drawn. The number of
//! items is bounded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use camino::Utf8PathBuf;
use proctor_harness::record::{EVENTS_FILE, Entry, Event, Tail, VerdictStatus};

use super::text::{line, tame, wrap};

/// The maximum number of items.
const MOST_ITEMS: usize = 4000;
/// The number of bytes read from the end of a long event log when a trial is selected.
const READ_BACK: u64 = 4 << 20;
/// Tools that change files, in lower case.
const EDITORS: &[&str] = &[
    "edit",
    "multiedit",
    "write",
    "notebookedit",
    "write_file",
    "replace",
    "str_replace_based_edit_tool",
    "apply_patch",
];

/// A trial's session.
#[derive(Debug)]
pub struct Session {
    tail: Tail,
    items: VecDeque<Item>,
    /// The number of items removed from the front.
    dropped: usize,
    /// Item numbers of tool calls without a result.
    open: BTreeMap<String, usize>,
    /// Files changed by the agent's tools, sorted by name.
    changed: BTreeSet<String>,
    /// The index of the first item to show.
    columns: usize,
}

/// One item of a session.
#[derive(Debug)]
pub struct Item {
    /// Milliseconds since the trial started.
    pub t: u64,
    /// The kind of item.
    pub kind: Kind,
    text: String,
    lines: Vec<String>,
}

/// Kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of the agent.
    Said,
    /// The agent's reasoning.
    Thought,
    /// A tool call and its result.
    Tool(Answer),
    /// A note: a retry, a denial or a compaction.
    Note,
    /// A verdict.
    Judged(VerdictStatus),
    /// A step of the trial.
    Step,
}

/// The result of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No result yet.
    Open,
    /// Success.
    Good,
    /// Failure.
    Bad,
}

impl Session {
    /// The session of the trial in this directory.
    pub fn open(folder: &camino::Utf8Path) -> Session {
        let events = folder.join("artifacts").join(EVENTS_FILE);
        Session::over(Tail::of_last(events, READ_BACK))
    }

    /// A session without a file; the caller pushes its events.
    pub fn empty() -> Session {
        Session::over(Tail::new(Utf8PathBuf::new()))
    }

    fn over(tail: Tail) -> Session {
        Session {
            tail,
            items: VecDeque::new(),
            dropped: 0,
            open: BTreeMap::new(),
            changed: BTreeSet::new(),
            columns: 0,
        }
    }

    /// Reads new events. Returns whether there were any.
    pub fn read(&mut self) -> bool {
        let entries = self.tail.read();
        let is_new = !entries.is_empty();
        for entry in entries {
            self.push(&entry);
        }
        is_new
    }

    /// Applies an event.
    pub fn push(&mut self, entry: &Entry) {
        let kind = match &entry.event {
            Event::Said(_) => Kind::Said,
            Event::Thought(_) => Kind::Thought,
            Event::Note(_) | Event::Lost { .. } => Kind::Note,
            Event::Tool { id, tool, target } => {
                self.called(id.as_deref(), tool, target.as_deref());
                Kind::Tool(Answer::Open)
            }
            Event::ToolResult { id, is_error } => return self.answered(id, *is_error),
            Event::Judged { status, .. } => Kind::Judged(*status),
            Event::Started { .. } => {
                // A new attempt starts a new session.
                *self = Session::over(std::mem::replace(
                    &mut self.tail,
                    Tail::new(Utf8PathBuf::new()),
                ));
                Kind::Step
            }
            _ => Kind::Step,
        };
        let Some(text) = line(&entry.event) else {
            return;
        };
        self.items.push_back(Item {
            t: entry.t,
            kind,
            text: tame(&text),
            lines: Vec::new(),
        });
        if self.items.len() > MOST_ITEMS {
            self.items.pop_front();
            self.dropped += 1;
            let dropped = self.dropped;
            self.open.retain(|_, number| *number >= dropped);
        }
    }

    fn called(&mut self, id: Option<&str>, tool: &str, target: Option<&str>) {
        if let Some(id) = id {
            let number = self.dropped + self.items.len();
            self.open.insert(id.to_owned(), number);
        }
        let is_editor = EDITORS.contains(&tool.to_lowercase().as_str());
        if let (true, Some(target)) = (is_editor, target) {
            self.changed.insert(tame(target));
        }
    }

    fn answered(&mut self, id: &str, is_error: bool) {
        let number = self.open.remove(id);
        let item = number.and_then(|number| self.items.get_mut(number.checked_sub(self.dropped)?));
        if let Some(item) = item {
            let answer = if is_error { Answer::Bad } else { Answer::Good };
            item.kind = Kind::Tool(answer);
        }
    }

    /// The files changed by the agent's tools.
    pub fn changed(&self) -> impl Iterator<Item = &str> {
        self.changed.iter().map(String::as_str)
    }

    /// The last lines for a width, scrolled up by `up` lines: each with its item, and whether it is
    /// the item's first line. `up` is clamped.
    pub fn window(
        &mut self,
        columns: usize,
        rows: usize,
        up: &mut usize,
    ) -> Vec<(&Item, &str, bool)> {
        let is_new_width = self.columns != columns;
        self.columns = columns;
        let mut total = 0;
        for item in &mut self.items {
            if is_new_width || item.lines.is_empty() {
                item.lines = wrap(&item.text, columns);
            }
            total += item.lines.len();
        }
        *up = (*up).min(total.saturating_sub(rows));
        let all = self.items.iter().rev().flat_map(|item| {
            let lines = item.lines.iter().enumerate().rev();
            lines.map(move |(number, line)| (item, line.as_str(), number == 0))
        });
        let mut window: Vec<_> = all.skip(*up).take(rows).collect();
        window.reverse();
        window
    }
}

#[cfg(test)]
mod tests {
    use proctor_harness::record::Passage;

    use super::*;

    fn said(t: u64, text: &str) -> Entry {
        Entry {
            t,
            event: Event::Said(Passage::of(text)),
        }
    }

    fn shown(
        session: &mut Session,
        columns: usize,
        rows: usize,
        up: usize,
    ) -> (Vec<String>, usize) {
        let mut up = up;
        let window = session.window(columns, rows, &mut up);
        let lines = window.iter().map(|(_, line, _)| (*line).to_owned());
        (lines.collect(), up)
    }

    #[test]
    fn session_shows_end_and_scrolling_stops_at_start() {
        let mut session = Session::empty();
        for number in 0..5 {
            session.push(&said(number, &format!("line {number}")));
        }
        assert_eq!(
            shown(&mut session, 20, 2, 0),
            (vec!["line 3".into(), "line 4".into()], 0)
        );
        assert_eq!(
            shown(&mut session, 20, 2, 99),
            (vec!["line 0".into(), "line 1".into()], 3)
        );
        assert_eq!(
            shown(&mut session, 4, 2, 0).0,
            ["line", "4"],
            "a new width wraps the text again"
        );
    }

    #[test]
    fn tool_results_mark_calls_and_edits_are_listed() {
        let mut session = Session::empty();
        let call = |id: &str, tool: &str, target: &str| Entry {
            t: 1,
            event: Event::Tool {
                id: Some(id.into()),
                tool: tool.into(),
                target: Some(target.into()),
            },
        };
        session.push(&call("1", "Edit", "a.rs"));
        session.push(&call("2", "Bash", "make"));
        for (id, is_error) in [("2", true), ("1", false), ("other", true)] {
            let event = Event::ToolResult {
                id: id.into(),
                is_error,
            };
            session.push(&Entry { t: 2, event });
        }
        let kinds: Vec<Kind> = session.items.iter().map(|item| item.kind).collect();
        assert_eq!(kinds, [Kind::Tool(Answer::Good), Kind::Tool(Answer::Bad)]);
        assert_eq!(session.changed().collect::<Vec<_>>(), ["a.rs"]);
    }

    #[test]
    fn long_session_keeps_only_its_end() {
        let mut session = Session::empty();
        for number in 0..MOST_ITEMS as u64 + 10 {
            session.push(&said(number, "x"));
        }
        assert_eq!(session.items.len(), MOST_ITEMS);
        assert_eq!(session.items[0].t, 10);
    }
}
