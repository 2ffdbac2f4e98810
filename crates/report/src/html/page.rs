//! Writes the page: head, tables, charts, and the data of the trials.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use proctor_record::{
    parallel_map::parallel_for_each,
    record::{TrialStatus, list::started_at},
    text::counted,
};
use serde::Serialize;
use serde_json::json;

use super::{
    charts,
    detail::{self, Detail, DetailLimits, SMALLEST_TRIAL},
    shell::{PageKind, Shell, short_path},
};
use crate::{
    experiment,
    markup::escape,
    model::{AgentReport, Report},
    text::{best_agent, findings, footing, headline, leaderboard},
    trials::{Trial, Trials},
};

/// Where the page takes the data of a trial from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrialSource {
    /// From itself.
    Embedded,
    /// From the server of the page, at `trials/NUMBER.json`. The server also sends events and searches sessions.
    Served,
}

/// The maximum size of the trials in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize {
    /// In bytes.
    pub bytes: usize,
}

impl Default for PageSize {
    fn default() -> PageSize {
        PageSize { bytes: 50_000_000 }
    }
}

/// Writes the report as one page. Sessions, diffs and calls are read from the trials' directories,
/// a few trials at a time, first those that did not pass. Trials beyond the size are left out.
pub fn html(
    report: &Report,
    trials: &Trials,
    size: PageSize,
    out: &mut impl Write,
) -> io::Result<()> {
    start(report, trials, TrialSource::Embedded, out)?;
    let all = || trials.all().enumerate();
    let is_passed = |trial: &Trial| trial.status == TrialStatus::Passed;
    let failed: Vec<usize> = all().filter(|it| !is_passed(it.1)).map(|it| it.0).collect();
    let passed: Vec<usize> = all().filter(|it| is_passed(it.1)).map(|it| it.0).collect();
    let mut left = size.bytes;
    let mut left_out = Vec::new();
    for (numbers, name) in [(failed, "did not pass"), (passed, "passed")] {
        let (shown, rest) = numbers.split_at(numbers.len().min(left / SMALLEST_TRIAL));
        if !rest.is_empty() {
            left_out.push(format!("{} that {name}", counted(rest.len(), "trial")));
        }
        let limits = DetailLimits::embedded(left / shown.len().max(1));
        let written = embed(trials, shown, limits, out)?;
        left = left.saturating_sub(written);
    }
    if !left_out.is_empty() {
        writeln!(
            out,
            "<p class=\"soft\" id=\"left-out\">The sessions of {} are left out, because the page would be larger than {} MB: `proctor show` and `proctor view` show them.</p>",
            left_out.join(" and of "),
            size.bytes / 1_000_000
        )?;
    }
    end(out)
}

/// Writes the data of these trials. Returns its size.
fn embed(
    trials: &Trials,
    numbers: &[usize],
    limits: DetailLimits,
    out: &mut impl Write,
) -> io::Result<usize> {
    let mut size = 0;
    let page = |_: usize, number: &usize| -> io::Result<Vec<u8>> {
        let mut page = Vec::new();
        write!(page, "<script type=\"application/json\" id=\"t{number}\">")?;
        write_json(&mut page, &read_detail(trials, *number, limits))?;
        writeln!(page, "</script>")?;
        Ok(page)
    };
    parallel_for_each(numbers, page, |page| {
        let page = page?;
        size += page.len();
        out.write_all(&page)
    })?;
    Ok(size)
}

fn read_detail(trials: &Trials, number: usize, limits: DetailLimits) -> Detail {
    let trial = trials.get(number).expect("the number of a trial");
    let run = &trials.runs[trial.run];
    detail::read(
        &run.folder.join(&trial.folder),
        run.suite.as_deref(),
        limits,
    )
}

/// Writes the page of a run for a server, which has the data of the trials.
pub fn served_html(report: &Report, trials: &Trials, out: &mut impl Write) -> io::Result<()> {
    start(report, trials, TrialSource::Served, out)?;
    end(out)
}

/// The data of one trial as JSON. Long texts are cut; [`trial_entry_json`] has them whole.
///
/// # Panics
///
/// Without a trial of this number.
pub fn trial_json(trials: &Trials, number: usize) -> serde_json::Result<String> {
    serde_json::to_string(&read_detail(trials, number, DetailLimits::ON_DEMAND))
}

/// One entry of a trial's session as JSON, with its whole texts; `None` without such an entry.
///
/// # Panics
///
/// Without a trial of this number.
pub fn trial_entry_json(
    trials: &Trials,
    number: usize,
    entry: usize,
) -> Option<serde_json::Result<String>> {
    let detail = read_detail(trials, number, DetailLimits::WHOLE);
    let entry = detail.timeline.iter().find(|it| it.n == entry)?;
    Some(serde_json::to_string(entry))
}

/// Everything but the trials.
fn start(
    report: &Report,
    trials: &Trials,
    source: TrialSource,
    out: &mut impl Write,
) -> io::Result<()> {
    let suites: BTreeSet<&str> = trials
        .runs
        .iter()
        .filter_map(|run| run.suite.as_deref())
        .collect();
    let title = if suites.is_empty() {
        "Report".to_owned()
    } else {
        let names: Vec<&str> = suites.into_iter().map(short_path).collect();
        names.join(", ")
    };
    Shell {
        title: &title,
        subtitle: &format!("{}{}", dates(trials), headline(report)),
        kind: match source {
            TrialSource::Embedded => PageKind::File,
            TrialSource::Served => PageKind::Run,
        },
    }
    .start(out)?;
    writeln!(
        out,
        "<div id=\"live\"></div>\n<div id=\"overview\">\n<div id=\"figures\">"
    )?;
    writeln!(
        out,
        "<p class=\"answer\">{}</p>",
        escape(&conclusion(report, trials))
    )?;
    board(report, out)?;
    answer(trials, out)?;
    charts::write(report, out)?;
    prose("Findings", &findings(report), out)?;
    prose("Notes", &report.notes, out)?;
    writeln!(
        out,
        "<p class=\"soft\">{}</p>\n</div>",
        escape(&footing(report))
    )?;
    out.write_all(FRAME.as_bytes())?;
    write!(out, "<script type=\"application/json\" id=\"data\">")?;
    write_json(out, &data(report, trials, source))?;
    writeln!(out, "</script>")
}

fn end(out: &mut impl Write) -> io::Result<()> {
    Shell::end(out)
}

/// When the runs were started, by their names.
fn dates(trials: &Trials) -> String {
    let times = trials.runs.iter().filter_map(|it| started_at(&it.name));
    let days: BTreeSet<String> = times
        .map(|it| it.strftime("%Y-%m-%d").to_string())
        .collect();
    let (first, last) = (days.first(), days.last());
    match (first, last) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last} · "),
        (Some(day), _) => format!("{day} · "),
        _ => String::new(),
    }
}

/// The result in one sentence: the experiment's, or the place of the best agent.
fn conclusion(report: &Report, trials: &Trials) -> String {
    if let Some(Ok(results)) = experiment::results_of(trials)
        && let [only] = results.as_slice()
    {
        return only.sentence.clone();
    }
    best_agent(report)
}

/// The elements that the script fills.
const FRAME: &str = r#"<h2>Tasks</h2>
<p class="soft">Mean score of each agent on each task; a click shows the trials. <button id="hard">Sort by score</button></p>
<div id="heat"></div>
<div id="versus"></div>
<h2 id="trials">Trials</h2>
<div class="controls"><input id="search" type="search" placeholder="filter: agent, task, status, outcome, message" aria-label="filter" aria-describedby="scopes"><span id="choices" class="controls"></span></div>
<p class="soft" id="scopes" hidden>Sessions are searched too: <kbd>text</kbd>, <kbd>tool:edit</kbd>, <kbd>path:src/</kbd>, <kbd>error:timeout</kbd></p>
<div id="hits" role="status"></div>
<div id="list"></div>
<p class="soft">Keys: <kbd>j</kbd> and <kbd>k</kbd> next and previous trial, <kbd>n</kbd> next failure, <kbd>Esc</kbd> close.</p>
<noscript><p>Tasks and trials are shown by a script.</p></noscript>
</div>
<div id="trial" tabindex="-1"></div>
"#;

/// The answer of the run's experiment, with its evidence.
fn answer(trials: &Trials, out: &mut impl Write) -> io::Result<()> {
    let Some(results) = experiment::results_of(trials) else {
        return Ok(());
    };
    writeln!(out, "<h2>Evidence</h2>")?;
    let results = match results {
        Ok(results) => results,
        Err(error) => return writeln!(out, "<p>{}</p>", escape(&error.to_string())),
    };
    // The first line of the page has the only answer.
    let is_only = results.len() == 1;
    for result in results {
        let (baseline, candidate) = (escape(&result.baseline), escape(&result.candidate));
        writeln!(out, "<p class=\"soft\">{candidate} against {baseline}</p>")?;
        if !is_only {
            writeln!(out, "<p><strong>{}</strong></p>", escape(&result.sentence))?;
        }
        writeln!(
            out,
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Evidence\"><table><tbody>"
        )?;
        for row in result.rows() {
            let cells: Vec<String> = row
                .iter()
                .map(|it| format!("<td>{}</td>", escape(it)))
                .collect();
            writeln!(out, "<tr>{}</tr>", cells.concat())?;
        }
        writeln!(out, "</tbody></table></div>\n<ul>")?;
        for line in result.lines() {
            writeln!(out, "<li>{}</li>", escape(&line))?;
        }
        writeln!(out, "</ul>")?;
    }
    Ok(())
}

/// The sort key of a column of the leaderboard.
fn sort_key(agent: &AgentReport, column: &str, place: usize) -> String {
    let number = |value: Option<f64>| value.map_or(String::new(), |it| it.to_string());
    match column {
        "place" => place.to_string(),
        "agent" => agent.name.clone(),
        "score" => number(agent.score.map(|it| it.mean)),
        "passed" => number(agent.pass_rate.map(|it| it.rate)),
        "normalised" => number(agent.normalised_score.map(|it| it.mean)),
        "cost" => number(agent.cost_usd.map(|it| it.median)),
        "time" => number(agent.duration_ms.map(|it| it.median)),
        "tokens" => number(agent.tokens.map(|it| it.median)),
        "cached" => number(agent.cached_tokens.map(|it| it.median)),
        "n" => agent.judged.to_string(),
        _ => (agent.trials - agent.judged).to_string(),
    }
}

fn board(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let rows = leaderboard(report);
    let Some((head, rows)) = rows.split_first() else {
        return Ok(());
    };
    writeln!(
        out,
        "<h2>Agents</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Agents\"><table id=\"board\"><thead><tr>"
    )?;
    for name in head {
        writeln!(
            out,
            "<th scope=\"col\" data-key=\"{name}\"><button>{name}</button></th>"
        )?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for (place, (agent, row)) in report.agents.iter().zip(rows).enumerate() {
        write!(out, "<tr>")?;
        for (name, cell) in head.iter().zip(row) {
            let value = escape(&sort_key(agent, name, place));
            let class = if name == "agent" {
                " class=\"name\""
            } else {
                ""
            };
            let cell = if name == "agent" {
                escape(cell)
            } else {
                with_small_interval(cell)
            };
            write!(out, "<td{class} data-value=\"{value}\">{cell}</td>")?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

/// A figure with its interval, or with the score of excluded trials, on a line below it.
fn with_small_interval(cell: &str) -> String {
    match cell.find(['[', '(']) {
        Some(at) if at > 0 => {
            let (figure, more) = cell.split_at(at);
            format!(
                "{}<small>{}</small>",
                escape(figure.trim_end()),
                escape(more)
            )
        }
        _ => escape(cell),
    }
}

fn prose(title: &str, lines: &[String], out: &mut impl Write) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>{title}</h2>\n<ul>")?;
    for line in lines {
        writeln!(out, "<li>{}</li>", escape(line))?;
    }
    writeln!(out, "</ul>")
}

/// The two agents that the run's experiment compares.
fn experiment_pair(trials: &Trials) -> Option<[String; 2]> {
    let results = experiment::results_of(trials)?.ok()?;
    let first = results.into_iter().next()?;
    Some([first.baseline, first.candidate])
}

/// The data of the script: rows of plain values, with agents and tasks by index.
fn data(report: &Report, trials: &Trials, source: TrialSource) -> serde_json::Value {
    let agents: Vec<&str> = trials.agents.iter().map(|it| it.name.as_str()).collect();
    let tasks: Vec<&str> = trials.tasks.iter().map(|it| it.name.as_str()).collect();
    let broken: Vec<bool> = report
        .tasks
        .iter()
        .map(|it| !it.broken.is_empty())
        .collect();
    let runs: Vec<&str> = trials.runs.iter().map(|it| it.name.as_str()).collect();
    let number = |names: &[&str], name: &str| names.binary_search(&name).unwrap_or_default();
    let cells = report.cells.iter().map(|cell| {
        let (agent, task) = (number(&agents, &cell.agent), number(&tasks, &cell.task));
        json!([
            agent,
            task,
            cell.score,
            cell.passed,
            cell.judged,
            cell.trials
        ])
    });
    let cells: Vec<serde_json::Value> = cells.collect();
    let rows = trials.all().enumerate().map(|(number, it)| {
        // The first record of a trial is written as if it had been interrupted.
        let is_active = number >= trials.trials.len();
        let (status, outcome, message) = if is_active {
            (json!("running"), json!(""), json!(""))
        } else {
            (json!(it.status), json!(it.outcome), json!(it.message))
        };
        json!([
            it.agent,
            it.task,
            it.run,
            it.trial,
            status,
            outcome,
            it.score,
            it.cost_usd,
            it.duration_ms,
            it.tokens,
            it.cached_tokens,
            message,
            it.folder,
        ])
    });
    let rows: Vec<serde_json::Value> = rows.collect();
    let order = report.agents.iter().map(|it| number(&agents, &it.name));
    let order: Vec<usize> = order.collect();
    let served = source == TrialSource::Served;
    json!({ "agents": agents, "order": order, "tasks": tasks, "broken": broken, "runs": runs, "cells": cells, "rows": rows, "served": served, "pair": experiment_pair(trials) })
}

/// Writes JSON that cannot end its element.
fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(value)?;
    out.write_all(json.replace('<', "\\u003c").as_bytes())
}
