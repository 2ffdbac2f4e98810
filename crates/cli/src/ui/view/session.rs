//! The session of the selected trial: its events as items, wrapped when first drawn. The number of
//! items is bounded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use camino::Utf8PathBuf;
use proctor_record::record::{EVENTS_FILE, Entry, Event, Tail, VerdictStatus};

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
pub struct SessionView {
    tail: Tail,
    items: VecDeque<SessionItem>,
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
pub struct SessionItem {
    /// Milliseconds since the trial started.
    pub t: u64,
    /// The kind of item.
    pub kind: ItemKind,
    text: String,
    lines: Vec<String>,
    /// Whether it is a message that the agent is still writing.
    is_partial: bool,
}

/// Kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A message of the agent.
    Said,
    /// The agent's reasoning.
    Thought,
    /// A tool call and its result.
    Tool(ToolResult),
    /// A note: a retry, a denial or a compaction.
    Note,
    /// A verdict.
    Judged(VerdictStatus),
    /// A step of the trial.
    Step,
}

/// The result of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolResult {
    /// No result yet.
    Open,
    /// Success.
    Good,
    /// Failure.
    Bad,
}

impl SessionView {
    /// The session of the trial in this directory.
    pub fn open(folder: &camino::Utf8Path) -> SessionView {
        let events = folder.join("artifacts").join(EVENTS_FILE);
        SessionView::over(Tail::of_last(events, READ_BACK))
    }

    /// A session without a file; the caller pushes its events.
    pub fn empty() -> SessionView {
        SessionView::over(Tail::new(Utf8PathBuf::new()))
    }

    fn over(tail: Tail) -> SessionView {
        SessionView {
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
            Event::Saying(passage) if self.continue_message(&passage.text) => return,
            Event::Saying(_) => ItemKind::Said,
            Event::Said(_) => {
                // The whole message takes the place of its parts.
                if self.items.back().is_some_and(|item| item.is_partial) {
                    self.items.pop_back();
                }
                ItemKind::Said
            }
            Event::Thought(_) => ItemKind::Thought,
            Event::Note(_) | Event::Lost { .. } => ItemKind::Note,
            Event::Tool { id, tool, target } => {
                self.called(id.as_deref(), tool, target.as_deref());
                ItemKind::Tool(ToolResult::Open)
            }
            Event::ToolResult { id, is_error } => return self.answered(id, *is_error),
            Event::Judged { status, .. } => ItemKind::Judged(*status),
            Event::Started { .. } => {
                // A new attempt starts a new session.
                *self = SessionView::over(std::mem::replace(
                    &mut self.tail,
                    Tail::new(Utf8PathBuf::new()),
                ));
                ItemKind::Step
            }
            _ => ItemKind::Step,
        };
        let Some(text) = line(&entry.event) else {
            return;
        };
        self.items.push_back(SessionItem {
            t: entry.t,
            kind,
            text: tame(&text),
            lines: Vec::new(),
            is_partial: matches!(entry.event, Event::Saying(_)),
        });
        if self.items.len() > MOST_ITEMS {
            self.items.pop_front();
            self.dropped += 1;
            let dropped = self.dropped;
            self.open.retain(|_, number| *number >= dropped);
        }
    }

    /// Adds to the message that the agent is writing, if there is one.
    fn continue_message(&mut self, text: &str) -> bool {
        let Some(item) = self.items.back_mut().filter(|item| item.is_partial) else {
            return false;
        };
        item.text.push_str(&tame(text));
        item.lines.clear();
        true
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
            let answer = if is_error {
                ToolResult::Bad
            } else {
                ToolResult::Good
            };
            item.kind = ItemKind::Tool(answer);
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
    ) -> Vec<(&SessionItem, &str, bool)> {
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
    use proctor_record::record::Passage;

    use super::*;

    fn said(t: u64, text: &str) -> Entry {
        Entry {
            t,
            event: Event::Said(Passage::of(text)),
        }
    }

    fn shown(
        session: &mut SessionView,
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
        let mut session = SessionView::empty();
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
    fn message_grows_while_it_is_written_and_is_replaced_by_the_whole() {
        let mut session = SessionView::empty();
        let saying = |text: &str| Entry {
            t: 1,
            event: Event::Saying(Passage::of(text)),
        };
        session.push(&said(0, "before"));
        session.push(&saying("Hel"));
        assert_eq!(shown(&mut session, 20, 5, 0).0, ["before", "Hel"]);
        session.push(&saying("lo"));
        assert_eq!(shown(&mut session, 20, 5, 0).0, ["before", "Hello"]);
        session.push(&said(2, "Hello."));
        assert_eq!(shown(&mut session, 20, 5, 0).0, ["before", "Hello."]);
    }

    #[test]
    fn tool_results_mark_calls_and_edits_are_listed() {
        let mut session = SessionView::empty();
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
        let kinds: Vec<ItemKind> = session.items.iter().map(|item| item.kind).collect();
        assert_eq!(
            kinds,
            [
                ItemKind::Tool(ToolResult::Good),
                ItemKind::Tool(ToolResult::Bad)
            ]
        );
        assert_eq!(session.changed().collect::<Vec<_>>(), ["a.rs"]);
    }

    #[test]
    fn long_session_keeps_only_its_end() {
        let mut session = SessionView::empty();
        for number in 0..MOST_ITEMS as u64 + 10 {
            session.push(&said(number, "x"));
        }
        assert_eq!(session.items.len(), MOST_ITEMS);
        assert_eq!(session.items[0].t, 10);
    }
}
