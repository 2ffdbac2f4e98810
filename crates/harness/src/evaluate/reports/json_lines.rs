//! One JSON object on each line, with other lines in between.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::{Format, ReportError};

/// The lines that are JSON objects.
pub(super) fn objects(text: &str) -> impl Iterator<Item = Map<String, Value>> {
    lines(text).filter_map(|line| serde_json::from_str(line).ok())
}

/// Reads all objects. A malformed object is an error; other lines, such as compiler output, are
/// ignored.
pub(super) fn read<T: DeserializeOwned>(text: &str, format: Format) -> Result<Vec<T>, ReportError> {
    lines(text)
        .map(|line| serde_json::from_str(line).map_err(|error| format.broken(error.to_string())))
        .collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| line.starts_with('{'))
}
