//! The figures that a response reports, read from events or from whole bodies.

use proctor_model_api::Wire;
use serde::Deserialize;

use super::tokens::Tokens;
use super::{anthropic, gemini, openai_chat, openai_responses};

/// The figures that a response has reported so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResponseSummary {
    /// The usage, converted to the common convention.
    pub(crate) tokens: Option<Tokens>,
    /// The model that claims to have answered.
    pub(crate) model: Option<String>,
    /// Whether the stream reported its end.
    pub(crate) finished: bool,
}

impl ResponseSummary {
    /// Reads the data of one event of a stream.
    pub(super) fn read_event(&mut self, wire: Wire, data: &[u8]) {
        match wire {
            Wire::Anthropic => anthropic::read_event(data, self),
            Wire::OpenAiChat => openai_chat::read_event(data, self),
            Wire::OpenAiResponses => openai_responses::read_event(data, self),
            Wire::Gemini => gemini::read_event(data, self),
        }
    }

    /// Reads a body that is not a stream, even if its beginning is missing.
    pub(super) fn read_body(&mut self, wire: Wire, body: &[u8]) {
        match wire {
            Wire::Anthropic => anthropic::read_body(body, self),
            Wire::OpenAiChat => openai_chat::read_body(body, self),
            Wire::OpenAiResponses => openai_responses::read_body(body, self),
            Wire::Gemini => gemini::read_body(body, self),
        }
    }
}

/// The value behind the last occurrence of this quoted name in a text that is not whole JSON.
pub(super) fn last_value<'de, T: Deserialize<'de>>(text: &'de [u8], quoted: &str) -> Option<T> {
    let at = memchr::memmem::rfind(text, quoted.as_bytes())?;
    let rest = text[at + quoted.len()..]
        .trim_ascii_start()
        .strip_prefix(b":")?;
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<T>();
    values.next()?.ok()
}
