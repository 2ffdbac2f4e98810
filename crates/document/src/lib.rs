//! Configuration files as trees of nodes that know their positions.
//!
//! The text of a YAML, JSON or TOML file becomes a [`Node`], and [`Node::read`] turns a node into a typed
//! value. Every error is a [`Fault`] with the position of the key or value that it is about. A
//! [`ConfigError`] shows the faults of one file with path, line and caret.

mod de;
mod error;
mod format;
mod node;
mod scalar;
mod size;
mod snippet;
mod suggest;
mod toml;
mod yaml;

pub use de::keys_of;
pub use error::{ConfigError, Fault, FaultKind};
pub use format::{Format, parse_yaml};
pub use node::{Node, Span, Value};
pub use size::parse_size;
pub use suggest::{nearest, unknown_name};
pub use yaml::MAX_FILE_BYTES;
