//! The report as plain text for a terminal.

use std::fmt::Write;

use super::{
    figures::{self, UNKNOWN, columns, count, dollars, millis},
    model::{agent::AgentReport, report::Report},
};

/// Beyond so many tasks the table of tasks lists only what is worth looking at.
const MOST_TASKS: usize = 60;

/// The report for a terminal.
pub fn text(report: &Report) -> String {
    let mut text = format!("{}\n\n", headline(report));
    text.push_str(&columns(&leaderboard(report), &[]));
    text.push('\n');
    for line in findings(report) {
        let _ = writeln!(text, "{line}");
    }
    let _ = write!(text, "\n{}", columns(&task_table(report), &[]));
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = writeln!(text, "\n{}", footing(report));
    text
}

/// The subject of the report.
pub(super) fn headline(report: &Report) -> String {
    let totals = &report.totals;
    let runs: Vec<&str> = report.runs.iter().map(|run| run.name.as_str()).collect();
    format!(
        "{} · {} · {}: {} passed, {} failed, {} not judged · {}",
        figures::number_of(report.agents.len(), "agent"),
        figures::number_of(report.tasks.len(), "task"),
        figures::number_of(totals.trials, "trial"),
        totals.passed,
        totals.failed,
        totals.errors + totals.interrupted,
        runs.join(", ")
    )
}

/// How the figures are to be read.
pub(super) fn footing(report: &Report) -> String {
    format!(
        "Brackets are {} intervals ([?]: too little to tell); tasks are the unit. Score: mean over tasks; cost, time, tokens: medians of judged trials. Seed {}.",
        percent(report.basis.level.confidence()),
        report.basis.seed.0
    )
}

pub(super) fn percent(share: f64) -> String {
    // 95, 99 or 99.9: no digits that floats made up.
    let text = format!("{:.3}", share * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}

/// The agents, with a head.
pub(super) fn leaderboard(report: &Report) -> Vec<Vec<String>> {
    let has_normalised = report.agents.iter().any(|it| it.normalised_score.is_some());
    let mut head = vec!["place", "agent", "score", "passed"];
    if has_normalised {
        head.push("normalised");
    }
    head.extend(["cost", "time", "tokens", "n", "excluded"]);
    let mut rows = vec![head.into_iter().map(str::to_owned).collect()];
    for agent in &report.agents {
        let mut row = vec![
            figures::place(agent),
            agent.name.clone(),
            figures::score(agent.score),
            figures::rate(agent.pass_rate),
        ];
        if has_normalised {
            row.push(figures::score(agent.normalised_score));
        }
        row.extend([
            figures::with_ends(agent.cost_usd, dollars),
            figures::with_ends(agent.duration_ms, millis),
            figures::with_ends(agent.tokens, count),
            agent.judged.to_string(),
            excluded(agent),
        ]);
        rows.push(row);
    }
    rows
}

/// The excluded trials, and the score with them as 0.
fn excluded(agent: &AgentReport) -> String {
    let left_out = agent.trials - agent.judged;
    match (left_out, agent.score_excluded_as_zero) {
        (0, _) => "0".to_owned(),
        (_, Some(figure)) => format!("{left_out} (as 0: {:.3})", figure.mean),
        (_, None) => left_out.to_string(),
    }
}

/// The conclusions, including what cannot be concluded.
pub(super) fn findings(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for group in &report.groups {
        lines.push(format!("Cannot be told apart: {}.", group.join(", ")));
    }
    for pair in &report.unsettled {
        lines.push(format!(
            "{} over {} by {:.3} on {} is not settled; it would take {}.",
            pair.better,
            pair.worse,
            pair.difference,
            figures::number_of(pair.tasks, "task"),
            figures::power(&pair.power)
        ));
    }
    if !report.pareto_front.is_empty() {
        lines.push(format!(
            "No agent is both cheaper and better than: {}.",
            report.pareto_front.join(", ")
        ));
    }
    for agent in report.contenders() {
        if let (Some(any), Some(all)) = (agent.pass_at_k, agent.pass_pow_k) {
            let ends = |mean: &crate::stats::Mean| {
                figures::interval(mean.interval, |end| format!("{end:.3}"))
            };
            lines.push(format!(
                "{}: pass@{k} {:.3} {}, pass^{k} {:.3} {}.",
                agent.name,
                any.mean.mean,
                ends(&any.mean),
                all.mean.mean,
                ends(&all.mean),
                k = any.k
            ));
        }
    }
    lines
}

/// Tasks against agents, with a head: the mean score and how many trials passed.
pub(super) fn task_table(report: &Report) -> Vec<Vec<String>> {
    let mut head = vec!["task".to_owned()];
    head.extend(report.agents.iter().map(|agent| agent.name.clone()));
    let mut rows = vec![head];
    let cells: std::collections::BTreeMap<(&str, &str), &super::Cell> = report
        .cells
        .iter()
        .map(|cell| ((cell.task.as_str(), cell.agent.as_str()), cell))
        .collect();
    for task in report.tasks.iter().take(MOST_TASKS) {
        let mark = if task.broken.is_empty() {
            ""
        } else {
            " (broken)"
        };
        let mut row = vec![format!("{}{mark}", task.name)];
        for agent in &report.agents {
            let cell = cells.get(&(task.name.as_str(), agent.name.as_str()));
            row.push(cell.map_or(UNKNOWN.to_owned(), |cell| shown(cell)));
        }
        rows.push(row);
    }
    if report.tasks.len() > MOST_TASKS {
        rows.push(vec![format!(
            "and {} more",
            report.tasks.len() - MOST_TASKS
        )]);
    }
    rows
}

fn shown(cell: &super::Cell) -> String {
    let left_out = cell.trials - cell.judged;
    let excluded = if left_out == 0 {
        String::new()
    } else {
        format!(" +{left_out} excluded")
    };
    let score = cell
        .score
        .map_or(UNKNOWN.to_owned(), |it| format!("{it:.2}"));
    format!("{score} {}/{}{excluded}", cell.passed, cell.judged)
}
