//! Markdown files as a sequence of parts that can be removed: sections or list items.

/// The parts that a file is split into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkdownUnit {
    /// Sections: a heading with its text and its subsections.
    Section,
    /// Items of lists, with their nested items.
    Item,
}

/// A text with removable parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitText {
    names: Vec<String>,
    pieces: Vec<Piece>,
}

/// Adjacent lines of one part, or of the text that is always kept.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    text: String,
    part: Option<usize>,
}

/// The maximum length of a part's name.
const LONGEST_NAME: usize = 48;

impl SplitText {
    /// Splits a Markdown file. Sections are those of the highest level with at least two headings,
    /// or else of the lowest level: a single title above them is kept.
    pub fn new(text: &str, unit: MarkdownUnit) -> SplitText {
        let lines = lines(text);
        let parts = match unit {
            MarkdownUnit::Section => sections(&lines),
            MarkdownUnit::Item => items(&lines),
        };
        let mut split = SplitText::default();
        let mut last = None;
        for (line, part) in lines.iter().zip(parts) {
            if let Some(part) = part
                && part == split.names.len()
            {
                split.names.push(split.unique(&line.name()));
            }
            match split.pieces.last_mut() {
                Some(piece) if last == Some(part) => piece.text.push_str(line.text),
                _ => split.pieces.push(Piece {
                    text: line.text.to_owned(),
                    part,
                }),
            }
            last = Some(part);
        }
        split
    }

    /// The names of the parts, in the order of the file. They are unique.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The text with these parts only. Parts beyond the slice are kept.
    pub fn with(&self, has: &[bool]) -> String {
        let is_kept = |piece: &&Piece| match piece.part {
            Some(part) => has.get(part).copied().unwrap_or(true),
            None => true,
        };
        let kept = self.pieces.iter().filter(is_kept);
        kept.map(|piece| piece.text.as_str()).collect()
    }

    fn unique(&self, name: &str) -> String {
        let numbered = |number: usize| match number {
            1 => name.to_owned(),
            number => format!("{name} ({number})"),
        };
        let is_new = |name: &String| !self.names.contains(name);
        // One more number than there are names: one of them is free.
        let mut names = (1..=self.names.len() + 1).map(numbered);
        names.find(is_new).unwrap_or_default()
    }
}

/// A line with its line break.
struct Line<'a> {
    text: &'a str,
    kind: LineKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Blank,
    /// Part of a code fence, a comment or the front matter, with the indentation of its start.
    Opaque(usize),
    /// A heading of this level.
    Heading(usize),
    /// A list item, with the indentation of its marker and of its text.
    Item(usize, usize),
    /// A line across the page, with its indentation.
    Rule(usize),
    /// Any other text, with its indentation.
    Text(usize),
}

impl Line<'_> {
    /// The words of a heading or an item.
    fn name(&self) -> String {
        let text = self.text.trim();
        let words = match self.kind {
            LineKind::Heading(_) => text.trim_matches('#'),
            LineKind::Item(marker, content) => {
                let from = (content - marker).min(text.len());
                text.get(from..).unwrap_or(text)
            }
            _ => text,
        };
        let words: String = words.chars().filter(|it| !"*`_[]".contains(*it)).collect();
        let words = words.trim();
        let mut name: String = words.chars().take(LONGEST_NAME).collect();
        if name.len() < words.len() {
            name.push('…');
        }
        if name.is_empty() {
            "untitled".to_owned()
        } else {
            name
        }
    }
}

/// The lines with their kinds.
fn lines(text: &str) -> Vec<Line<'_>> {
    let texts: Vec<&str> = text.split_inclusive('\n').collect();
    let front_matter = front_matter(&texts);
    let mut fence: Option<(Fence, usize)> = None;
    let mut kinds: Vec<LineKind> = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let indent = indentation(text);
        let kind = if number < front_matter {
            LineKind::Opaque(0)
        } else if let Some((open, start)) = fence {
            if open.is_closed_by(text) {
                fence = None;
            }
            LineKind::Opaque(start)
        } else if let Some(open) = Fence::opened_by(text) {
            fence = (!open.is_closed_at_once(text)).then_some((open, indent));
            LineKind::Opaque(indent)
        } else {
            kind_of(text, indent)
        };
        // A line of text that is underlined is a heading.
        let is_lone = !matches!(kinds.iter().rev().nth(1), Some(LineKind::Text(_)));
        if let Some(title @ LineKind::Text(0..=3)) = kinds.last_mut()
            && is_lone
            && matches!(kind, LineKind::Text(0..=3) | LineKind::Rule(0..=3))
            && let Some(level) = underline(text)
        {
            *title = LineKind::Heading(level);
        }
        kinds.push(kind);
    }
    let lines = texts.into_iter().zip(kinds);
    lines.map(|(text, kind)| Line { text, kind }).collect()
}

/// The number of lines of the front matter.
fn front_matter(lines: &[&str]) -> usize {
    if lines.first().map(|line| line.trim_end()) != Some("---") {
        return 0;
    }
    let mut rest = lines.iter().skip(1);
    let end = rest.position(|line| matches!(line.trim_end(), "---" | "..."));
    end.map_or(0, |end| end + 2)
}

/// A block whose content is not Markdown.
#[derive(Clone, Copy)]
enum Fence {
    Code(char, usize),
    Comment,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Fence> {
        let text = line.trim();
        if text.starts_with("<!--") {
            return Some(Fence::Comment);
        }
        let first = text.chars().next().filter(|it| matches!(it, '`' | '~'))?;
        let length = text.chars().take_while(|it| *it == first).count();
        // A line such as ```x``` is text.
        let is_inline = first == '`' && text[length..].contains('`');
        (length >= 3 && !is_inline).then_some(Fence::Code(first, length))
    }

    fn is_closed_at_once(self, line: &str) -> bool {
        matches!(self, Fence::Comment) && line.contains("-->")
    }

    fn is_closed_by(self, line: &str) -> bool {
        let text = line.trim();
        match self {
            Fence::Comment => text.contains("-->"),
            Fence::Code(mark, length) => {
                text.chars().all(|it| it == mark) && text.chars().count() >= length
            }
        }
    }
}

/// The columns of white space at the start of a line.
fn indentation(line: &str) -> usize {
    let mut columns = 0;
    for c in line.chars() {
        match c {
            ' ' => columns += 1,
            '\t' => columns += 4 - columns % 4,
            _ => break,
        }
    }
    columns
}

fn kind_of(line: &str, indent: usize) -> LineKind {
    let text = line.trim();
    if text.is_empty() {
        return LineKind::Blank;
    }
    let hashes = text.chars().take_while(|it| *it == '#').count();
    let is_heading = (1..=6).contains(&hashes) && indent <= 3;
    if is_heading
        && text[hashes..]
            .chars()
            .next()
            .is_none_or(char::is_whitespace)
    {
        return LineKind::Heading(hashes);
    }
    match marker(text) {
        _ if is_rule(text) => LineKind::Rule(indent),
        Some(width) => LineKind::Item(indent, indent + width),
        None => LineKind::Text(indent),
    }
}

/// Whether a line is a line across the page, such as `---` or `* * *`.
fn is_rule(text: &str) -> bool {
    ['-', '*', '_'].into_iter().any(|mark| {
        let marks = text.chars().filter(|it| *it == mark).count();
        marks >= 3 && text.chars().all(|it| it == mark || it.is_whitespace())
    })
}

/// The width of the marker of a list item with the space after it.
fn marker(text: &str) -> Option<usize> {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let mark = text[digits..].chars().next()?;
    let is_mark = match digits {
        0 => matches!(mark, '-' | '*' | '+'),
        1..=9 => matches!(mark, '.' | ')'),
        _ => false,
    };
    let rest = &text[digits + mark.len_utf8()..];
    let is_apart = rest.chars().next().is_none_or(char::is_whitespace);
    (is_mark && is_apart).then_some(digits + 2)
}

/// The level of the heading that a line underlines.
fn underline(line: &str) -> Option<usize> {
    let text = line.trim();
    let all = |mark: char| !text.is_empty() && text.chars().all(|it| it == mark);
    match (all('='), all('-')) {
        (true, _) => Some(1),
        (_, true) => Some(2),
        _ => None,
    }
}

/// The section of each line.
fn sections(lines: &[Line]) -> Vec<Option<usize>> {
    let count = |level: usize| {
        let headings = lines.iter();
        headings
            .filter(|it| it.kind == LineKind::Heading(level))
            .count()
    };
    let several = (1..=6).find(|level| count(*level) > 1);
    let Some(level) = several.or_else(|| (1..=6).rev().find(|level| count(*level) > 0)) else {
        return vec![None; lines.len()];
    };
    let (mut part, mut next) = (None, 0);
    let section = |line: &Line| {
        match line.kind {
            LineKind::Heading(own) if own == level => {
                part = Some(next);
                next += 1;
            }
            LineKind::Heading(own) if own < level => part = None,
            _ => {}
        }
        part
    };
    lines.iter().map(section).collect()
}

/// The list item of each line. Blank lines after the last item of a list are not part of it.
fn items(lines: &[Line]) -> Vec<Option<usize>> {
    let mut parts = vec![None; lines.len()];
    // The item, the indentation of its text, and the blank lines since.
    let mut open: Option<(usize, usize)> = None;
    let (mut next, mut blanks) = (0, 0);
    for (number, line) in lines.iter().enumerate() {
        let continues = |indent: usize| open.is_some_and(|(_, content)| indent >= content);
        let part = match line.kind {
            LineKind::Blank => {
                blanks += 1;
                continue;
            }
            LineKind::Item(marker, _) if continues(marker) => open,
            // More than three columns are code, except in a list.
            LineKind::Item(marker, content) if marker <= 3 || open.is_some() => {
                next += 1;
                Some((next - 1, content))
            }
            LineKind::Text(indent) | LineKind::Opaque(indent) | LineKind::Rule(indent)
                if continues(indent) =>
            {
                open
            }
            // A paragraph continues without indentation.
            LineKind::Text(_) if blanks == 0 => open,
            _ => None,
        };
        if part.is_some() {
            let since = number - blanks;
            parts[since..number].fill(open.map(|it| it.0));
        }
        open = part;
        parts[number] = part.map(|it| it.0);
        blanks = 0;
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The parts of a text with their names and texts.
    fn parts(text: &str, unit: MarkdownUnit) -> Vec<(String, String)> {
        let split = SplitText::new(text, unit);
        let names = split.names().iter().enumerate();
        let part = |(number, name): (usize, &String)| {
            let own = split.pieces.iter().filter(|it| it.part == Some(number));
            let own: String = own.map(|it| it.text.as_str()).collect();
            (name.clone(), own)
        };
        names.map(part).collect()
    }

    #[track_caller]
    fn check(text: &str, unit: MarkdownUnit, expected: &[(&str, &str)]) {
        let found = parts(text, unit);
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|it| (it.0.as_str(), it.1.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn sections_have_their_subsections_and_a_title_is_kept() {
        check(
            "# Rules\nintro\n\n## Tests\na\n### More\nb\n## `Style` ##\nc\n",
            MarkdownUnit::Section,
            &[
                ("Tests", "## Tests\na\n### More\nb\n"),
                ("Style", "## `Style` ##\nc\n"),
            ],
        );
    }

    #[test]
    fn headings_in_code_comments_and_front_matter_are_text() {
        check(
            "---\n# no: heading\n---\n# A\n```sh\n# comment\n```\n<!--\n# B\n-->\n~~~~\n```\n# C\n~~~~\n# D\r\nx",
            MarkdownUnit::Section,
            &[
                (
                    "A",
                    "# A\n```sh\n# comment\n```\n<!--\n# B\n-->\n~~~~\n```\n# C\n~~~~\n",
                ),
                ("D", "# D\r\nx"),
            ],
        );
    }

    #[test]
    fn underlined_headings_are_headings_and_rules_are_not() {
        check(
            "One\n===\na\n\n---\n\nTwo\n===\nb\n#no heading\n",
            MarkdownUnit::Section,
            &[
                ("One", "One\n===\na\n\n---\n\n"),
                ("Two", "Two\n===\nb\n#no heading\n"),
            ],
        );
    }

    #[test]
    fn repeated_names_are_numbered_and_one_section_is_a_part() {
        check(
            "## A\n1\n## A\n2\n",
            MarkdownUnit::Section,
            &[("A", "## A\n1\n"), ("A (2)", "## A\n2\n")],
        );
        check(
            "# T\n\n## Only\nx\n",
            MarkdownUnit::Section,
            &[("Only", "## Only\nx\n")],
        );
        check("no heading\n", MarkdownUnit::Section, &[]);
    }

    #[test]
    fn items_have_nested_items_code_and_paragraphs() {
        check(
            "Intro\n- **a** first\n  - nested\n  more\nlazy\n\n  paragraph\n\n- b\n  ```\n- code\n  ```\n* * *\n1. one\n2) two\n\nOutro\n",
            MarkdownUnit::Item,
            &[
                (
                    "a first",
                    "- **a** first\n  - nested\n  more\nlazy\n\n  paragraph\n\n",
                ),
                ("b", "- b\n  ```\n- code\n  ```\n"),
                ("one", "1. one\n"),
                ("two", "2) two\n"),
            ],
        );
    }

    #[test]
    fn blank_lines_after_a_list_are_kept() {
        check(
            "- a\n\n- b\n\n## H\n- c\n```\ncode\n```\n",
            MarkdownUnit::Item,
            &[("a", "- a\n\n"), ("b", "- b\n"), ("c", "- c\n")],
        );
    }

    fn odd_line() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "# a",
            "## b",
            "### c",
            "- x",
            "  - y",
            "* z",
            "1. n",
            "text",
            "  indented",
            "\tx",
            "",
            "```",
            "~~~",
            "<!--",
            "-->",
            "---",
            "===",
            "> q",
            "#",
            "-",
            "ü",
            "    - deep",
        ])
    }

    proptest! {
        #[test]
        fn parts_reassemble_to_the_file(
            lines in prop::collection::vec((odd_line(), any::<bool>()), 0..30),
            has_end in any::<bool>(),
        ) {
            let mut text = String::new();
            for (line, dos) in &lines {
                text.push_str(line);
                text.push_str(if *dos { "\r\n" } else { "\n" });
            }
            if !has_end {
                text.truncate(text.trim_end_matches('\n').len());
            }
            for unit in [MarkdownUnit::Section, MarkdownUnit::Item] {
                let split = SplitText::new(&text, unit);
                let all = split.names().len();
                prop_assert_eq!(&split.with(&vec![true; all]), &text);
                // Each line belongs to one part at most.
                let kept = split.with(&vec![false; all]).len();
                let single = (0..all).map(|part| {
                    let has: Vec<bool> = (0..all).map(|other| other == part).collect();
                    split.with(&has).len() - kept
                });
                prop_assert_eq!(kept + single.sum::<usize>(), text.len());
            }
        }

        #[test]
        fn any_text_is_split(text in any::<String>()) {
            for unit in [MarkdownUnit::Section, MarkdownUnit::Item] {
                let split = SplitText::new(&text, unit);
                prop_assert_eq!(split.with(&[]), text.clone());
            }
        }
    }
}
