//! The formats of files, and the parser of each.

use camino::Utf8Path;

use crate::{error::Fault, node::Node, toml, yaml};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// JSON, without the extensions that a YAML parser accepts.
    Json,
    /// TOML.
    Toml,
}

impl Format {
    /// The format of the file at `path`, by its extension. YAML unless it is another one.
    pub fn of(path: &Utf8Path) -> Format {
        match path.extension() {
            Some("json") => Format::Json,
            Some("toml") => Format::Toml,
            _ => Format::Yaml,
        }
    }

    /// Parse `text`. Reports all faults that one pass can find.
    pub fn parse(self, text: &str) -> Result<Node, Vec<Fault>> {
        match self {
            Format::Toml => toml::parse(text),
            Format::Json | Format::Yaml => yaml::parse(text, self),
        }
    }
}

/// Parse YAML.
pub fn parse_yaml(text: &str) -> Result<Node, Vec<Fault>> {
    Format::Yaml.parse(text)
}
