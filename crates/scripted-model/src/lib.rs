//! A model that plays a script, so that a real agent CLI runs without a network, a key or a bill.
//!
//! [`ScriptedModel`] is a server on loopback. [`respond`] answers single requests from a [`Playback`], for
//! callers that have a server of their own, such as the gateway.

mod anthropic;
mod content;
mod gemini;
mod openai_chat;
mod openai_responses;
mod playback;
mod player;
mod reply;
mod request;
mod respond;
mod script;
mod server;
mod tools;

pub use playback::Playback;
pub use request::{RecordedRequest, RequestKind};
pub use respond::{Body, IncomingRequest, respond};
pub use script::{
    Action, Answer, ApiError, Block, Message, Repeat, Script, ScriptError, ToolUse, Usage,
    WriteFile,
};
pub use server::{ScriptedModel, StartError};
