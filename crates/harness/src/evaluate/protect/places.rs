//! Where files stand to each other: which files would be loaded in the place of others, and which a command starts from.

use std::collections::BTreeSet;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{go_mod, makefile, patterns::MAKEFILES, rules::Circumstances};

/// Ends of files that Node and bundlers load for a name without an end.
const SCRIPTS: [&str; 9] = [
    ".js", ".json", ".node", ".cjs", ".mjs", ".ts", ".tsx", ".jsx", ".mts",
];

/// The modules in whose place a file would be loaded. Python looks for the package `tests/__init__.py` and for
/// `tests.so` before it looks for `tests.py`; Node looks for `check`, and bundlers for other ends, before `check.js`.
pub(super) fn modules_before(path: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let first = name.split('.').next().unwrap_or(name);
    let is_extension = [".so", ".pyd"].iter().any(|end| name.ends_with(end));
    match name {
        "__init__.py" if !folder.is_empty() => vec![format!("{folder}.py")],
        _ if is_extension && first == "__init__" => vec![format!("{folder}.py")],
        _ if is_extension => vec![join(folder, &format!("{first}.py"))],
        _ => {
            let stem = SCRIPTS.iter().find_map(|end| name.strip_suffix(end));
            let is_script = stem.is_some() || !name.contains('.');
            let stem = join(folder, stem.unwrap_or(name));
            let others = SCRIPTS.iter().filter(|_| is_script);
            let others = others.map(|end| format!("{stem}{end}"));
            others.filter(|other| other != path).collect()
        }
    }
}

/// The folder of the Node package that a file belongs to, or that it would shadow: Node looks for
/// `checker.js` before `checker/`.
pub(super) fn vendored_package(path: &str) -> Option<&str> {
    const MODULES: &str = "node_modules/";
    let at = path.rfind(MODULES)? + MODULES.len();
    let scope = match path[at..].strip_prefix('@') {
        Some(rest) => rest.find('/')? + 2,
        None => 0,
    };
    let name = &path[at + scope..];
    if let Some((package, _)) = name.split_once('/') {
        return Some(&path[..at + scope + package.len()]);
    }
    SCRIPTS.iter().find_map(|end| path.strip_suffix(end))
}

/// The makefiles that a command may read in its folder; empty if it does not run make.
pub(in crate::evaluate) fn makefiles(facts: &Circumstances) -> Vec<String> {
    let runs_make = ["make", "gmake"]
        .iter()
        .any(|it| facts.programs.contains(*it));
    let usual = MAKEFILES.iter().map(|name| join(&facts.working_dir, name));
    let named = facts.scripts.iter().cloned();
    let all: Vec<String> = usual.chain(named).collect();
    if runs_make { all } else { Vec::new() }
}

/// The paths and patterns that a makefile includes, relative to make's working directory.
pub(in crate::evaluate) fn includes(makefile: &[u8], facts: &Circumstances) -> Vec<String> {
    let names = makefile::includes(&String::from_utf8_lossy(makefile));
    let names = names.iter().map(|name| join(&facts.working_dir, name));
    names.collect()
}

/// Patterns from other files; an invalid pattern is matched literally.
pub(in crate::evaluate) fn lenient_globs(patterns: &BTreeSet<String>) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern).or_else(|_| Glob::new(&globset::escape(pattern)));
        if let Ok(glob) = glob {
            set.add(glob);
        }
    }
    set.build().unwrap_or_default()
}

/// The folder of the Go module whose vendored modules contain a file.
pub(in crate::evaluate) fn vendored_below(path: &str) -> Option<&str> {
    match path.split_once("/vendor/") {
        Some((folder, _)) => Some(folder),
        None if path == "vendor" || path.starts_with("vendor/") => Some(""),
        None => path.strip_suffix("/vendor"),
    }
}

/// Whether copies in `vendor` would replace modules that the base's `go.mod` names.
pub(in crate::evaluate) fn needs_modules(go_mod: &[u8]) -> bool {
    go_mod::has_requirements(&String::from_utf8_lossy(go_mod))
}

/// Whether the command starts from this manifest, so that a task without one expects it from the
/// agent.
pub(super) fn starts_from(path: &str, folder: &str, facts: &Circumstances) -> bool {
    let programs: &[&str] = match path.rsplit('/').next() {
        Some("package.json") => &["npm", "yarn", "pnpm", "bun"],
        Some("composer.json") => &["composer"],
        Some("Cargo.toml") => &["cargo"],
        Some("go.mod") => &["go"],
        _ => &[],
    };
    folder == facts.working_dir && programs.iter().any(|it| facts.programs.contains(*it))
}

pub(in crate::evaluate) fn join(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}
