//! Single events: the position of their JSON, their owner, their failure class, and events without
//! data for the log.

use std::borrow::Cow;

use memchr::memchr;
use proctor_record::session::{SessionEvent, SessionHost};

use super::{
    json::Cursor,
    message::{Content, Field, Line, Message},
};
use crate::fault::ApiFault;

/// The prefix before the JSON of an event on a terminal.
const MAX_NOISE_BYTES: usize = 64;
const MAX_STDERR_TAIL: usize = 2000;

/// Where in a line the JSON of an event may be: at the start, or after a little noise that a
/// terminal put before it.
pub(super) fn json_part(line: &[u8]) -> Option<&[u8]> {
    let start = memchr(b'{', line).filter(|start| *start <= MAX_NOISE_BYTES)?;
    let (noise, json) = line.split_at(start);
    let noise = noise.strip_prefix(b"^D").unwrap_or(noise);
    let is_noise = !noise.iter().any(u8::is_ascii_alphanumeric);
    is_noise.then_some(json)
}

/// The objects of a list that stands on one line, as `--output-format json` writes it.
pub(super) fn list(line: &[u8]) -> Vec<&[u8]> {
    let mut items = Vec::new();
    let mut cursor = Cursor::new(line);
    let whole = cursor.elements(|cursor| {
        items.push(cursor.value()?);
        Some(())
    });
    match whole.and_then(|()| cursor.end()) {
        Some(()) => items,
        None => Vec::new(),
    }
}

/// Whether a message is the last of a turn. Older versions leave the reason out.
pub(super) fn ends_turn(message: &Message<'_>) -> bool {
    let Content::Blocks(blocks) = &message.content else {
        return false;
    };
    let mut kinds = blocks.iter().flatten().map(|block| block.kind.word());
    match message.stop_reason.word() {
        b"end_turn" | b"stop_sequence" => true,
        b"" => !kinds.any(|kind| kind.ends_with(b"tool_use")),
        _ => false,
    }
}

/// The tool call, or in a session file the agent, that a line belongs to below the main
/// thread.
pub(super) fn parent<'a>(line: &Line<'a>) -> Option<Cow<'a, str>> {
    line.parent_tool_use_id.text().or_else(|| {
        let is_sidechain = line.is_sidechain.is_true();
        is_sidechain.then(|| line.agent_id.text().unwrap_or(Cow::Borrowed("sidechain")))
    })
}

pub(super) fn api_fault(line: &Line<'_>) -> ApiFault {
    let words = [line.error, line.api_error_type];
    let words: Vec<_> = words.into_iter().filter_map(Field::text).collect();
    ApiFault {
        status: line.api_error_status.number(),
        message: words.join(", "),
    }
}

/// Stream-json tells of a retry with a status and a word, a session file with an object.
pub(super) fn retry_fault(line: &Line<'_>) -> ApiFault {
    let status = line.error_status.number();
    let nested = || line.error.member("status").number();
    ApiFault {
        status: status.or_else(nested),
        ..api_fault(line)
    }
}

pub(super) fn rate_limit(line: &Line<'_>, host: &mut dyn SessionHost) {
    let status = line.rate_limit_info.member("status").text();
    if let Some(status) = status.filter(|status| status != "allowed") {
        host.event(SessionEvent::Note(&format!("rate limit: {status}")));
    }
}

pub(super) fn keep_tail(tail: &mut String, line: &str) {
    tail.push_str(line);
    tail.push('\n');
    let surplus = tail.len().saturating_sub(MAX_STDERR_TAIL);
    tail.drain(..tail.ceil_char_boundary(surplus));
}

/// Types that carry nothing for the log: progress, the control protocol, and the bookkeeping
/// of session files.
pub(super) fn is_known_without_effect(kind: &[u8]) -> bool {
    matches!(
        kind,
        b"tool_progress"
            | b"tool_use_summary"
            | b"auth_status"
            | b"prompt_suggestion"
            | b"keep_alive"
            | b"control_request"
            | b"control_response"
            | b"control_cancel_request"
            | b"summary"
            | b"ai-title"
            | b"custom-title"
            | b"last-prompt"
            | b"progress"
            | b"attachment"
            | b"queue-operation"
            | b"file-history-snapshot"
            | b"tools-used"
            | b"atis-latch"
            | b"api-request"
            | b"api-request-blob"
            | b"api-request-shape"
    )
}

pub(super) fn is_known_system_subtype(subtype: &[u8]) -> bool {
    matches!(
        subtype,
        b"status"
            | b"task_started"
            | b"task_progress"
            | b"task_updated"
            | b"task_notification"
            | b"thinking_tokens"
            | b"turn_duration"
            | b"stop_hook_summary"
            | b"local_command"
            | b"local_command_output"
            | b"informational"
            | b"session_state_changed"
            | b"files_persisted"
    )
}
