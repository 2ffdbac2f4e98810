//! Detects stuck agents: a repeated action, or no new event and no changed file for a long time.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::SystemTime,
};

use camino::Utf8Path;
use proctor_record::session::{Role, SessionEvent, Text};
use proctor_sandbox::ExecEnv;
use tokio::time::Instant;

use crate::config::ProgressLimits;

/// A value, and how often it occurred in a row.
#[derive(Debug, Default)]
struct Row {
    last: Option<u64>,
    times: u32,
}

impl Row {
    /// Whether this value differs from the last one.
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

/// Detects new actions of an agent.
#[derive(Debug, Default)]
struct News {
    calls: Row,
    notes: Row,
    messages: Row,
    figures: Row,
    /// The last tool.
    tool: String,
    /// Whether its input was new: an answer is as new as its call.
    is_new_call: bool,
}

impl News {
    /// Whether an event is new, compared with the previous one of its kind.
    fn take(&mut self, event: &SessionEvent<'_>) -> bool {
        match event {
            SessionEvent::Started { .. } | SessionEvent::McpServers(_) => true,
            // Whether it is news is known when the message is whole.
            SessionEvent::Partial(_) => false,
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
            // Attempts of the same call differ in number and time only.
            SessionEvent::Note(note) => {
                let words = note.chars().filter(|c| !c.is_ascii_digit());
                self.notes.take(digest(&words.collect::<String>()))
            }
        }
    }

    /// The repeated action, if it was repeated at least `limit` times.
    fn repeated(&self, limit: u32) -> Option<String> {
        if self.calls.times >= limit {
            let (tool, times) = (&self.tool, self.calls.times);
            return Some(format!(
                "`{tool}` was used with the same input {times} times in a row"
            ));
        }
        let times = self.notes.times;
        (times >= limit).then(|| format!("the same error was reported {times} times in a row"))
    }
}

fn raw<'a>(text: &Text<'a>) -> &'a str {
    match text {
        Text::Plain(text) | Text::JsonString(text) | Text::Json(text) => text,
    }
}

/// Lines that differ from the previous line: a program may print one line repeatedly.
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

/// The progress of an agent.
#[derive(Debug)]
pub(crate) struct Progress {
    limits: ProgressLimits,
    news: News,
    /// The time of the last new event or changed file.
    since: Instant,
    /// The time of the newest file at the last check.
    newest: Option<SystemTime>,
}

impl Progress {
    /// Starts to observe an agent before it starts.
    pub(crate) async fn begin(
        limits: ProgressLimits,
        exec_env: &ExecEnv,
        folder: &Utf8Path,
    ) -> Progress {
        Progress {
            newest: match limits.quiet {
                None => None,
                Some(_) => exec_env.newest_change(folder).await.ok().flatten(),
            },
            limits,
            news: News::default(),
            since: Instant::now(),
        }
    }

    /// Handles an event.
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

    /// When to check for changed files, unless there is an event before.
    pub(crate) fn due(&self) -> Option<Instant> {
        Some(self.since + self.limits.quiet?)
    }

    /// Checks whether no file has changed either. If the check fails, the agent is not ended.
    pub(crate) async fn is_stuck(&mut self, exec_env: &ExecEnv, folder: &Utf8Path) -> bool {
        let newest = exec_env.newest_change(folder).await;
        if matches!(newest, Ok(newest) if newest == self.newest) {
            return true;
        }
        let newest = newest.ok().flatten();
        let ago = newest.and_then(|newest| SystemTime::now().duration_since(newest).ok());
        // File times of another machine cannot be compared with our clock.
        let ago = ago.filter(|_| exec_env.shares_clock()).unwrap_or_default();
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
            kind: proctor_record::session::MessageKind::Text,
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
    fn repeated_lines_are_not_new() {
        let mut news = News::default();
        assert!(news.take(&said("waiting")));
        assert!(!news.take(&said("waiting\nwaiting\nwaiting")));
        assert!(!news.take(&said("waiting\nwaiting")));
        assert!(news.take(&said("waiting\ndone")));
    }

    #[test]
    fn same_call_is_a_loop_despite_messages_in_between() {
        let mut news = News::default();
        for _ in 0..2 {
            news.take(&call("Bash", r#"{"command":"make"}"#));
            news.take(&ANSWER);
            news.take(&said("Let me try again."));
        }
        assert_eq!(news.repeated(3), None);
        assert!(!news.take(&call("Bash", r#"{"command":"make"}"#)));
        assert!(!news.take(&ANSWER), "the answer is not new either");
        let repeated = news.repeated(3).unwrap();
        assert_eq!(
            repeated,
            "`Bash` was used with the same input 3 times in a row"
        );
        assert!(news.take(&call("Bash", r#"{"command":"ls"}"#)));
        assert_eq!(news.repeated(3), None);
    }

    #[test]
    fn attempts_are_equal_regardless_of_their_number() {
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
    fn unchanged_figures_and_repeated_messages_are_not_new() {
        let figures = |output_tokens| SessionEvent::Progress {
            input_tokens: 10,
            output_tokens,
        };
        let mut news = News::default();
        assert!(news.take(&figures(1)) && !news.take(&figures(1)) && news.take(&figures(2)));
        assert!(news.take(&said("one")) && !news.take(&said("one")));
        assert_eq!(news.repeated(2), None, "a repeated message is not a loop");
    }
}
