//! One content block of a reply, with intents resolved to tool calls.

use crate::script::ToolUse;

/// A text, a thought or a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RequestContent {
    Text(String),
    Thinking(String),
    Call(ToolUse),
}
