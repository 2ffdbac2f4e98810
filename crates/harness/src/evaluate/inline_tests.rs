//! Unit tests inside Rust source files. The `#[cfg(test)]` items of a file are hidden tests, and the
//! rest of the file is the agent's work.

use std::ops::Range;

use proctor_record::fs::beneath::UntrustedDir;

use super::tests::{Kind, Language, Token, tokens};

/// The maximum size of a source file.
const MAX_SOURCE: u64 = 4 << 20;

/// Items that end with a semicolon even if they contain braces.
const ENDS_WITH_SEMICOLON: [&str; 5] = ["use", "static", "const", "type", "extern"];

/// A Rust file, separated into its code and its unit tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RustTests {
    /// The text without its test items.
    pub code: String,
    /// The test items at the top level of the file, in order.
    pub items: Vec<String>,
    /// The test items inside other items, which are part of the code.
    pub nested: Vec<String>,
}

impl RustTests {
    /// Separates a file; `None` if its strings, comments or brackets do not match.
    pub fn read(text: &str) -> Option<RustTests> {
        let source = RustSource::read(text)?;
        let (top, nested) = source.test_items();
        let mut code = String::new();
        let mut from = 0;
        for item in &top {
            code.push_str(&text[from..item.start]);
            from = item.end;
        }
        code.push_str(&text[from..]);
        let texts = |ranges: Vec<Range<usize>>| {
            let ranges = ranges.into_iter();
            ranges.map(|range| text[range].to_owned()).collect()
        };
        Some(RustTests {
            code,
            items: texts(top),
            nested: texts(nested),
        })
    }
}

/// `work` with the test items of `tests` instead of its own; `None` if one of them cannot be read.
pub fn replace_tests(work: &str, tests: &str) -> Option<String> {
    let (own, _) = RustSource::read(work)?.test_items();
    let items = RustTests::read(tests)?.items;
    let mut items = items.iter();
    let mut text = String::new();
    let mut from = 0;
    for item in own {
        text.push_str(&work[from..item.start]);
        text.extend(items.next().map(String::as_str));
        from = item.end;
    }
    text.push_str(&work[from..]);
    for item in items {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.extend(["\n", item]);
    }
    Some(text)
}

/// The work's versions of files with unit tests, before hidden tests replace the files.
pub(super) fn read(below: &UntrustedDir, paths: &[String]) -> Vec<(String, String)> {
    let text = |path: &String| {
        let bytes = below.read(path, MAX_SOURCE).ok()?;
        Some((path.clone(), String::from_utf8(bytes).ok()?))
    };
    paths.iter().filter_map(text).collect()
}

/// Puts the code of the work back into files that hidden tests replaced. A file that cannot be read
/// as Rust stays the task's.
pub(super) fn merge(below: &UntrustedDir, works: &[(String, String)]) -> std::io::Result<()> {
    for (path, work) in works {
        let hidden = below.read(path, MAX_SOURCE).ok();
        let merged = hidden.and_then(|hidden| String::from_utf8(hidden).ok());
        let merged = merged.and_then(|hidden| replace_tests(work, &hidden));
        if let Some(merged) = merged {
            below.overwrite(path, merged.as_bytes())?;
        }
    }
    Ok(())
}

/// The tokens of a file and their brackets.
struct RustSource<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    /// The index of the closing bracket for each opening one.
    closes: Vec<Option<usize>>,
}

impl<'a> RustSource<'a> {
    fn read(text: &'a str) -> Option<RustSource<'a>> {
        let tokens = tokens(Language::Rust, text)?;
        let mut source = RustSource {
            text,
            closes: vec![None; tokens.len()],
            tokens,
        };
        let mut open = Vec::new();
        for at in 0..source.tokens.len() {
            match source.at(at) {
                "(" | "[" | "{" => open.push(at),
                ")" | "]" | "}" => source.closes[open.pop()?] = Some(at),
                _ => {}
            }
        }
        open.is_empty().then_some(source)
    }

    /// The text of a token; empty for strings, so that they are never treated as code.
    fn at(&self, at: usize) -> &'a str {
        match self.tokens.get(at) {
            Some(token) if matches!(token.kind, Kind::Word | Kind::Mark) => {
                &self.text[token.range.clone()]
            }
            _ => "",
        }
    }

    /// The token after the attribute that starts here.
    fn after_attribute(&self, at: usize) -> Option<usize> {
        (self.at(at) == "#" && self.at(at + 1) == "[")
            .then(|| self.closes[at + 1].map(|close| close + 1))
            .flatten()
    }

    /// Whether the attribute that starts here is `#[cfg(test)]`, possibly with more conditions.
    fn is_test_attribute(&self, at: usize) -> bool {
        let Some(end) = self.after_attribute(at) else {
            return false;
        };
        let mut words = (at + 2..end).map(|token| self.at(token));
        let is_cfg = self.at(at + 2) == "cfg";
        is_cfg && words.clone().any(|word| word == "test") && words.all(|word| word != "not")
    }

    /// The ranges of test items: those at the top level, and those inside other items.
    fn test_items(&self) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
        let (mut top, mut nested) = (Vec::new(), Vec::new());
        let (mut at, mut depth) = (0, 0_usize);
        let mut start = None;
        while at < self.tokens.len() {
            if let Some(after) = self.after_attribute(at) {
                let first = *start.get_or_insert(at);
                if self.is_test_attribute(at) {
                    let end = self.item_end(after);
                    let found = if depth == 0 { &mut top } else { &mut nested };
                    found.push(self.lines(first, end));
                    (at, start) = (end + 1, None);
                } else {
                    at = after;
                }
                continue;
            }
            match self.at(at) {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            start = None;
            at += 1;
        }
        (top, nested)
    }

    /// The last token of the item whose attributes end before `at`.
    fn item_end(&self, mut at: usize) -> usize {
        while let Some(after) = self.after_attribute(at) {
            at = after;
        }
        let mut words = (at..at + 3).map(|token| self.at(token));
        let is_line = words.any(|word| ENDS_WITH_SEMICOLON.contains(&word))
            && !(at..at + 4).any(|token| self.at(token) == "fn");
        while at < self.tokens.len() {
            match (self.at(at), self.closes[at]) {
                (";", _) => return at,
                ("{", Some(close)) if !is_line => return close,
                (_, Some(close)) => at = close + 1,
                _ => at += 1,
            }
        }
        self.tokens.len() - 1
    }

    /// The lines of these tokens, with the line break after the last one.
    fn lines(&self, first: usize, last: usize) -> Range<usize> {
        let start = self.tokens[first].range.start;
        let before = &self.text[..start];
        let line = before.rfind('\n').map_or(0, |it| it + 1);
        let start = if before[line..].trim().is_empty() {
            line
        } else {
            start
        };
        let end = self.tokens[last].range.end;
        let rest = &self.text[end..];
        let is_last = rest.trim_start_matches([' ', '\t']).starts_with('\n');
        let more = if is_last {
            rest.find('\n').map_or(0, |it| it + 1)
        } else {
            0
        };
        start..end + more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "//! Adds.\n\npub fn add() -> u8 {\n    1\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert_eq!(super::add(), 1); }\n}\n";

    #[test]
    fn file_is_separated_into_code_and_tests() {
        let found = RustTests::read(BASE).unwrap();
        assert_eq!(
            found.code,
            "//! Adds.\n\npub fn add() -> u8 {\n    1\n}\n\n"
        );
        assert_eq!(found.items.len(), 1);
        assert!(found.items[0].starts_with("#[cfg(test)]\nmod tests {"));
        assert!(found.items[0].ends_with("}\n"));
        assert!(found.nested.is_empty());
    }

    #[test]
    fn items_of_every_kind_are_found() {
        let text = "#[cfg(test)]\nuse a::{b, c};\nuse d;\n#[allow(x)]\n#[cfg(all(test, unix))]\nfn f() {}\n#[cfg(not(test))]\nfn g() {}\n#[cfg(test)] mod tests;\nconst T: &str = \"#[cfg(test)]\";\nimpl X {\n    #[cfg(test)]\n    fn h() {}\n}\n";
        let found = RustTests::read(text).unwrap();
        assert_eq!(
            found.items,
            [
                "#[cfg(test)]\nuse a::{b, c};\n",
                "#[allow(x)]\n#[cfg(all(test, unix))]\nfn f() {}\n",
                "#[cfg(test)] mod tests;\n",
            ]
        );
        assert_eq!(found.nested, ["    #[cfg(test)]\n    fn h() {}\n"]);
        assert!(found.code.contains("fn g() {}") && found.code.contains("fn h() {}"));
        assert_eq!(RustTests::read("fn f() {"), None);
    }

    #[test]
    fn tests_of_one_version_replace_those_of_another() {
        let new = BASE.replace("1\n}", "2\n}").replace(", 1)", ", 2)");
        let judged = replace_tests(BASE, &new).unwrap();
        assert_eq!(judged, BASE.replace(", 1)", ", 2)"));
        assert_eq!(replace_tests(&new, &new).unwrap(), new);
        let without = "pub fn add() -> u8 { 3 }";
        let judged = replace_tests(without, &new).unwrap();
        assert!(judged.starts_with("pub fn add() -> u8 { 3 }\n\n#[cfg(test)]\nmod tests"));
        assert_eq!(
            replace_tests(BASE, without).unwrap(),
            RustTests::read(BASE).unwrap().code
        );
    }
}
