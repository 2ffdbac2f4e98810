//! `youbencha-log.json`: the normalized log of one agent's session. This module has its types;
//! `LogWriter` writes it as a stream, `normalize` converts recorded output. A session can also be
//! written as an ATIF trajectory and as OpenTelemetry spans.

mod atif;
mod document;
mod escape;
mod list;
mod normalize;
mod otlp;
mod text;
mod writer;
mod youbencha;

pub use self::document::{
    Account, AgentContext, AgentInfo, Document, Execution, Message, ModelInfo, Times, ToolCall,
    UNKNOWN, VERSION, schema,
};
pub use self::{
    atif::{AtifWriter, SessionInfo},
    normalize::{Format, Found, Recording, normalize},
    otlp::{Span, spans},
    writer::LogWriter,
    youbencha::{UNKNOWN_TIME, exit_code},
};
pub use self::{
    escape::marks,
    text::{lossy_text, strip_ansi},
};
