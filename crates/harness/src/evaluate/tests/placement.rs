//! The files that define unit tests of Rust. A source file of the work can put another module in the place of one of the
//! task's, by `#[path]`, `include!`, a macro or another root of the crate. The compiler knows the file of each test.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use serde::Deserialize;

use super::trace::{functions, text_of};
use crate::evaluate::{
    clean_copy::CleanCopy,
    reports::{Status, TestReport},
};

/// The files of tests, as `--list` of Rust's test harness names them.
#[derive(Debug, Default)]
pub(super) struct Locations(BTreeMap<String, BTreeSet<String>>);

#[derive(Deserialize)]
struct PlacedLine {
    name: Option<String>,
    source_path: Option<String>,
}

impl Locations {
    /// Read a list; `copy` is the folder that absolute paths begin with.
    pub(super) fn read(listed: &[u8], copy: &str) -> Locations {
        let mut locations = Locations::default();
        for line in String::from_utf8_lossy(listed).lines() {
            let Ok(line) = serde_json::from_str::<PlacedLine>(line) else {
                continue;
            };
            if let (Some(name), Some(path)) = (line.name, line.source_path) {
                let below = path.strip_prefix(copy).unwrap_or(&path);
                let below = below.trim_start_matches('/').replace('\\', "/");
                locations.0.entry(name).or_default().insert(below);
            }
        }
        locations
    }

    fn of(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).into_iter().flatten().map(String::as_str)
    }
}

/// The task's files of unit tests, and the files of the work.
#[derive(Debug, Default)]
pub(super) struct UnitTests {
    files: Vec<UnitFile>,
    brought: BTreeSet<String>,
}

/// A file of the task that is a module of a crate.
#[derive(Debug)]
struct UnitFile {
    path: String,
    /// The path of the module, with `::` at its end.
    module: String,
    functions: BTreeSet<String>,
}

impl UnitTests {
    /// Those of a clean copy, before anything ran in it.
    pub(super) fn of(copy: &CleanCopy<'_>) -> UnitTests {
        let file = |path: &str| {
            let module = module_of(path)?;
            let text = text_of(&copy.files, path, usize::MAX)?;
            Some(UnitFile {
                path: path.to_owned(),
                module,
                functions: functions(&text),
            })
        };
        UnitTests {
            files: copy.sealed_files().filter_map(file).collect(),
            brought: copy.filled.agents.clone(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Make an error of every result that has the name of one of the task's unit tests and comes from a file of the
    /// work, or from nowhere.
    pub(super) fn refuse_displaced(&self, report: &mut TestReport, locations: &Locations) {
        for test in &mut report.tests {
            let files: Vec<&UnitFile> = self.files.iter().filter(|it| it.has(&test.name)).collect();
            let Some(expected) = files.first() else {
                continue;
            };
            let found: Vec<&str> = locations.of(&test.name).collect();
            let is_own = |path: &&str| files.iter().any(|file| is_at(&file.path, path));
            let is_works = |path: &&str| self.brought.iter().any(|it| is_at(it, path));
            if found.iter().any(is_own) || !(found.is_empty() || found.iter().any(is_works)) {
                continue;
            }
            let (place, path) = (found.first().unwrap_or(&"an unknown file"), &expected.path);
            test.status = Status::Error;
            test.message = Some(format!("the test is in {place} instead of {path}"));
        }
    }
}

impl UnitFile {
    /// Whether a test of this name should be in the file.
    fn has(&self, name: &str) -> bool {
        let inner = name.strip_prefix(&self.module);
        inner.is_some_and(|inner| inner.split("::").any(|it| self.functions.contains(it)))
    }
}

/// Whether a file is the one at `path`, which is relative to a folder of the copy.
fn is_at(file: &str, path: &str) -> bool {
    let rest = file.strip_suffix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

/// The module of a source file below `src`; `None` for other files and for roots of crates.
fn module_of(path: &str) -> Option<String> {
    let path = Utf8Path::new(path);
    let parts: Vec<&str> = path.components().map(|part| part.as_str()).collect();
    let source = parts.iter().rposition(|part| *part == "src")?;
    let mut parts = parts[source + 1..].to_vec();
    let name = parts.pop()?.strip_suffix(".rs")?;
    let is_root = parts.is_empty() && ["lib", "main", "build"].contains(&name);
    if is_root || parts.first() == Some(&"bin") {
        return None;
    }
    parts.extend((name != "mod").then_some(name));
    Some(parts.join("::") + "::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_the_names_of_their_files() {
        for (path, module) in [
            ("src/tests.rs", Some("tests::")),
            ("a/src/b/tests.rs", Some("b::tests::")),
            ("src/tests/mod.rs", Some("tests::")),
            ("src/lib.rs", None),
            ("src/bin/tool.rs", None),
            ("tests/one.rs", None),
            ("src/tests.py", None),
        ] {
            assert_eq!(module_of(path).as_deref(), module, "{path}");
        }
    }

    #[track_caller]
    fn check(name: &str, locations: &[&str], is_refused: bool) {
        let units = UnitTests {
            files: vec![UnitFile {
                path: "p/src/tests.rs".to_owned(),
                module: "tests::".to_owned(),
                functions: BTreeSet::from(["one".to_owned()]),
            }],
            brought: ["p/src/lib.rs", "p/src/fake.rs"].map(str::to_owned).into(),
        };
        let line = |path: &&str| format!(r#"{{"name":"{name}","source_path":"{path}"}}"#);
        let listed: Vec<String> = locations.iter().map(line).collect();
        let locations = Locations::read(listed.join("\n").as_bytes(), "/workspace");
        let text = format!(
            r#"{{"type":"suite","event":"started"}}
            {{"type":"test","event":"ok","name":"{name}"}}
            {{"type":"suite","event":"ok"}}"#
        );
        let mut report = TestReport::read(text.as_bytes()).unwrap();
        units.refuse_displaced(&mut report, &locations);
        let is_error = report.tests[0].status == Status::Error;
        assert_eq!(is_error, is_refused, "{name} {locations:?}");
    }

    #[test]
    fn tests_in_the_place_of_the_tasks_are_refused_and_others_are_not() {
        check("tests::one", &["src/tests.rs"], false);
        check("tests::one", &["/workspace/p/src/tests.rs"], false);
        check("tests::one", &["src/fake.rs"], true);
        check("tests::one", &["src/lib.rs"], true);
        check("tests::one", &[], true);
        check("tests::one::case_1", &["src/fake.rs"], true);
        // A test of another crate has the same name.
        check("tests::one", &["src/fake.rs", "src/tests.rs"], false);
        // A macro of the task, in a file that the work did not change.
        check("tests::one", &["src/macros.rs"], false);
        // Tests that the task's file does not have.
        check("tests::two", &["src/lib.rs"], false);
        check("other::tests::one", &["src/lib.rs"], false);
    }
}
