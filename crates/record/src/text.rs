//! Text for people: counts with their nouns, and text of agents on one line.

use std::fmt::Display;

use unicode_width::UnicodeWidthStr;

/// A count with its noun, such as `1 trial` or `2 trials`.
pub fn counted<N: Copy + From<u8> + PartialEq + Display>(count: N, noun: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// A text on one line, without control characters and without characters that reverse the reading direction.
pub fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c.is_whitespace());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").replace(is_direction, "")
}

/// Whether a character changes the reading direction of text.
pub fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Rows in columns, two spaces apart, each as wide as its widest cell. The columns in `right` are
/// aligned to the right.
pub fn columns<R: AsRef<[String]>>(rows: &[R], right: &[usize]) -> String {
    let rows = rows.iter().map(AsRef::as_ref);
    let mut widths = Vec::new();
    for row in rows.clone() {
        widths.resize(widths.len().max(row.len()), 0);
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = cell.width().max(*widest);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.width());
            if column > 0 {
                line.push_str("  ");
            }
            if right.contains(&column) {
                line.extend([pad.as_str(), cell]);
            } else {
                line.extend([cell.as_str(), &pad]);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_plural() {
        assert_eq!(counted(0_usize, "trial"), "0 trials");
        assert_eq!(counted(1_u64, "trial"), "1 trial");
        assert_eq!(counted(2_u32, "more task"), "2 more tasks");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["name", "n"], ["日本", "10"], ["bär", ""]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows, &[1]), "name   n\n日本  10\nbär\n");
    }

    #[test]
    fn text_of_agents_is_one_harmless_line() {
        assert_eq!(one_line("a\n\x1b[31mb\tc\u{202e}d  "), "a [31mb cd");
    }
}
