//! One line of Claude Code's JSON, borrowed. Fields and types change with every release, so reading
//! is lenient: a field with an unexpected type is treated as missing.

use std::borrow::Cow;

use proctor_record::{session::Text, transcript::lossy_text};

use super::json::Cursor;

/// Any JSON value as text; absent and null are the same.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Field<'a>(Option<&'a [u8]>);

impl<'a> Field<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Option<Field<'a>> {
        let value = cursor.value()?;
        Some(Field((value != b"null").then_some(value)))
    }

    /// The JSON text of the value.
    pub(super) fn raw(self) -> Option<&'a [u8]> {
        self.0
    }

    pub(super) fn is_there(self) -> bool {
        self.0.is_some()
    }

    pub(super) fn is_string(self) -> bool {
        self.0.is_some_and(|json| json.starts_with(b"\""))
    }

    fn json(self) -> Option<&'a str> {
        std::str::from_utf8(self.0?).ok()
    }

    /// The raw text between the quotes of a string, which is enough for fixed words of the CLI.
    pub(super) fn word(self) -> &'a [u8] {
        let json = self.0.unwrap_or_default();
        json.strip_prefix(b"\"")
            .and_then(|rest| rest.strip_suffix(b"\""))
            .unwrap_or_default()
    }

    /// The text of a string.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        self.is_string().then_some(())?;
        self.json().map(lossy_text)
    }

    /// A non-negative integer.
    pub(super) fn number(self) -> Option<u64> {
        self.0?.iter().try_fold(0_u64, |number, byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            number.checked_mul(10)?.checked_add(digit)
        })
    }

    /// Any number.
    pub(super) fn float(self) -> Option<f64> {
        self.json()?.parse().ok()
    }

    pub(super) fn is_true(self) -> bool {
        self.0 == Some(b"true")
    }

    /// The elements of a list.
    pub(super) fn list(self) -> Vec<Field<'a>> {
        let mut list = Vec::new();
        if let Some(json) = self.0 {
            Cursor::new(json).elements(|cursor| {
                list.push(Field::take(cursor)?);
                Some(())
            });
        }
        list
    }

    /// The members of an object.
    pub(super) fn members(self) -> Vec<(Cow<'a, str>, Field<'a>)> {
        let mut members = Vec::new();
        if let Some(json) = self.0 {
            Cursor::new(json).members(|cursor, key| {
                members.push((String::from_utf8_lossy(key), Field::take(cursor)?));
                Some(())
            });
        }
        members
    }

    /// One member of an object.
    pub(super) fn member(self, name: &str) -> Field<'a> {
        let members = self.members();
        let found = members.iter().find(|(key, _)| key == name);
        found.map_or(Field(None), |(_, value)| *value)
    }
}

/// A value for the log: valid UTF-8.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Logged<'a>(Option<&'a str>);

impl<'a> Logged<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Option<Logged<'a>> {
        let value = simdutf8::basic::from_utf8(cursor.value()?).ok()?;
        Some(Logged((value != "null").then_some(value)))
    }

    pub(super) fn is_string(self) -> bool {
        self.0.is_some_and(|json| json.starts_with('"'))
    }

    /// The JSON text of the value.
    pub(super) fn raw(self) -> Option<&'a str> {
        self.0
    }

    /// The value as a field.
    pub(super) fn field(self) -> Field<'a> {
        Field(self.0.map(str::as_bytes))
    }

    /// The text for the log: the content of a string, or the JSON of any other value.
    pub(super) fn text(self) -> Option<Text<'a>> {
        let json = self.0?;
        Some(if self.is_string() {
            Text::JsonString(json)
        } else {
            Text::Json(json)
        })
    }
}

/// A line of stream-json or of a session file: one flat struct with the fields of all types.
#[derive(Debug, Default)]
pub(super) struct StreamLine<'a> {
    pub(super) kind: Field<'a>,
    pub(super) subtype: Field<'a>,
    pub(super) message: Option<Message<'a>>,
    pub(super) event: Option<ApiEvent<'a>>,
    pub(super) parent_tool_use_id: Field<'a>,
    pub(super) session_id: Field<'a>,
    pub(super) timestamp: Field<'a>,
    /// `system`: its text, in a session file.
    pub(super) content: Logged<'a>,

    /// Fields of `init`.
    pub(super) model: Field<'a>,
    pub(super) claude_code_version: Field<'a>,
    pub(super) mcp_servers: Field<'a>,

    /// API failures, in `assistant`, `api_retry` and `result`.
    pub(super) error: Field<'a>,
    pub(super) error_status: Field<'a>,
    pub(super) api_error_status: Field<'a>,
    pub(super) api_error_type: Field<'a>,

    /// Fields of `result`.
    pub(super) is_error: Field<'a>,
    pub(super) terminal_reason: Field<'a>,
    pub(super) result: Field<'a>,
    pub(super) errors: Field<'a>,
    pub(super) duration_ms: Field<'a>,
    pub(super) num_turns: Field<'a>,
    pub(super) queued_turn_count: Field<'a>,
    pub(super) total_cost_usd: Field<'a>,
    pub(super) usage: Option<ApiUsage>,
    pub(super) model_usage: Field<'a>,
    pub(super) permission_denials: Field<'a>,

    /// Fields of `background_tasks_changed`.
    pub(super) tasks: Field<'a>,
    /// Fields of `stream_event`, in newer versions.
    pub(super) api_message_id: Field<'a>,
    /// Fields of `rate_limit_event`.
    pub(super) rate_limit_info: Field<'a>,

    /// Fields of session files.
    pub(super) file_session_id: Field<'a>,
    pub(super) version: Field<'a>,
    pub(super) is_sidechain: Field<'a>,
    pub(super) agent_id: Field<'a>,
    pub(super) has_unknown_cost: Field<'a>,

    has_parent: bool,
    is_rest_skipped: bool,
    is_whole: bool,
}

impl<'a> StreamLine<'a> {
    /// Reads a line; `is_event` reports whether it is valid. (A large `Option` would be copied on
    /// return.)
    pub(super) fn read(json: &'a [u8]) -> StreamLine<'a> {
        let mut line = StreamLine::default();
        let mut cursor = Cursor::new(json);
        let walked = cursor.members(|cursor, key| line.member(cursor, key));
        let is_enough = line.is_rest_skipped && json.ends_with(b"}");
        line.is_whole = is_enough || walked.and_then(|()| cursor.end()).is_some();
        line
    }

    /// Whether it is a JSON object with a type.
    pub(super) fn is_event(&self) -> bool {
        self.is_whole && self.kind.is_string()
    }

    /// Whether the rest of the line can be skipped. A tool result occurs twice, for the model and
    /// as the CLI's own structure, which is a third of a session and last on its line. The walk
    /// ends there if the log has all it needs.
    fn skips_rest(&self) -> bool {
        self.message.is_some() && self.has_parent && self.kind.word() == b"user"
    }

    fn member(&mut self, cursor: &mut Cursor<'a>, key: &[u8]) -> Option<()> {
        let field = match key {
            b"message" => return object(cursor, &mut self.message, Message::member),
            b"event" => return object(cursor, &mut self.event, ApiEvent::member),
            b"usage" => return object(cursor, &mut self.usage, ApiUsage::member),
            b"content" => {
                self.content = Logged::take(cursor)?;
                return Some(());
            }
            b"type" => &mut self.kind,
            b"subtype" => &mut self.subtype,
            b"parent_tool_use_id" => {
                self.has_parent = true;
                &mut self.parent_tool_use_id
            }
            b"tool_use_result" if self.skips_rest() => {
                self.is_rest_skipped = true;
                return None;
            }
            b"session_id" => &mut self.session_id,
            b"timestamp" => &mut self.timestamp,
            b"model" => &mut self.model,
            b"claude_code_version" => &mut self.claude_code_version,
            b"mcp_servers" => &mut self.mcp_servers,
            b"error" => &mut self.error,
            b"error_status" => &mut self.error_status,
            b"api_error_status" => &mut self.api_error_status,
            b"api_error_type" => &mut self.api_error_type,
            b"is_error" => &mut self.is_error,
            b"terminal_reason" => &mut self.terminal_reason,
            b"result" => &mut self.result,
            b"errors" => &mut self.errors,
            b"duration_ms" | b"totalDuration" => &mut self.duration_ms,
            b"num_turns" => &mut self.num_turns,
            b"queued_turn_count" => &mut self.queued_turn_count,
            b"total_cost_usd" | b"totalCostUSD" => &mut self.total_cost_usd,
            b"hasUnknownModelCost" => &mut self.has_unknown_cost,
            b"modelUsage" => &mut self.model_usage,
            b"permission_denials" => &mut self.permission_denials,
            b"tasks" => &mut self.tasks,
            b"api_message_id" => &mut self.api_message_id,
            b"rate_limit_info" => &mut self.rate_limit_info,
            b"sessionId" => &mut self.file_session_id,
            b"version" => &mut self.version,
            b"isSidechain" => &mut self.is_sidechain,
            b"agentId" => &mut self.agent_id,
            _ => return cursor.value().map(drop),
        };
        *field = Field::take(cursor)?;
        Some(())
    }
}

/// A message of the API.
#[derive(Debug, Default)]
pub(super) struct Message<'a> {
    pub(super) id: Field<'a>,
    pub(super) model: Field<'a>,
    pub(super) stop_reason: Field<'a>,
    pub(super) content: Content<'a>,
    pub(super) usage: Option<ApiUsage>,
}

impl<'a> Message<'a> {
    fn member(&mut self, cursor: &mut Cursor<'a>, key: &[u8]) -> Option<()> {
        let field = match key {
            b"content" => {
                self.content = Content::take(cursor)?;
                return Some(());
            }
            b"usage" => return object(cursor, &mut self.usage, ApiUsage::member),
            b"id" => &mut self.id,
            b"model" => &mut self.model,
            b"stop_reason" => &mut self.stop_reason,
            _ => return cursor.value().map(drop),
        };
        *field = Field::take(cursor)?;
        Some(())
    }
}

/// An event of the API's own stream.
#[derive(Debug, Default)]
pub(super) struct ApiEvent<'a> {
    pub(super) kind: Field<'a>,
    pub(super) delta: Option<Delta<'a>>,
    pub(super) message: Option<Message<'a>>,
    pub(super) usage: Option<ApiUsage>,
}

impl<'a> ApiEvent<'a> {
    fn member(&mut self, cursor: &mut Cursor<'a>, key: &[u8]) -> Option<()> {
        match key {
            b"type" => self.kind = Field::take(cursor)?,
            b"delta" => return object(cursor, &mut self.delta, Delta::member),
            b"message" => return object(cursor, &mut self.message, Message::member),
            b"usage" => return object(cursor, &mut self.usage, ApiUsage::member),
            _ => drop(cursor.value()?),
        }
        Some(())
    }
}

/// The next part of a block.
#[derive(Debug, Default)]
pub(super) struct Delta<'a> {
    /// The text; reasoning and tool arguments have other keys.
    pub(super) text: Field<'a>,
}

impl<'a> Delta<'a> {
    fn member(&mut self, cursor: &mut Cursor<'a>, key: &[u8]) -> Option<()> {
        match key {
            b"text" => self.text = Field::take(cursor)?,
            _ => drop(cursor.value()?),
        }
        Some(())
    }
}

/// Tokens as counted by the API; a missing count is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ApiUsage {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_creation: Option<u64>,
}

impl ApiUsage {
    fn member(&mut self, cursor: &mut Cursor<'_>, key: &[u8]) -> Option<()> {
        let count = match key {
            b"input_tokens" => &mut self.input,
            b"output_tokens" => &mut self.output,
            b"cache_read_input_tokens" => &mut self.cache_read,
            b"cache_creation_input_tokens" => &mut self.cache_creation,
            _ => return cursor.value().map(drop),
        };
        *count = Field::take(cursor)?.number();
        Some(())
    }
}

/// One block of a message's content.
#[derive(Debug, Default)]
pub(super) struct ContentBlock<'a> {
    pub(super) kind: Field<'a>,
    pub(super) text: Logged<'a>,
    pub(super) thinking: Logged<'a>,
    pub(super) id: Field<'a>,
    pub(super) name: Field<'a>,
    pub(super) input: Logged<'a>,
    pub(super) tool_use_id: Field<'a>,
    pub(super) content: Logged<'a>,
    pub(super) is_error: Field<'a>,
}

impl<'a> ContentBlock<'a> {
    /// Reads a single block.
    pub(super) fn read(json: &'a [u8]) -> Option<ContentBlock<'a>> {
        let mut block = ContentBlock::default();
        Cursor::new(json).members(|cursor, key| block.member(cursor, key))?;
        Some(block)
    }

    fn member(&mut self, cursor: &mut Cursor<'a>, key: &[u8]) -> Option<()> {
        match key {
            b"type" => self.kind = Field::take(cursor)?,
            b"id" => self.id = Field::take(cursor)?,
            b"name" => self.name = Field::take(cursor)?,
            b"tool_use_id" => self.tool_use_id = Field::take(cursor)?,
            b"is_error" => self.is_error = Field::take(cursor)?,
            b"text" => self.text = Logged::take(cursor)?,
            b"thinking" => self.thinking = Logged::take(cursor)?,
            b"input" => self.input = Logged::take(cursor)?,
            b"content" => self.content = Logged::take(cursor)?,
            _ => drop(cursor.value()?),
        }
        Some(())
    }
}

/// The content of a message.
#[derive(Debug, Default)]
pub(super) enum Content<'a> {
    #[default]
    Nothing,
    Text(Logged<'a>),
    /// Blocks; `None` if the value is not an object.
    Blocks(Vec<Option<ContentBlock<'a>>>),
}

impl<'a> Content<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Option<Content<'a>> {
        if cursor.peek()? != b'[' {
            let value = Logged::take(cursor)?;
            return Some(if value.is_string() {
                Content::Text(value)
            } else {
                Content::Nothing
            });
        }
        let mut blocks = Vec::with_capacity(1);
        cursor.elements(|cursor| {
            let mut block = None;
            object(cursor, &mut block, ContentBlock::member)?;
            blocks.push(block);
            Some(())
        })?;
        Some(Content::Blocks(blocks))
    }
}

/// Reads an object member by member; other values are skipped.
fn object<'a, T: Default>(
    cursor: &mut Cursor<'a>,
    into: &mut Option<T>,
    member: fn(&mut T, &mut Cursor<'a>, &[u8]) -> Option<()>,
) -> Option<()> {
    if cursor.peek()? != b'{' {
        return cursor.value().map(drop);
    }
    let object = into.insert(T::default());
    cursor.members(|cursor, key| member(object, cursor, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_unexpected_types_are_missing() {
        let line = br#"{"type":"assistant","message":[1,{"a":2}],"usage":"none","num_turns":-1,
            "event":{"type":7,"message":null},"timestamp":{},"total_cost_usd":"1"}"#;
        let line = StreamLine::read(line);
        assert!(line.is_event());
        assert_eq!(line.kind.text().as_deref(), Some("assistant"));
        assert!(line.message.is_none() && line.usage.is_none());
        assert_eq!(line.num_turns.number(), None);
        assert_eq!(line.event.unwrap().kind.text(), None);
        assert_eq!(line.timestamp.text(), None);
        assert_eq!(line.total_cost_usd.float(), None);
    }

    #[test]
    fn content_is_a_string_or_blocks_or_missing() {
        let content = |json: &'static [u8]| Content::take(&mut Cursor::new(json)).unwrap();
        assert!(matches!(content(br#""a\"b""#), Content::Text(_)));
        assert!(matches!(content(br#"[{"type":"text"},3]"#), Content::Blocks(b) if b.len() == 2));
        assert!(matches!(content(br#"{"a":[1]}"#), Content::Nothing));
        assert!(matches!(content(b"null"), Content::Nothing));
    }
}
