//! Writes the log while the session runs. Messages and finished tool calls go to spools at
//! once, so memory stays flat however long the session gets; calls that wait for their
//! results are held, within bounds.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, BufRead, BufReader, BufWriter, Seek, Write},
};

use tempfile::SpooledTempFile;

use super::{Account, UNKNOWN, VERSION, text::write_text};
use crate::session::{MessageKind, SessionEvent, Text};

/// A spool stays in memory up to this size; most sessions need no file.
const SPOOL_IN_MEMORY: usize = 1 << 20;
const SPOOL_BUFFER: usize = 64 << 10;
const MAX_HELD_BYTES: usize = 4 << 20;
const MAX_HELD_CALLS: usize = 1024;

/// Writes one log from the events of one session.
pub struct LogWriter {
    messages: Spool,
    tool_calls: Spool,
    held: VecDeque<HeldCall>,
    held_bytes: usize,
    spare: Vec<Vec<u8>>,
    unmatched_results: u64,
    failure: Option<io::Error>,
}

/// A call that waits for its result, or for an earlier call's.
struct HeldCall {
    id: u64,
    is_answered: bool,
    json: Vec<u8>,
}

impl Default for LogWriter {
    fn default() -> LogWriter {
        LogWriter {
            messages: Spool::new(),
            tool_calls: Spool::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            spare: Vec::new(),
            unmatched_results: 0,
            failure: None,
        }
    }
}

impl LogWriter {
    /// Take in what a session understood. A failure to write is told by `finish`.
    pub fn event(&mut self, event: SessionEvent<'_>) {
        if self.failure.is_none()
            && let Err(error) = self.write(event)
        {
            self.failure = Some(error);
        }
    }

    /// Write the document.
    pub fn finish(mut self, account: &Account, out: impl Write) -> io::Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        while self.release_oldest()? {}
        let mut counts = account.counts;
        counts.unmatched_results += self.unmatched_results;

        let mut out = BufWriter::with_capacity(SPOOL_BUFFER, out);
        write!(out, "{{\"version\":\"{VERSION}\",\n\"agent_info\":")?;
        serde_json::to_writer(&mut out, &account.agent_info)?;
        out.write_all(b",\n\"model_info\":")?;
        serde_json::to_writer(&mut out, &account.model_info)?;
        out.write_all(b",\n\"execution\":")?;
        serde_json::to_writer(&mut out, &account.execution)?;
        out.write_all(b",\n\"messages\":[")?;
        self.messages.copy_to(&mut out)?;
        out.write_all(b"],\n\"tool_calls\":[")?;
        self.tool_calls.copy_to(&mut out)?;
        out.write_all(b"]")?;
        if let Some(usage) = &account.usage {
            out.write_all(b",\n\"usage\":")?;
            serde_json::to_writer(&mut out, usage)?;
        }
        out.write_all(b",\n\"errors\":")?;
        serde_json::to_writer(&mut out, &account.errors)?;
        out.write_all(b",\n\"environment\":")?;
        serde_json::to_writer(&mut out, &account.environment)?;
        out.write_all(b",\n\"counts\":")?;
        serde_json::to_writer(&mut out, &counts)?;
        out.write_all(b"}\n")?;
        out.flush()
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
            | SessionEvent::Progress { .. }
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
        let out = self.messages.next_item()?;
        out.write_all(b"{\"role\":")?;
        serde_json::to_writer(&mut *out, &role)?;
        out.write_all(b",\"content\":")?;
        write_text(out, content)?;
        if kind != MessageKind::Text {
            out.write_all(b",\"kind\":")?;
            serde_json::to_writer(&mut *out, &kind)?;
        }
        write_optional(out, "timestamp", timestamp)?;
        write_optional(out, "parent", parent)?;
        out.write_all(b"}")
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
        json.clear();
        write_call(&mut json, name, arguments, id)?;
        write_optional(&mut json, "parent", parent)?;
        self.held_bytes += json.len();
        self.held.push_back(HeldCall {
            id: fingerprint(id.unwrap_or_default()),
            // A call without an id can have no result.
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
        let call = self
            .held
            .iter_mut()
            .find(|call| call.id == key && !call.is_answered);
        let Some(call) = call else {
            self.unmatched_results += 1;
            let out = self.tool_calls.next_item()?;
            write_call(out, UNKNOWN, Text::Plain(""), Some(id))?;
            write_answer(out, content, is_error)?;
            return out.write_all(b"}");
        };
        let before = call.json.len();
        write_answer(&mut call.json, content, is_error)?;
        call.is_answered = true;
        self.held_bytes += call.json.len() - before;
        self.release()
    }

    /// Let go of answered calls in the order of the calls; when too much is held, first of
    /// those behind an unanswered one, then of the oldest.
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
        let out = self.tool_calls.next_item()?;
        out.write_all(&call.json)?;
        out.write_all(b"}")?;
        self.held_bytes -= call.json.len();
        if self.spare.len() < 8 && call.json.capacity() <= SPOOL_BUFFER {
            self.spare.push(call.json);
        }
        Ok(())
    }
}

fn write_call(
    out: &mut impl Write,
    name: &str,
    arguments: Text<'_>,
    id: Option<&str>,
) -> io::Result<()> {
    out.write_all(b"{\"name\":")?;
    serde_json::to_writer(&mut *out, name)?;
    out.write_all(b",\"arguments\":")?;
    write_text(out, arguments)?;
    write_optional(out, "id", id)
}

fn write_answer(out: &mut impl Write, content: Option<Text<'_>>, is_error: bool) -> io::Result<()> {
    if let Some(content) = content {
        out.write_all(b",\"result\":")?;
        write_text(out, content)?;
    }
    write!(out, ",\"is_error\":{is_error}")
}

fn write_optional(out: &mut impl Write, name: &str, value: Option<&str>) -> io::Result<()> {
    let Some(value) = value else { return Ok(()) };
    write!(out, ",\"{name}\":")?;
    Ok(serde_json::to_writer(out, value)?)
}

fn fingerprint(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Items of one JSON array, on their way to the document.
struct Spool {
    out: BufWriter<SpooledTempFile>,
    is_empty: bool,
}

impl Spool {
    fn new() -> Spool {
        let file = SpooledTempFile::new(SPOOL_IN_MEMORY);
        Spool {
            out: BufWriter::with_capacity(SPOOL_BUFFER, file),
            is_empty: true,
        }
    }

    fn next_item(&mut self) -> io::Result<&mut BufWriter<SpooledTempFile>> {
        let separator: &[u8] = if self.is_empty { b"\n" } else { b",\n" };
        self.is_empty = false;
        self.out.write_all(separator)?;
        Ok(&mut self.out)
    }

    fn copy_to(self, out: &mut impl Write) -> io::Result<()> {
        let mut file = self
            .out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let mut file = BufReader::with_capacity(SPOOL_BUFFER, file);
        loop {
            let bytes = file.fill_buf()?;
            if bytes.is_empty() {
                return Ok(());
            }
            out.write_all(bytes)?;
            let length = bytes.len();
            file.consume(length);
        }
    }
}
