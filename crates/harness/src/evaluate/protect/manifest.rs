//! Manifests: keys that determine how tests are found and run come from the task, all others from
//! the work.

use std::collections::{BTreeMap, BTreeSet};

use super::{go_mod, package_json, toml_text::Toml};

/// Programs that run tests or check code.
pub(super) const PROGRAMS: &[&str] = &[
    "ava",
    "babel",
    "biome",
    "c8",
    "cypress",
    "eslint",
    "jasmine",
    "jest",
    "karma",
    "mocha",
    "node",
    "npm",
    "nyc",
    "oxlint",
    "playwright",
    "prettier",
    "pytest",
    "python",
    "python3",
    "react-scripts",
    "standard",
    "stylelint",
    "tap",
    "tape",
    "ts-node",
    "tsc",
    "tsx",
    "turbo",
    "uvu",
    "vitest",
    "xo",
];

/// Keys of a Cargo dependency that select a source other than the default registry.
const CARGO_SOURCES: &[&str] = &["git", "package", "path", "registry", "workspace"];

/// Tables below `tool` in `pyproject.toml` that come from the task.
const PYTHON_TOOLS: &[&str] = &[
    "bandit",
    "basedpyright",
    "black",
    "codespell",
    "coverage",
    "flake8",
    "hatch",
    "isort",
    "mypy",
    "nox",
    "pdm",
    "pixi",
    "poe",
    "pylint",
    "pyrefly",
    "pyright",
    "pytest",
    "pytest-env",
    "pytest_env",
    "ruff",
    "rye",
    "taskipy",
    "tox",
    "ty",
    "vulture",
];

/// Keys of `Cargo.toml` that come from the task.
const CARGO_KEYS: &[&[&str]] = &[
    // Unstable settings, such as flags of the compiler in profiles.
    &["cargo-features"],
    &["test"],
    &["lib", "test"],
    &["lib", "doctest"],
    &["lib", "harness"],
    &["lints"],
    &["package", "autotests"],
    &["package", "metadata", "nextest"],
    &["package", "workspace"],
    &["patch"],
    &["profile", "dev"],
    &["profile", "test"],
    &["replace"],
    &["workspace", "default-members"],
    &["workspace", "lints"],
    &["workspace", "metadata"],
];

/// Sections of `setup.cfg` that come from the task, or prefixes of their names.
const INI_SECTIONS: &[&str] = &[
    "aliases",
    "coverage",
    "flake8",
    "isort",
    "mypy",
    "pep8",
    "pycodestyle",
    "pylint",
    "pytest",
    "test",
    "tool:pytest",
    "tox",
];

/// The result of merging a manifest of the work with the task's.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::evaluate) enum Merged {
    /// The work did not change a key of the task.
    Same,
    /// The merged text, and the keys that were replaced or removed.
    Changed(Vec<u8>, Vec<String>),
    /// The work's file is not readable.
    Unreadable,
}

/// Whether a file is a manifest to merge.
pub(in crate::evaluate) fn is_manifest(path: &str) -> bool {
    matches!(
        name(path),
        "package.json" | "composer.json" | "pyproject.toml" | "Cargo.toml" | "setup.cfg" | "go.mod"
    )
}

/// Merges the work's manifest with the task's, if there is one.
pub(in crate::evaluate) fn merge(path: &str, task: Option<&[u8]>, work: &[u8]) -> Merged {
    let merged = match name(path) {
        "package.json" | "composer.json" => package_json::merge(task, work),
        "pyproject.toml" => toml(task, work, &python_keys()),
        "Cargo.toml" => cargo(task, work),
        "go.mod" => go_mod::merge(task, work),
        _ => ini(task, work),
    };
    match merged {
        None => Merged::Unreadable,
        Some((_, keys)) if keys.is_empty() => Merged::Same,
        Some((text, keys)) => Merged::Changed(text, keys),
    }
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn python_keys() -> Vec<Vec<&'static str>> {
    let tools = PYTHON_TOOLS.iter().map(|tool| vec!["tool", *tool]);
    let programs = PROGRAMS.iter().flat_map(|name| {
        let project = vec!["project", "scripts", *name];
        [project, vec!["tool", "poetry", "scripts", *name]]
    });
    let plugins = [
        vec!["project", "entry-points", "pytest11"],
        vec!["tool", "poetry", "plugins", "pytest11"],
    ];
    tools.chain(programs).chain(plugins).collect()
}

/// Merges a `Cargo.toml`. Crates that only tests use keep the task's source, and members of the
/// task's workspace are kept.
fn cargo(task: Option<&[u8]>, work: &[u8]) -> Option<(Vec<u8>, Vec<String>)> {
    let task = task.and_then(Toml::read).unwrap_or_default();
    let mut merged = Toml::read(work)?;
    let mut places: Vec<Vec<&str>> = CARGO_KEYS.iter().map(|place| place.to_vec()).collect();
    if task.at(&["workspace"]).is_some() {
        places.push(vec!["workspace", "exclude"]);
    }
    let mut tables = vec![vec!["dev-dependencies"]];
    let targets = task.at(&["target"]).into_iter().flat_map(Toml::keys);
    tables.extend(targets.map(|target| vec!["target", target, "dev-dependencies"]));
    for table in tables {
        let names = task.at(&table).into_iter().flat_map(Toml::keys);
        let entries = names.map(|name| [table.as_slice(), &[name]].concat());
        let is_version = |of: &Toml, place: &[&str]| of.at(place).is_some_and(is_version);
        let is_tasks = |it: &Vec<&str>| !is_version(&task, it) || !is_version(&merged, it);
        places.extend(entries.filter(is_tasks));
    }
    let shared = task.at(&["workspace", "dependencies"]);
    for name in shared.into_iter().flat_map(Toml::keys) {
        let place = vec!["workspace", "dependencies", name];
        if task.at(&[place.as_slice(), &["path"]].concat()).is_some() {
            places.push(place);
        }
    }
    let mut keys = put_all(&task, &mut merged, &places);
    keys.extend(put_harnesses(&task, &mut merged));
    let members = ["workspace", "members"];
    if merged.extend_list(&members, task.at(&members)) {
        keys.push(members.join("."));
    }
    Some((merged.text().into_bytes(), keys))
}

/// Targets beside tests are the work's, but the task says which of them run as tests and with which harness. A
/// benchmark with a harness of its own is not run by `cargo test`.
fn put_harnesses(task: &Toml, merged: &mut Toml) -> Vec<String> {
    let mut changed = BTreeSet::new();
    let targets: [(&str, &[&str]); 3] = [
        ("bin", &["test", "harness"]),
        ("example", &["test", "harness"]),
        ("bench", &["test"]),
    ];
    for (kind, keys) in targets {
        let mut all = merged.list(kind);
        let known = task.list(kind);
        for target in &mut all {
            let same = known
                .iter()
                .find(|it| it.at(&["name"]) == target.at(&["name"]));
            for key in keys {
                let wanted = same.and_then(|it| it.at(&[*key])).cloned();
                if wanted.as_ref() != target.at(&[*key]) {
                    target.put(&[*key], wanted);
                    changed.insert(format!("{kind}.{key}"));
                }
            }
        }
        if !all.is_empty() {
            merged.put(&[kind], Some(Toml::List(all)));
        }
    }
    changed.into_iter().collect()
}

/// Whether a Cargo dependency is a version in the default registry.
fn is_version(dependency: &Toml) -> bool {
    CARGO_SOURCES
        .iter()
        .all(|key| dependency.at(&[*key]).is_none())
}

fn toml(task: Option<&[u8]>, work: &[u8], places: &[Vec<&str>]) -> Option<(Vec<u8>, Vec<String>)> {
    let mut merged = Toml::read(work)?;
    let task = task.and_then(Toml::read).unwrap_or_default();
    let keys = put_all(&task, &mut merged, places);
    Some((merged.text().into_bytes(), keys))
}

/// Takes the values at these keys from the task. Returns the keys that differed.
fn put_all(task: &Toml, merged: &mut Toml, places: &[Vec<&str>]) -> Vec<String> {
    let mut keys = Vec::new();
    for place in places {
        let wanted = task.at(place);
        if wanted != merged.at(place) {
            merged.put(place, wanted.cloned());
            keys.push(place.join("."));
        }
    }
    keys
}

/// The lines of an INI file by section; lines before the first section have an empty name.
fn sections(text: &str) -> Vec<(String, Vec<&str>)> {
    let mut sections = vec![(String::new(), Vec::new())];
    for line in text.lines() {
        let header = line
            .trim()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'));
        if let Some((name, _)) = header {
            sections.push((name.trim().to_owned(), Vec::new()));
        }
        if let Some((_, lines)) = sections.last_mut() {
            lines.push(line);
        }
    }
    sections
}

fn ini(task: Option<&[u8]>, work: &[u8]) -> Option<(Vec<u8>, Vec<String>)> {
    let work = str::from_utf8(work).ok()?;
    let task = task
        .and_then(|bytes| str::from_utf8(bytes).ok())
        .unwrap_or_default();
    let is_tasks = |name: &str| {
        INI_SECTIONS.iter().any(|section| {
            name.strip_prefix(section)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '-', '.']))
        })
    };
    let gather = |text: &str| {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, lines) in sections(text)
            .into_iter()
            .filter(|(name, _)| is_tasks(name))
        {
            let lines = lines
                .iter()
                .map(|line| line.trim_end().to_owned())
                .filter(|line| !line.is_empty());
            found.entry(name).or_default().extend(lines);
        }
        found
    };
    let (wanted, found) = (gather(task), gather(work));
    let differs = |name: &&String| wanted.get(*name) != found.get(*name);
    let names = wanted
        .keys()
        .chain(found.keys().filter(|name| !wanted.contains_key(*name)));
    let keys: Vec<String> = names.filter(differs).cloned().collect();
    let kept = sections(work)
        .into_iter()
        .filter(|(name, _)| !is_tasks(name));
    let mut lines: Vec<String> = kept
        .flat_map(|(_, lines)| lines)
        .map(str::to_owned)
        .collect();
    lines.extend(wanted.into_values().flatten());
    Some(((lines.join("\n") + "\n").into_bytes(), keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn changed(path: &str, task: Option<&str>, work: &str) -> (String, Vec<String>) {
        match merge(path, task.map(str::as_bytes), work.as_bytes()) {
            Merged::Changed(text, keys) => (String::from_utf8(text).unwrap(), keys),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn json_scripts_and_runner_sections_come_from_the_task() {
        let task = r#"{"scripts": {"test": "jest"}, "jest": {"bail": true}}"#;
        let work = r#"{"exports": {"node": 1, "default": 2}, "dependencies": {"x": "1"},
            "scripts": {"pretest": "sh evil", "test": "exit 0", "build": "tsc"}, "jest": {"testMatch": []}}"#;
        let (text, keys) = changed("a/package.json", Some(task), work);
        assert_eq!(keys, ["jest", "scripts"]);
        assert_eq!(
            text,
            r#"{"exports":{"node": 1, "default": 2},"dependencies":{"x": "1"},"scripts":{"test":"jest","build":"tsc"},"jest":{"bail": true}}"#
        );
        let (text, keys) = changed("package.json", None, r#"{"vitest": {}, "name": "p"}"#);
        assert_eq!(
            (text.as_str(), keys.as_slice()),
            (r#"{"name":"p"}"#, ["vitest".to_owned()].as_slice())
        );
    }

    #[test]
    fn honest_manifests_are_not_changed() {
        let task = r#"{"scripts": {"test": "jest"}}"#;
        let work = r#"{"dependencies": {"x": "1"}, "scripts": {"test":"jest", "build": "tsc"}}"#;
        assert_eq!(
            merge("package.json", Some(task.as_bytes()), work.as_bytes()),
            Merged::Same
        );
        let task = "[package]\nname = 'p'\n";
        let work = "[package]\nname = 'p'\nbuild = 'build.rs'\n[[bin]]\nname = 'b'\n[dependencies]\nx = '1'\n";
        assert_eq!(
            merge("Cargo.toml", Some(task.as_bytes()), work.as_bytes()),
            Merged::Same
        );
        let work = "[project]\ndependencies = ['x']\n[tool.setuptools]\npackages = ['p']\n";
        assert_eq!(merge("pyproject.toml", None, work.as_bytes()), Merged::Same);
        assert_eq!(
            merge("setup.cfg", None, b"[metadata]\nname = p\n"),
            Merged::Same
        );
    }

    #[test]
    fn last_value_of_a_duplicate_key_is_used() {
        let task = r#"{"scripts": {"test": "jest"}}"#;
        let work = r#"{"scripts": {"test": "jest"}, "scripts": {"test": "exit 0"}}"#;
        let (text, _) = changed("package.json", Some(task), work);
        assert_eq!(text, r#"{"scripts":{"test":"jest"}}"#);
    }

    #[test]
    fn cargo_test_targets_come_from_the_task() {
        let task = "[package]\nname = 'p'\n[[test]]\nname = 'one'\n";
        let work = "[package]\nname = 'p'\nautotests = false\n[lib]\nname = 'q'\ntest = false\n[dependencies]\nx = { version = '1', features = ['a'] }\n[[test]]\nname = 'one'\npath = 'src/fake.rs'\n";
        let (text, keys) = changed("Cargo.toml", Some(task), work);
        assert_eq!(keys, ["test", "lib.test", "package.autotests"]);
        let again = Toml::read(text.as_bytes()).unwrap();
        assert_eq!(
            again.at(&["test"]),
            Toml::read(task.as_bytes()).unwrap().at(&["test"])
        );
        assert!(
            again.at(&["dependencies", "x", "features"]).is_some(),
            "{text}"
        );
        assert!(again.at(&["lib", "name"]).is_some() && again.at(&["lib", "test"]).is_none());
    }

    #[test]
    fn the_task_says_which_targets_of_cargo_run_as_tests() {
        let task = "[[bin]]\nname = 'a'\nharness = false\n";
        let work = "[[bin]]\nname = 'a'\ntest = false\n[[bin]]\nname = 'new'\npath = 'src/new.rs'\nharness = false\n[[example]]\nname = 'x'\ntest = true\n[[bench]]\nname = 'b'\nharness = false\n";
        let (text, keys) = changed("Cargo.toml", Some(task), work);
        assert_eq!(keys, ["bin.harness", "bin.test", "example.test"]);
        let expected = "[[bin]]\nname = 'a'\nharness = false\n[[bin]]\nname = 'new'\npath = 'src/new.rs'\n[[example]]\nname = 'x'\n[[bench]]\nname = 'b'\nharness = false\n";
        assert_eq!(Toml::read(text.as_bytes()), Toml::read(expected.as_bytes()));
    }

    #[test]
    fn test_helpers_keep_the_source_of_the_task() {
        let task = "[dev-dependencies]\ncheck = { path = 'tests/check' }\n[workspace]\nmembers = ['a']\n[workspace.dependencies]\nx = { path = 'x' }\ny = '1'\n[target.'cfg(unix)'.dev-dependencies]\nz = '1'\n";
        let work = "[dev-dependencies]\ncheck = { path = 'evil' }\nnew = '1'\n[dependencies]\nd = '2'\n[workspace]\nmembers = ['evil']\ndefault-members = ['evil']\nexclude = ['a']\n[workspace.dependencies]\nx = { path = 'evil' }\ny = '2'\n[patch.crates-io]\nrand = { path = 'evil' }\n";
        let (text, keys) = changed("Cargo.toml", Some(task), work);
        let expected = "[dev-dependencies]\ncheck = { path = 'tests/check' }\nnew = '1'\n[dependencies]\nd = '2'\n[workspace]\nmembers = ['evil', 'a']\n[workspace.dependencies]\nx = { path = 'x' }\ny = '2'\n[target.'cfg(unix)'.dev-dependencies]\nz = '1'\n";
        assert_eq!(
            Toml::read(text.as_bytes()),
            Toml::read(expected.as_bytes()),
            "{keys:?}"
        );
        let bumped = "[dev-dependencies]\nx = { version = '2', features = ['a'] }\n";
        let merged = merge(
            "Cargo.toml",
            Some(b"[dev-dependencies]\nx = '1'\n"),
            bumped.as_bytes(),
        );
        assert_eq!(merged, Merged::Same);
        let (text, _) = changed("Cargo.toml", Some("[dev-dependencies]\nx = '1'\n"), "");
        assert!(text.contains("dev-dependencies"), "{text}");
        let task = r##"{"name": "p", "imports": {"#a": "./a", "#lib/*": "./lib/*"}, "devDependencies": {"jest": "1", "x": "1"}}"##;
        let work = r##"{"name": "jest", "imports": {"#a": "./evil", "#lib/x": "./evil", "#b": "./b"}, "devDependencies": {"jest": "file:evil", "new": "1", "x": "2"}, "overrides": {"jest": "file:evil"}}"##;
        let (text, keys) = changed("package.json", Some(task), work);
        assert_eq!(keys, ["overrides", "name", "devDependencies", "imports"]);
        assert!(
            !text.contains("evil") && text.contains(r##""#b""##),
            "{text}"
        );
        assert!(
            text.contains(r#""new""#) && text.contains(r#""x":"2""#),
            "{text}"
        );
    }

    /// `npx` starts programs of the package itself before installed ones.
    #[test]
    fn programs_of_a_package_do_not_replace_runners() {
        let task =
            r#"{"name": "p", "devDependencies": {"checker": "1"}, "bin": {"tap": "./tap.js"}}"#;
        let work = r#"{"name": "p", "devDependencies": {"checker": "1"},
            "bin": {"jest": "./evil.js", "checker": "./evil.js", "tool": "./tool.js", "tap": "./new.js"}}"#;
        let (text, keys) = changed("package.json", Some(task), work);
        assert_eq!(keys, ["bin"]);
        let expected = r#""bin":{"tool":"./tool.js","tap":"./new.js"}"#;
        assert!(text.contains(expected), "{text}");
        for work in [
            r#"{"name": "@x/jest", "bin": "./evil.js"}"#,
            r#"{"directories": {"bin": "./evil"}}"#,
            r#"{"jest-junit": {}, "vitestConfig": {}}"#,
        ] {
            let (text, _) = changed("package.json", None, work);
            assert!(!text.contains("evil") && !text.contains("it"), "{text}");
        }
        let work = r#"{"name": "p", "bin": "./tool.js"}"#;
        let honest = merge("package.json", Some(br#"{"name": "p"}"#), work.as_bytes());
        assert_eq!(honest, Merged::Same);
        let work =
            "[project]\nname = 'p'\n[project.scripts]\npytest = 'evil:main'\ntool = 'p:main'\n";
        let (text, keys) = changed("pyproject.toml", None, work);
        assert_eq!(keys, ["project.scripts.pytest"]);
        assert!(!text.contains("evil") && text.contains("tool"), "{text}");
    }

    #[test]
    fn no_workspace_of_the_task_is_left_out() {
        let task = r#"{"workspaces": ["packages/*"]}"#;
        for work in [
            "{}",
            r#"{"workspaces": ["packages/good"]}"#,
            r#"{"workspaces": ["packages/*", "!packages/bad"]}"#,
            r#"{"workspaces": {"packages": ["packages/good"]}}"#,
        ] {
            let (text, keys) = changed("package.json", Some(task), work);
            assert_eq!(keys, ["workspaces"], "{work}");
            assert!(
                text.contains(r#"["packages/*""#) && !text.contains('!'),
                "{text}"
            );
        }
        let work = r#"{"workspaces": ["packages/*", "new"]}"#;
        let honest = merge("package.json", Some(task.as_bytes()), work.as_bytes());
        assert_eq!(honest, Merged::Same);
    }

    #[test]
    fn pytest_settings_come_from_the_task() {
        let (text, keys) = changed(
            "pyproject.toml",
            None,
            "[tool.pytest.ini_options]\naddopts = '--co'\n[project]\nname = 'p'\n",
        );
        assert_eq!(keys, ["tool.pytest"]);
        assert!(!text.contains("--co") && text.contains("name"), "{text}");
        let work = "[metadata]\nname = p\n [tool:pytest]\naddopts = --co\n[flake8]\nignore = E\n";
        let (text, keys) = changed("setup.cfg", Some("[flake8]\nmax-line-length = 9\n"), work);
        assert_eq!(keys, ["flake8", "tool:pytest"]);
        assert_eq!(
            text,
            "[metadata]\nname = p\n[flake8]\nmax-line-length = 9\n"
        );
    }

    #[test]
    fn unreadable_manifest_of_the_work_is_not_merged() {
        assert_eq!(merge("package.json", None, b"{"), Merged::Unreadable);
        assert_eq!(merge("Cargo.toml", None, b"= 1"), Merged::Unreadable);
    }
}
