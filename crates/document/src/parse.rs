//! Parses text in any of the formats.

use crate::{fault::Fault, format::Format, node::Node, toml, yaml};

impl Format {
    /// Parses `text`. Reports all faults that one pass can find.
    pub fn parse(self, text: &str) -> Result<Node, Vec<Fault>> {
        match self {
            Format::Toml => toml::parse(text),
            Format::Json | Format::Yaml => yaml::parse(text, self),
        }
    }
}

/// Parses YAML.
pub fn parse_yaml(text: &str) -> Result<Node, Vec<Fault>> {
    Format::Yaml.parse(text)
}
