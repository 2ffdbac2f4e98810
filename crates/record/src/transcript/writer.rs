//! Writes the log while the session runs, with constant memory: of messages and tool calls, the list
//! that first becomes long is written to the output itself, the other one to a temporary file.
//! Calls that wait for their results are held, within limits.

use std::{
    collections::VecDeque,
    io::{self, BufWriter, Write},
};

use super::{
    Account, UNKNOWN, UNKNOWN_TIME,
    escape::write_string,
    list::{BUFFER, List, START},
    text::write_text,
    youbencha,
};
use crate::session::{MessageKind, SessionEvent, Text};

/// The size of buffers that are kept for reuse. Dozens of calls of a sub-agent may wait behind the
/// one that started it.
const MAX_SPARE_BYTES: usize = 512 << 10;
const MAX_HELD_BYTES: usize = 4 << 20;
const MAX_HELD_CALLS: usize = 1024;

/// Writes one log from the events of one session.
pub struct LogWriter<W: Write> {
    out: BufWriter<W>,
    /// Whether one of the lists is in the output.
    is_started: bool,
    messages: List,
    tool_calls: List,
    held: VecDeque<HeldCall>,
    held_bytes: usize,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    unmatched_results: u64,
    clock: Clock,
    failure: Option<io::Error>,
}

/// The time of a message whose agent gives none.
enum Clock {
    /// The agent runs now: when the message arrived.
    Now,
    /// The session is over: the time of the message before, if the recording has any times.
    Recorded { last: String },
}

impl Clock {
    /// Writes the time of a message.
    fn write(&mut self, out: &mut dyn Write, given: Option<&str>) -> io::Result<()> {
        match (given, self) {
            (Some(given), Clock::Now) => write_string(out, given),
            (Some(given), Clock::Recorded { last }) => {
                given.clone_into(last);
                write_string(out, given)
            }
            (None, Clock::Now) => write!(out, "\"{}\"", jiff::Timestamp::now()),
            (None, Clock::Recorded { last }) => write_string(out, last),
        }
    }
}

/// A call that waits for its result, or for that of an earlier call.
struct HeldCall {
    id: u64,
    is_answered: bool,
    json: Vec<u8>,
}

impl<W: Write> LogWriter<W> {
    /// A writer of the document of an agent that runs now.
    pub fn new(out: W) -> LogWriter<W> {
        LogWriter::with_clock(out, Clock::Now)
    }

    /// A writer of the document of a recorded session.
    pub fn recorded(out: W) -> LogWriter<W> {
        let last = UNKNOWN_TIME.to_owned();
        LogWriter::with_clock(out, Clock::Recorded { last })
    }

    fn with_clock(out: W, clock: Clock) -> LogWriter<W> {
        LogWriter {
            out: BufWriter::with_capacity(BUFFER, out),
            is_started: false,
            messages: List::new("messages"),
            tool_calls: List::new("tool_calls"),
            held: VecDeque::new(),
            held_bytes: 0,
            spare: Vec::new(),
            spare_bytes: 0,
            unmatched_results: 0,
            clock,
            failure: None,
        }
    }

    /// Adds an event of a session. A write error is reported by `finish`.
    pub fn event(&mut self, event: SessionEvent<'_>) {
        if self.failure.is_none()
            && let Err(error) = self.write(event)
        {
            self.failure = Some(error);
        }
    }

    /// Completes the document. Returns the output.
    pub fn finish(mut self, account: &Account) -> io::Result<W> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        while self.release_oldest()? {}
        let mut account = account.clone();
        account.counts.unmatched_results += self.unmatched_results;

        let mut out = self.out;
        out.write_all(if self.is_started { b"]," } else { START })?;
        write_head(&mut out, &account)?;
        for list in [self.messages, self.tool_calls] {
            list.copy_to(&mut out)?;
        }
        write_tail(&mut out, &account)?;
        out.flush()?;
        out.into_inner().map_err(io::IntoInnerError::into_error)
    }

    fn write(&mut self, event: SessionEvent<'_>) -> io::Result<()> {
        match event {
            SessionEvent::Message { .. } => self.message(event),
            SessionEvent::ToolCall { .. } => self.tool_call(event),
            SessionEvent::ToolResult {
                id,
                content,
                is_error,
            } => self.tool_result(id, content, is_error),
            SessionEvent::Started { .. }
            | SessionEvent::Partial(_)
            | SessionEvent::Progress { .. }
            | SessionEvent::McpServers(_)
            | SessionEvent::Note(_) => Ok(()),
        }
    }

    fn message(&mut self, event: SessionEvent<'_>) -> io::Result<()> {
        let SessionEvent::Message {
            role,
            kind,
            content,
            timestamp,
            parent,
        } = event
        else {
            return Ok(());
        };
        let out = self.messages.next_item(&mut self.out)?;
        out.write_all(b"{\"role\":")?;
        serde_json::to_writer(&mut *out, &role)?;
        out.write_all(b",\"content\":")?;
        write_text(out, content)?;
        if kind != MessageKind::Text {
            out.write_all(b",\"kind\":")?;
            serde_json::to_writer(&mut *out, &kind)?;
        }
        out.write_all(b",\"timestamp\":")?;
        self.clock.write(out, timestamp)?;
        write_optional(out, b",\"parent\":", parent)?;
        out.write_all(b"}")?;
        self.messages.item_done(&mut self.out, &mut self.is_started)
    }

    fn tool_call(&mut self, event: SessionEvent<'_>) -> io::Result<()> {
        let SessionEvent::ToolCall {
            id,
            name,
            arguments,
            parent,
        } = event
        else {
            return Ok(());
        };
        let mut json = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= json.capacity();
        write_call(&mut json, name, arguments, id)?;
        write_optional(&mut json, b",\"parent\":", parent)?;
        self.held_bytes += json.len();
        self.held.push_back(HeldCall {
            id: fingerprint(id.unwrap_or_default()),
            // A call without an id cannot have a result.
            is_answered: id.is_none(),
            json,
        });
        self.release()
    }

    fn tool_result(
        &mut self,
        id: &str,
        content: Option<Text<'_>>,
        is_error: bool,
    ) -> io::Result<()> {
        let key = fingerprint(id);
        let waiting = |call: &HeldCall| call.id == key && !call.is_answered;
        match self.held.iter().position(waiting) {
            None => {
                self.unmatched_results += 1;
                let out = self.tool_calls.next_item(&mut self.out)?;
                write_call(out, UNKNOWN, Text::Plain(""), Some(id))?;
                write_answer(out, content, is_error)?;
                out.write_all(b"}")?;
                self.calls_done()
            }
            Some(0) => {
                // The usual case: the result, which may be large, is not copied.
                let call = self.held.pop_front().expect("the call is at position 0");
                let out = self.tool_calls.next_item(&mut self.out)?;
                out.write_all(&call.json)?;
                write_answer(out, content, is_error)?;
                out.write_all(b"}")?;
                self.calls_done()?;
                self.forget(call);
                self.release()
            }
            Some(index) => {
                let call = &mut self.held[index];
                let before = call.json.len();
                write_answer(&mut call.json, content, is_error)?;
                call.is_answered = true;
                self.held_bytes += call.json.len() - before;
                self.release()
            }
        }
    }

    /// Writes answered calls in the order of the calls. If too much is held, it writes those behind
    /// an unanswered one first, then the oldest.
    fn release(&mut self) -> io::Result<()> {
        while self.held.front().is_some_and(|call| call.is_answered) {
            self.release_oldest()?;
        }
        if !self.holds_too_much() {
            return Ok(());
        }
        for call in std::mem::take(&mut self.held) {
            if call.is_answered {
                self.put(call)?;
            } else {
                self.held.push_back(call);
            }
        }
        while self.holds_too_much() {
            self.release_oldest()?;
        }
        Ok(())
    }

    fn holds_too_much(&self) -> bool {
        let is_large = self.held_bytes > MAX_HELD_BYTES && self.held.len() > 1;
        is_large || self.held.len() > MAX_HELD_CALLS
    }

    fn release_oldest(&mut self) -> io::Result<bool> {
        let Some(call) = self.held.pop_front() else {
            return Ok(false);
        };
        self.put(call)?;
        Ok(true)
    }

    fn put(&mut self, call: HeldCall) -> io::Result<()> {
        let out = self.tool_calls.next_item(&mut self.out)?;
        out.write_all(&call.json)?;
        out.write_all(b"}")?;
        self.calls_done()?;
        self.forget(call);
        Ok(())
    }

    fn calls_done(&mut self) -> io::Result<()> {
        let out = &mut self.out;
        self.tool_calls.item_done(out, &mut self.is_started)
    }

    /// Recycles the buffer of a written call.
    fn forget(&mut self, call: HeldCall) {
        let mut buffer = call.json;
        self.held_bytes -= buffer.len();
        if self.spare_bytes + buffer.capacity() <= MAX_SPARE_BYTES {
            self.spare_bytes += buffer.capacity();
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// youBencha and the documentation of its adapters have different names for the same values.
fn write_head(out: &mut impl Write, account: &Account) -> io::Result<()> {
    for name in ["agent_info", "agent"] {
        write!(out, "\n\"{name}\":")?;
        serde_json::to_writer(&mut *out, &account.agent_info)?;
        out.write_all(b",")?;
    }
    for name in ["model_info", "model"] {
        write!(out, "\n\"{name}\":")?;
        serde_json::to_writer(&mut *out, &account.model_info)?;
        out.write_all(b",")?;
    }
    out.write_all(b"\n\"execution\":")?;
    Ok(serde_json::to_writer(out, &account.execution)?)
}

fn write_tail(out: &mut impl Write, account: &Account) -> io::Result<()> {
    out.write_all(b",\n\"usage\":")?;
    youbencha::usage::serialize(&account.usage, &mut serde_json::Serializer::new(&mut *out))?;
    out.write_all(b",\n\"errors\":")?;
    serde_json::to_writer(&mut *out, &account.errors)?;
    out.write_all(b",\n\"environment\":")?;
    serde_json::to_writer(&mut *out, &account.environment)?;
    out.write_all(b",\n\"counts\":")?;
    serde_json::to_writer(&mut *out, &account.counts)?;
    out.write_all(b"}\n")
}

fn write_call(
    out: &mut dyn Write,
    name: &str,
    arguments: Text<'_>,
    id: Option<&str>,
) -> io::Result<()> {
    out.write_all(b"{\"name\":")?;
    write_string(out, name)?;
    out.write_all(b",\"arguments\":")?;
    write_text(out, arguments)?;
    write_optional(out, b",\"id\":", id)
}

fn write_answer(out: &mut dyn Write, content: Option<Text<'_>>, is_error: bool) -> io::Result<()> {
    if let Some(content) = content {
        out.write_all(b",\"result\":")?;
        write_text(out, content)?;
    }
    out.write_all(if is_error {
        b",\"is_error\":true"
    } else {
        b",\"is_error\":false"
    })
}

fn write_optional(out: &mut dyn Write, name: &[u8], value: Option<&str>) -> io::Result<()> {
    let Some(value) = value else { return Ok(()) };
    out.write_all(name)?;
    write_string(out, value)
}

/// A hash that distinguishes the few waiting calls.
fn fingerprint(id: &str) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = id.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    words.fold(id.len() as u64, |hash, word| {
        let mixed = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(ODD);
        mixed ^ (mixed >> 32)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::transcript::list::Items;
    use crate::{
        outcome::{Ending, Outcome},
        session::{AgentTimes, Conclusion, Counts, Role},
        transcript::{AgentContext, Document, Times},
    };

    fn account() -> Account {
        let conclusion = Conclusion {
            outcome: Outcome::Completed,
            version: None,
            model: None,
            session_id: None,
            turns: None,
            usage: None,
            final_text: None,
            errors: Vec::new(),
            counts: Counts::default(),
            times: AgentTimes::default(),
        };
        let agent = AgentContext {
            name: "a",
            parameters: BTreeMap::new(),
            ..AgentContext::default()
        };
        Account::new(conclusion, agent, &Ending::default(), Times::default())
    }

    fn call(writer: &mut LogWriter<Vec<u8>>, id: &str, arguments: &str) {
        writer.event(SessionEvent::ToolCall {
            id: Some(id),
            name: "T",
            arguments: Text::Plain(arguments),
            parent: None,
        });
    }

    fn answer(writer: &mut LogWriter<Vec<u8>>, id: &str, content: &str) {
        writer.event(SessionEvent::ToolResult {
            id,
            content: Some(Text::Plain(content)),
            is_error: false,
        });
    }

    fn finish(writer: LogWriter<Vec<u8>>) -> Document {
        let json = writer.finish(&account()).unwrap();
        serde_json::from_slice(&json).unwrap()
    }

    #[test]
    fn calls_keep_their_order_regardless_of_results() {
        let mut writer = LogWriter::new(Vec::new());
        for id in ["1", "2", "3"] {
            call(&mut writer, id, id);
        }
        for id in ["3", "2", "1"] {
            answer(&mut writer, id, id);
        }
        let log = finish(writer);
        let calls: Vec<_> = log
            .tool_calls
            .iter()
            .map(|call| (call.arguments.as_str(), call.result.as_deref()))
            .collect();
        assert_eq!(
            calls,
            [("1", Some("1")), ("2", Some("2")), ("3", Some("3"))]
        );
    }

    fn message(writer: &mut LogWriter<Vec<u8>>, text: &str) {
        writer.event(SessionEvent::Message {
            role: Role::Assistant,
            kind: MessageKind::Text,
            content: Text::Plain(text),
            timestamp: None,
            parent: None,
        });
    }

    #[test]
    fn long_log_is_the_same_document_with_limited_memory() {
        let long = "x".repeat(10_000);
        let longer = "y".repeat(20_000);
        for (said, found) in [(&long, &longer), (&longer, &long)] {
            let mut writer = LogWriter::new(Vec::new());
            for number in 0..1000 {
                let id = number.to_string();
                message(&mut writer, said);
                call(&mut writer, &id, "");
                answer(&mut writer, &id, found);
            }
            for list in [&writer.messages, &writer.tool_calls] {
                assert!(!matches!(list.items, Items::Memory(_)), "{}", list.name);
            }
            assert_eq!(writer.held_bytes, 0);
            let document = finish(writer);
            assert_eq!(
                (document.messages.len(), document.tool_calls.len()),
                (1000, 1000)
            );
            assert_eq!(&document.messages[999].content, said);
            assert_eq!(document.tool_calls[999].result.as_ref(), Some(found));
            assert_eq!(document.account.agent_info.name, "a");
        }
    }

    #[test]
    fn held_calls_are_limited_and_nothing_is_lost() {
        let mut writer = LogWriter::new(Vec::new());
        let large = "x".repeat(MAX_HELD_BYTES / 4);
        for number in 0..20 {
            call(&mut writer, &number.to_string(), &large);
            assert!(writer.held_bytes <= MAX_HELD_BYTES + large.len());
        }
        answer(&mut writer, "19", "in time");
        answer(&mut writer, "0", "too late");
        let log = finish(writer);
        assert_eq!(log.tool_calls.len(), 21);
        let late = log.tool_calls.iter().find(|call| call.name == UNKNOWN);
        assert_eq!(late.unwrap().result.as_deref(), Some("too late"));
        assert_eq!(log.account.counts.unmatched_results, 1);
        let last = log.tool_calls.last().unwrap();
        assert_eq!(last.result.as_deref(), Some("in time"));
    }

    #[test]
    fn similar_ids_have_different_fingerprints() {
        let long = "toolu_01234567890123456789";
        let mut seen: Vec<_> = (0..=long.len())
            .map(|end| fingerprint(&long[..end]))
            .collect();
        for place in 0..long.len() {
            let mut id = long.to_owned();
            id.replace_range(place..=place, "x");
            seen.push(fingerprint(&id));
        }
        seen.push(fingerprint("\0"));
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn write_error_is_reported_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = LogWriter::new(Full).finish(&account()).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
