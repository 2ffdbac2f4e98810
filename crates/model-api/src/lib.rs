//! The model APIs that Proctor understands.
//!
//! Both the gateway and the scripted model need to know which API and endpoint a request is for, and how
//! the clients of that API expect an error.

mod error_body;
mod gemini;
mod path;
mod route;
mod wire;

pub use error_body::anthropic_error_type;
pub use route::route;
pub use wire::{Kind, Provider, Route, Wire};
