//! The report as plain text for a terminal.

use std::fmt::Write;

use proctor_record::text::counted;

use super::{
    figures::{self, UNKNOWN, columns, count, dollars, millis},
    model::{agent::AgentReport, report::Report},
};

/// The number of tasks above which the table lists only notable ones.
const MOST_TASKS: usize = 60;

/// Reasons of trials that did not pass, beyond these, are only counted.
const MOST_FAILURES: usize = 20;

/// The report for a terminal.
pub fn text(report: &Report) -> String {
    let mut text = format!("{}\n\n", headline(report));
    text.push_str(&columns(&leaderboard(report), &[]));
    let findings = findings(report);
    if !findings.is_empty() {
        text.push('\n');
    }
    for line in findings {
        let _ = writeln!(text, "{line}");
    }
    let _ = write!(text, "\n{}", columns(&task_table(report), &[]));
    let failures = failures(report);
    if !failures.is_empty() {
        text.push_str("\nTrials that did not pass:\n");
    }
    for line in failures {
        let _ = writeln!(text, "  {line}");
    }
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = writeln!(text, "\n{}", footing(report));
    text
}

/// Why trials did not pass, one line for each agent and reason.
pub(super) fn failures(report: &Report) -> Vec<String> {
    let shown = report.failures.iter().take(MOST_FAILURES);
    let mut lines: Vec<String> = shown.map(ToString::to_string).collect();
    let left_out = report.failures.len().saturating_sub(MOST_FAILURES);
    if left_out > 0 {
        let more = counted(left_out, "more reason");
        lines.push(format!("and {more}: `--format html` shows every trial"));
    }
    lines
}

/// The headline with the numbers of trials.
pub(super) fn headline(report: &Report) -> String {
    let totals = &report.totals;
    let runs: Vec<&str> = report.runs.iter().map(|run| run.name.as_str()).collect();
    let excluded = totals.errors + totals.interrupted;
    let left_out = report.agents.iter().map(|it| it.trials - it.judged);
    // A trial can pass without an evaluator that counts.
    let without_score = match left_out.sum::<usize>().saturating_sub(excluded) {
        0 => String::new(),
        trials => format!(", {trials} of them without a score"),
    };
    format!(
        "{} · {} · {}: {} passed, {} failed, {excluded} excluded{without_score} · {}",
        counted(report.agents.len(), "agent"),
        counted(report.tasks.len(), "task"),
        counted(totals.trials, "trial"),
        totals.passed,
        totals.failed,
        runs.join(", ")
    )
}

/// The place of the best agent, in one sentence.
pub(super) fn best_agent(report: &Report) -> String {
    let contenders: Vec<&AgentReport> = report.contenders().collect();
    let tasks = counted(report.tasks.len(), "task");
    let Some(best) = contenders.iter().find(|it| it.score.is_some()) else {
        return "No trial was judged.".to_owned();
    };
    let name = &best.name;
    let score = figures::score(best.score);
    if contenders.len() == 1 {
        let passed = figures::rate(best.pass_rate);
        return format!("{name} passed {passed} of the trials on {tasks}; its score is {score}.");
    }
    if figures::place(best) == "1" {
        return format!(
            "{name} is the best of {} agents on {tasks}, with a score of {score}.",
            contenders.len()
        );
    }
    let group = report.groups.iter().find(|group| group.contains(name));
    match group {
        Some(group) => format!(
            "There is no single best agent on {tasks}: {} cannot be told apart. {name} has the highest score, {score}.",
            group.join(", ")
        ),
        None => format!(
            "{name} has the highest score on {tasks}, {score}; its place is {}.",
            figures::place(best)
        ),
    }
}

/// An explanation of the figures.
pub(super) fn footing(report: &Report) -> String {
    format!(
        "Brackets are {} intervals ([?]: too few trials); tasks are the unit. Score: mean over tasks; cost, time, tokens: medians of judged trials. Seed {}.",
        percent(report.basis.level.confidence()),
        report.basis.seed.0
    )
}

pub(super) fn percent(share: f64) -> String {
    // 95, 99 or 99.9, without floating-point noise.
    let text = format!("{:.3}", share * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}

/// The agents, with a header.
pub(super) fn leaderboard(report: &Report) -> Vec<Vec<String>> {
    let has_normalised = report.agents.iter().any(|it| it.normalised_score.is_some());
    let mut head = vec!["place", "agent", "score", "passed"];
    if has_normalised {
        head.push("normalised");
    }
    let has_cached = report.agents.iter().any(|it| it.cached_tokens.is_some());
    head.extend(["cost", "time", "tokens"]);
    if has_cached {
        head.push("cached");
    }
    head.extend(["n", "excluded"]);
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
        ]);
        if has_cached {
            row.push(figures::with_ends(agent.cached_tokens, count));
        }
        row.extend([agent.judged.to_string(), excluded(agent)]);
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

/// The conclusions, including comparisons without one.
pub(super) fn findings(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for group in &report.groups {
        lines.push(format!("Cannot be told apart: {}.", group.join(", ")));
    }
    for pair in &report.unsettled {
        lines.push(format!(
            "{} over {} by {:.3} on {} is not significant; it {}.",
            pair.better,
            pair.worse,
            pair.difference,
            counted(pair.tasks, "task"),
            figures::power(&pair.power)
        ));
    }
    if !report.pareto_front.is_empty() {
        lines.push(format!(
            "No agent is both cheaper and better than: {}.",
            report.pareto_front.join(", ")
        ));
    }
    for agent in report.agents.iter().filter(|it| !it.rewards.is_empty()) {
        let means = agent.rewards.iter();
        let means = means.map(|(name, figure)| format!("{name} {}", figures::score(Some(*figure))));
        let means: Vec<String> = means.collect();
        lines.push(format!(
            "{}: mean rewards: {}.",
            agent.name,
            means.join(", ")
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

/// Tasks by agents, with a header: the mean score and the number of passed trials.
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
