//! One line of Claude Code's JSON, borrowed. New fields and changed types come with every
//! release, so nothing here insists: a field that is not what it was is a field not there.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize,
    de::{
        Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::MapAccessDeserializer,
    },
};
use serde_json::value::RawValue;

use crate::{log::lossy_text, session::Text};

/// Any JSON value as it stands; absent and null are the same.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Field<'a>(#[serde(borrow)] Option<&'a RawValue>);

impl<'a> Field<'a> {
    /// The value's JSON text.
    pub(super) fn raw(self) -> Option<&'a RawValue> {
        self.0
    }

    fn json(self) -> Option<&'a str> {
        self.0.map(RawValue::get)
    }

    pub(super) fn is_string(self) -> bool {
        self.json().is_some_and(|json| json.starts_with('"'))
    }

    /// The text of a string.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        self.is_string()
            .then(|| lossy_text(self.json().unwrap_or_default()))
    }

    /// A whole number that is not negative.
    pub(super) fn number(self) -> Option<u64> {
        self.json()?.parse().ok()
    }

    /// Any number.
    pub(super) fn float(self) -> Option<f64> {
        self.json()?.parse().ok()
    }

    pub(super) fn is_true(self) -> bool {
        self.json() == Some("true")
    }

    /// The elements of a list.
    pub(super) fn list(self) -> Vec<Field<'a>> {
        let list = self.json().map(serde_json::from_str);
        list.and_then(Result::ok).unwrap_or_default()
    }

    /// Read as something else, where it is that.
    pub(super) fn read<T: Deserialize<'a>>(self) -> Option<T> {
        serde_json::from_str(self.json()?).ok()
    }

    /// What the log shows for it: a string's text, anything else's JSON.
    pub(super) fn for_log(self) -> Option<Text<'a>> {
        let raw = self.0?;
        Some(if self.is_string() {
            Text::JsonString(raw)
        } else {
            Text::Json(raw)
        })
    }
}

/// An object, or nothing when something else stands in its place.
#[derive(Debug)]
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Lenient<T> {
        Lenient(None)
    }
}

/// A line of stream-json or of a session file: one flat set of the fields that any of their
/// types has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Field<'a>,
    #[serde(borrow)]
    pub(super) subtype: Field<'a>,
    #[serde(borrow)]
    pub(super) message: Lenient<Message<'a>>,
    #[serde(borrow)]
    pub(super) event: Lenient<ApiEvent<'a>>,
    #[serde(borrow)]
    pub(super) parent_tool_use_id: Field<'a>,
    #[serde(borrow)]
    pub(super) session_id: Field<'a>,
    #[serde(borrow)]
    pub(super) timestamp: Field<'a>,
    /// `system`: what it says, in a session file.
    #[serde(borrow)]
    pub(super) content: Field<'a>,

    /// `init`.
    #[serde(borrow)]
    pub(super) model: Field<'a>,
    #[serde(borrow)]
    pub(super) claude_code_version: Field<'a>,

    /// Failures of the API: on `assistant`, `api_retry` and `result`.
    #[serde(borrow)]
    pub(super) error: Field<'a>,
    #[serde(borrow)]
    pub(super) error_status: Field<'a>,
    #[serde(borrow)]
    pub(super) api_error_status: Field<'a>,
    #[serde(borrow)]
    pub(super) api_error_type: Field<'a>,

    /// `result`.
    #[serde(borrow)]
    pub(super) is_error: Field<'a>,
    #[serde(borrow)]
    pub(super) terminal_reason: Field<'a>,
    #[serde(borrow)]
    pub(super) result: Field<'a>,
    #[serde(borrow)]
    pub(super) errors: Field<'a>,
    #[serde(borrow)]
    pub(super) duration_ms: Field<'a>,
    #[serde(borrow)]
    pub(super) num_turns: Field<'a>,
    #[serde(borrow)]
    pub(super) queued_turn_count: Field<'a>,
    #[serde(borrow)]
    pub(super) total_cost_usd: Field<'a>,
    #[serde(borrow)]
    pub(super) usage: Lenient<ApiUsage<'a>>,
    #[serde(borrow, rename = "modelUsage")]
    pub(super) model_usage: Field<'a>,
    #[serde(borrow)]
    pub(super) permission_denials: Field<'a>,

    /// `background_tasks_changed`.
    #[serde(borrow)]
    pub(super) tasks: Field<'a>,
    /// `stream_event`, in newer versions.
    #[serde(borrow)]
    pub(super) api_message_id: Field<'a>,
    /// `rate_limit_event`.
    #[serde(borrow)]
    pub(super) rate_limit_info: Field<'a>,

    /// Session files.
    #[serde(borrow, rename = "sessionId")]
    pub(super) file_session_id: Field<'a>,
    #[serde(borrow)]
    pub(super) version: Field<'a>,
    #[serde(borrow, rename = "isSidechain")]
    pub(super) is_sidechain: Field<'a>,
    #[serde(borrow, rename = "agentId")]
    pub(super) agent_id: Field<'a>,
}

/// A message of the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Field<'a>,
    #[serde(borrow)]
    pub(super) model: Field<'a>,
    #[serde(borrow)]
    pub(super) stop_reason: Field<'a>,
    #[serde(borrow)]
    pub(super) content: Content<'a>,
    #[serde(borrow)]
    pub(super) usage: Lenient<ApiUsage<'a>>,
}

/// An event of the API's own stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Field<'a>,
    #[serde(borrow)]
    pub(super) message: Lenient<Message<'a>>,
    #[serde(borrow)]
    pub(super) usage: Lenient<ApiUsage<'a>>,
}

/// Tokens, as the API counts them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the API's names")]
pub(super) struct ApiUsage<'a> {
    #[serde(borrow)]
    pub(super) input_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) output_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) cache_read_input_tokens: Field<'a>,
    #[serde(borrow)]
    pub(super) cache_creation_input_tokens: Field<'a>,
}

/// One block of a message's content.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Field<'a>,
    #[serde(borrow)]
    pub(super) text: Field<'a>,
    #[serde(borrow)]
    pub(super) thinking: Field<'a>,
    #[serde(borrow)]
    pub(super) id: Field<'a>,
    #[serde(borrow)]
    pub(super) name: Field<'a>,
    #[serde(borrow)]
    pub(super) input: Field<'a>,
    #[serde(borrow)]
    pub(super) tool_use_id: Field<'a>,
    #[serde(borrow)]
    pub(super) content: Field<'a>,
    #[serde(borrow)]
    pub(super) is_error: Field<'a>,
}

/// What a message says.
#[derive(Debug, Default)]
pub(super) enum Content<'a> {
    #[default]
    Nothing,
    Text(Cow<'a, str>),
    Blocks(Vec<Lenient<Block<'a>>>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor(PhantomData))
    }
}

struct LenientVisitor<T>(PhantomData<T>);

/// The scalars that a visitor passes over.
macro_rules! pass_over_scalars {
    ($value:expr) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
    };
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for LenientVisitor<T> {
    type Value = Lenient<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Lenient(Some(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Lenient(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Lenient(None))
    }

    pass_over_scalars!(Lenient(None));
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor(PhantomData))
    }
}

struct ContentVisitor<'a>(PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for ContentVisitor<'a> {
    type Value = Content<'a>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut blocks = Vec::with_capacity(1);
        while let Some(block) = seq.next_element()? {
            blocks.push(block);
        }
        Ok(Content::Blocks(blocks))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Content::Nothing)
    }

    pass_over_scalars!(Content::Nothing);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_another_type_are_fields_not_there() {
        let line = r#"{"type":"assistant","message":[1,{"a":2}],"usage":"none","num_turns":-1,
            "event":{"type":7,"message":null},"timestamp":{},"total_cost_usd":"1"}"#;
        let line: Line = serde_json::from_str(line).unwrap();
        assert_eq!(line.kind.text().as_deref(), Some("assistant"));
        assert!(line.message.0.is_none() && line.usage.0.is_none());
        assert_eq!(line.num_turns.number(), None);
        assert_eq!(line.event.0.unwrap().kind.text(), None);
        assert_eq!(line.timestamp.text(), None);
        assert_eq!(line.total_cost_usd.float(), None);
    }

    #[test]
    fn content_is_a_string_or_blocks_or_nothing() {
        let content = |json: &'static str| serde_json::from_str::<Content>(json).unwrap();
        assert!(matches!(content(r#""a\"b""#), Content::Text(text) if text == "a\"b"));
        assert!(matches!(content(r#"[{"type":"text"},3]"#), Content::Blocks(b) if b.len() == 2));
        assert!(matches!(content(r#"{"a":[1]}"#), Content::Nothing));
        assert!(matches!(content("null"), Content::Nothing));
    }
}
