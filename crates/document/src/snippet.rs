//! Shows a position in a file: `path:line:column: message`, the line, and a marker below it. The
//! text is safe to print: tabs become spaces, control characters become `�`.

use camino::Utf8Path;

use crate::{fault::Fault, span::Span};

/// The maximum width of a source line; longer lines are cropped around the marker.
const WIDTH: usize = 100;
/// The columns before the marker in a cropped line.
const LEAD: usize = 40;
const TAB: &str = "    ";

/// The fault with its line.
pub(crate) fn render(path: &Utf8Path, text: &str, fault: &Fault) -> String {
    let line = SourceLine::find(text, fault.span);
    let head = format!("{path}:{}:{}: {}", line.line, line.column, fault.message);
    if text.trim().is_empty() {
        return head;
    }
    let number = line.line.to_string();
    let gutter = " ".repeat(number.len());
    let (line, indent, length) = line.shown();
    let mark = format!("{}{}", " ".repeat(indent), "^".repeat(length));
    let line = format!(" {number} | {line}");
    format!("{head}\n{}\n {gutter} | {mark}", line.trim_end())
}

/// The line and the column of a span, both from 1.
pub(crate) fn position(text: &str, span: Span) -> (usize, usize) {
    let line = SourceLine::find(text, span);
    (line.line, line.column)
}

/// A span as a line of the text and its marked part.
struct SourceLine<'t> {
    line: usize,
    column: usize,
    before: &'t str,
    marked: &'t str,
    after: &'t str,
}

impl<'t> SourceLine<'t> {
    fn find(text: &'t str, span: Span) -> SourceLine<'t> {
        let start = floor(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line_end = if text[line_start..line_end].ends_with('\r') {
            (line_end - 1).max(start)
        } else {
            line_end
        };
        let end = floor(text, span.end).clamp(start, line_end.max(start));
        let before = text[line_start..start].trim_start_matches('\u{feff}');
        let marked = text[start..end].trim_end();
        SourceLine {
            line: text[..start].matches('\n').count() + 1,
            column: before.chars().count() + 1,
            before,
            marked,
            after: &text[start + marked.len()..line_end.max(end)],
        }
    }

    /// The line for display, and the marker: the columns before it and its length.
    fn shown(&self) -> (String, usize, usize) {
        let before = clean(self.before);
        let lead = width(&before);
        let before = if lead + width_up_to(self.marked, WIDTH) > WIDTH && lead > LEAD {
            format!("…{}", keep_end(&before, LEAD))
        } else {
            before
        };
        let indent = width(&before);
        let room = WIDTH.saturating_sub(indent).max(1);
        let marked = keep_start(&clean(self.marked), room);
        let rest = room.saturating_sub(width(&marked));
        let after = keep_start(&clean(self.after), rest);
        let length = width(&marked).max(1);
        let line = format!("{before}{marked}{after}");
        (line.trim_end().to_owned(), indent, length)
    }
}

/// The nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// Text that is safe to print.
pub(crate) fn clean(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '\t' => shown.push_str(TAB),
            c if c.is_control() || is_direction_mark(c) => shown.push('\u{fffd}'),
            c => shown.push(c),
        }
    }
    shown
}

/// Characters that reorder the text after them.
fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn width_up_to(text: &str, limit: usize) -> usize {
    text.chars().take(limit + 1).map(char_width).sum()
}

/// The approximate width of a character on a terminal: enough to align the marker.
fn char_width(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f | 0x200b..=0x200d | 0xfe00..=0xfe0f | 0x20d0..=0x20ff => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The start of `text` that fits, with `…` if it is cropped.
fn keep_start(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += char_width(c);
        if used > room {
            break;
        }
        kept.push(c);
    }
    if room > 0 {
        kept.push('…');
    }
    kept
}

/// The end of `text` that fits.
fn keep_end(text: &str, room: usize) -> String {
    let mut used = 0;
    let kept: Vec<char> = text
        .chars()
        .rev()
        .take_while(|c| {
            used += char_width(*c);
            used <= room
        })
        .collect();
    kept.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn shown(text: &str, marked: &str) -> String {
        let start = text.find(marked).expect("the marked text exists");
        let span = Span {
            start,
            end: start + marked.len(),
        };
        render("a.yaml".into(), text, &Fault::new(span, "wrong"))
    }

    #[test]
    fn marker_is_below_the_position() {
        assert_snapshot!(shown("a: 1\n  b: two\nc: 3\n", "two"), @"
        a.yaml:2:6: wrong
         2 |   b: two
           |      ^^^
        ");
    }

    #[test]
    fn marker_is_aligned_with_tabs_and_wide_characters() {
        assert_snapshot!(shown("a:\t日本 🎉 x: y\r\nb: 2\r\n", "x: y"), @"
        a.yaml:1:9: wrong
         1 | a:    日本 🎉 x: y
           |               ^^^^
        ");
    }

    #[test]
    fn position_of_several_lines_is_marked_on_the_first() {
        assert_snapshot!(shown("a:\n  b: 1\n  c: 2\n", "b: 1\n  c: 2"), @"
        a.yaml:2:3: wrong
         2 |   b: 1
           |   ^^^^
        ");
    }

    #[test]
    fn long_lines_are_cropped_around_the_marker() {
        let text = format!("{}HERE{}", "ab ".repeat(500), " cd".repeat(500));
        assert_snapshot!(shown(&text, "HERE"), @"
        a.yaml:1:1501: wrong
         1 | … ab ab ab ab ab ab ab ab ab ab ab ab ab HERE cd cd cd cd cd cd cd cd cd cd cd cd cd cd cd cd cd cd…
           |                                          ^^^^
        ");
    }

    #[test]
    fn long_marker_is_cropped() {
        let text = format!("a: {}", "x".repeat(500));
        assert_snapshot!(shown(&text, &"x".repeat(500)), @"
        a.yaml:1:4: wrong
         1 | a: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
           |    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        ");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_snapshot!(shown("a: \u{1b}[31mred\u{202e}\n", "red"), @"
        a.yaml:1:9: wrong
         1 | a: �[31mred�
           |         ^^^
        ");
    }

    #[test]
    fn the_end_of_the_file_can_be_marked() {
        let text = "a: [1,\n";
        let span = Span { start: 7, end: 7 };
        assert_snapshot!(render("a.yaml".into(), text, &Fault::new(span, "wrong")), @"
        a.yaml:2:1: wrong
         2 |
           | ^
        ");
    }
}
