//! A task folder of any format.

use std::collections::BTreeMap;

use camino::Utf8Path;
use proctor_document::ConfigError;

use super::{Task, find, harbor, terminal_bench};
use crate::config::Settings;

/// Reads and checks a task folder: Harbor's format, or that of Terminal-Bench 1.
pub fn load(
    folder: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<Task, ConfigError> {
    if find::is_terminal_bench(folder) {
        terminal_bench::load(folder, env, settings)
    } else {
        harbor::load(folder, env, settings)
    }
}
