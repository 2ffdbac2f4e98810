//! Reads token usage from responses while they pass through the gateway.

mod anthropic;
mod decode;
mod gemini;
mod meter;
mod openai_chat;
mod openai_responses;
mod sse;
mod summary;
mod tokens;

pub(crate) use meter::Meter;
pub use tokens::Tokens;
