//! The judged work as shown to a judge. Agent settings and instructions are renamed: hooks, servers
//! and instructions of the work must not affect the judge. A renamed name ends in a suffix.

use std::{ffi::OsStr, io, path::Path};

use fs_err as fs;

/// The suffix of renamed files.
pub(super) const SUFFIX: &str = ".judged";

/// Names without a leading dot that agents look for in any folder, in lower case.
const SETTINGS: [&str; 20] = [
    "agent.md",
    "agents.md",
    "agents.override.md",
    "claude.local.md",
    "claude.md",
    "codebuddy.md",
    "copilot-instructions.md",
    "crush.json",
    "crush.local.md",
    "crush.md",
    "gemini.md",
    "iflow.md",
    "kimi.md",
    "mcp.json",
    "opencode.json",
    "opencode.jsonc",
    "plugin.json",
    "qwen.md",
    "skill.md",
    "warp.md",
];

/// The longest name of a file on common file systems, in bytes.
const LONGEST: usize = 255;

/// Renames all agent settings below `folder`, also within renamed folders. Returns their number.
pub(super) fn rename_settings(folder: &Path) -> io::Result<usize> {
    let mut renamed = 0;
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut names: Vec<_> = entries.iter().map(fs::DirEntry::file_name).collect();
    // A name that ends like renamed ones makes room first.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        let mut path = folder.join(&name);
        if is_settings(&name) {
            let mut fresh = name.clone();
            fresh.push(SUFFIX);
            if fresh.len() > LONGEST {
                fresh = format!("{renamed}{SUFFIX}").into();
            }
            let fresh = folder.join(fresh);
            fs::rename(&path, &fresh)?;
            path = fresh;
            renamed += 1;
        }
        if path.symlink_metadata()?.is_dir() {
            renamed += rename_settings(&path)?;
        }
    }
    Ok(renamed)
}

/// Whether agents or their search tools may read this file by themselves: every vendor has names
/// with a leading dot, and lists of ignored files would hide parts of the work.
fn is_settings(name: &OsStr) -> bool {
    // Some file systems and some agents ignore case.
    let name = name.to_string_lossy().to_lowercase();
    name.starts_with('.') || name.ends_with(SUFFIX) || SETTINGS.contains(&name.as_str())
}

/// The path in the work for a path in the judge's copy.
pub(super) fn path_in_work(seen: &str) -> String {
    let parts = seen.split('/');
    let names = parts.map(|part| part.strip_suffix(SUFFIX).unwrap_or(part));
    names.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_agent_settings_are_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let long = ".a".repeat(LONGEST / 2);
        for (file, seen) in [
            ("CLAUDE.md", "CLAUDE.md.judged"),
            ("src/Claude.md", "src/Claude.md.judged"),
            (".claude/settings.json", ".claude.judged/settings.json"),
            // A judge that reads below a renamed folder loads nested instructions.
            (".claude/CLAUDE.md", ".claude.judged/CLAUDE.md.judged"),
            // The name of a renamed file is taken.
            (".claude.judged/x", ".claude.judged.judged/x"),
            ("AGENTS.md", "AGENTS.md.judged"),
            ("AGENTS.md.judged", "AGENTS.md.judged.judged"),
            (".new-vendor/rules.md", ".new-vendor.judged/rules.md"),
            (
                ".github/workflows/ci.yml",
                ".github.judged/workflows/ci.yml",
            ),
            (&long, "0.judged"),
            ("src/main.rs", "src/main.rs"),
            ("docs/agents/list.md", "docs/agents/list.md"),
        ] {
            let dir = tempfile::tempdir_in(dir.path()).unwrap();
            let others = [
                ".claude/o",
                ".claude.judged/o",
                "AGENTS.md.judged",
                "AGENTS.md",
            ];
            let others = others.into_iter().filter(|_| file != long);
            for file in others.chain([file]) {
                let path = dir.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, file).unwrap();
            }
            rename_settings(dir.path()).unwrap();
            let found = fs::read_to_string(dir.path().join(seen));
            assert_eq!(found.ok().as_deref(), Some(file), "{seen}");
            if file != long {
                assert_eq!(path_in_work(seen), file);
            }
        }
    }
}
