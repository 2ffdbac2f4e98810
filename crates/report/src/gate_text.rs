//! The result of a gate as text: for a terminal, and as Markdown for the comment on a pull request.

use std::fmt::Write;

use super::{
    gate::{FlippedTask, Gated, OnUndecided},
    markdown::{escape, table},
    versus::{lines, rows, rule_rows, rule_text},
};

/// The first line of the comment, by which a later run finds and replaces it.
const MARKER: &str = "<!-- proctor gate -->";

/// The maximum number of flipped tasks in a comment.
const MOST_FLIPPED: usize = 50;

impl Gated {
    /// The text for a terminal.
    pub fn text(&self, on_undecided: Option<OnUndecided>) -> String {
        let mut text = rule_text(&self.rules);
        for flipped in &self.flipped {
            let _ = writeln!(text, "flipped: {}", describe(flipped));
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let _ = writeln!(text, "gate: {}", self.conclusion(on_undecided));
        text
    }

    /// The text as Markdown: the rules, figures before and after, and the tasks that flipped.
    pub fn markdown(&self, on_undecided: Option<OnUndecided>) -> String {
        let conclusion = self.conclusion(on_undecided);
        let mut text = format!("{MARKER}\n# Proctor gate: {}\n", escape(&conclusion));
        let _ = write!(text, "\n{}", table(&rule_rows(&self.rules)));
        for versus in &self.comparisons {
            let title = format!("{} against {}", versus.candidate, versus.baseline);
            let _ = writeln!(text, "\n## {}\n", escape(&title));
            text.push_str(&table(&rows(versus)));
        }
        if !self.comparisons.is_empty() {
            text.push_str("\n## Flipped tasks\n\n");
            text.push_str(&self.flipped_tasks());
        }
        let details = self.comparisons.iter().flat_map(lines);
        let details: Vec<String> = self.notes.iter().cloned().chain(details).collect();
        if !details.is_empty() {
            text.push_str("\n<details><summary>Notes</summary>\n\n");
            for line in details {
                let _ = writeln!(text, "- {}", escape(&line));
            }
            text.push_str("\n</details>\n");
        }
        text
    }

    fn flipped_tasks(&self) -> String {
        if self.flipped.is_empty() {
            return "None.\n".to_owned();
        }
        let mut cells = vec![["task", "agent", "passed", ""].map(str::to_owned).to_vec()];
        cells.extend(self.flipped.iter().map(|it| {
            let task = it.change.task.clone();
            vec![task, it.agent.clone(), it.tallies(), word(it).to_owned()]
        }));
        // A comment has at most 64 KiB.
        let more = cells.len().saturating_sub(MOST_FLIPPED + 1);
        cells.truncate(MOST_FLIPPED + 1);
        let mut text = table(&cells);
        if more > 0 {
            let _ = writeln!(text, "\nAnd {more} more: `proctor gate` lists all.");
        }
        text
    }

    fn conclusion(&self, on_undecided: Option<OnUndecided>) -> String {
        let counted = self.answer.counted(on_undecided);
        if counted == self.answer {
            return self.answer.as_str().to_owned();
        }
        format!(
            "{} (undecided rules count as {})",
            counted.as_str(),
            counted.as_str()
        )
    }
}

fn word(flipped: &FlippedTask) -> &'static str {
    if flipped.passes_now {
        "passes now"
    } else {
        "fails now"
    }
}

fn describe(flipped: &FlippedTask) -> String {
    format!(
        "{} of {}: {} ({})",
        flipped.change.task,
        flipped.agent,
        word(flipped),
        flipped.tallies()
    )
}
