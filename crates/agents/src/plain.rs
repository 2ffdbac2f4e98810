//! Shared by agents that are plain programs: their output is text, and the exit code decides the
//! outcome.

use std::borrow::Cow;

use proctor_document::{Fault, Node};
use proctor_record::{
    outcome::{EndedBy, Ending, Outcome, exit_in_words},
    session::{
        Conclusion, Counts, LineSource, LogError, MessageKind, Role, Session, SessionEvent,
        SessionHost, Text,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    agent::{Input, Launch, LaunchContext, Terminal, both_prompts},
    text_cap::TextCap,
};

/// The number of lines of standard error in an error message.
const QUOTED_LINES: usize = 5;

/// `agent.config` of an agent without a prompt. A prompt is accepted and ignored, so that
/// `agent.type` can be changed alone.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UnreadPrompt {
    /// The prompt of other agents.
    prompt: Option<String>,
    /// The file with the prompt of other agents.
    prompt_file: Option<String>,
}

impl UnreadPrompt {
    /// Checks `agent.config` as other agents do.
    pub(super) fn check(config: &Node) -> Result<(), Vec<Fault>> {
        let written: UnreadPrompt = config.read().map_err(|fault| vec![fault])?;
        if written.prompt.is_some() && written.prompt_file.is_some() {
            return Err(vec![both_prompts(config)]);
        }
        Ok(())
    }
}

/// Runs a program with empty standard input.
pub(super) fn launch(argv: &[&str], context: &LaunchContext<'_>) -> Launch {
    Launch {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: context.env.clone(),
        files: Vec::new(),
        collect: Vec::new(),
        input: Input::Closed,
        terminal: Terminal::Pipes,
        message_deadline: None,
        session: Box::new(PlainSession::default()),
    }
}

/// The number of lines that are separate messages. Later lines that arrive together become one
/// message, because a person does not read them line by line.
const SINGLE_LINES: u64 = 1000;

/// Reports the output of a program as text.
#[derive(Default)]
pub(super) struct PlainSession {
    lines: u64,
    last_errors: std::collections::VecDeque<String>,
    last_line: Option<String>,
    oversized_lines: u64,
    cap: TextCap,
}

impl PlainSession {
    fn tell(&mut self, source: LineSource, text: &str, host: &mut dyn SessionHost) {
        let text = self.cap.take(text);
        if !text.is_empty() {
            tell(source, text, host);
        }
    }

    /// Keeps the last lines for the conclusion.
    fn remember(&mut self, source: LineSource, line: &str) {
        if source != LineSource::Stderr {
            self.last_line = Some(line.to_owned());
            return;
        }
        if self.last_errors.len() == QUOTED_LINES {
            self.last_errors.pop_front();
        }
        self.last_errors.push_back(line.to_owned());
    }
}

/// The bytes that are checked for control characters at once.
const CHUNK: usize = 256;

/// 1 for a control character that is not white space, else 0. It has no branch, so that the compiler
/// can vectorize a loop over it.
fn control_mark(byte: u8) -> u8 {
    let is = |other: u8| u8::from(byte == other);
    let is_space = is(b'\t') | is(b'\n') | is(b'\r');
    (u8::from(byte < b' ') & !is_space) | is(0x7f)
}

/// Text without terminal control characters.
fn without_controls(text: &str) -> Cow<'_, str> {
    let has_control =
        |chunk: &[u8]| chunk.iter().fold(0, |any, byte| any | control_mark(*byte)) != 0;
    if !text.as_bytes().chunks(CHUNK).any(has_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(anstream::adapter::strip_str(text).to_string())
}

/// Reports text of a program.
fn tell(source: LineSource, text: &str, host: &mut dyn SessionHost) {
    let role = match source {
        LineSource::Stderr => Role::System,
        LineSource::Stdout | LineSource::Socket => Role::Assistant,
    };
    host.event(SessionEvent::Message {
        role,
        kind: MessageKind::Text,
        content: Text::Plain(text),
        timestamp: None,
        parent: None,
    });
}

impl Session for PlainSession {
    fn on_line(&mut self, source: LineSource, line: &[u8], host: &mut dyn SessionHost) {
        self.lines += 1;
        let text = String::from_utf8_lossy(line);
        let text = without_controls(&text);
        if text.trim().is_empty() {
            return;
        }
        self.tell(source, &text, host);
        self.remember(source, &text);
    }

    fn takes_blocks(&self) -> bool {
        self.lines >= SINGLE_LINES
    }

    fn on_block(&mut self, source: LineSource, lines: &[u8], host: &mut dyn SessionHost) {
        let text = String::from_utf8_lossy(lines);
        let text = without_controls(&text);
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        self.tell(source, text, host);
        let reported = text.lines().rev().filter(|line| !line.trim().is_empty());
        let last: Vec<&str> = reported.take(QUOTED_LINES).collect();
        for line in last.into_iter().rev() {
            self.remember(source, line);
        }
    }

    fn on_oversized_line(&mut self, _source: LineSource, _bytes: u64) {
        self.oversized_lines += 1;
    }

    fn finish(self: Box<Self>, ending: &Ending, host: &mut dyn SessionHost) -> Conclusion {
        if let Some(note) = self.cap.note() {
            tell(LineSource::Stderr, &note, host);
        }
        let outcome = outcome(ending);
        let quoted: Vec<String> = self.last_errors.into();
        let errors = (outcome == Outcome::AgentError || outcome == Outcome::GaveUp)
            .then(|| LogError::new("AGENT_FAILED", failure(ending, &quoted)));
        Conclusion {
            final_text: self.last_line,
            counts: Counts {
                oversized_lines: self.oversized_lines,
                ..Counts::default()
            },
            ..Conclusion::of(outcome, errors.into_iter().collect())
        }
    }
}

/// Exit code 0 is completed, 2 gave up, 124 timed out: the contract of adapter scripts.
fn outcome(ending: &Ending) -> Outcome {
    match (ending.ended_by, ending.code) {
        (Some(by), _) if by.is_time_limit() => Outcome::Timeout,
        (None, Some(124)) => Outcome::Timeout,
        (Some(EndedBy::Loop), _) => Outcome::Loop,
        (Some(EndedBy::OutputLimit), _) => Outcome::OutputLimit,
        (Some(EndedBy::Cancelled), _) => Outcome::Interrupted,
        (_, Some(0)) => Outcome::Completed,
        (_, Some(2)) => Outcome::GaveUp,
        _ => Outcome::AgentError,
    }
}

fn failure(ending: &Ending, quoted: &[String]) -> String {
    let what = match (ending.code, ending.signal) {
        (Some(code), _) => format!("the agent {}", exit_in_words(code)),
        (None, Some(signal)) => format!("the agent was killed by signal {signal}"),
        (None, None) => "the agent ended in an unknown way".to_owned(),
    };
    if quoted.is_empty() {
        what
    } else {
        format!("{what}; last output: {}", quoted.join(" / "))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Keeps the texts of messages.
    #[derive(Default)]
    struct Messages(Vec<String>);

    impl SessionHost for Messages {
        fn event(&mut self, event: SessionEvent<'_>) {
            if let SessionEvent::Message {
                content: Text::Plain(text),
                ..
            } = event
            {
                self.0.push(text.to_owned());
            }
        }
        fn reply(&mut self, _bytes: Vec<u8>) {}
        fn close_input(&mut self) {}
        fn end_within(&mut self, _grace: Duration) {}
    }

    #[test]
    fn lines_are_combined_after_the_first_thousand() {
        let mut session = PlainSession::default();
        let mut host = Messages::default();
        for number in 0..SINGLE_LINES {
            assert!(!session.takes_blocks());
            session.on_line(
                LineSource::Stdout,
                format!("{number}").as_bytes(),
                &mut host,
            );
        }
        assert!(session.takes_blocks());
        session.on_block(LineSource::Stdout, b"one\n\x1b[1mtwo\x1b[0m\n\n", &mut host);
        session.on_block(LineSource::Stderr, b"\n \n", &mut host);
        session.on_block(LineSource::Stderr, b"a\nb\nc\nd\ne\nf\n", &mut host);
        assert_eq!(host.0.len(), 1002);
        assert_eq!(host.0[1000..], ["one\ntwo", "a\nb\nc\nd\ne\nf"]);
        let failed = Ending {
            code: Some(3),
            ..Ending::default()
        };
        let conclusion = Box::new(session).finish(&failed, &mut host);
        assert_eq!(conclusion.final_text.as_deref(), Some("two"));
        assert!(conclusion.errors[0].message.ends_with("b / c / d / e / f"));
    }

    #[test]
    fn only_control_characters_make_text_impure() {
        for byte in 0..=u8::MAX {
            let is_control = byte.is_ascii_control() && !b"\t\n\r".contains(&byte);
            assert_eq!(control_mark(byte), u8::from(is_control), "{byte:#x}");
        }
        assert_eq!(without_controls("a\tb\r\n"), "a\tb\r\n");
        assert_eq!(without_controls("\x1b[1mbold\x1b[0m"), "bold");
    }

    fn check(code: Option<i32>, signal: Option<i32>, ended_by: Option<EndedBy>, expect: Outcome) {
        assert_eq!(
            outcome(&Ending {
                code,
                signal,
                ended_by
            }),
            expect
        );
    }

    #[test]
    fn exit_code_and_ending_decide_the_outcome() {
        check(Some(0), None, None, Outcome::Completed);
        check(Some(2), None, None, Outcome::GaveUp);
        check(Some(3), None, None, Outcome::AgentError);
        check(Some(124), None, None, Outcome::Timeout);
        check(None, Some(9), None, Outcome::AgentError);
        check(Some(0), None, Some(EndedBy::WallLimit), Outcome::Timeout);
        check(
            Some(0),
            None,
            Some(EndedBy::Cancelled),
            Outcome::Interrupted,
        );
    }
}
