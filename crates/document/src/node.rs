//! A config file as a tree of values with positions.

use std::fmt;

use crate::{fault::Fault, span::Span};

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The position.
    pub span: Span,
    /// The kind of node.
    pub value: Value,
}

/// The content of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file, with the positions of keys.
    Map(Vec<(Span, String, Node)>),
}

impl Node {
    /// A map without entries, for a missing section; faults point at `span`.
    pub fn empty_map(span: Span) -> Node {
        Node {
            span,
            value: Value::Map(Vec::new()),
        }
    }

    /// The value of `key`, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, _, node)| node)
    }

    /// The position of the value of `key`; of the key if it has no value, of the whole node if
    /// there is no such key.
    pub fn span_of(&self, key: &str) -> Span {
        match self.entry(key) {
            Some((key_span, _, node)) if node.span.is_empty() => *key_span,
            Some((_, _, node)) => node.span,
            None => self.span,
        }
    }

    /// The position of the key `key`; of the whole node if there is no such key.
    pub fn key_span_of(&self, key: &str) -> Span {
        self.entry(key).map_or(self.span, |(span, _, _)| *span)
    }

    /// The text, if this is text.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// A fault about the value of `key` (or about the whole node if it is missing).
    pub fn fault(&self, key: &str, message: impl Into<String>) -> Fault {
        Fault::new(self.span_of(key), message)
    }

    /// Removes the entry `key`, so that the rest can be read without it.
    pub fn remove(&mut self, key: &str) -> Option<(Span, String, Node)> {
        let Value::Map(entries) = &mut self.value else {
            return None;
        };
        let at = entries.iter().position(|(_, name, _)| name == key)?;
        Some(entries.remove(at))
    }

    fn entry(&self, key: &str) -> Option<&(Span, String, Node)> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(_, name, _)| name == key),
            _ => None,
        }
    }
}

/// A value in an error message: `the string "x"`, `a list`, `nothing`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("nothing"),
            Value::Bool(value) => write!(f, "`{value}`"),
            Value::Int(value) => write!(f, "the whole number {value}"),
            Value::Float(value) => write!(f, "the number {value}"),
            Value::String(text) => write!(f, "the string {text:?}"),
            Value::List(_) => f.write_str("a list"),
            Value::Map(_) => f.write_str("a map"),
        }
    }
}
