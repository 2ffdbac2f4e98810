//! The report as Markdown, for pull requests and job summaries.

use std::fmt::Write;

use super::{
    model::report::Report,
    text::{failures, findings, footing, headline, leaderboard, task_table},
};

/// The report as Markdown.
pub fn markdown(report: &Report) -> String {
    let mut text = format!("# Report\n\n{}\n\n", escape(&headline(report)));
    text.push_str("## Agents\n\n");
    text.push_str(&table(&leaderboard(report)));
    let findings = findings(report);
    if !findings.is_empty() {
        text.push_str("\n## Findings\n\n");
        list(&mut text, &findings);
    }
    text.push_str("\n## Tasks\n\nMean score, and trials passed of those judged.\n\n");
    text.push_str(&table(&task_table(report)));
    let failures = failures(report);
    if !failures.is_empty() {
        text.push_str("\n## Trials that did not pass\n\n");
        list(&mut text, &failures);
    }
    if !report.notes.is_empty() {
        text.push_str("\n## Notes\n\n");
        list(&mut text, &report.notes);
    }
    let _ = writeln!(text, "\n{}", escape(&footing(report)));
    text
}

fn list(text: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(text, "- {}", escape(line));
    }
}

/// Rows as a table; the first is the header.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let mut line = String::from("|");
        for column in 0..columns {
            let cell = row.get(column).map_or(String::new(), |cell| escape(cell));
            let _ = write!(line, " {cell} |");
        }
        let _ = writeln!(text, "{line}");
        if number == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(columns));
        }
    }
    text
}

/// Text with Markdown and HTML characters escaped.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '#' | '~' | '!' | '@' => {
                escaped.extend(['\\', c]);
            }
            '\n' | '\r' => escaped.push(' '),
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_cells() {
        assert_eq!(escape("a|b <img> `x`\n@me"), r"a\|b &lt;img&gt; \`x\` \@me");
    }
}
