//! A config file as a tree whose every value knows its place.

use std::fmt;

use crate::error::Fault;

/// A place in a config file: byte offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// Whether it covers nothing, as the value of `key:` does.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it stands.
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
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file; keys know their places too.
    Map(Vec<(Span, String, Node)>),
}

impl Node {
    /// A map without entries, for a section that was left out; complaints point at `span`.
    pub fn empty_map(span: Span) -> Node {
        Node {
            span,
            value: Value::Map(Vec::new()),
        }
    }

    /// The value of `key`, when this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, _, node)| node)
    }

    /// Where the value of `key` stands; the key itself when it has no value, the whole node
    /// when there is no such key.
    pub fn span_of(&self, key: &str) -> Span {
        match self.entry(key) {
            Some((key_span, _, node)) if node.span.is_empty() => *key_span,
            Some((_, _, node)) => node.span,
            None => self.span,
        }
    }

    /// Where the key `key` stands; the whole node when there is no such key.
    pub fn key_span_of(&self, key: &str) -> Span {
        self.entry(key).map_or(self.span, |(span, _, _)| *span)
    }

    /// The text, when this is text.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// A complaint about the value of `key` (or about the whole node when it is not there).
    pub fn fault(&self, key: &str, message: impl Into<String>) -> Fault {
        Fault::new(self.span_of(key), message)
    }

    /// Take the entry `key` out, so that the rest can be read without it.
    pub fn remove(&mut self, key: &str) -> Option<(Span, String, Node)> {
        let Value::Map(entries) = &mut self.value else {
            return None;
        };
        let at = entries.iter().position(|(_, name, _)| name == key)?;
        Some(entries.remove(at))
    }

    /// Take out keys that are understood and not there yet, each with its complaint.
    pub fn refuse(&mut self, keys: &[&str]) -> Vec<Fault> {
        keys.iter()
            .filter_map(|key| self.remove(key))
            .map(|(span, key, _)| {
                Fault::new(span, format!("`{key}` is not supported yet")).with_hint("remove it")
            })
            .collect()
    }

    fn entry(&self, key: &str) -> Option<&(Span, String, Node)> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(_, name, _)| name == key),
            _ => None,
        }
    }
}

/// How a value is named in a complaint: `the string "x"`, `a list`, `nothing`.
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
