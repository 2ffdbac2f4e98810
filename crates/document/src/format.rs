//! The formats of files.

use camino::Utf8Path;

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
    /// The format of the file at `path`, by its extension. The default is YAML.
    pub fn of(path: &Utf8Path) -> Format {
        match path.extension() {
            Some("json") => Format::Json,
            Some("toml") => Format::Toml,
            _ => Format::Yaml,
        }
    }
}
