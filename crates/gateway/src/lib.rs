//! The model side of Proctor: what agents talk to instead of a provider.
//!
//! So far it holds one piece: a model that plays a script ([`ScriptedModel`]), so that a real agent
//! CLI runs without a network, a key or a bill.

mod player;
mod request;
mod respond;
mod script;
mod server;
mod wire;

pub use request::{Recorded, RequestKind};
pub use script::{
    Act, Answer, ApiError, Block, Message, Repeat, Script, ScriptError, ToolUse, Usage,
};
pub use server::{ScriptedModel, StartError};
