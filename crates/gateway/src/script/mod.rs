//! A model that plays a script: what it says, in which order, and how that looks on each wire.

mod answers;
mod anthropic;
mod gemini;
mod openai_chat;
mod openai_responses;
mod playback;
mod player;
mod reply;
mod request;
mod respond;
mod server;
mod tools;

pub use answers::{
    Act, Answer, ApiError, Block, Message, Repeat, Script, ScriptError, ToolUse, Usage, WriteFile,
};
pub use request::{Recorded, RequestKind};
pub use server::{ScriptedModel, StartError};

pub(crate) use playback::Playback;
pub(crate) use respond::{Received, respond};
