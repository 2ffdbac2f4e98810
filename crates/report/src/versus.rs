//! Comparisons as text, for a terminal and as Markdown.

use std::fmt::Write;

use proctor_record::text::counted;
use serde::Serialize;

use super::{
    compare::{Change, Metric, Versus},
    figures::{self, columns},
    gate::{Ruled, Ruling, signed},
    markdown::{escape, table},
    model::report::Basis,
    text::percent,
};
use crate::stats::{Scope, Significance};

/// Comparisons, with the results of the rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The settings of the figures.
    pub basis: Basis,
    /// Each pair of agents.
    pub comparisons: Vec<Versus>,
    /// Each rule for each pair.
    pub rules: Vec<Ruled>,
    /// Runs that are not complete, and records that cannot be read.
    pub notes: Vec<String>,
}

impl Compared {
    /// The text for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for versus in &self.comparisons {
            let _ = writeln!(text, "{} against {}\n", versus.candidate, versus.baseline);
            text.push_str(&columns(&rows(versus), &[]));
            for line in lines(versus) {
                let _ = writeln!(text, "{line}");
            }
            text.push('\n');
        }
        text.push_str(&rule_text(&self.rules));
        if !self.rules.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let _ = writeln!(text, "{}", self.footing());
        text
    }

    /// The text as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::from("# Comparison\n");
        for versus in &self.comparisons {
            let title = format!("{} against {}", versus.candidate, versus.baseline);
            let _ = writeln!(text, "\n## {}\n", escape(&title));
            text.push_str(&table(&rows(versus)));
            let lines = lines(versus);
            if !lines.is_empty() {
                text.push('\n');
            }
            for line in lines {
                let _ = writeln!(text, "- {}", escape(&line));
            }
        }
        if !self.rules.is_empty() {
            text.push_str("\n## Rules\n\n");
            text.push_str(&table(&rule_rows(&self.rules)));
        }
        if !self.notes.is_empty() {
            text.push_str("\n## Notes\n\n");
        }
        for note in &self.notes {
            let _ = writeln!(text, "- {}", escape(note));
        }
        let _ = writeln!(text, "\n{}", escape(&self.footing()));
        text
    }

    pub(super) fn footing(&self) -> String {
        format!(
            "Means over the tasks that both tried; brackets are {} intervals of the difference. Seed {}.",
            percent(self.basis.level.confidence()),
            self.basis.seed.0
        )
    }
}

/// Each rule with its result, a line each.
pub(super) fn rule_text(rules: &[Ruled]) -> String {
    let mut text = String::new();
    for ruled in rules {
        let word = word(ruled.ruling);
        let _ = writeln!(
            text,
            "{word}  {}  {}: {}",
            ruled.rule, ruled.candidate, ruled.message
        );
    }
    text
}

/// Each rule with its result, with a header.
pub(super) fn rule_rows(rules: &[Ruled]) -> Vec<Vec<String>> {
    let mut rows = vec![["rule", "of", "", "why"].map(str::to_owned).to_vec()];
    rows.extend(rules.iter().map(|ruled| {
        let word = word(ruled.ruling).trim_end().to_owned();
        vec![
            ruled.rule.clone(),
            ruled.candidate.clone(),
            word,
            ruled.message.clone(),
        ]
    }));
    rows
}

fn word(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Holds => "holds    ",
        Ruling::Undecided => "undecided",
        Ruling::Nothing => "nothing  ",
        Ruling::Broken => "BROKEN   ",
    }
}

pub(super) fn rows(versus: &Versus) -> Vec<Vec<String>> {
    let head = ["", "baseline", "candidate", "change", "p", "n", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(versus.changes.iter().map(|change| {
        vec![
            change.metric.as_str().to_owned(),
            value(change.metric, change.baseline),
            value(change.metric, change.candidate),
            difference(change),
            figures::p_value(change.p_value),
            format!(
                "{}, {}+{} trials",
                counted(change.tasks, "task"),
                change.baseline_trials,
                change.candidate_trials
            ),
            verdict(change),
        ]
    }));
    rows
}

fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Score | Metric::Passed => format!("{value:.3}"),
        Metric::Cost => figures::dollars(value),
        Metric::Time => figures::millis(value * 1000.0),
        Metric::Tokens => figures::count(value),
    }
}

fn difference(change: &Change) -> String {
    let unit = |value: f64| signed(change.metric, value);
    let ends = figures::interval(change.interval, unit);
    let relative = change.relative(change.difference);
    let relative = match change.metric {
        Metric::Score | Metric::Passed => None,
        _ => relative,
    };
    let relative = relative.map_or(String::new(), |it| {
        let sign = if it < 0.0 { "−" } else { "+" };
        format!(" ({sign}{:.0} %)", it.abs() * 100.0)
    });
    format!("{}{relative} {ends}", unit(change.difference))
}

fn verdict(change: &Change) -> String {
    let scope = match change.scope {
        Scope::TasksLikeThese => "",
        Scope::ExactlyTheseTasks => ", on exactly these tasks",
    };
    match (change.significance, change.is_better()) {
        (_, Some(true)) => format!("better{scope}"),
        (_, Some(false)) => format!("worse{scope}"),
        (Significance::TooFew, None) => "too few trials to decide".to_owned(),
        (_, None) => "cannot be told apart".to_owned(),
    }
}

/// The figures that do not fit into the table.
pub(super) fn lines(versus: &Versus) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(changed) = versus.tasks_changed {
        lines.push(format!(
            "Tasks passed by most trials: {} gained, {} lost of {} (McNemar p = {:.3}).",
            changed.gained, changed.lost, changed.tasks, changed.p_value
        ));
    }
    if let Some(score) = versus.changes.iter().find(|it| it.metric == Metric::Score) {
        if let Some(as_zero) = score.difference_excluded_as_zero {
            let as_zero = signed(Metric::Score, as_zero);
            lines.push(format!(
                "With excluded trials as 0 the score changed by {as_zero}."
            ));
        }
        let is_open = matches!(
            score.significance,
            Significance::NotApart | Significance::TooFew
        );
        if let Some(power) = score.power.filter(|_| is_open) {
            let takes = figures::power(&power);
            lines.push(format!(
                "A significant result for this change of the score {takes}."
            ));
        }
        if score.left_out > 0 {
            lines.push(format!(
                "{} left out: the other side has no counterpart.",
                counted(score.left_out, "task")
            ));
        }
    }
    for metric in &versus.unknown {
        lines.push(format!(
            "{}: not available on both sides for any task.",
            metric.as_str()
        ));
    }
    lines.extend(versus.notes.iter().map(|note| format!("{note}.")));
    lines
}
