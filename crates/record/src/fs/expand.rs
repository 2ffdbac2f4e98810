//! The files that a path with patterns stands for.

use camino::{Utf8Path, Utf8PathBuf};

use super::glob::{Pattern, is_pattern};

/// Whether a pattern without a leading dot matches hidden names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// No, as in a shell.
    Skipped,
    /// Yes, as in a Dockerfile.
    Meant,
}

/// The matches of a path with patterns in its components, sorted.
pub fn expand(path: &Utf8Path, hidden: Hidden) -> Vec<Utf8PathBuf> {
    let mut found = vec![Utf8PathBuf::new()];
    for part in path.components() {
        let name = part.as_str();
        if !is_pattern(name) {
            for path in &mut found {
                path.push(name);
            }
            continue;
        }
        let pattern = Pattern::new(name);
        let below = found.iter().flat_map(|folder| entries(folder));
        found = below
            .filter(|path| {
                let child = path.file_name().unwrap_or_default();
                let is_meant = hidden == Hidden::Meant || name.starts_with('.');
                (is_meant || !child.starts_with('.')) && pattern.matches(child)
            })
            .collect();
    }
    found.retain(|path| path.exists());
    found.sort();
    found
}

/// The content of a directory, in any order.
pub fn entries(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let folder = if folder.as_str().is_empty() {
        Utf8Path::new(".")
    } else {
        folder
    };
    let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
    entries.map(|entry| entry.path().to_owned()).collect()
}
