//! Looks up a judge's quotes: in the change, or in the file of the result that the judge names.
//! White space is ignored, because models do not copy it faithfully.

/// Shorter quotes are found almost anywhere.
const SHORTEST_QUOTE: usize = 4;

/// A searchable change.
pub(super) struct Lookup {
    /// The text after the change, and before it.
    sides: [String; 2],
}

impl Lookup {
    /// Indexes the hunks of a patch.
    pub(super) fn of(patch: &str) -> Lookup {
        let [new, old] = sides(patch);
        Lookup {
            sides: [squeeze(&new), squeeze(&old)],
        }
    }

    /// Whether the change contains this quote, with or without diff markers.
    pub(super) fn has(&self, quote: &str) -> bool {
        let readings = readings(quote);
        let found = |reading: &String| self.sides.iter().any(|side| side.contains(reading));
        readings.iter().any(found)
    }
}

/// The text in the hunks of a patch, after the change and before it.
pub(super) fn sides(patch: &str) -> [String; 2] {
    let (mut new, mut old) = (String::new(), String::new());
    let mut in_hunk = false;
    for line in patch.lines() {
        if line.starts_with("diff --git ") {
            in_hunk = false;
        } else if line.starts_with("@@ ") {
            in_hunk = true;
        } else if in_hunk {
            let (mark, text) = line.split_at_checked(1).unwrap_or((" ", line));
            let sides: &mut [&mut String] = match mark {
                "+" => &mut [&mut new],
                "-" => &mut [&mut old],
                " " => &mut [&mut new, &mut old],
                _ => &mut [],
            };
            for side in sides {
                side.push_str(text);
                side.push('\n');
            }
        }
    }
    [new, old]
}

/// Whether a file contains this quote.
pub(super) fn file_has(content: &[u8], quote: &str) -> bool {
    let content = squeeze(&String::from_utf8_lossy(content));
    readings(quote)
        .iter()
        .any(|reading| content.contains(reading))
}

/// Whether a quote is long enough to be evidence.
pub(super) fn is_long_enough(quote: &str) -> bool {
    quote.chars().filter(|c| !c.is_whitespace()).count() >= SHORTEST_QUOTE
}

/// The quote, and the quote without diff markers.
fn readings(quote: &str) -> Vec<String> {
    let unmarked: Vec<&str> = quote
        .lines()
        .map(|line| line.strip_prefix(['+', '-', ' ']).unwrap_or(line))
        .collect();
    let mut readings = vec![squeeze(quote), squeeze(&unmarked.join("\n"))];
    readings.retain(|reading| is_long_enough(reading));
    readings
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "\
diff --git a/secret-name.txt b/secret-name.txt
index 1..2 100644
--- a/secret-name.txt
+++ b/secret-name.txt
@@ -1,3 +1,3 @@ fn context()
 kept line
-old line here
+new   line here
+and\tanother
";

    fn check(quote: &str, expect: bool) {
        assert_eq!(Lookup::of(PATCH).has(quote), expect, "{quote:?}");
    }

    #[test]
    fn quotes_are_found_on_both_sides_of_the_change() {
        check("new line here", true);
        check("old line here", true);
        check("kept line", true);
        check("+new line here\n+and another", true);
        check("new line here and another", true);
        check("  kept   line\nnew line here", true);
    }

    #[test]
    fn text_outside_of_hunks_is_not_evidence() {
        check("all criteria are met", false);
        check("secret-name.txt", false);
        check("fn context()", false);
        check("old line here and another", false);
    }

    #[test]
    fn short_quotes_are_not_evidence() {
        check("", false);
        check("e", false);
        check(" k e ", false);
        assert!(!is_long_enough("} }"));
    }

    #[test]
    fn files_are_searched_for_quotes() {
        assert!(file_has(b"a  b\n c d", "a b c d"));
        assert!(!file_has(b"a  b\n c d", "a b d c"));
    }
}
