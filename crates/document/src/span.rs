//! A position in a configuration file.

/// A range of a config file, in byte offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// Whether it is empty, like the value of `key:`.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}
