//! Lists of glob patterns.

use globset::{Glob, GlobSet, GlobSetBuilder};
use proctor_document::{Fault, Node};

/// Compiles the patterns of a setting.
pub(crate) fn globs(config: &Node, key: &str, patterns: &[String]) -> Result<GlobSet, Fault> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern).map_err(|error| {
            let message = format!("invalid pattern `{pattern}`: {}", error.kind());
            config.fault(key, message)
        })?;
        set.add(glob);
    }
    set.build()
        .map_err(|error| config.fault(key, error.to_string()))
}

/// Compiles the patterns of `solution_paths`.
pub(crate) fn solution_paths(
    node: &Node,
    written: Option<&[String]>,
) -> Result<Option<GlobSet>, Fault> {
    match written {
        None => Ok(None),
        Some([]) => Err(node.fault(
            "solution_paths",
            "`solution_paths` is empty: name the files that the agent may change",
        )),
        Some(patterns) => globs(node, "solution_paths", patterns).map(Some),
    }
}
