//! The origin of a reported test: the task's own files (hidden, protected, or unchanged) or files
//! of the work. If a report has no files, the origin is derived from names.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::fs::beneath::UntrustedDir;
use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::{
    evaluate::{
        Judging,
        clean_copy::{CleanCopy, Setup},
        fill::Filled,
        reports::{Format, TestCase},
    },
    workspace::WorkspaceError,
};

/// The maximum size of a file that is searched.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The maximum total size of searched text.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// The origin of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Origin {
    /// A file of the task defines it.
    Task {
        /// The number of tests of this name in the task's files; `None` if its file is known.
        definitions: Option<usize>,
    },
    /// A file of the work defines it.
    Work,
    /// No file defines a test with exactly this name: it is generated at run time.
    Unknown,
}

/// The files of a clean copy, before any command ran in it.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// All files.
    paths: BTreeSet<String>,
    /// Files that the work added or changed, in their judged version.
    brought: BTreeSet<String>,
    /// Names of possible tests, with the file of each definition.
    defined: BTreeMap<String, Vec<String>>,
    /// Searched files, and whether they register tests with a runner.
    searched: BTreeMap<String, bool>,
    /// The working directory of the tests, relative to the copy.
    working_dir: Utf8PathBuf,
}

impl Sources {
    /// Reads the files of a clean copy, with their owners.
    pub(super) async fn of(
        copy: &CleanCopy<'_>,
        setup: &Setup,
        judging: &Judging<'_>,
    ) -> Result<Sources, WorkspaceError> {
        let workspace = judging.workspace;
        let base = workspace.names_in(&workspace.base_tree).await?;
        let Filled { hidden, agents, .. } = &copy.filled;
        let is_own = |path: &&String| !agents.contains(*path) && setup.protect.is_sealed(path);
        let mut sources = Sources::default();
        let mut left = MAX_BYTES;
        for path in base.iter().filter(is_own).chain(hidden).chain(agents) {
            if let Some(text) = text_of(&copy.files, path, left) {
                left -= text.len();
                sources.search(path, &text);
            }
        }
        let others = hidden.iter().chain(agents).cloned();
        sources.paths = base.into_iter().chain(others).collect();
        sources.brought.clone_from(agents);
        sources.working_dir.clone_from(&setup.working_dir);
        Ok(sources)
    }

    /// Adds the definitions of a file.
    fn search(&mut self, path: &str, text: &str) {
        let has_titles = has_titled_tests(path);
        let titles = if has_titles { &*CALLS } else { &*QUOTED };
        let functions = FUNCTIONS.captures_iter(text);
        for found in functions.chain(titles.captures_iter(text)) {
            let name = found.iter().skip(1).flatten().next();
            let name = name
                .map(|name| unescaped(name.as_str()))
                .unwrap_or_default();
            self.defined.entry(name).or_default().push(path.to_owned());
        }
        let is_script = has_titles && !HANDS_OVER.is_match(text);
        self.searched.insert(path.to_owned(), !is_script);
    }

    /// Completes a reported test: its file, and whether it is a test at all.
    pub(super) fn complete(&self, test: &mut TestCase) {
        if let Some(path) = self.path(&test.name) {
            // Node reports a file instead of its tests if it could not be loaded or ran no test. A
            // file that registers no tests is a test itself: a script.
            let hands_over = self.searched.get(&path).copied().unwrap_or(true);
            test.is_load |= hands_over;
            test.file = Some(path);
            return;
        }
        let reported = test.file.as_deref().and_then(|file| self.path(file));
        test.file = reported.or_else(|| self.file_of(test));
    }

    /// A file of the copy, by its path relative to the copy or to the working directory.
    fn path(&self, name: &str) -> Option<String> {
        let name = name.trim_start_matches("./");
        let inner = self.working_dir.join(name).into_string();
        let mut paths = [name.to_owned(), inner].into_iter();
        paths.find(|path| self.paths.contains(path))
    }

    /// The file of a test by its group: a path, or a Python module followed by classes.
    fn file_of(&self, test: &TestCase) -> Option<String> {
        let group = test.group.as_deref().unwrap_or(&test.name);
        let mut module = group;
        if let Some(path) = self.path(group) {
            return Some(path);
        }
        loop {
            if let Some(path) = self.path(&format!("{}.py", module.replace('.', "/"))) {
                return Some(path);
            }
            module = module.rsplit_once('.')?.0;
        }
    }

    /// The origin of a test.
    pub(super) fn origin(&self, source: Format, test: &TestCase) -> Origin {
        let near = self.near(source, test);
        let names = names_in_code(source, &test.name);
        let places = || {
            names
                .iter()
                .filter_map(|name| self.defined.get(*name))
                .flatten()
        };
        let own = places().filter(|path| !self.brought.contains(*path));
        if let Some(file) = &test.file {
            if self.brought.contains(file) {
                return Origin::Work;
            }
            // Code of the work that a test imports can register tests in the test's own file.
            // Methods may come from a base class in another file.
            let is_defined = own.count() > 0 || !self.searched.contains_key(file);
            return if is_defined {
                Origin::Task { definitions: None }
            } else {
                Origin::Unknown
            };
        }
        match own.filter(|path| near(path)).count() {
            0 if places().count() > 0 => Origin::Work,
            0 => Origin::Unknown,
            // Go subtests have the name of their function.
            _ if source == Format::GoTest => Origin::Task { definitions: None },
            own => Origin::Task {
                definitions: Some(own),
            },
        }
    }

    /// A predicate for files that can define a test. In Go only files in the package's folder can.
    fn near(&self, source: Format, test: &TestCase) -> impl Fn(&str) -> bool {
        let package = test.group.as_deref().unwrap_or_default();
        let folder = (source == Format::GoTest).then(|| self.folder_of(package));
        move |path: &str| {
            let parent = Utf8Path::new(path).parent();
            let is_in = |folder: &String| parent == Some(Utf8Path::new(folder));
            folder.as_ref().is_none_or(is_in)
        }
    }

    /// The folder of a Go package: the longest one that is a suffix of its path.
    fn folder_of(&self, package: &str) -> String {
        let files = self.paths.iter().map(Utf8Path::new);
        let files = files.filter(|path| path.extension() == Some("go"));
        let folders = files.filter_map(|path| Some(path.parent()?.as_str()));
        let fits = |folder: &&str| package == *folder || package.ends_with(&format!("/{folder}"));
        let longest = folders.filter(fits).max_by_key(|folder| folder.len());
        longest.unwrap_or_default().to_owned()
    }
}

/// The names that a test can have in code: the function, or the innermost title.
pub(super) fn names_in_code(source: Format, name: &str) -> Vec<&str> {
    let title = name.rsplit(" > ").next().unwrap_or(name);
    match source {
        Format::GoTest => vec![name.split('/').next().unwrap_or(name)],
        Format::Libtest => vec![name.rsplit("::").next().unwrap_or(name)],
        _ => {
            // Parameters follow the name of a function.
            let function = title.split(['[', '(']).next().unwrap_or(title).trim();
            let inner = function.rsplit("::").next().unwrap_or(function);
            let mut names = vec![title, function, inner];
            names.retain(|name| !name.is_empty());
            names.dedup();
            names
        }
    }
}

/// The names of the functions that a text defines.
pub(super) fn functions(text: &str) -> BTreeSet<String> {
    let found = FUNCTIONS.captures_iter(text);
    found.map(|found| found[1].to_owned()).collect()
}

/// Whether tests in this language are calls with a title.
fn has_titled_tests(path: &str) -> bool {
    const LANGUAGES: [&str; 8] = ["js", "ts", "jsx", "tsx", "mjs", "cjs", "mts", "cts"];
    let extension = Utf8Path::new(path).extension();
    extension.is_some_and(|it| LANGUAGES.contains(&it))
}

/// A string literal without its escapes.
pub(super) fn unescaped(text: &str) -> String {
    let mut chars = text.chars();
    let mut plain = String::new();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    plain
}

const STRING: &str = r#"(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`)"#;
const CALL: &str = r"(?:\b(?:test|it|specify|scenario|fit|xit)\b[\w.]*|\))\s*\(\s*";

static FUNCTIONS: LazyLock<Regex> = LazyLock::new(|| {
    let keywords = "def|fn|func|fun|function|void|sub";
    pattern(&format!(r"\b(?:{keywords})\s+([\w$]+)"))
});
static QUOTED: LazyLock<Regex> = LazyLock::new(|| pattern(STRING));
static CALLS: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("{CALL}{STRING}")));
/// Whether a file registers tests with a runner.
pub(super) static HANDS_OVER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b(?:test|it|describe|suite|specify)\s*[(.]"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("built-in patterns are valid")
}

/// The text of a regular file of the copy that is not too large.
pub(super) fn text_of(copy: &UntrustedDir, path: &str, left: usize) -> Option<String> {
    let most = MAX_FILE_BYTES.min(left as u64);
    let bytes = copy.read(path, most).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::reports::TestReport;

    const TASK: Origin = Origin::Task { definitions: None };

    fn sources(own: &[(&str, &str)], brought: &[(&str, &str)]) -> Sources {
        let mut sources = Sources::default();
        for (path, text) in own.iter().chain(brought) {
            sources.search(path, text);
            sources.paths.insert((*path).to_owned());
        }
        let brought = brought.iter().map(|(path, _)| (*path).to_owned());
        sources.brought = brought.collect();
        sources
    }

    fn case(group: Option<&str>, name: &str) -> TestCase {
        let report = b"<testsuite><testcase name='x'/></testsuite>";
        let mut case = TestReport::read(report).unwrap().tests.remove(0);
        case.name = name.to_owned();
        case.group = group.map(str::to_owned);
        case
    }

    #[track_caller]
    fn check(sources: &Sources, format: Format, (group, name): (&str, &str), expected: Origin) {
        let mut case = case(Some(group).filter(|it| !it.is_empty()), name);
        sources.complete(&mut case);
        assert_eq!(sources.origin(format, &case), expected, "{group} {name}");
    }

    #[test]
    fn tests_of_python_are_found_by_module_and_function() {
        let test = "class TestX:\n    def test_m(self): pass\ndef test_one(): pass\n";
        let sources = sources(
            &[("tests/test_a.py", test)],
            &[
                ("more/test_b.py", "def test_b(): pass"),
                ("a.py", "def helper(): pass"),
            ],
        );
        let junit = Format::Junit;
        check(&sources, junit, ("tests.test_a", "test_one"), TASK);
        check(&sources, junit, ("tests.test_a", "test_one[1-2]"), TASK);
        check(&sources, junit, ("tests.test_a.TestX", "test_m"), TASK);
        check(&sources, junit, ("more.test_b", "test_b"), Origin::Work);
        check(&sources, junit, ("more.test_b", "test_one"), Origin::Work);
        // A test that imported code registers in the task's file.
        check(
            &sources,
            junit,
            ("tests.test_a", "test_more"),
            Origin::Unknown,
        );
    }

    #[test]
    fn titles_are_found_in_calls_and_not_in_other_strings() {
        let test = "const { test } = require('node:test');\ntest('one', () => check('other'));\ntest.each([1])(\"two %i\", f);\nit(`it\\'s`, f);";
        let sources = sources(&[("a.test.js", test)], &[("b.test.js", "test('more', f)")]);
        let once = Origin::Task {
            definitions: Some(1),
        };
        check(&sources, Format::Tap, ("", "one"), once);
        check(&sources, Format::Tap, ("", "group > one"), once);
        check(&sources, Format::Tap, ("", "it's"), once);
        check(&sources, Format::Tap, ("", "more"), Origin::Work);
        for name in ["node:test", "other", "two 1"] {
            check(&sources, Format::Tap, ("", name), Origin::Unknown);
        }
        check(&sources, Format::Jest, ("a.test.js", "one"), TASK);
        check(&sources, Format::Jest, ("b.test.js", "one"), Origin::Work);
    }

    #[test]
    fn go_package_has_the_tests_of_its_folder() {
        let sources = sources(
            &[
                ("mul_test.go", "func TestOne(t *testing.T) {}"),
                ("q/q_test.go", "func TestQ(t *testing.T) {}"),
            ],
            &[("r/r_test.go", "func TestOne(t *testing.T) {}")],
        );
        let go = Format::GoTest;
        check(&sources, go, ("example.com/p", "TestOne/case"), TASK);
        check(&sources, go, ("example.com/p/q", "TestQ"), TASK);
        check(&sources, go, ("example.com/p/q", "TestOne"), Origin::Work);
        check(&sources, go, ("example.com/p/r", "TestOne"), Origin::Work);
    }

    #[test]
    fn file_entry_is_a_test_only_for_scripts() {
        let sources = sources(
            &[
                ("a.test.js", "test('one', f)"),
                ("b.js", "assert.equal(1, 1)"),
            ],
            &[],
        );
        for (name, is_load) in [
            ("a.test.js", true),
            ("./a.test.js", true),
            ("b.js", false),
            ("one", false),
        ] {
            let mut case = case(None, name);
            sources.complete(&mut case);
            assert_eq!(case.is_load, is_load, "{name}");
        }
    }
}
