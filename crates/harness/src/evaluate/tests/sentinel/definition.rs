//! Finds the tests that a file defines: their names, extents, and expectations that can be changed.

use std::ops::Range;

use super::{
    expectation::{self, Change},
    lexer::{self, Kind, Language, Token},
};
use crate::evaluate::tests::trace::{HANDS_OVER, unescaped};

/// A test in the source of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    /// The name in code; the path of a script that is a test itself.
    pub(super) name: String,
    /// The range of the name; `None` for a script.
    pub(super) name_range: Option<Range<usize>>,
    /// The whole test, with its decorators or attributes.
    pub(super) range: Range<usize>,
    /// The change of an expectation that makes the test fail.
    pub(super) change: Change,
}

/// The tests of a file with an expectation. Empty if the file cannot be parsed.
pub(super) fn definitions(path: &str, text: &str) -> Vec<Definition> {
    let Some(source) = TestSource::read(path, text) else {
        return Vec::new();
    };
    let found = match source.language {
        Language::Python => source.python_tests(),
        Language::JavaScript => source.javascript_tests(),
        Language::Go => source.go_tests(),
        Language::Rust => source.rust_tests(),
    };
    let tests: Vec<Definition> = found
        .into_iter()
        .filter_map(|(name, tokens)| source.definition(name, tokens))
        .collect();
    let is_script = source.language == Language::JavaScript && !HANDS_OVER.is_match(text);
    if !is_script {
        return tests;
    }
    let change = expectation::find(&source, 0..source.tokens.len());
    let script = change.map(|change| Definition {
        name: path.to_owned(),
        name_range: None,
        range: 0..text.len(),
        change,
    });
    script.into_iter().collect()
}

/// The tokens of a file and their structure.
pub(super) struct TestSource<'a> {
    pub(super) language: Language,
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
    /// The index of the closing bracket for each opening one.
    closes: Vec<Option<usize>>,
    /// Logical lines of Python.
    pub(super) lines: Vec<TestSourceLine>,
}

/// A logical line of Python.
pub(super) struct TestSourceLine {
    /// Its first token.
    pub(super) first: usize,
    pub(super) indent: usize,
    /// Its start in the text, before the indentation.
    start: usize,
}

/// A test: the token of its name, and all of its tokens.
type Found = (usize, Range<usize>);

impl<'a> TestSource<'a> {
    fn read(path: &str, text: &'a str) -> Option<TestSource<'a>> {
        let language = Language::of(path)?;
        let tokens = lexer::tokens(language, text)?;
        let mut source = TestSource {
            language,
            text,
            closes: vec![None; tokens.len()],
            tokens,
            lines: Vec::new(),
        };
        let mut open = Vec::new();
        for at in 0..source.tokens.len() {
            if open.is_empty() && language == Language::Python {
                source.lines.extend(source.line(at));
            }
            match source.at(at) {
                "(" | "[" | "{" => open.push(at),
                ")" | "]" | "}" => source.closes[open.pop()?] = Some(at),
                _ => {}
            }
        }
        open.is_empty().then_some(source)
    }

    /// The logical line that starts with a token.
    fn line(&self, at: usize) -> Option<TestSourceLine> {
        let range = &self.tokens[at].range;
        let before = &self.text[..range.start];
        let start = before.rfind('\n').map_or(0, |it| it + 1);
        let continues = before[..start]
            .trim_end_matches(['\n', '\r'])
            .ends_with('\\');
        let is_first = before[start..].trim().is_empty() && !continues;
        is_first.then_some(TestSourceLine {
            first: at,
            indent: range.start - start,
            start,
        })
    }

    /// The text of a token; empty for strings, so that they are never treated as code.
    pub(super) fn at(&self, at: usize) -> &'a str {
        match self.tokens.get(at) {
            Some(token) if matches!(token.kind, Kind::Word | Kind::Mark) => {
                &self.text[token.range.clone()]
            }
            _ => "",
        }
    }

    pub(super) fn close(&self, at: usize) -> Option<usize> {
        self.closes.get(at).copied().flatten()
    }

    /// Whether there is a line break before a token.
    pub(super) fn is_on_new_line(&self, at: usize) -> bool {
        at > 0 && {
            let between = self.tokens[at - 1].range.end..self.tokens[at].range.start;
            self.text[between].contains('\n')
        }
    }

    /// The tokens of a range outside of nested brackets. An opening bracket represents its content.
    pub(super) fn outer(&self, range: Range<usize>) -> Vec<usize> {
        let mut outer = Vec::new();
        let mut at = range.start;
        while at < range.end {
            outer.push(at);
            at = self.close(at).unwrap_or(at) + 1;
        }
        outer
    }

    fn definition(&self, name: usize, tokens: Range<usize>) -> Option<Definition> {
        let token = &self.tokens[name];
        let text = match &token.kind {
            Kind::Text(inner) => unescaped(&self.text[inner.clone()]),
            _ => self.text[token.range.clone()].to_owned(),
        };
        let start = self.tokens[tokens.start].range.start;
        let end = self.tokens[tokens.end - 1].range.end;
        let range = match self.language {
            Language::Python => {
                let is_next = |line: &&TestSourceLine| line.first >= tokens.end;
                let next = self.lines.iter().find(is_next);
                let line_start = self.text[..start].rfind('\n').map_or(0, |it| it + 1);
                line_start..next.map_or(self.text.len(), |line| line.start)
            }
            _ => start..end,
        };
        Some(Definition {
            name: text,
            name_range: Some(token.range.clone()),
            range,
            change: expectation::find(self, tokens)?,
        })
    }

    /// Functions and methods whose name starts with `test`.
    fn python_tests(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut decorated = None;
        for (number, line) in self.lines.iter().enumerate() {
            if self.at(line.first) == "@" {
                decorated = decorated.or(Some(line.first));
                continue;
            }
            let start = decorated.take().unwrap_or(line.first);
            let keyword = line.first + usize::from(self.at(line.first) == "async");
            let name = keyword + 1;
            if self.at(keyword) != "def" || !self.at(name).starts_with("test") {
                continue;
            }
            let mut rest = self.lines[number + 1..].iter();
            let end = rest.find(|next| next.indent <= line.indent);
            let end = end.map_or(self.tokens.len(), |next| next.first);
            found.push((name, start..end));
        }
        found
    }

    /// Calls such as `test('title', …)`, `it.only('title', …)`, `test.each([…])('title', …)`.
    fn javascript_tests(&self) -> Vec<Found> {
        const CALLS: [&str; 3] = ["test", "it", "specify"];
        const NOT_RUN: [&str; 5] = ["skip", "todo", "fails", "failing", "skipIf"];
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let start = at;
            at += 1;
            if !CALLS.contains(&self.at(start)) {
                continue;
            }
            let mut open = start + 1;
            let mut is_run = true;
            while self.at(open) == "." {
                is_run &= !NOT_RUN.contains(&self.at(open + 1));
                open += 2;
                if self.at(open - 1) == "each" {
                    open = self.close(open).unwrap_or(open) + 1;
                }
            }
            let title = open + 1;
            let is_titled = self.tokens.get(title).map(|it| &it.kind);
            let (Some(Kind::Text(_)), "(", ",", true) =
                (is_titled, self.at(open), self.at(title + 1), is_run)
            else {
                continue;
            };
            let Some(close) = self.close(open) else {
                continue;
            };
            found.push((title, self.statement_start(start)..close + 1));
            at = close + 1;
        }
        found
    }

    /// The start of `await t.test(…)`, whose last name is at `at`.
    fn statement_start(&self, mut at: usize) -> usize {
        while at >= 2 && self.at(at - 1) == "." {
            at -= 2;
        }
        if at >= 1 && self.at(at - 1) == "await" {
            at -= 1;
        }
        at
    }

    /// `func TestX(t *testing.T)`, and methods of suites.
    fn go_tests(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for start in (0..self.tokens.len()).filter(|at| self.at(*at) == "func") {
            let receiver = self.close(start + 1);
            let name = receiver.unwrap_or(start) + 1;
            let Some(close) = self.close(name + 1) else {
                continue;
            };
            let parameters: Vec<&str> = (name + 2..close).map(|at| self.at(at)).collect();
            let is_test = match receiver {
                None => parameters.ends_with(&["testing", ".", "T"]),
                Some(_) => parameters.is_empty(),
            };
            let body = self.close(close + 1);
            if let (true, true, Some(end)) = (is_test, self.at(name).starts_with("Test"), body) {
                found.push((name, start..end + 1));
            }
        }
        found
    }

    /// Functions with the attribute `#[test]`, `#[tokio::test]` or `#[rstest]`.
    fn rust_tests(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let start = at;
            let mut is_test = false;
            while let ("#", Some(close)) = (self.at(at), self.close(at + 1)) {
                is_test |= matches!(self.at(close - 1), "test" | "rstest")
                    || (at + 2..close).any(|it| self.at(it) == "test" && self.at(it + 1) == "(");
                at = close + 1;
            }
            at = at.max(start + 1);
            if !is_test {
                continue;
            }
            let mut keyword = at;
            while ["pub", "async", "unsafe"].contains(&self.at(keyword)) {
                keyword += 1;
            }
            let outer = self.outer(keyword..self.tokens.len());
            let body = outer.into_iter().find(|it| self.at(*it) == "{");
            let end = body.and_then(|body| self.close(body));
            if let ("fn", Some(end)) = (self.at(keyword), end) {
                found.push((keyword + 1, start..end + 1));
                at = end + 1;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks the tests of a file, each with the line of its changed expectation.
    #[track_caller]
    fn check(path: &str, text: &str, expected: &[(&str, &str)]) {
        let found = definitions(path, text).into_iter().map(|test| {
            let mut changed = text.to_owned();
            let Change { range, text } = test.change;
            changed.replace_range(range.clone(), &text);
            let start = changed[..range.start].rfind('\n').map_or(0, |it| it + 1);
            let end = changed[range.start..].find('\n');
            let end = end.map_or(changed.len(), |it| range.start + it);
            (test.name, changed[start..end].trim().to_owned())
        });
        let owned = expected.iter();
        let owned = owned.map(|(name, line)| ((*name).to_owned(), (*line).to_owned()));
        assert_eq!(found.collect::<Vec<_>>(), owned.collect::<Vec<_>>());
    }

    #[test]
    fn python() {
        let text = r#"
import pytest

def helper():
    assert f() == 1

def test_number():
    '''assert f() == 9'''
    assert f(1) == 255  # == 3
    assert f(2) > 3

@pytest.mark.parametrize(
    "a, b", [(1, 2)],
)
async def test_wrapped(a, b):
    assert f(a) == b, "message == 1"

class TestX:
    def test_text(self):
        if other():
            assert f() == 1
        assert f({"a": (1)}) == "it's"
    def test_method(self): self.assertEqual([1, -2], f(3), "no")

    def test_none(self):
        assert f(1) or f() == 2
        assert f(1) != 2
        assert not f() == 2

def test_flag(): assert f(1) is True
def test_approx():
    expected = 3.75
    assert f() == pytest.approx(expected) and f() == pytest.approx(0.5)
"#;
        let expected = [
            ("test_number", "assert f(1) == 254  # == 3"),
            ("test_wrapped", "assert f(a) == (b, 'x'), \"message == 1\""),
            ("test_text", "assert f({\"a\": (1)}) == \"ht's\""),
            (
                "test_method",
                "def test_method(self): self.assertEqual([0, -2], f(3), \"no\")",
            ),
            ("test_flag", "def test_flag(): assert f(1) is False"),
            (
                "test_approx",
                "assert f() == pytest.approx(expected) and f() == pytest.approx(1.5)",
            ),
        ];
        check("tests/test_a.py", text, &expected);
    }

    #[test]
    fn javascript() {
        let text = r"
const pattern = /['(]/;
describe('group', () => {
  it('one', async () => {
    // expect(f()).toBe(1)
    expect(f(`${g({})}`)).toBe(10);
    expect(f()).not.toBe(3);
    expect(f()).toBeGreaterThan(3);
  });
  test.each([[1, 2]])('two %i', (a, b) => { expect(f(a)).toEqual(b); })
  test.skip('no', () => { expect(f()).toBe(1); });
});
await t.test('it\'s', () => assert.deepEqual(f(), { a: [true, null] }));
it(`loose`, () => { if (f() !== 'x') throw 1; });
it('nothing', () => { f(); });
";
        let expected = [
            ("one", "expect(f(`${g({})}`)).toBe(11);"),
            (
                "two %i",
                "test.each([[1, 2]])('two %i', (a, b) => { expect(f(a)).toEqual([b, 'x']); })",
            ),
            (
                "it's",
                "await t.test('it\\'s', () => assert.deepEqual(f(), { a: [false, null] }));",
            ),
            ("loose", "it(`loose`, () => { if (f() !== 'w') throw 1; });"),
        ];
        check("a.test.ts", text, &expected);
        let script = "const assert = require('assert');\nassert.equal(f(1), 3);\n";
        check("s.js", script, &[("s.js", "assert.equal(f(1), 2);")]);
    }

    #[test]
    fn go() {
        let text = r#"
package p
func TestMain(m *testing.M) { if f() != 1 {} }
func helper(t *testing.T) { if f() != 1 {} }
func TestOne(t *testing.T) {
	if got, err := f("{"); err != nil || got != 'a' {
		t.Fatal(got)
	}
	if f() != 3 && g() { t.Fatal() }
}
func TestTable(t *testing.T) {
	tests := []struct{ in, want int }{{in: 1, want: 2}, {1, 3}}
	for _, tt := range tests { if f(tt.in) != tt.want { t.Error() } }
}
func (s *Suite) TestSuite() { s.Equal([]int{1, 2}, f()) }
func TestTestify(t *testing.T) { assert.Equal(t, `raw`, f(), "message") }
"#;
        let expected = [
            (
                "TestOne",
                r#"if got, err := f("{"); err != nil || got != 'x' {"#,
            ),
            (
                "TestTable",
                "tests := []struct{ in, want int }{{in: 1, want: 1}, {1, 3}}",
            ),
            (
                "TestSuite",
                "func (s *Suite) TestSuite() { s.Equal([]int{0, 2}, f()) }",
            ),
            (
                "TestTestify",
                "func TestTestify(t *testing.T) { assert.Equal(t, `qaw`, f(), \"message\") }",
            ),
        ];
        check("a_test.go", text, &expected);
    }

    #[test]
    fn rust() {
        let text = r#"
fn helper<'a>(x: &'a str) { assert_eq!(x, "1"); }
#[test]
fn one() {
    /* assert_eq!(1, /* { */ 1); */
    assert_eq!(f('{'), r"}raw".to_string());
}
#[tokio::test]
#[ignore]
async fn two() { assert_eq!(f(), Some(0xff_u8), "no {}", 1); }
#[test]
fn three() -> Result<(), E> { match f() { _ => assert_eq!(f(), 1) } assert!(f() == vec![1] || g()); Ok(()) }
#[test]
fn four() { assert!(f() == 3); }
"#;
        let expected = [
            ("one", r#"assert_eq!(f('{'), r"x}raw".to_string());"#),
            (
                "two",
                "async fn two() { assert_eq!(f(), Some(0xfe_u8), \"no {}\", 1); }",
            ),
            ("four", "fn four() { assert!(f() == 2); }"),
        ];
        check("tests/a.rs", text, &expected);
    }

    /// Honest work may not execute them, or satisfy them with other values.
    #[test]
    fn assertions_that_accept_other_values_are_not_changed() {
        for body in [
            "for x in f():\n        assert x == 1",
            "if f():\n        assert f() == 1",
            "if f(): assert f() == 1",
            "def inner():\n        assert f() == 1\n    on(inner)",
            "assert f() >= 1",
            "assert f() != 1",
            "assert 1 in f()",
            "want = 1\n    assert f() < want",
            "self.assertIn(1, f())",
        ] {
            check("a.py", &format!("def test_a():\n    {body}\n"), &[]);
        }
        for body in [
            "f().forEach(x => { expect(x).toBe(1); })",
            "f(x => expect(x).toBe(1))",
            "on('x', function (x) { expect(x).toBe(1) })",
            "for (const x of f()) { expect(x).toBe(1); }",
            "expect(f()).toContain('a')",
            "expect(f()).not.to.equal(1)",
            "expect(f().eq(1)).toBeVisible()",
            "const expected = 1; expect(f()).toContain(expected)",
        ] {
            check("a.js", &format!("it('a', () => {{ {body} }});\n"), &[]);
        }
        for body in [
            "for _, x := range f() { if x != 1 { t.Fatal() } }",
            "on(func(x int) { if x != 1 { t.Fatal() } })",
            "want := 1; if f() < want { t.Fatal() }",
            "if f() == nil { if g() != 1 { t.Fatal() } }",
        ] {
            let text = format!("func TestA(t *testing.T) {{ {body} }}\n");
            check("a_test.go", &text, &[]);
        }
        for body in [
            "for x in f() { assert_eq!(x, 1); }",
            "f().for_each(|x| assert_eq!(x, 1));",
            "if let Some(x) = f() { assert_eq!(x, 1); }",
            "assert_ne!(f(), 1);",
        ] {
            check("a.rs", &format!("#[test]\nfn a() {{ {body} }}\n"), &[]);
        }
    }

    #[test]
    fn subtests_and_tables_of_expected_values_are_changed() {
        let run = "t.Run(\"x\", func(t *testing.T) { if f() != 1 { t.Fatal() } })";
        let text = |body: &str| format!("func TestA(t *testing.T) {{ {body} }}");
        let changed = text(&run.replace("!= 1", "!= 0"));
        check("a_test.go", &text(run), &[("TestA", &changed)]);
        let table = "cs := []c{{want: 2}}; for _, c := range cs { if f() != c.want { t.Fatal() } }";
        let changed = text(&table.replace("want: 2", "want: 1"));
        check("a_test.go", &text(table), &[("TestA", &changed)]);
    }

    /// Code that a simple parser could misinterpret.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "def test_a():\n",
            "    assert f(1) == 'é'\n",
            "'''",
            "\"",
            "'",
            "`",
            "${",
            "}",
            "{",
            "(",
            ")",
            "[",
            "]",
            "test('a', () => {",
            "expect(f()).toBe(1)",
            "});\n",
            "#[test]\n",
            "fn a() {",
            "assert_eq!(f(), 1);",
            "func TestA(t *testing.T) {",
            "if f() != 1 {",
            "\\",
            "/*",
            "*/",
            "//",
            "#",
            "\n",
            " ",
            "é",
            "0x",
            "1.5e-3",
            "r#\"",
            "'a'",
            "'\\n'",
            "/[/]/",
            "want: ",
            "==",
            ",",
            ";",
        ]);
        prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in pieces()) {
            for path in ["a.py", "a.js", "a.go", "a.rs"] {
                for test in definitions(path, &text) {
                    prop_assert!(text.get(test.range.clone()).is_some());
                    prop_assert!(text.get(test.change.range.clone()).is_some());
                    prop_assert!(test.range.start <= test.change.range.start);
                    prop_assert!(test.change.range.end <= test.range.end);
                }
            }
        }
    }
}
