//! Single events: the position of their JSON, their parent, their failure class, and events without
//! data for the log.

use std::borrow::Cow;

use memchr::memchr;

use super::{
    json::Cursor,
    message::{Content, Field, Message, StreamLine},
};
use crate::fault::ApiFault;

/// The maximum prefix before the JSON of an event on a terminal.
const MAX_NOISE_BYTES: usize = 64;
const MAX_STDERR_TAIL: usize = 2000;

/// The JSON of an event in a line: at the start, or after a short prefix from a terminal.
pub(super) fn json_part(line: &[u8]) -> Option<&[u8]> {
    let start = memchr(b'{', line).filter(|start| *start <= MAX_NOISE_BYTES)?;
    let (noise, json) = line.split_at(start);
    let noise = noise.strip_prefix(b"^D").unwrap_or(noise);
    let is_noise = !noise.iter().any(u8::is_ascii_alphanumeric);
    is_noise.then_some(json)
}

/// The objects of a list on one line, as in `--output-format json`.
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

/// Whether a message is the last of a turn. Older versions omit the reason.
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

/// The tool call, or in a session file the agent, that a line belongs to below the main thread.
pub(super) fn parent<'a>(line: &StreamLine<'a>) -> Option<Cow<'a, str>> {
    line.parent_tool_use_id.text().or_else(|| {
        let is_sidechain = line.is_sidechain.is_true();
        is_sidechain.then(|| line.agent_id.text().unwrap_or(Cow::Borrowed("sidechain")))
    })
}

pub(super) fn api_fault(line: &StreamLine<'_>) -> ApiFault {
    let words = [line.error, line.api_error_type];
    let words: Vec<_> = words.into_iter().filter_map(Field::text).collect();
    ApiFault {
        status: line.api_error_status.number(),
        message: words.join(", "),
    }
}

/// The fault of a retry. Stream-json has a status and a word, a session file an object.
pub(super) fn retry_fault(line: &StreamLine<'_>) -> ApiFault {
    let status = line.error_status.number();
    let nested = || line.error.member("status").number();
    ApiFault {
        status: status.or_else(nested),
        ..api_fault(line)
    }
}

/// A limit of the account that is near or reached.
pub(super) struct LimitEvent<'a> {
    pub(super) status: Cow<'a, str>,
    /// Unix seconds.
    pub(super) resets_at: Option<u64>,
}

pub(super) fn rate_limit<'a>(line: &StreamLine<'a>) -> Option<LimitEvent<'a>> {
    let status = line.rate_limit_info.member("status").text();
    let status = status.filter(|status| status != "allowed")?;
    let resets_at = line.rate_limit_info.member("resetsAt").number();
    Some(LimitEvent { status, resets_at })
}

pub(super) fn keep_tail(tail: &mut String, line: &str) {
    tail.push_str(line);
    tail.push('\n');
    let surplus = tail.len().saturating_sub(MAX_STDERR_TAIL);
    tail.drain(..tail.ceil_char_boundary(surplus));
}

/// Whether the type has no data for the log: progress, the control protocol, and bookkeeping of
/// session files.
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
