//! Splits the difference of a commit into source, tests, environment and other files.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use camino::Utf8Path;
use globset::{Glob, GlobSet, GlobSetBuilder};
use proctor_harness::evaluate::{RustTests, is_test_file, replace_tests};
use proctor_record::text::counted;

use crate::{
    history::{FileDiff, FileEntry, Unit},
    reject::{Reject, Rejection},
};

/// The maximum number of source files of a task.
const MAX_FILES: usize = 10;
/// The maximum number of changed source lines of a task.
const MAX_LINES: u64 = 400;

/// Files that determine the environment of the tests: a task cannot change them, because the
/// environment is prepared before the agent starts.
const ENVIRONMENT: [&str; 22] = [
    "**/Cargo.lock",
    "**/package-lock.json",
    "**/npm-shrinkwrap.json",
    "**/yarn.lock",
    "**/pnpm-lock.yaml",
    "**/bun.lock*",
    "**/go.sum",
    "**/uv.lock",
    "**/poetry.lock",
    "**/pdm.lock",
    "**/Pipfile.lock",
    "**/requirements*.txt",
    "**/requirements/*.txt",
    "**/environment.y{a,}ml",
    "**/Gemfile.lock",
    "**/composer.lock",
    "**/gradle.lockfile",
    "**/gradle-wrapper.properties",
    "**/conan.lock",
    "**/Dockerfile*",
    "**/docker-compose*.y{a,}ml",
    "**/flake.lock",
];

/// Files that neither build nor test the program.
const OTHER: [&str; 12] = [
    "**/*.{md,rst,adoc}",
    "**/docs/**",
    "**/doc/**",
    "**/{LICENSE,LICENCE,COPYING,NOTICE,AUTHORS,CODEOWNERS}*",
    "**/{CHANGELOG,CHANGES,HISTORY,NEWS}*",
    ".github/**",
    ".gitlab/**",
    ".circleci/**",
    "**/.gitlab-ci.yml",
    "**/{.gitignore,.gitattributes,.editorconfig,.mailmap}",
    ".pre-commit-config.yaml",
    "**/*.{png,svg,jpg,jpeg,gif,ico}",
];

/// The kind of a changed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Source,
    Tests,
    Environment,
    Other,
}

/// The kind of a file by its path.
pub(crate) fn part_of(path: &str) -> Part {
    static SETS: LazyLock<[GlobSet; 2]> = LazyLock::new(|| [globs(&ENVIRONMENT), globs(&OTHER)]);
    let [environment, other] = &*SETS;
    if environment.is_match(path) {
        Part::Environment
    } else if is_test_file(path) {
        Part::Tests
    } else if other.is_match(path) {
        Part::Other
    } else {
        Part::Source
    }
}

fn globs(patterns: &[&str]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).expect("a constant pattern is valid"));
    }
    set.build().expect("constant patterns are valid")
}

/// Why a commit is not a candidate at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCandidate {
    /// It has no parent.
    Root,
    /// It changes no source file.
    NoSource,
    /// It changes no test.
    NoTests,
}

impl NoCandidate {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            NoCandidate::Root => "it has no parent",
            NoCandidate::NoSource => "it changes no source file",
            NoCandidate::NoTests => "it changes no test",
        }
    }
}

/// The parts of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) source: Vec<FileDiff>,
    pub(crate) tests: Vec<FileDiff>,
    /// Rust files with changed unit tests.
    pub(crate) inline: Vec<InlineFile>,
    /// Files of the solution that do not count: documentation, settings of CI.
    pub(crate) other: Vec<FileDiff>,
    /// The changed lines of the source part.
    pub(crate) lines: u64,
}

/// A Rust file with code and changed unit tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InlineFile {
    pub(crate) path: String,
    pub(crate) mode: String,
    /// The code of the parent with the tests of the commit.
    pub(crate) hidden: String,
    /// The code of the commit with the tests of the parent.
    pub(crate) solution: String,
    /// The code and the tests of the commit, as they are judged.
    pub(crate) judged: String,
    /// Whether the code changes, too.
    pub(crate) is_source: bool,
}

impl Split {
    /// The number of source files.
    pub(crate) fn source_files(&self) -> usize {
        self.source_paths().count()
    }

    /// The paths of source files.
    pub(crate) fn source_paths(&self) -> impl Iterator<Item = &str> {
        let inline = self.inline.iter().filter(|file| file.is_source);
        let plain = self.source.iter().map(|file| file.path.as_str());
        plain.chain(inline.map(|file| file.path.as_str()))
    }
}

/// The blobs that decide how a commit is split: Rust files may contain tests.
pub(crate) fn needed_blobs(unit: &Unit) -> impl Iterator<Item = &str> {
    let files = unit.files.iter().filter(|file| may_have_tests(file));
    let entries = files.flat_map(|file| [&file.old, &file.new]);
    entries.flatten().map(|entry| entry.blob.as_str())
}

fn may_have_tests(file: &FileDiff) -> bool {
    let is_rust = Utf8Path::new(&file.path).extension() == Some("rs");
    is_rust && file.new.is_some() && part_of(&file.path) == Part::Source
}

/// Splits a commit. The outer error is a commit that is not a candidate.
pub(crate) fn split(
    unit: &Unit,
    blobs: &BTreeMap<String, Vec<u8>>,
) -> Result<Result<Split, Rejection>, NoCandidate> {
    if unit.parent.is_none() {
        return Err(NoCandidate::Root);
    }
    let mut split = Split::default();
    let mut problems = Vec::new();
    for file in &unit.files {
        let is_submodule = [&file.old, &file.new].into_iter().flatten();
        if is_submodule.clone().any(FileEntry::is_submodule) {
            let evidence = format!("the submodule {} changes", file.path);
            problems.push(Rejection::new(Reject::EnvChanged, evidence));
            continue;
        }
        match part_of(&file.path) {
            Part::Tests => split.tests.push(file.clone()),
            Part::Other => split.other.push(file.clone()),
            Part::Environment => {
                let evidence = format!("{} changes", file.path);
                problems.push(Rejection::new(Reject::EnvChanged, evidence));
            }
            Part::Source => match inline(file, blobs) {
                Ok(None) => {
                    split.lines += file.lines.unwrap_or(0);
                    split.source.push(file.clone());
                }
                Ok(Some((inline, lines))) => {
                    split.lines += lines;
                    split.inline.push(inline);
                }
                Err(problem) => problems.push(problem),
            },
        }
    }
    let is_mixed = problems.iter().any(|it| it.code == Reject::MixedHunk);
    if split.source_files() == 0 && !is_mixed {
        return Err(NoCandidate::NoSource);
    }
    let has_tests = split.tests.iter().any(|file| file.new.is_some()) || !split.inline.is_empty();
    if !has_tests && !is_mixed {
        return Err(NoCandidate::NoTests);
    }
    if let Some(problem) = problems.into_iter().next() {
        return Ok(Err(problem));
    }
    Ok(sized(split))
}

/// Refuses a split whose source part is too large for one task.
fn sized(split: Split) -> Result<Split, Rejection> {
    let (files, lines) = (split.source_files(), split.lines);
    if files <= MAX_FILES && lines <= MAX_LINES {
        return Ok(split);
    }
    let evidence = format!(
        "{} with {} of source; the limits are {MAX_FILES} files and {MAX_LINES} lines",
        counted(files, "file"),
        counted(usize::try_from(lines).unwrap_or(usize::MAX), "changed line"),
    );
    Err(Rejection::new(Reject::TooLarge, evidence))
}

/// The unit tests of a Rust file, with the number of changed lines of code; `None` if they do not
/// change.
fn inline(
    file: &FileDiff,
    blobs: &BTreeMap<String, Vec<u8>>,
) -> Result<Option<(InlineFile, u64)>, Rejection> {
    let Some(new_entry) = file.new.as_ref().filter(|_| may_have_tests(file)) else {
        return Ok(None);
    };
    let text = |id: &str| {
        blobs
            .get(id)
            .map(|it| String::from_utf8_lossy(it).into_owned())
    };
    let old = file.old.as_ref().and_then(|entry| text(&entry.blob));
    let old = old.unwrap_or_default();
    let Some(new) = text(&new_entry.blob) else {
        return Ok(None);
    };
    let has_tests = |text: &str| text.contains("cfg") && text.contains("test");
    if !has_tests(&old) && !has_tests(&new) {
        return Ok(None);
    }
    let mixed = |what: &str| Rejection::new(Reject::MixedHunk, format!("{}: {what}", file.path));
    let unreadable = || mixed("its brackets or strings cannot be matched");
    let before = RustTests::read(&old).ok_or_else(unreadable)?;
    let after = RustTests::read(&new).ok_or_else(unreadable)?;
    if before.nested != after.nested {
        return Err(mixed("a `#[cfg(test)]` item inside another item changes"));
    }
    if before.items == after.items {
        return Ok(None);
    }
    let hidden = replace_tests(&old, &new).ok_or_else(unreadable)?;
    let solution = replace_tests(&new, &old).ok_or_else(unreadable)?;
    let judged = replace_tests(&solution, &hidden).ok_or_else(unreadable)?;
    let lines = changed_lines(&before.code, &after.code);
    let found = InlineFile {
        path: file.path.clone(),
        mode: new_entry.mode.clone(),
        hidden,
        solution,
        judged,
        is_source: lines > 0,
    };
    Ok(Some((found, lines)))
}

/// The number of lines that only one of two texts has.
fn changed_lines(one: &str, other: &str) -> u64 {
    let mut counts: HashMap<&str, i64> = HashMap::new();
    for line in one.lines().filter(|line| !line.trim().is_empty()) {
        *counts.entry(line).or_default() += 1;
    }
    for line in other.lines().filter(|line| !line.trim().is_empty()) {
        *counts.entry(line).or_default() -= 1;
    }
    counts.values().map(|count| count.unsigned_abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, lines: u64) -> FileDiff {
        let entry = |side: &str| {
            Some(FileEntry {
                mode: "100644".to_owned(),
                blob: format!("{side} {path}"),
            })
        };
        FileDiff {
            path: path.to_owned(),
            old: entry("old"),
            new: entry("new"),
            lines: Some(lines),
        }
    }

    fn unit(files: Vec<FileDiff>) -> Unit {
        Unit {
            commit: "c".to_owned(),
            parent: Some("p".to_owned()),
            tree: "t".to_owned(),
            date: String::new(),
            message: "m".to_owned(),
            files,
        }
    }

    fn outcome(files: Vec<FileDiff>) -> Result<Option<Reject>, NoCandidate> {
        let found = split(&unit(files), &BTreeMap::new())?;
        Ok(found.err().map(|rejection| rejection.code))
    }

    #[test]
    fn files_belong_to_a_part_by_their_path() {
        for (path, expected) in [
            ("calc.py", Part::Source),
            ("src/lib.rs", Part::Source),
            ("package.json", Part::Source),
            ("tests/test_calc.py", Part::Tests),
            ("src/calc.test.ts", Part::Tests),
            ("calc_test.go", Part::Tests),
            ("src/test/java/CalcTest.java", Part::Tests),
            ("conftest.py", Part::Tests),
            ("tests/requirements.txt", Part::Environment),
            ("web/package-lock.json", Part::Environment),
            ("Dockerfile", Part::Environment),
            ("README.md", Part::Other),
            (".github/workflows/ci.yml", Part::Other),
        ] {
            assert_eq!(part_of(path), expected, "{path}");
        }
    }

    #[test]
    fn commit_is_a_candidate_with_source_and_tests() {
        let (source, test) = (file("calc.py", 4), file("test_calc.py", 9));
        assert_eq!(outcome(vec![source.clone(), test.clone()]), Ok(None));
        assert_eq!(outcome(vec![source.clone()]), Err(NoCandidate::NoTests));
        assert_eq!(outcome(vec![test.clone()]), Err(NoCandidate::NoSource));
        let docs = vec![file("README.md", 1), test.clone()];
        assert_eq!(outcome(docs), Err(NoCandidate::NoSource));
        let removed = FileDiff {
            new: None,
            ..test.clone()
        };
        assert_eq!(
            outcome(vec![source.clone(), removed]),
            Err(NoCandidate::NoTests)
        );
        let locked = vec![source.clone(), test.clone(), file("uv.lock", 1)];
        assert_eq!(outcome(locked), Ok(Some(Reject::EnvChanged)));
        let long = vec![file("calc.py", 401), test.clone()];
        assert_eq!(outcome(long), Ok(Some(Reject::TooLarge)));
        let mut many: Vec<_> = (0..11).map(|n| file(&format!("m{n}.py"), 1)).collect();
        many.push(test);
        assert_eq!(outcome(many), Ok(Some(Reject::TooLarge)));
    }

    /// The split of a Rust file with these versions.
    fn rust(old: &str, new: &str) -> Result<Result<Split, Rejection>, NoCandidate> {
        let blobs = [("old src/lib.rs", old), ("new src/lib.rs", new)];
        let blobs = blobs.map(|(id, text)| (id.to_owned(), text.as_bytes().to_vec()));
        split(&unit(vec![file("src/lib.rs", 2)]), &BTreeMap::from(blobs))
    }

    #[test]
    fn unit_tests_of_rust_are_separated_from_the_code() {
        let (old, new) = (
            "fn f() -> u8 { 1 }\n#[cfg(test)]\nmod tests { /* 1 */ }\n",
            "fn f() -> u8 { 2 }\n#[cfg(test)]\nmod tests { /* 2 */ }\n",
        );
        let found = rust(old, new).unwrap().unwrap();
        assert!(found.source.is_empty());
        assert_eq!(found.lines, 2);
        let inline = &found.inline[0];
        assert_eq!(inline.hidden, old.replace("/* 1 */", "/* 2 */"));
        assert_eq!(inline.solution, new.replace("/* 2 */", "/* 1 */"));
        assert_eq!(inline.judged, new);
        let only_code = new.replace("/* 2 */", "/* 1 */");
        assert_eq!(rust(old, &only_code), Err(NoCandidate::NoTests));
        let only_tests = old.replace("/* 1 */", "/* 2 */");
        assert_eq!(rust(old, &only_tests), Err(NoCandidate::NoSource));
        let nested = "impl X {\n#[cfg(test)]\nfn t() {}\n}\n";
        let mixed = rust(nested, &nested.replace("{}", "{ }"))
            .unwrap()
            .unwrap_err();
        assert_eq!(mixed.code, Reject::MixedHunk);
    }
}
