//! Text for people: counts with their nouns, and text of agents on one line.

use std::fmt::Display;

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

fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
    fn text_of_agents_is_one_harmless_line() {
        assert_eq!(one_line("a\n\x1b[31mb\tc\u{202e}d  "), "a [31mb cd");
    }
}
