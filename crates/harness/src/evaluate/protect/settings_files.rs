//! The files that settings of runners and linters name: set-up files, reporters, environments, plug-ins, and modules that
//! the settings import. They decide about tests like the settings themselves.

use super::{manifest::is_manifest, package_json, places::join};

/// Keys whose values are files that a runner loads.
const KEYS: &[&str] = &[
    "dependencyExtractor",
    "environment",
    "extends",
    "file",
    "globalSetup",
    "globalTeardown",
    "import",
    "loader",
    "plugins",
    "preset",
    "prettierPath",
    "reporter",
    "reporters",
    "require",
    "resolver",
    "rulePaths",
    "runner",
    "setupFiles",
    "setupFilesAfterEnv",
    "snapshotEnvironment",
    "snapshotResolver",
    "snapshotSerializers",
    "testEnvironment",
    "testResultsProcessor",
    "testRunner",
    "testSequencer",
    "transform",
];

/// Beginnings of files of the product. Settings that name them do not make them the task's.
const SOURCES: &[&str] = &["src/", "lib/", "app/", "dist/", "index."];

/// Patterns of the files that these settings name.
pub(in crate::evaluate) fn files_of_settings(path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut names = if path.ends_with("package.json") {
        named_in(&package_json::runner_sections(text))
    } else if is_of_pytest(path) {
        plugins_of_pytest(text)
    } else {
        named_in(text)
    };
    names.retain(|name| !SOURCES.iter().any(|it| name.starts_with(it)) && !is_manifest(name));
    let patterns = |name: &String| {
        let name = globset::escape(&join(folder, name));
        let module = format!(
            "{name}{{.js,.cjs,.mjs,.json,.ts,.cts,.mts,.tsx,.py,/index.js,/index.ts,/__init__.py}}"
        );
        [name, module]
    };
    names.iter().flat_map(patterns).collect()
}

fn is_of_pytest(path: &str) -> bool {
    [".py", ".ini", ".cfg", ".toml"]
        .iter()
        .any(|end| path.ends_with(end))
}

/// The relative paths in values of the known keys, and in imports.
fn named_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for key in KEYS {
        for (at, _) in text.match_indices(key) {
            let is_word =
                !text[..at].ends_with(is_name) && !text[at + key.len()..].starts_with(is_name);
            if is_word {
                let value = value_after(&text[at + key.len()..]);
                found.extend(literals(value).filter_map(relative));
            }
        }
    }
    let lines = text.lines();
    let imports = lines.filter(|line| line.contains("require(") || line.contains("import"));
    let imports = imports.flat_map(literals);
    found.extend(
        imports
            .filter(|it| it.starts_with('.'))
            .filter_map(relative),
    );
    found
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The text of a value: up to the end of its brackets, or of its line and the items below it.
fn value_after(rest: &str) -> &str {
    let start = rest.find(|c: char| !c.is_whitespace() && !"\"':=(".contains(c));
    let rest = &rest[start.map_or(rest.len(), |at| at.saturating_sub(1))..];
    let mut depth = 0_usize;
    let mut is_after_line = false;
    for (at, letter) in rest.char_indices() {
        match letter {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' if depth <= 1 => return &rest[..at],
            ',' if depth == 0 => return &rest[..at],
            ']' | '}' | ')' => depth -= 1,
            '\n' if depth == 0 => is_after_line = true,
            // An item of a list in YAML.
            '-' | ' ' | '\t' if is_after_line => is_after_line = letter != '-',
            _ if is_after_line => return &rest[..at],
            _ => {}
        }
    }
    rest
}

/// The quoted texts, and words without quotes that are relative paths.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(['"', '\'', '`', ' ', '\t', '\n', ',', '[', ']', '(', ')']);
    parts.filter(|part| part.contains(['/', '.']))
}

/// A path relative to the folder of the settings; `None` for names of packages and paths elsewhere.
fn relative(literal: &str) -> Option<String> {
    let literal = literal
        .trim_start_matches("<rootDir>/")
        .trim_start_matches("./");
    let is_plain = !literal.is_empty()
        && literal
            .chars()
            .all(|it| it.is_alphanumeric() || "/._-@+".contains(it));
    let is_inside = !literal.starts_with(['/', '@']) && !literal.split('/').any(|it| it == "..");
    (is_plain && is_inside).then(|| literal.trim_end_matches('/').to_owned())
}

/// The modules after `-p` in options of pytest, and in `pytest_plugins`.
fn plugins_of_pytest(text: &str) -> Vec<String> {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || "\"',=[]()".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let after_option = words
        .windows(2)
        .filter(|pair| pair[0] == "-p")
        .map(|pair| pair[1]);
    let joined = words.iter().filter_map(|word| word.strip_prefix("-p"));
    let listed = text.match_indices("pytest_plugins").flat_map(|(at, key)| {
        let value = value_after(&text[at + key.len()..]);
        value.split(['"', '\'']).skip(1).step_by(2)
    });
    let modules = after_option.chain(joined).chain(listed);
    let modules = modules.filter(|it| !it.is_empty() && it.chars().all(|c| is_name(c) || c == '.'));
    modules.map(|module| module.replace('.', "/")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::protect::lenient_globs;

    #[track_caller]
    fn check(path: &str, text: &str, named: &[&str], others: &[&str]) {
        let patterns = files_of_settings(path, text);
        let globs = lenient_globs(&patterns.iter().cloned().collect());
        for file in named {
            assert!(globs.is_match(file), "{path}: {file} {patterns:?}");
        }
        for file in others {
            assert!(!globs.is_match(file), "{path}: {file} {patterns:?}");
        }
    }

    #[test]
    fn files_that_settings_load_are_found() {
        let manifest = r#"{"exports": {"require": "./index.js"}, "jest": {"setupFiles": ["<rootDir>/config/polyfills.js", "jest-canvas"],
            "testEnvironment": "./config/env", "transform": {"\\.css$": "<rootDir>/config/css.js"},
            "moduleNameMapper": {"^a$": "<rootDir>/a.js"}, "collectCoverageFrom": ["tools/x.js"]}}"#;
        let named = ["config/polyfills.js", "config/env.ts", "config/css.js"];
        check(
            "package.json",
            manifest,
            &named,
            &["index.js", "a.js", "tools/x.js"],
        );
        let config = "const base = require('./config/base');\nimport pkg from './package.json';\nimport { x } from './src/x.js';\nexport default {\n  ...base,\n  test: { include: ['a.js'], setupFiles: ['./tools/setup.ts'],\n    globalSetup: path.resolve(__dirname, 'tools/global.js'), reporters: [['./tools/report.js', {}]] },\n};";
        let named = [
            "p/config/base.js",
            "p/tools/setup.ts",
            "p/tools/global.js",
            "p/tools/report.js",
        ];
        let others = ["p/package.json", "p/src/x.js", "p/a.js"];
        check("p/vitest.config.ts", config, &named, &others);
        check(
            ".mocharc.yml",
            "spec: a.js\nrequire:\n  - ./tools/hooks.js\n  - ts-node/register\nreporter: tools/dots.js\nui: bdd\n",
            &["tools/hooks.js", "tools/dots.js"],
            &["a.js"],
        );
    }

    #[test]
    fn plugins_of_pytest_are_found() {
        check(
            "pytest.ini",
            "[pytest]\naddopts = -q -p tools.plugin -pother\n",
            &["tools/plugin.py", "other/__init__.py"],
            &["q.py"],
        );
        check(
            "pyproject.toml",
            "[tool.pytest.ini_options]\naddopts = [\"-p\", \"helper\"]\n",
            &["helper.py"],
            &[],
        );
        check(
            "conftest.py",
            "import calc\npytest_plugins = ['tools.fixtures', \"more\"]\n",
            &["tools/fixtures.py", "more.py"],
            &["calc.py"],
        );
    }
}
