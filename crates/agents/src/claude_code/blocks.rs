//! The blocks of a message: text, thoughts, tool calls and their results.

use std::borrow::Cow;

use proctor_record::session::{Counts, MessageKind, Role, SessionEvent, SessionHost, Text};

use super::message::{Content, ContentBlock, Field, Logged};

/// The author of the message.
#[derive(Clone, Copy)]
pub(super) struct MessageOrigin<'a> {
    pub(super) role: Role,
    pub(super) timestamp: Option<&'a str>,
    pub(super) parent: Option<&'a str>,
}

impl MessageOrigin<'_> {
    fn say(self, kind: MessageKind, content: Text<'_>, host: &mut dyn SessionHost) {
        host.event(SessionEvent::Message {
            role: self.role,
            kind,
            content,
            timestamp: self.timestamp,
            parent: self.parent,
        });
    }
}

/// Reports the blocks of a message.
pub(super) fn tell(
    content: &Content<'_>,
    origin: MessageOrigin<'_>,
    counts: &mut Counts,
    host: &mut dyn SessionHost,
) {
    match content {
        Content::Nothing => {}
        Content::Text(text) => {
            if let Some(text) = text.text() {
                origin.say(MessageKind::Text, text, host);
            }
        }
        Content::Blocks(blocks) => {
            for block in blocks {
                match block {
                    Some(block) => tell_block(block, origin, counts, host),
                    None => counts.unknown_events += 1,
                }
            }
        }
    }
}

fn tell_block(
    block: &ContentBlock<'_>,
    origin: MessageOrigin<'_>,
    counts: &mut Counts,
    host: &mut dyn SessionHost,
) {
    match block.kind.word() {
        b"text" => {
            if let Some(text) = block.text.text() {
                origin.say(MessageKind::Text, text, host);
            }
        }
        b"thinking" => {
            if let Some(thought) = block.thinking.text() {
                origin.say(MessageKind::Thinking, thought, host);
            }
        }
        b"redacted_thinking" => {
            origin.say(MessageKind::Thinking, Text::Plain("[redacted]"), host);
        }
        b"image" => origin.say(MessageKind::Text, Text::Plain("[image]"), host),
        b"document" => origin.say(MessageKind::Text, Text::Plain("[document]"), host),
        b"tool_use" | b"server_tool_use" | b"mcp_tool_use" => {
            tell_call(block, origin, counts, host);
        }
        kind if kind.ends_with(b"tool_result") => tell_result(block, host),
        _ => counts.unknown_events += 1,
    }
}

fn tell_call(
    block: &ContentBlock<'_>,
    origin: MessageOrigin<'_>,
    counts: &mut Counts,
    host: &mut dyn SessionHost,
) {
    counts.subagent_tool_calls += u64::from(origin.parent.is_some());
    host.event(SessionEvent::ToolCall {
        id: block.id.text().as_deref(),
        name: &block.name.text().unwrap_or_default(),
        arguments: block.input.text().unwrap_or(Text::Plain("")),
        parent: origin.parent,
    });
}

fn tell_result(block: &ContentBlock<'_>, host: &mut dyn SessionHost) {
    let id = block.tool_use_id.text().unwrap_or_default();
    let joined;
    let content = match block.content.raw() {
        Some(raw) if raw.starts_with('[') => match list_content(block.content) {
            JoinedText::One(text) => Some(text),
            JoinedText::Joined(text) => {
                joined = text;
                Some(Text::Plain(&joined))
            }
        },
        _ => block.content.text(),
    };
    host.event(SessionEvent::ToolResult {
        id: &id,
        content,
        is_error: block.is_error.is_true() || is_error_object(block.content),
    });
}

/// Whether the result is an object with an `error_code`, which server tools use for failures.
fn is_error_object(content: Logged<'_>) -> bool {
    let is_object = content.raw().is_some_and(|raw| raw.starts_with('{'));
    is_object && content.field().member("error_code").is_there()
}

enum JoinedText<'a> {
    One(Text<'a>),
    Joined(String),
}

/// A result that is a list of blocks: texts unchanged, images as a marker, others as JSON.
fn list_content(content: Logged<'_>) -> JoinedText<'_> {
    let items = content.field().list();
    let parts: Vec<_> = items
        .iter()
        .map(|item| (*item, item.raw().and_then(ContentBlock::read)))
        .collect();
    if let [(_, Some(ContentBlock { text, .. }))] = parts.as_slice()
        && text.is_string()
        && let Some(text) = text.text()
    {
        return JoinedText::One(text);
    }
    let texts = parts
        .iter()
        .map(|(item, block)| shown(*item, block.as_ref()));
    JoinedText::Joined(texts.collect::<Vec<_>>().join("\n"))
}

fn shown<'a>(item: Field<'a>, block: Option<&ContentBlock<'a>>) -> Cow<'a, str> {
    let block = block.map(|block| (block.kind.text(), block.text.field().text()));
    match block {
        Some((_, Some(text))) => text,
        Some((Some(kind), None)) if kind == "image" => Cow::Borrowed("[image]"),
        _ => item
            .raw()
            .map_or(Cow::Borrowed(""), String::from_utf8_lossy),
    }
}
