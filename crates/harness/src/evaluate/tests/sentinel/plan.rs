//! The edits of a sentinel run in the task's test files, and the interpretation of its report.

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use serde::{Deserialize, Serialize};

use super::{
    definition::{Definition, definitions},
    lexer::Language,
};
use crate::evaluate::{
    clean_copy::CleanCopy,
    reports::{Status, TestCase, TestReport},
    tests::trace::{MAX_BYTES, names_in_code, text_of},
};

/// A test file of the task in a clean copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::evaluate) struct OwnFile {
    pub(in crate::evaluate) path: String,
    pub(in crate::evaluate) text: String,
}

/// A change of the task's test files in a clean copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::evaluate) struct Edit {
    pub(in crate::evaluate) path: String,
    /// The text before; `None` for a new file.
    pub(in crate::evaluate) before: Option<String>,
    pub(in crate::evaluate) after: String,
}

/// A test of the task, by the position of its definition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct TestId {
    path: String,
    pub(super) name: String,
    /// The index among definitions of the same name in the file.
    ordinal: usize,
}

impl TestId {
    /// The entries of a report that belong to this test.
    fn entries<'a>(&'a self, report: &'a TestReport) -> impl Iterator<Item = &'a TestCase> {
        report.tests.iter().filter(|test| {
            let is_here = test.file.as_deref().is_none_or(|file| file == self.path);
            let names = names_in_code(report.source, &test.name);
            is_here && names.contains(&self.name.as_str())
        })
    }

    /// Whether the test passed under its own name.
    pub(super) fn has_passed(&self, report: &TestReport) -> bool {
        State::of(self.entries(report)) == State::Passed
    }
}

/// A sentinel: one test of the task and its copies with random names.
#[derive(Clone, Debug)]
pub(super) struct Sentinel {
    pub(super) id: TestId,
    /// Copies with the test's own expectation.
    same: Vec<String>,
    /// Copies with a changed expectation. If there are any, the test itself is changed, too.
    changed: Vec<String>,
}

/// The edits of one sentinel run.
pub(super) struct Plan {
    pub(super) edits: Vec<Edit>,
    pub(super) sentinels: Vec<Sentinel>,
}

/// How sentinels are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placing {
    /// The test itself is changed, and this many unchanged and changed copies are added.
    Copies(usize),
    /// The test is only renamed.
    Renamed,
    /// The tests run unchanged.
    Unchanged,
}

/// The task's test files in a clean copy, before anything runs in it.
pub(in crate::evaluate::tests) fn own_files(copy: &CleanCopy<'_>) -> Vec<OwnFile> {
    let paths = copy.sealed_files().filter(|it| Language::of(it).is_some());
    let mut left = MAX_BYTES;
    let files = paths.filter_map(|path| {
        let text = text_of(&copy.files, path, left)?;
        left -= text.len();
        let path = path.to_owned();
        Some(OwnFile { path, text })
    });
    files.collect()
}

/// All tests of the task that can be made sentinels.
pub(super) fn candidates(files: &[OwnFile]) -> BTreeSet<TestId> {
    let found = files.iter().flat_map(identified);
    found.map(|(id, _)| id).collect()
}

/// The tests of a file.
fn identified(file: &OwnFile) -> Vec<(TestId, Definition)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let found = definitions(&file.path, &file.text).into_iter();
    let identified = found.map(|definition| {
        let count = seen.entry(definition.name.clone()).or_default();
        *count += 1;
        let id = TestId {
            path: file.path.clone(),
            name: definition.name.clone(),
            ordinal: *count,
        };
        (id, definition)
    });
    identified.collect()
}

/// A random selection of at most `most` tests; one of every file comes first.
pub(super) fn chosen(all: BTreeSet<TestId>, most: usize) -> BTreeSet<TestId> {
    let mut shuffled: Vec<TestId> = all.into_iter().collect();
    shuffle(&mut shuffled);
    let mut files = BTreeSet::new();
    // Each key is computed once, because it depends on the tests before.
    shuffled.sort_by_cached_key(|id| !files.insert(id.path.clone()));
    shuffled.into_iter().take(most).collect()
}

impl Plan {
    pub(super) fn new(files: &[OwnFile], tests: &BTreeSet<TestId>, placing: Placing) -> Plan {
        let mut plan = Plan {
            edits: Vec::new(),
            sentinels: Vec::new(),
        };
        let paths: BTreeSet<&str> = match placing {
            Placing::Unchanged => BTreeSet::new(),
            _ => tests.iter().map(|id| id.path.as_str()).collect(),
        };
        for file in files.iter().filter(|it| paths.contains(it.path.as_str())) {
            let mut found = identified(file);
            found.retain(|(id, _)| tests.contains(id));
            if !found.is_empty() {
                plan.edit(file, found, placing);
            }
        }
        plan
    }

    fn edit(&mut self, file: &OwnFile, tests: Vec<(TestId, Definition)>, placing: Placing) {
        let Some(language) = Language::of(&file.path) else {
            return;
        };
        let mut text = file.text.clone();
        // In reverse order, so that the ranges of earlier tests stay valid.
        for (id, definition) in tests.into_iter().rev() {
            let count = match placing {
                Placing::Copies(count) => count,
                Placing::Renamed | Placing::Unchanged => 0,
            };
            let names = |count| -> Vec<String> {
                let names = std::iter::repeat_with(|| fresh_name(language));
                names.take(count).collect()
            };
            let sentinel = Sentinel {
                id,
                same: names(count.max(1)),
                changed: names(count),
            };
            match definition.name_range {
                Some(_) => text = placed(&text, &definition, language, &sentinel),
                None => text = self.place_script(&text, &definition, &sentinel),
            }
            self.sentinels.push(sentinel);
        }
        // A renamed script is a new file, and the original is kept.
        self.edits.push(Edit {
            path: file.path.clone(),
            before: Some(file.text.clone()),
            after: text,
        });
    }

    /// Copies a script that is a test itself to new files next to it.
    fn place_script(&mut self, text: &str, definition: &Definition, sentinel: &Sentinel) -> String {
        let changed = with(text, definition, true, None);
        let path = Utf8Path::new(&sentinel.id.path);
        let file_name = path.file_name().unwrap_or_default();
        let suffix = file_name
            .find(['.', '-', '_'])
            .map_or("", |at| &file_name[at..]);
        let same = sentinel.same.iter().map(|name| (name, text));
        let others = sentinel.changed.iter().map(|name| (name, changed.as_str()));
        for (name, content) in same.chain(others) {
            let copy = path.with_file_name(format!("{name}{suffix}"));
            self.edits.push(Edit {
                path: proctor_record::platform::slashed(copy.as_str()).into_owned(),
                before: None,
                after: content.to_owned(),
            });
        }
        if sentinel.changed.is_empty() {
            text.to_owned()
        } else {
            changed
        }
    }
}

/// The text of a file in which one test is a sentinel.
fn placed(text: &str, definition: &Definition, language: Language, sentinel: &Sentinel) -> String {
    let (before, after) = (
        &text[..definition.range.start],
        &text[definition.range.end..],
    );
    if sentinel.changed.is_empty() {
        let renamed = with(
            text,
            definition,
            false,
            sentinel.same.first().map(String::as_str),
        );
        return format!("{before}{renamed}{after}");
    }
    let same = sentinel.same.iter().map(|name| (false, name));
    let changed = sentinel.changed.iter().map(|name| (true, name));
    let mut copies: Vec<String> = same
        .chain(changed)
        .map(|(is_changed, name)| with(text, definition, is_changed, Some(name)))
        .collect();
    shuffle(&mut copies);
    let between = match language {
        Language::JavaScript => "\n;",
        Language::Python | Language::Go | Language::Rust => "\n",
    };
    let mut all = vec![with(text, definition, true, None)];
    all.extend(copies);
    let end = if language == Language::JavaScript {
        ""
    } else {
        "\n"
    };
    format!("{before}{}{end}{after}", all.join(between))
}

/// The text of a test, optionally with a changed expectation and name.
fn with(text: &str, definition: &Definition, is_changed: bool, name: Option<&str>) -> String {
    let mut changes = Vec::new();
    if is_changed {
        changes.push((
            definition.change.range.clone(),
            definition.change.text.clone(),
        ));
    }
    if let (Some(range), Some(name)) = (&definition.name_range, name) {
        // A title keeps its quotes.
        let is_title = !text[range.clone()].starts_with(|it: char| it == '_' || it.is_alphabetic());
        let inset = usize::from(is_title);
        changes.push((range.start + inset..range.end - inset, name.to_owned()));
    }
    changes.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut copy = text[definition.range.clone()].to_owned();
    for (range, replacement) in changes {
        let start = definition.range.start;
        copy.replace_range(range.start - start..range.end - start, &replacement);
    }
    copy
}

/// A random name that runners recognize as a test.
fn fresh_name(language: Language) -> String {
    let bytes: [u8; 14] = random();
    let letters = bytes.map(|byte| char::from(b'a' + byte % 26));
    let letters: String = letters.iter().collect();
    match language {
        Language::Python => format!("test_{letters}"),
        Language::Go => format!("TestX{letters}"),
        Language::JavaScript | Language::Rust => format!("t{letters}"),
    }
}

/// Random bytes that the work cannot predict.
fn random<const LENGTH: usize>() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

fn shuffle<T>(items: &mut [T]) {
    for last in (1..items.len()).rev() {
        let number = usize::from(u16::from_ne_bytes(random()));
        items.swap(last, number % (last + 1));
    }
}

/// The combined status of all report entries of a test or a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All passed.
    Passed,
    /// At least one failed.
    Failed,
    /// There is none, or none ran.
    Missing,
}

impl State {
    fn of<'a>(entries: impl Iterator<Item = &'a TestCase>) -> State {
        let statuses: Vec<Status> = entries.map(|test| test.status).collect();
        if statuses.iter().any(|it| *it >= Status::Failed) {
            State::Failed
        } else if statuses.contains(&Status::Passed) {
            State::Passed
        } else {
            State::Missing
        }
    }

    fn of_copy(name: &str, report: &TestReport) -> State {
        State::of(report.tests.iter().filter(|test| test.name.contains(name)))
    }
}

/// A sentinel result that honest work does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Oddity {
    /// Copies pass regardless of their expectation.
    Forged,
    /// The test passes under its own name regardless of its expectation, and its changed copies
    /// fail.
    ForgedByName,
    /// Copies with the original expectation fail or are missing.
    Unknown,
}

impl Oddity {
    /// Whether only a test that passes regardless of its expectation can look like this. Honest
    /// work may fail a test that runs twice.
    pub(super) fn is_plain(self) -> bool {
        self != Oddity::Unknown
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            Oddity::Forged => "a copy with a changed expected value passed",
            Oddity::ForgedByName => "it passed with a changed expected value",
            Oddity::Unknown => "it does not pass under another name",
        }
    }
}

impl Sentinel {
    /// The unexpected result of a sentinel run; a missing report is unexpected.
    pub(super) fn oddity(&self, report: Option<&TestReport>) -> Option<Oddity> {
        let Some(report) = report else {
            return Some(Oddity::Unknown);
        };
        let all = |names: &[String], state| {
            let mut names = names.iter();
            names.all(|name| State::of_copy(name, report) == state)
        };
        let has_changed = !self.changed.is_empty();
        if has_changed && all(&self.same, State::Passed) && all(&self.changed, State::Passed) {
            return Some(Oddity::Forged);
        }
        if has_changed && self.id.has_passed(report) && all(&self.changed, State::Failed) {
            return Some(Oddity::ForgedByName);
        }
        let mut copies = self.same.iter().chain(&self.changed);
        let is_missing = copies.any(|name| State::of_copy(name, report) == State::Missing);
        (is_missing || all(&self.same, State::Failed)).then_some(Oddity::Unknown)
    }

    /// Whether all results are as expected.
    pub(super) fn is_right(&self, report: &TestReport) -> bool {
        let is = |state| move |name: &String| State::of_copy(name, report) == state;
        let own = State::of(self.id.entries(report));
        let is_own_right = self.changed.is_empty() || own == State::Failed;
        is_own_right
            && self.same.iter().all(is(State::Passed))
            && self.changed.iter().all(is(State::Failed))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str, text: &str) -> OwnFile {
        let (path, text) = (path.to_owned(), text.to_owned());
        OwnFile { path, text }
    }

    fn plan(file: &OwnFile, placing: Placing) -> Plan {
        let files = std::slice::from_ref(file);
        Plan::new(files, &candidates(files), placing)
    }

    fn names(path: &str, text: &str) -> BTreeSet<String> {
        let found = definitions(path, text).into_iter();
        found.map(|test| test.name).collect()
    }

    #[test]
    fn test_is_changed_in_place_and_copied() {
        let text = "import x\n\n@a\ndef test_a(): assert f() == 1\n\n# end\nx()\n";
        let plan = plan(&file("test_a.py", text), Placing::Copies(1));
        let Sentinel { same, changed, .. } = &plan.sentinels[0];
        let [one, other] = [(&same[0], 1), (&changed[0], 0)].map(|(name, expected)| {
            format!("@a\ndef {name}(): assert f() == {expected}\n\n# end\n")
        });
        let after = &plan.edits[0].after;
        let start = "import x\n\n@a\ndef test_a(): assert f() == 0\n";
        assert!(after.starts_with(start), "{after}");
        assert!(after.contains(&one) && after.contains(&other), "{after}");
        assert!(after.ends_with("x()\n"), "{after}");
    }

    #[test]
    fn test_is_renamed_without_other_changes() {
        let text = "describe('a', () => { it('one', () => { expect(f()).toBe(1); }) });";
        let plan = plan(&file("a.test.js", text), Placing::Renamed);
        let name = &plan.sentinels[0].same[0];
        let expected = text.replace("'one'", &format!("'{name}'"));
        assert_eq!(plan.edits[0].after, expected);
    }

    #[test]
    fn script_is_copied_to_new_files() {
        let text = "assert.equal(f(), 1);\n";
        let plan = plan(&file("test/add.test.js", text), Placing::Copies(1));
        let Sentinel { same, changed, .. } = &plan.sentinels[0];
        let edits: Vec<(&str, &str)> = plan
            .edits
            .iter()
            .map(|edit| (edit.path.as_str(), edit.after.as_str()))
            .collect();
        let [same, changed] = [same, changed].map(|it| format!("test/{}.test.js", it[0]));
        let other = "assert.equal(f(), 0);\n";
        let expected = [
            (same.as_str(), text),
            (changed.as_str(), other),
            ("test/add.test.js", other),
        ];
        assert_eq!(edits, expected);
    }

    #[test]
    fn one_test_of_every_file_is_chosen_first() {
        let id = |path: &str, ordinal| TestId {
            path: path.to_owned(),
            name: "a".to_owned(),
            ordinal,
        };
        let mut all: BTreeSet<TestId> = (0..50).map(|ordinal| id("many", ordinal)).collect();
        all.extend([id("one", 1), id("two", 1)]);
        let found = chosen(all, 3);
        let files: BTreeSet<&str> = found.iter().map(|id| id.path.as_str()).collect();
        assert_eq!(files, BTreeSet::from(["many", "one", "two"]));
    }

    fn sentinel(copies: usize) -> Sentinel {
        let names = |kind: &str| (0..copies).map(|it| format!("{kind}{it}")).collect();
        Sentinel {
            id: TestId {
                path: "test_a.py".to_owned(),
                name: "test_a".to_owned(),
                ordinal: 1,
            },
            same: names("same"),
            changed: names("changed"),
        }
    }

    /// The report of one test and its copies: `+` passed, `-` failed, `?` is skipped, a space is missing.
    fn report(sentinel: &Sentinel, results: &str) -> TestReport {
        let own = std::iter::once("test_a[1]");
        let copies = sentinel.same.iter().chain(&sentinel.changed);
        let names = own.chain(copies.map(String::as_str));
        let cases = names.zip(results.chars()).map(|(name, result)| {
            let inner = match result {
                '+' => "",
                '-' => "<failure/>",
                '?' => "<skipped/>",
                _ => return String::new(),
            };
            format!("<testcase classname='test_a' name='{name}'>{inner}</testcase>")
        });
        let more = "<testcase classname='test_b' name='more'/>";
        let text = format!("<testsuite>{more}{}</testsuite>", cases.collect::<String>());
        TestReport::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn copies_distinguish_forged_tests_from_flaky_ones() {
        use Oddity::{Forged, ForgedByName, Unknown};
        // The test itself, copies of it, changed copies.
        for (results, odd, is_right) in [
            ("-++--", None, true),
            ("+++++", Some(Forged), false),
            ("-++++", Some(Forged), false),
            ("+++--", Some(ForgedByName), false),
            ("+----", Some(ForgedByName), false),
            ("-----", Some(Unknown), false),
            ("-+ --", Some(Unknown), false),
            ("+    ", Some(Unknown), false),
            ("-++-?", Some(Unknown), false),
            // Mixed results indicate flaky work.
            ("-+---", None, false),
            ("-++-+", None, false),
            ("+++-+", None, false),
            ("-+--+", None, false),
        ] {
            let sentinel = sentinel(2);
            let report = report(&sentinel, results);
            assert_eq!(sentinel.oddity(Some(&report)), odd, "{results}");
            assert_eq!(sentinel.is_right(&report), is_right, "{results}");
        }
        assert_eq!(sentinel(1).oddity(None), Some(Unknown));
        let renamed = Sentinel {
            changed: Vec::new(),
            ..sentinel(1)
        };
        for (results, odd) in [(" +", None), (" -", Some(Unknown)), ("+ ", Some(Unknown))] {
            let report = report(&renamed, results);
            assert_eq!(renamed.oddity(Some(&report)), odd, "{results}");
            assert_eq!(renamed.is_right(&report), odd.is_none(), "{results}");
        }
    }

    /// A file of tests with these bodies.
    fn written(path: &str, bodies: &[&str]) -> String {
        let tests = bodies.iter().enumerate().map(|(number, body)| {
            let value = format!("f({body})");
            match path {
                "a.py" => format!("def test_{number}():\n    assert {value} == {body}\n\n"),
                "a.test.js" => {
                    format!("test('t{number}', () => {{ expect({value}).toBe({body}) }})\n")
                }
                "a_test.go" => format!(
                    "func Test{number}(t *testing.T) {{\n\tif {value} != {body} {{\n\t\tt.Fatal()\n\t}}\n}}\n"
                ),
                _ => format!("#[test]\nfn t{number}() {{ assert_eq!({value}, {body}); }}\n"),
            }
        });
        tests.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn edited_files_define_the_same_tests_and_their_copies(
            bodies in prop::collection::vec(
                prop::sample::select(vec!["1", "255", "\"a\"", "\"\"", "\"})]\"", "\"\\\"\"", "\"#//\"", "1.5"]),
                0..6,
            ),
            copies in 1_usize..3,
        ) {
            for path in ["a.py", "a.test.js", "a_test.go", "a.rs"] {
                let file = file(path, &written(path, &bodies));
                let before = names(path, &file.text);
                prop_assert_eq!(before.len(), bodies.len());
                let plan = plan(&file, Placing::Copies(copies));
                let mut expected = before;
                for sentinel in &plan.sentinels {
                    expected.extend(sentinel.same.iter().chain(&sentinel.changed).cloned());
                }
                prop_assert_eq!(expected.len(), bodies.len() * (1 + 2 * copies));
                let after = plan.edits.first().map_or("", |edit| edit.after.as_str());
                prop_assert_eq!(names(path, after), expected);
            }
        }
    }
}
