//! Comparisons as text, for a terminal and as Markdown.

use std::fmt::Write;

use serde::Serialize;

use super::{
    compare::{Change, Metric, Scope, Versus},
    figures::{self, columns},
    gate::{Ruled, Ruling, signed},
    markdown::{escape, table},
    model::report::Basis,
    text::percent,
};
use crate::stats::Told;

/// Comparisons, and what became of the rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The settings of the figures.
    pub basis: Basis,
    /// Each pair of agents.
    pub comparisons: Vec<Versus>,
    /// Each rule for each pair.
    pub rules: Vec<Ruled>,
}

impl Compared {
    /// For a terminal.
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
        for ruled in &self.rules {
            let word = word(ruled.ruling);
            let _ = writeln!(
                text,
                "{word}  {}  {}: {}",
                ruled.rule, ruled.candidate, ruled.message
            );
        }
        if !self.rules.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{}", self.footing());
        text
    }

    /// As Markdown.
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
            let mut rows = vec![["rule", "of", "", "why"].map(str::to_owned).to_vec()];
            rows.extend(self.rules.iter().map(|ruled| {
                let word = word(ruled.ruling).trim_end().to_owned();
                vec![
                    ruled.rule.clone(),
                    ruled.candidate.clone(),
                    word,
                    ruled.message.clone(),
                ]
            }));
            text.push_str(&table(&rows));
        }
        let _ = writeln!(text, "\n{}", escape(&self.footing()));
        text
    }

    fn footing(&self) -> String {
        format!(
            "Means over the tasks that both tried; brackets are {} intervals of the difference. Seed {}.",
            percent(self.basis.level.confidence()),
            self.basis.seed.0
        )
    }
}

fn word(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Holds => "holds    ",
        Ruling::Undecided => "undecided",
        Ruling::Nothing => "nothing  ",
        Ruling::Broken => "BROKEN   ",
    }
}

fn rows(versus: &Versus) -> Vec<Vec<String>> {
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
                figures::number_of(change.tasks, "task"),
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
    match (change.told, change.is_better()) {
        (_, Some(true)) => format!("better{scope}"),
        (_, Some(false)) => format!("worse{scope}"),
        (Told::TooFew, None) => "too few to know".to_owned(),
        (_, None) => "cannot be told apart".to_owned(),
    }
}

/// The figures that do not fit in the table.
fn lines(versus: &Versus) -> Vec<String> {
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
        let is_open = matches!(score.told, Told::NotApart | Told::TooFew);
        if let Some(power) = score.power.filter(|_| is_open) {
            let takes = figures::power(&power);
            lines.push(format!(
                "To be sure of a score that changed so much would take {takes}."
            ));
        }
        if score.left_out > 0 {
            lines.push(format!(
                "{} tasks were tried on one side only and count nowhere.",
                score.left_out
            ));
        }
    }
    for metric in &versus.unknown {
        lines.push(format!(
            "{}: not known of both on any task.",
            metric.as_str()
        ));
    }
    lines.extend(versus.notes.iter().map(|note| format!("{note}.")));
    lines
}
