//! The session that reads Claude Code's output: stream-json from pipes, a PTY or a socket, plain
//! text, and session files below `.claude/projects`.

use std::{borrow::Cow, time::Duration};

use proctor_record::{
    outcome::{Ending, Outcome},
    session::{
        AgentTimes, Conclusion, Counts, LineSource, LogError, MessageKind, Role, Session,
        SessionEvent, SessionHost, Text,
    },
    transcript::strip_ansi,
};

use super::{
    blocks::{self, MessageOrigin},
    event::{
        LimitEvent, api_fault, ends_turn, is_known_system_subtype, is_known_without_effect,
        json_part, keep_tail, list, parent, rate_limit, retry_fault,
    },
    identity::AgentIdentity,
    message::{Content, Field, Message, StreamLine},
    text::TextReader,
    usage::SessionUsage,
    verdict::{self, DetectedFormat, NAMES, ResultFacts, SessionFacts, is_own_error},
};
use crate::{fault::ApiFault, mcp};

/// How long the CLI may take to exit after its result.
const EXIT_GRACE: Duration = Duration::from_secs(2);
const MAX_WARNINGS: usize = 5;
/// Parts of a message are reported in pieces of about this size: the API sends a few letters at a time.
const PARTIAL_BYTES: usize = 48;
/// The model of messages that the CLI generates itself.
const SYNTHETIC: &str = "<synthetic>";

/// The expected format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFormat {
    /// Detected from the first lines.
    Auto,
    /// Events; other lines are malformed.
    StreamJson,
    /// Plain text, even if it looks like JSON.
    Text,
}

/// The action after the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterResult {
    /// There is one prompt: the CLI should exit, and is ended if it does not.
    EndSoon,
    /// The caller ends the session.
    KeepOpen,
}

/// Reads the output of one Claude Code process.
pub struct ClaudeSession {
    form: StreamFormat,
    after_result: AfterResult,
    identity: AgentIdentity,
    facts: SessionFacts,
    ledger: SessionUsage,
    text: TextReader,
    counts: Counts,
    warnings: Vec<LogError>,
    times: AgentTimes,
    turns: Option<u64>,
    background_tasks: usize,
    is_finished: bool,
    final_text: String,
    /// Text of the message that is being written, not reported yet.
    partial: String,
}

impl ClaudeSession {
    /// A session for output in this format.
    pub fn new(form: StreamFormat, after_result: AfterResult) -> ClaudeSession {
        ClaudeSession {
            form,
            after_result,
            identity: AgentIdentity::default(),
            facts: SessionFacts::default(),
            ledger: SessionUsage::default(),
            text: TextReader::default(),
            counts: Counts::default(),
            warnings: Vec::new(),
            times: AgentTimes::default(),
            turns: None,
            background_tasks: 0,
            is_finished: false,
            final_text: String::new(),
            partial: String::new(),
        }
    }

    /// Whether there is a final result. A result may be intermediate: background tasks start
    /// another turn when they end.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn read(&mut self, line: &[u8], host: &mut dyn SessionHost) {
        let trimmed = line.trim_ascii();
        if self.read_event(trimmed, host) {
            return;
        }
        if trimmed.starts_with(b"[{") && self.form != StreamFormat::Text {
            let list = list(trimmed);
            if !list.is_empty() {
                return list.into_iter().for_each(|item| self.read(item, host));
            }
        }
        self.read_again(line, host);
    }

    /// Reads a line that is not an event. Terminal escapes around it and invalid UTF-8 are
    /// tolerated; the rest is text, or malformed.
    fn read_again(&mut self, line: &[u8], host: &mut dyn SessionHost) {
        let line = String::from_utf8_lossy(line);
        let stripped = strip_ansi(&line);
        let is_text = match self.form {
            StreamFormat::Text => true,
            StreamFormat::Auto => !self.has_events(),
            StreamFormat::StreamJson => false,
        };
        if stripped.trim().is_empty() {
            // In plain text this is a blank line; a line of escapes only is ignored.
            if is_text && line.trim().is_empty() {
                self.text.line("", host);
            }
            return;
        }
        if self.read_event(stripped.trim().as_bytes(), host) {
            return;
        }
        if is_text {
            self.plain(&stripped, host);
        } else {
            self.malformed(stripped.trim());
        }
    }

    /// Reads a line as an event, if it is one.
    fn read_event(&mut self, line: &[u8], host: &mut dyn SessionHost) -> bool {
        if self.form == StreamFormat::Text {
            return false;
        }
        let Some(json) = json_part(line) else {
            return false;
        };
        let event = StreamLine::read(json);
        let is_event = event.is_event();
        if is_event {
            self.event(&event, host);
        }
        is_event
    }

    fn has_events(&self) -> bool {
        matches!(
            self.facts.form,
            DetectedFormat::Events | DetectedFormat::SessionFile
        )
    }

    fn plain(&mut self, line: &str, host: &mut dyn SessionHost) {
        self.text.line(line, host);
        if !self.text.is_empty() {
            self.facts.form = DetectedFormat::Text;
        }
    }

    fn malformed(&mut self, line: &str) {
        self.counts.malformed_lines += 1;
        let shown = verdict::truncated(line, 120);
        self.warn(
            "CLAUDE_MALFORMED_LINE",
            format!("not an event, skipped: {shown}"),
        );
    }

    fn warn(&mut self, code: &str, message: String) {
        if self.warnings.len() == MAX_WARNINGS {
            return;
        }
        self.warnings.push(LogError {
            message,
            timestamp: self.times.last.clone(),
            code: Some(code.to_owned()),
            stack_trace: None,
            context: None,
        });
    }

    fn event(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        if !self.has_events() {
            self.first_event(host);
        }
        if line.file_session_id.is_there() {
            self.facts.form = DetectedFormat::SessionFile;
        }
        if let Some(timestamp) = line.timestamp.text() {
            self.time(&timestamp);
        }
        match line.kind.word() {
            b"assistant" => self.assistant(line, host),
            b"user" => self.user(line, host),
            b"stream_event" => self.stream_event(line, host),
            b"result" => self.result(line, host),
            b"system" => self.system(line, host),
            b"cost-state" => self.cost_state(line),
            b"rate_limit_event" => self.rate_limit(line, host),
            kind if is_known_without_effect(kind) => {}
            _ => self.counts.unknown_events += 1,
        }
    }

    /// Handles the first event, which determines the format. Earlier text was noise, unless it has
    /// been reported.
    fn first_event(&mut self, host: &mut dyn SessionHost) {
        if self.text.has_spoken() {
            self.text.flush(host);
        } else {
            let noise = self.text.take_back();
            let noise = noise.lines().filter(|line| !line.trim().is_empty());
            noise.for_each(|line| self.malformed(line));
        }
        self.facts.form = DetectedFormat::Events;
    }

    fn time(&mut self, timestamp: &str) {
        if self.times.first.is_none() {
            self.times.first = Some(timestamp.to_owned());
        }
        let last = self.times.last.get_or_insert_default();
        last.clear();
        last.push_str(timestamp);
    }

    fn assistant(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        let Some(message) = &line.message else {
            self.counts.unknown_events += 1;
            return;
        };
        self.introduce(line, host);
        let parent = parent(line);
        let timestamp = line.timestamp.text();
        let model = message.model.text().unwrap_or_default();
        let is_synthetic = model == SYNTHETIC;
        if is_synthetic {
            self.facts.api_fault = line.error.is_there().then(|| api_fault(line));
        } else {
            self.facts.retrying = None;
            self.facts.api_fault = None;
            self.answered(message, &model, parent.is_some());
        }
        if parent.is_none() {
            self.facts.turn_ended = !is_synthetic && ends_turn(message);
        }
        let origin = MessageOrigin {
            role: Role::Assistant,
            timestamp: timestamp.as_deref(),
            parent: parent.as_deref(),
        };
        if parent.is_none() {
            self.remember_text(message);
        }
        blocks::tell(&message.content, origin, &mut self.counts, host);
        self.progress(host);
    }

    /// Records that the API answered with (part of) this message.
    fn answered(&mut self, message: &Message<'_>, model: &str, is_subagent: bool) {
        let known = if is_subagent {
            &mut self.identity.subagent_model
        } else {
            &mut self.identity.message_model
        };
        if !model.is_empty() && known.as_deref() != Some(model) {
            *known = Some(model.to_owned());
        }
        if let (Some(id), Some(usage)) = (message.id.text(), message.usage) {
            self.ledger.message(&id, model, usage);
        }
    }

    fn remember_text(&mut self, message: &Message<'_>) {
        let Content::Blocks(blocks) = &message.content else {
            return;
        };
        let mut texts = blocks.iter().filter_map(|block| block.as_ref()?.text.raw());
        if let Some(text) = texts.next_back() {
            self.final_text.clear();
            self.final_text.push_str(text);
        }
    }

    fn progress(&mut self, host: &mut dyn SessionHost) {
        let (input_tokens, output_tokens) = self.ledger.so_far();
        host.event(SessionEvent::Progress {
            input_tokens,
            output_tokens,
        });
    }

    fn user(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        let Some(message) = &line.message else {
            self.counts.unknown_events += 1;
            return;
        };
        self.introduce(line, host);
        self.facts.retrying = None;
        let (timestamp, parent) = (line.timestamp.text(), parent(line));
        if parent.is_none() {
            self.facts.turn_ended = false;
        }
        let origin = MessageOrigin {
            role: Role::User,
            timestamp: timestamp.as_deref(),
            parent: parent.as_deref(),
        };
        blocks::tell(&message.content, origin, &mut self.counts, host);
    }

    /// Reports the identity from a session file, which has no `init`; every line has the version.
    fn introduce(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        if self.facts.form != DetectedFormat::SessionFile || self.identity.version.is_some() {
            return;
        }
        self.identity.version = line.version.text().map(Cow::into_owned);
        self.identity.session_id = line.file_session_id.text().map(Cow::into_owned);
        self.started(host);
    }

    fn started(&self, host: &mut dyn SessionHost) {
        host.event(SessionEvent::Started {
            model: self.identity.model(),
            version: self.identity.version.as_deref(),
            session_id: self.identity.session_id.as_deref(),
        });
    }

    fn stream_event(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        let Some(event) = &line.event else {
            self.counts.unknown_events += 1;
            return;
        };
        self.facts.retrying = None;
        let thread = parent(line).unwrap_or_default();
        match event.kind.word() {
            b"message_start" => {
                let Some(message) = &event.message else {
                    return;
                };
                let model = message.model.text().unwrap_or_default();
                self.ledger
                    .stream_start(&thread, &message.id.text().unwrap_or_default());
                self.answered(message, &model, !thread.is_empty());
            }
            b"content_block_delta" if thread.is_empty() => {
                let text = event.delta.as_ref().and_then(|delta| delta.text.text());
                self.partial.push_str(&text.unwrap_or_default());
                if self.partial.len() >= PARTIAL_BYTES || self.partial.contains('\n') {
                    self.tell_partial(host);
                }
            }
            b"content_block_stop" => self.tell_partial(host),
            b"message_delta" => {
                if let Some(usage) = event.usage {
                    let id = line.api_message_id.text();
                    self.ledger.stream_delta(&thread, id.as_deref(), usage);
                    self.progress(host);
                }
            }
            _ => {}
        }
    }

    /// Reports the text that has come since the last report.
    fn tell_partial(&mut self, host: &mut dyn SessionHost) {
        if !self.partial.is_empty() {
            host.event(SessionEvent::Partial(Text::Plain(&self.partial)));
            self.partial.clear();
        }
    }

    fn result(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        let reason = line.terminal_reason.text().unwrap_or_default();
        let is_abort = verdict::is_abort(&reason);
        if is_abort && self.facts.result.is_some() {
            // It was ended after its result, which stands.
            return;
        }
        if !is_abort {
            self.facts.retrying = None;
        }
        self.ledger.result(line);
        if let Some(turns) = line.num_turns.number() {
            self.turns = Some(self.turns.unwrap_or_default().saturating_add(turns));
        }
        if let Some(took) = line.duration_ms.number() {
            let before = self.times.duration_ms.unwrap_or_default();
            self.times.duration_ms = Some(before.saturating_add(took));
        }
        self.denials(line, host);
        let mut fault = api_fault(line);
        if let Some(stated) = self.facts.api_fault.take() {
            fault.status = fault.status.or(stated.status);
            fault.add_words(&stated.message);
        }
        self.facts.result = Some(ResultFacts {
            subtype: line.subtype.text().unwrap_or_default().into_owned(),
            is_error: line.is_error.is_true(),
            terminal_reason: line.terminal_reason.text().map(Cow::into_owned),
            fault,
            text: line.result.text().map(Cow::into_owned),
            errors: line
                .errors
                .list()
                .into_iter()
                .filter_map(|error| Some(error.text()?.into_owned()))
                .collect(),
        });
        if let Some(session_id) = line.session_id.text() {
            self.identity.session_id = Some(session_id.into_owned());
        }
        let goes_on =
            line.queued_turn_count.number().unwrap_or_default() > 0 || self.background_tasks > 0;
        self.is_finished = !goes_on;
        if self.after_result == AfterResult::EndSoon && self.is_finished {
            host.end_within(EXIT_GRACE);
        }
    }

    /// Reads the last line of a session file in newer versions: the account of the whole session.
    fn cost_state(&mut self, line: &StreamLine<'_>) {
        self.ledger.result(line);
        self.times.duration_ms = line.duration_ms.number();
    }

    fn denials(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        let denials = line.permission_denials.list().len() as u64;
        if denials > 0 {
            self.counts.permission_denials += denials;
            host.event(SessionEvent::Note(&format!("{denials} tool uses refused")));
        }
    }

    fn system(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        match line.subtype.word() {
            b"init" => self.init(line, host),
            b"api_retry" | b"api_error" => self.retry(line, host),
            b"hook_started" | b"hook_progress" | b"hook_response" => self.counts.hooks += 1,
            b"compact_boundary" => {
                self.counts.compactions += 1;
                host.event(SessionEvent::Note("context compacted"));
            }
            b"background_tasks_changed" => self.background_tasks = line.tasks.list().len(),
            subtype if is_known_system_subtype(subtype) => {}
            _ => self.counts.unknown_events += 1,
        }
        if line.content.is_string()
            && let Some(content) = line.content.text()
        {
            host.event(SessionEvent::Message {
                role: Role::System,
                kind: MessageKind::Text,
                content,
                timestamp: line.timestamp.text().as_deref(),
                parent: parent(line).as_deref(),
            });
        }
    }

    fn init(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        let owned = |field: Field<'_>| field.text().map(Cow::into_owned);
        let identity = &mut self.identity;
        identity.init_model = owned(line.model).or(identity.init_model.take());
        identity.version = owned(line.claude_code_version).or(identity.version.take());
        identity.session_id = owned(line.session_id).or(identity.session_id.take());
        self.started(host);
        if let Some(Ok(servers)) = line.mcp_servers.raw().map(serde_json::from_slice) {
            mcp::report(&servers, host);
        }
    }

    fn rate_limit(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        let Some(limit) = rate_limit(line) else {
            return;
        };
        let LimitEvent { status, resets_at } = limit;
        host.event(SessionEvent::Note(&format!("rate limit: {status}")));
        if status == "rejected" {
            self.facts.limit_resets_at = resets_at;
        }
    }

    /// Records a retry of an API call. With refused credentials the CLI would retry for minutes
    /// without success.
    fn retry(&mut self, line: &StreamLine<'_>, host: &mut dyn SessionHost) {
        self.counts.retries += 1;
        let fault = retry_fault(line);
        let status = fault
            .status
            .map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        host.event(SessionEvent::Note(&format!("API call retried ({status})")));
        if fault.outcome() == Some(Outcome::Auth) && self.facts.auth_refused.is_none() {
            self.facts.auth_refused = Some(fault.clone());
            host.end_within(Duration::ZERO);
        }
        self.facts.retrying = Some(fault);
    }

    /// In plain text, a failure is known by the text with which the CLI exits.
    fn read_text_fault(&mut self, ending: &Ending) {
        if self.facts.form != DetectedFormat::Text {
            return;
        }
        let said = self.text.last_message().unwrap_or_default();
        self.facts.text_error = verdict::text_error(said);
        if ending.code != Some(0) && is_own_error(said) {
            self.facts.api_fault = Some(ApiFault::said(said));
        }
    }

    fn last_words(&mut self) -> Option<String> {
        let result = self.facts.result.as_mut();
        let said = result.and_then(|result| result.text.take());
        let text = said.or_else(|| self.text.last_message().map(str::to_owned));
        text.or_else(|| {
            let text = proctor_record::transcript::lossy_text(&self.final_text);
            (!text.is_empty()).then(|| text.into_owned())
        })
        .map(|text| strip_ansi(&text).into_owned())
    }
}

impl Session for ClaudeSession {
    fn on_line(&mut self, source: LineSource, line: &[u8], host: &mut dyn SessionHost) {
        if source == LineSource::Stderr {
            let line = String::from_utf8_lossy(line);
            keep_tail(&mut self.facts.stderr_tail, &strip_ansi(&line));
            return;
        }
        self.read(line, host);
    }

    fn on_oversized_line(&mut self, _source: LineSource, bytes: u64) {
        self.counts.oversized_lines += 1;
        let message = format!(
            "a line of {bytes} bytes exceeds the limit and was not parsed; the raw log contains it"
        );
        self.warn("CLAUDE_OVERSIZED_LINE", message);
    }

    fn finish(mut self: Box<Self>, ending: &Ending, host: &mut dyn SessionHost) -> Conclusion {
        self.text.finish(host);
        self.read_text_fault(ending);
        self.facts.no_model_call = self.ledger.is_zero()
            && self.identity.message_model.is_none()
            && self.identity.subagent_model.is_none();
        let end = self.facts.end(ending);
        let (outcome, mut errors) = NAMES.judge(&end, ending, &self.facts.stderr_tail);
        if matches!(outcome, Outcome::AgentError | Outcome::GaveUp) {
            errors.extend(self.facts.reported());
        }
        for error in &mut errors {
            error.timestamp.clone_from(&self.times.last);
        }
        errors.append(&mut self.warnings);
        let subagents_seen =
            self.identity.subagent_model.is_some() || self.counts.subagent_tool_calls > 0;
        let model = self.identity.model().map(str::to_owned);
        Conclusion {
            outcome,
            version: self.identity.version.take().or(self.text.version.take()),
            model: model.or(self.text.model.take()),
            session_id: self.identity.session_id.take(),
            turns: self.turns,
            usage: self
                .ledger
                .conclude(subagents_seen)
                .or_else(|| self.text.usage()),
            final_text: self.last_words(),
            errors,
            counts: self.counts,
            times: self.times,
        }
    }
}
