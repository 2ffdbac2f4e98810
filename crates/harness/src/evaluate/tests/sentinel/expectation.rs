//! Finds an expected value in a test and changes it, so that a passing test must fail. Only
//! equality comparisons are changed: correct work that differs from the reference can satisfy other
//! assertions with other values and would look forged.

use std::ops::Range;

use super::{
    definition::TestSource,
    lexer::{Kind, Language},
};

/// A change of a file's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

/// Functions that compare for equality, in lower case.
const EQUALITIES: &str = "tobe toequal tostrictequal tohavelength tohavebeencalledtimes equal equals eql eq is same \
    strictequal deepequal deepstrictequal lengthof assertequal assertequals assertis \
    assertlistequal assertdictequal asserttupleequal assertsetequal assertalmostequal \
    assertmultilineequal assert_eq equalvalues equalerror";

/// Names that can occur in a value made of literals.
const PLAIN: &str = "Some Ok Err None vec Vec String from to_string to_owned into as_str null nil undefined int \
    int64 int32 float64 string byte rune bool map set tuple list frozenset pytest approx error";

fn is_listed(list: &str, word: &str) -> bool {
    list.split(' ').any(|it| it == word)
}

/// Keywords of blocks that other work may not execute.
const CONDITIONS: &str = "if elif else except catch match switch case select for while def async";

/// Operators that compare for equality.
const COMPARISONS: &str = "== != === !== is";

/// Names of expected values.
const VALUES: &str = "want wanted expected expectedvalue expectedresult expectedoutput \
    expected_value expected_result expected_output";

/// The change of the last expected literal of a test; without one, of the last expected value in
/// untyped languages.
pub(super) fn find(source: &TestSource<'_>, tokens: Range<usize>) -> Option<Change> {
    let mut found = None;
    let mut wrapped = None;
    for at in tokens.clone() {
        let operands = operands(source, at, tokens.end);
        if operands.is_empty() || is_conditional(source, at, &tokens) {
            continue;
        }
        if is_named_value(source, at) && !is_compared(source, at, &tokens) {
            continue;
        }
        let literal = operands.iter().find_map(|it| literal(source, it.clone()));
        if literal.is_some() {
            found = literal;
        } else if !is_named_value(source, at) {
            wrapped = wrap(source, operands[0].clone()).or(wrapped);
        }
    }
    found.or(wrapped)
}

/// The values that an assertion compares for equality, the likeliest expectation first.
fn operands(source: &TestSource<'_>, at: usize, end: usize) -> Vec<Range<usize>> {
    let word = source.at(at);
    if word.is_empty() {
        return Vec::new();
    }
    let is_macro = source.at(at + 1) == "!";
    let open = at + 1 + usize::from(is_macro);
    let close = source.close(open).filter(|_| source.at(open) == "(");
    if let Some(close) = close
        && (word == "Len" || is_listed(EQUALITIES, &word.to_lowercase()))
    {
        let arguments = arguments(source, open + 1..close);
        // With one argument these select an element in some libraries.
        let is_choice = arguments.len() < 2 && is_listed("eq is same", word);
        return if is_choice || is_negated(source, at) {
            Vec::new()
        } else {
            arguments
        };
    }
    match (source.language, word, close) {
        (Language::Python, "assert", _) => {
            let line = source.lines.iter().map(|line| line.first);
            let stop = line.filter(|first| *first > at).min().unwrap_or(end);
            equals(source, at + 1..stop.min(end), "==", &["or", "not", "if"])
        }
        (Language::Rust, "assert", Some(close)) => {
            equals(source, open + 1..close, "==", &["||", "!"])
        }
        (Language::JavaScript, "if", Some(close)) => unequal(source, open + 1..close),
        (Language::Go, "if", _) => {
            let outer = source.outer(at + 1..end);
            let block = outer.into_iter().find(|it| source.at(*it) == "{");
            unequal(source, at + 1..block.unwrap_or(at + 1))
        }
        _ if is_named_value(source, at) => named_value(source, at, end),
        _ => Vec::new(),
    }
}

/// Whether `not` is in the chain before a call: `expect(x).not.to.equal`.
fn is_negated(source: &TestSource<'_>, mut at: usize) -> bool {
    while at >= 2 && source.at(at - 1) == "." {
        at -= 2;
        if source.at(at) == "not" {
            return true;
        }
    }
    false
}

/// The arguments of a call that can be expected values. Messages come after them; in Go the test
/// comes first.
fn arguments(source: &TestSource<'_>, range: Range<usize>) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut start = range.start;
    for at in source.outer(range.clone()) {
        if source.at(at) == "," {
            all.push(start..at);
            start = at + 1;
        }
    }
    all.push(start..range.end);
    all.retain(|argument| !argument.is_empty());
    let order: &[usize] = match source.language {
        Language::Go => &[1, 2, 0],
        _ => &[1, 0],
    };
    let chosen = order.iter().filter_map(|it| all.get(*it).cloned());
    chosen.collect()
}

/// Both sides of the last comparison in an assertion, unless it contains a word of `unless`.
fn equals(
    source: &TestSource<'_>,
    range: Range<usize>,
    mark: &str,
    unless: &[&str],
) -> Vec<Range<usize>> {
    let outer = source.outer(range.clone());
    let is_end = |at: &&usize| matches!(source.at(**at), "," | ";");
    let end = outer.iter().find(is_end).copied().unwrap_or(range.end);
    let range = range.start..end;
    if range.clone().any(|at| unless.contains(&source.at(at))) {
        return Vec::new();
    }
    sides(source, range, &[mark, "===", "is"], &["and", "&&"])
}

/// Both sides of the last comparison in a failure condition of a test.
fn unequal(source: &TestSource<'_>, range: Range<usize>) -> Vec<Range<usize>> {
    if range.clone().any(|at| source.at(at) == "&&") {
        return Vec::new();
    }
    let outer = source.outer(range.clone());
    let start = outer.iter().rfind(|at| source.at(**at) == ";");
    let start = start.map_or(range.start, |at| at + 1);
    sides(source, start..range.end, &["!=", "!=="], &["||"])
}

/// Both sides of the last of these comparisons, the right one first. `between` separates
/// comparisons.
fn sides(
    source: &TestSource<'_>,
    range: Range<usize>,
    comparisons: &[&str],
    between: &[&str],
) -> Vec<Range<usize>> {
    let outer = source.outer(range.clone());
    let is = |at: &&usize, marks: &[&str]| marks.contains(&source.at(**at));
    let Some(&middle) = outer.iter().rfind(|at| is(at, comparisons)) else {
        return Vec::new();
    };
    let left = outer.iter().rfind(|at| **at < middle && is(at, between));
    let right = outer.iter().find(|at| **at > middle && is(at, between));
    let left = left.map_or(range.start, |at| at + 1)..middle;
    let right = middle + 1..right.copied().unwrap_or(range.end);
    let both = [right, left].into_iter();
    both.filter(|side| !side.is_empty()).collect()
}

/// Whether a token names an expected value: `want := 3`, `expected: 3`.
fn is_named_value(source: &TestSource<'_>, at: usize) -> bool {
    let is_name = is_listed(VALUES, &source.at(at).to_lowercase());
    is_name && matches!(source.at(at + 1), ":=" | "=" | ":")
}

/// Whether a named value is compared for equality elsewhere in a test.
fn is_compared(source: &TestSource<'_>, named: usize, tokens: &Range<usize>) -> bool {
    let name = source.at(named);
    let mut others = tokens
        .clone()
        .filter(|at| *at != named && source.at(*at) == name);
    others.any(|at| {
        let mut start = at;
        while start >= 2 && source.at(start - 1) == "." {
            start -= 2;
        }
        let is_beside = |it: usize| is_listed(COMPARISONS, source.at(it));
        let open = (tokens.start..at).rfind(|open| source.close(*open) > Some(at));
        let callee = open.map_or("", |open| match source.at(open.saturating_sub(1)) {
            "!" => source.at(open.saturating_sub(2)),
            callee => callee,
        });
        let is_argument = is_listed(EQUALITIES, &callee.to_lowercase());
        let is_compared = is_beside(start.saturating_sub(1)) || is_beside(at + 1) || is_argument;
        is_compared && !is_in_callback(source, at, tokens.start)
    })
}

fn named_value(source: &TestSource<'_>, at: usize, end: usize) -> Vec<Range<usize>> {
    let start = at + 2;
    let outer = source.outer(start..end).into_iter();
    let is_end = |at: &usize| {
        let is_mark = matches!(source.at(*at), "," | ";" | ")" | "]" | "}");
        is_mark || (*at > start && source.is_on_new_line(*at))
    };
    let stop = outer.clone().find(is_end).unwrap_or(end);
    let value = start..stop;
    Some(value)
        .into_iter()
        .filter(|it| !it.is_empty())
        .collect()
}

/// Whether other work may not execute a token: it is in a conditional block, in a loop, or in a
/// nested function.
fn is_conditional(source: &TestSource<'_>, at: usize, tokens: &Range<usize>) -> bool {
    let start = tokens.start;
    let is_condition = |at: usize| is_listed(CONDITIONS, source.at(at));
    if source.language == Language::Python {
        let within: Vec<_> = source
            .lines
            .iter()
            .filter(|line| (start..=at).contains(&line.first))
            .collect();
        // The test is defined by the last line with the smallest indentation.
        let outermost = within.iter().map(|line| line.indent).min();
        let mut inner = within.into_iter().rev();
        let mut indent = usize::MAX;
        return inner.any(|line| {
            let is_outer = line.indent < indent && Some(line.indent) > outermost;
            indent = indent.min(line.indent);
            is_outer && is_condition(line.first)
        });
    }
    let holds = |open: &usize| source.at(*open) == "{" && source.close(*open) > Some(at);
    let is_in_block = (start..at).filter(holds).any(|open| {
        let before = (start..open).rev();
        let mut header = before.take_while(|it| !matches!(source.at(*it), ";" | "{" | "}"));
        header.any(|it| source.at(it) != "async" && is_condition(it))
    });
    is_in_block || is_in_callback(source, at, start)
}

/// Whether a token is in a callback other than the test itself, which may never be called.
fn is_in_callback(source: &TestSource<'_>, at: usize, start: usize) -> bool {
    let marks = match source.language {
        Language::Python => "lambda",
        Language::JavaScript => "=> function",
        Language::Go => "func",
        Language::Rust => "| ||",
    };
    let holds = |open: &usize| source.close(*open) > Some(at);
    let is_handed = |open: &usize| {
        let mut outer = source.outer(open + 1..at).into_iter();
        let is_subtest = *open > 0 && source.at(*open - 1) == "Run";
        !is_subtest && outer.any(|it| is_listed(marks, source.at(it)))
    };
    let handed = (start..at).filter(holds).filter(is_handed).count();
    handed > usize::from(source.language == Language::JavaScript)
}

/// The change of the first literal in a value made of literals.
fn literal(source: &TestSource<'_>, range: Range<usize>) -> Option<Change> {
    let mut found = None;
    for at in range.clone() {
        let token = &source.tokens[at];
        let text = &source.text[token.range.clone()];
        let next = source.at(at + 1);
        match &token.kind {
            Kind::Word if matches!(text, "true" | "false" | "True" | "False") => {}
            Kind::Word if is_listed(PLAIN, text) || matches!(next, ":" | "{") => continue,
            Kind::Mark if "[](){},:-!.&;".contains(text) || text == "::" => continue,
            Kind::Number if is_length(source, at, range.end) => continue,
            Kind::Number | Kind::Text(_) | Kind::Char(_) => {}
            Kind::Dynamic | Kind::Word | Kind::Mark => return None,
        }
        found = found.or_else(|| Some(changed(&token.kind, &token.range, text)));
    }
    found
}

/// Whether a number is the length in an array type.
fn is_length(source: &TestSource<'_>, at: usize, end: usize) -> bool {
    let is_type = source.at(at + 2).starts_with(char::is_alphabetic);
    source.at(at + 1) == "]" && is_type && at + 2 < end
}

/// A different literal of the same type.
fn changed(kind: &Kind, range: &Range<usize>, text: &str) -> Change {
    let (range, text) = match kind {
        Kind::Text(inner) => {
            let first = text[inner.start - range.start..].chars().next();
            let first = first.filter(|it| it.is_ascii_alphanumeric() && !inner.is_empty());
            let width = usize::from(first.is_some());
            let other = first.map_or('x', other);
            (inner.start..inner.start + width, other.to_string())
        }
        Kind::Char(inner) => {
            let is_x = &text[inner.start - range.start..inner.end - range.start] == "x";
            (inner.clone(), if is_x { "y" } else { "x" }.to_owned())
        }
        Kind::Number => {
            let at = range.start + last_digit(text);
            let digit = char::from(text.as_bytes()[at - range.start]);
            (at..at + 1, other(digit).to_string())
        }
        _ => {
            let opposite = match text {
                "true" => "false",
                "false" => "true",
                "True" => "False",
                _ => "True",
            };
            (range.clone(), opposite.to_owned())
        }
    };
    Change { range, text }
}

/// The position of the last digit before the decimal point or type suffix of a number.
fn last_digit(text: &str) -> usize {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'_';
    let prefix = if text.starts_with("0x") || text.starts_with("0X") {
        let digits = text[2..].bytes();
        let count = digits.take_while(|it| it.is_ascii_hexdigit() || *it == b'_');
        2 + count.count()
    } else if text.len() > 2 && text[1..].starts_with(['b', 'B', 'o', 'O']) {
        2 + text[2..].bytes().take_while(is_digit).count()
    } else {
        text.bytes().take_while(is_digit).count()
    };
    let mut digits = text.as_bytes()[..prefix].iter();
    digits.rposition(u8::is_ascii_hexdigit).unwrap_or_default()
}

/// A different letter or digit. Digits get smaller, so that a number stays in the range of its
/// type.
fn other(letter: char) -> char {
    match letter {
        '0' => '1',
        '1'..='9' | 'b'..='z' | 'B'..='Z' => char::from(letter as u8 - 1),
        'a' | 'A' => '9',
        _ => 'x',
    }
}

/// Wraps an expected value into a larger one, for languages where all values can be compared.
fn wrap(source: &TestSource<'_>, range: Range<usize>) -> Option<Change> {
    let first = source.tokens.get(range.start)?.range.start;
    let last = source.tokens.get(range.end - 1)?.range.end;
    let value = &source.text[first..last];
    let text = match source.language {
        Language::Python => format!("({value}, 'x')"),
        Language::JavaScript => format!("[{value}, 'x']"),
        Language::Go | Language::Rust => return None,
    };
    Some(Change {
        range: first..last,
        text,
    })
}
