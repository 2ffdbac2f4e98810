//! Configuration files as trees of nodes with positions.
//!
//! The text of a YAML, JSON or TOML file becomes a [`Node`], and [`Node::read`] turns a node into a typed
//! value. Every error is a [`Fault`] with the position of the key or value that it is about. A
//! [`ConfigError`] shows the faults of one file with path, line and caret.

mod de;
mod error;
mod fault;
mod format;
mod markdown;
mod node;
mod parse;
mod scalar;
mod size;
mod snippet;
mod span;
mod suggest;
mod toml;
mod yaml;

pub use de::keys_of;
pub use error::ConfigError;
pub use fault::{Fault, FaultKind};
pub use format::Format;
pub use markdown::{MarkdownUnit, SplitText};
pub use node::{Node, Value};
pub use parse::parse_yaml;
pub use size::parse_size;
pub use span::Span;
pub use suggest::{nearest, unknown_name};
pub use yaml::MAX_FILE_BYTES;
