//! The judged work as shown to a judge. Agent settings and instructions are renamed: hooks, servers
//! and instructions of the work must not affect the judge.

use std::{ffi::OsStr, io, path::Path};

use fs_err as fs;

/// The suffix of renamed files.
pub(super) const SUFFIX: &str = ".judged";

/// Names that agents and their search tools look for in any folder, in lower case. Lists of ignored files would hide
/// parts of the work.
const SETTINGS: [&str; 47] = [
    ".agents",
    ".aider.conf.yml",
    ".aider.model.settings.yml",
    ".aiderignore",
    ".amp",
    ".augment",
    ".claude",
    ".claudeignore",
    ".clinerules",
    ".codeiumignore",
    ".codex",
    ".continue",
    ".crush",
    ".crush.json",
    ".cursor",
    ".cursorignore",
    ".cursorrules",
    ".env",
    ".factory",
    ".gemini",
    ".geminiignore",
    ".goosehints",
    ".ignore",
    ".junie",
    ".kiro",
    ".mcp.json",
    ".opencode",
    ".opencode.json",
    ".qwen",
    ".rgignore",
    ".roo",
    ".rules",
    ".trae",
    ".windsurf",
    ".windsurfrules",
    "agent.md",
    "agents.md",
    "agents.override.md",
    "claude.local.md",
    "claude.md",
    "copilot-instructions.md",
    "crush.json",
    "gemini.md",
    "opencode.json",
    "opencode.jsonc",
    "qwen.md",
    "warp.md",
];
/// Names of agent settings in one folder only: the folder, and the name.
const SETTINGS_IN: [(&str, &str); 5] = [
    (".github", "agents"),
    (".github", "instructions"),
    (".github", "hooks"),
    (".vscode", "mcp.json"),
    (".vscode", "settings.json"),
];

/// Renames all agent settings below `folder`. Returns their number.
pub(super) fn rename_settings(folder: &Path) -> io::Result<usize> {
    let mut renamed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if is_settings(folder.file_name(), &name) {
            let mut fresh = name.clone();
            fresh.push(SUFFIX);
            fs::rename(&path, path.with_file_name(fresh))?;
            renamed += 1;
        } else if entry.file_type()?.is_dir() {
            renamed += rename_settings(&path)?;
        }
    }
    Ok(renamed)
}

fn is_settings(folder: Option<&OsStr>, name: &OsStr) -> bool {
    // Some file systems and some agents ignore case.
    let lower = |name: &OsStr| name.to_string_lossy().to_lowercase();
    let name = lower(name);
    let folder = folder.map(lower).unwrap_or_default();
    SETTINGS.contains(&name.as_str()) || SETTINGS_IN.contains(&(folder.as_str(), name.as_str()))
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
        let files = [
            "CLAUDE.md",
            "src/Claude.md",
            ".claude/settings.json",
            "a/b/AGENTS.md",
            ".mcp.json",
            ".github/copilot-instructions.md",
            ".github/workflows/ci.yml",
            "src/main.rs",
            "docs/agents/list.md",
        ];
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_eq!(rename_settings(dir.path()).unwrap(), 6);
        for (file, is_there) in files
            .iter()
            .zip([false, false, false, false, false, false, true, true, true])
        {
            assert_eq!(dir.path().join(file).exists(), is_there, "{file}");
        }
        assert!(dir.path().join(".claude.judged/settings.json").exists());
        assert_eq!(path_in_work("a/.claude.judged/x"), "a/.claude/x");
        assert_eq!(rename_settings(dir.path()).unwrap(), 0);
    }
}
