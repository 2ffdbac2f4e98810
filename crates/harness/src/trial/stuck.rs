//! Detects stuck agents: the same action again and again, or no new event and no changed file for a long time.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::SystemTime,
};

use camino::Utf8Path;
use tokio::time::Instant;

use crate::{
    config::ProgressLimits,
    sandbox::Room,
    session::{Role, SessionEvent, Text},
};

/// The same thing, so often in a row.
#[derive(Debug, Default)]
struct Row {
    last: Option<u64>,
    times: u32,
}

impl Row {
    /// Whether this is another thing than the last.
    fn take(&mut self, what: u64) -> bool {
        let is_new = self.last != Some(what);
        self.times = if is_new { 1 } else { self.times + 1 };
        self.last = Some(what);
        is_new
    }

    fn clear(&mut self) {
        *self = Row::default();
    }
}

/// Detects the new actions of an agent.
#[derive(Debug, Default)]
struct News {
    calls: Row,
    notes: Row,
    messages: Row,
    figures: Row,
    /// The tool that was used last.
    tool: String,
    /// Whether it was used in a new way: an answer is as new as what it answers.
    is_new_call: bool,
}

impl News {
    /// Whether an event is new, as far as the one before of its kind tells.
    fn take(&mut self, event: &SessionEvent<'_>) -> bool {
        match event {
            SessionEvent::Started { .. } => true,
            SessionEvent::ToolCall {
                name,
                arguments,
                parent,
                ..
            } => {
                self.notes.clear();
                self.is_new_call = self.calls.take(digest(&(name, raw(arguments), parent)));
                if self.is_new_call {
                    (*name).clone_into(&mut self.tool);
                }
                self.is_new_call
            }
            SessionEvent::ToolResult { .. } => self.is_new_call,
            SessionEvent::Message {
                role,
                content,
                parent,
                ..
            } => {
                if *role == Role::Assistant {
                    self.notes.clear();
                }
                self.messages
                    .take(digest(&(distinct(raw(content)), parent)))
            }
            SessionEvent::Progress {
                input_tokens,
                output_tokens,
            } => self.figures.take(digest(&(input_tokens, output_tokens))),
            // Two attempts of one call differ in their number and their time.
            SessionEvent::Note(note) => {
                let words = note.chars().filter(|c| !c.is_ascii_digit());
                self.notes.take(digest(&words.collect::<String>()))
            }
        }
    }

    /// The repeated action, if it was repeated at least this often.
    fn repeated(&self, limit: u32) -> Option<String> {
        if self.calls.times >= limit {
            let (tool, times) = (&self.tool, self.calls.times);
            return Some(format!(
                "it used `{tool}` with the same input {times} times in a row"
            ));
        }
        let times = self.notes.times;
        (times >= limit).then(|| format!("it told of the same trouble {times} times in a row"))
    }
}

fn raw<'a>(text: &Text<'a>) -> &'a str {
    match text {
        Text::Plain(text) | Text::JsonString(text) | Text::Json(text) => text,
    }
}

/// Lines that differ from the line before: a program may print one line over and over.
fn distinct(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.dedup();
    lines
}

fn digest(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// An agent under watch.
#[derive(Debug)]
pub(crate) struct Progress {
    limits: ProgressLimits,
    news: News,
    /// When something new came of it last.
    since: Instant,
    /// When a file had changed last, at the last look.
    newest: Option<SystemTime>,
}

impl Progress {
    /// Begin to watch an agent that is about to start.
    pub(crate) async fn begin(limits: ProgressLimits, room: &Room, folder: &Utf8Path) -> Progress {
        Progress {
            newest: match limits.quiet {
                None => None,
                Some(_) => room.newest_change(folder).await.ok().flatten(),
            },
            limits,
            news: News::default(),
            since: Instant::now(),
        }
    }

    /// Take note of an event.
    pub(crate) fn event(&mut self, event: &SessionEvent<'_>) {
        if self.limits == ProgressLimits::default() {
            return;
        }
        if self.news.take(event) {
            self.since = Instant::now();
        }
    }

    /// The action that the agent repeats too often.
    pub(crate) fn repeated(&self) -> Option<String> {
        self.news.repeated(self.limits.repeats?)
    }

    /// When to look whether a file has changed, if no event comes before.
    pub(crate) fn due(&self) -> Option<Instant> {
        Some(self.since + self.limits.quiet?)
    }

    /// Checks whether no file has changed either. If the check fails, the agent is not stopped.
    pub(crate) async fn is_stuck(&mut self, room: &Room, folder: &Utf8Path) -> bool {
        let newest = room.newest_change(folder).await;
        if matches!(newest, Ok(newest) if newest == self.newest) {
            return true;
        }
        let newest = newest.ok().flatten();
        let ago = newest.and_then(|newest| SystemTime::now().duration_since(newest).ok());
        // Another machine's clock does not say when that was by ours.
        let ago = ago.filter(|_| room.shares_clock()).unwrap_or_default();
        self.newest = newest;
        let now = Instant::now();
        self.since = now.checked_sub(ago).unwrap_or(now).max(self.since);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'a>(name: &'a str, arguments: &'a str) -> SessionEvent<'a> {
        SessionEvent::ToolCall {
            id: None,
            name,
            arguments: Text::Json(arguments),
            parent: None,
        }
    }

    fn said(text: &str) -> SessionEvent<'_> {
        SessionEvent::Message {
            role: Role::Assistant,
            kind: crate::session::MessageKind::Text,
            content: Text::Plain(text),
            timestamp: None,
            parent: None,
        }
    }

    const ANSWER: SessionEvent<'_> = SessionEvent::ToolResult {
        id: "1",
        content: None,
        is_error: false,
    };

    #[test]
    fn a_line_that_is_printed_over_and_over_is_not_new_in_blocks_of_any_size() {
        let mut news = News::default();
        assert!(news.take(&said("waiting")));
        assert!(!news.take(&said("waiting\nwaiting\nwaiting")));
        assert!(!news.take(&said("waiting\nwaiting")));
        assert!(news.take(&said("waiting\ndone")));
    }

    #[test]
    fn the_same_call_is_a_loop_whatever_is_said_in_between() {
        let mut news = News::default();
        for _ in 0..2 {
            news.take(&call("Bash", r#"{"command":"make"}"#));
            news.take(&ANSWER);
            news.take(&said("Let me try again."));
        }
        assert_eq!(news.repeated(3), None);
        assert!(!news.take(&call("Bash", r#"{"command":"make"}"#)));
        assert!(!news.take(&ANSWER), "its answer is no news either");
        let told = news.repeated(3).unwrap();
        assert_eq!(told, "it used `Bash` with the same input 3 times in a row");
        assert!(news.take(&call("Bash", r#"{"command":"ls"}"#)));
        assert_eq!(news.repeated(3), None);
    }

    #[test]
    fn an_attempt_is_the_same_whatever_its_number_and_the_next_step_ends_the_row() {
        let mut news = News::default();
        for note in [
            "attempt 1 failed: 529",
            "attempt 2 failed: 529",
            "attempt 13 failed: 529",
        ] {
            news.take(&SessionEvent::Note(note));
        }
        assert!(news.repeated(3).unwrap().contains("3 times"));
        news.take(&said("It works now."));
        news.take(&SessionEvent::Note("attempt 1 failed: 529"));
        assert_eq!(news.repeated(2), None);
    }

    #[test]
    fn figures_that_stand_still_and_words_said_again_are_no_news() {
        let figures = |output_tokens| SessionEvent::Progress {
            input_tokens: 10,
            output_tokens,
        };
        let mut news = News::default();
        assert!(news.take(&figures(1)) && !news.take(&figures(1)) && news.take(&figures(2)));
        assert!(news.take(&said("one")) && !news.take(&said("one")));
        assert_eq!(news.repeated(2), None, "saying it again is no loop");
    }
}
