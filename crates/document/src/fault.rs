//! One fault in a configuration file, with its position.

use crate::span::Span;

/// A fault in a config file, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The position.
    pub span: Span,
    /// The error.
    pub message: String,
    /// A suggestion for the user.
    pub hint: Option<String>,
    /// The kind, for special handling.
    pub kind: FaultKind,
}

/// The kind of a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FaultKind {
    /// The type has no such key.
    UnknownKey(String),
    /// Any other fault.
    #[default]
    Other,
}

impl Fault {
    /// A fault without a hint.
    pub fn new(span: Span, message: impl Into<String>) -> Fault {
        Fault {
            span,
            message: message.into(),
            hint: None,
            kind: FaultKind::Other,
        }
    }

    /// The same fault with a kind.
    #[must_use]
    pub fn with_kind(mut self, kind: FaultKind) -> Fault {
        self.kind = kind;
        self
    }

    /// The same fault with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }
}
