//! Writes the page: head, tables, charts, and the data of the trials.

use std::io::{self, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use proctor_record::parallel_map::parallel_for_each;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    charts,
    detail::{self, DetailLimits},
};
use crate::{
    experiment,
    markup::escape,
    model::{AgentReport, Report},
    text::{findings, footing, headline, leaderboard},
    trials::{Trial, Trials},
};

const STYLE: &str = include_str!("page.css");

const SCRIPT: &str = include_str!("page.js");

/// Where the page takes the data of a trial from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrialSource {
    /// From itself.
    Embedded,
    /// From the server of the page, at `trials/NUMBER.json`. The server also sends events and searches sessions.
    Served,
}

/// Writes the report as one page. Sessions, diffs and calls are read from the trials' directories,
/// a few trials at a time, with limits so that the page stays usable.
pub fn html(report: &Report, trials: &Trials, out: &mut impl Write) -> io::Result<()> {
    start(report, trials, TrialSource::Embedded, out)?;
    let bounds = DetailLimits::for_trials(trials.trials.len());
    let page = |number: usize, trial: &Trial| -> io::Result<Vec<u8>> {
        let folder = trials.runs[trial.run].folder.join(&trial.folder);
        let mut page = Vec::new();
        write!(page, "<script type=\"application/json\" id=\"t{number}\">")?;
        write_json(&mut page, &detail::read(&folder, bounds))?;
        writeln!(page, "</script>")?;
        Ok(page)
    };
    parallel_for_each(&trials.trials, page, |page| out.write_all(&page?))?;
    end(out)
}

/// Writes the page of a run for a server, which has the data of the trials.
pub fn served_html(report: &Report, trials: &Trials, out: &mut impl Write) -> io::Result<()> {
    start(report, trials, TrialSource::Served, out)?;
    end(out)
}

/// The data of one trial as JSON, nearly complete; `None` without such a trial.
pub fn trial_json(trials: &Trials, number: usize) -> Option<serde_json::Result<String>> {
    let trial = trials.trials.get(number)?;
    let folder = trials.runs[trial.run].folder.join(&trial.folder);
    let detail = detail::read(&folder, DetailLimits::ON_DEMAND);
    Some(serde_json::to_string(&detail))
}

/// Everything but the trials.
fn start(
    report: &Report,
    trials: &Trials,
    source: TrialSource,
    out: &mut impl Write,
) -> io::Result<()> {
    let connect = match source {
        TrialSource::Embedded => "",
        TrialSource::Served => "connect-src 'self'; ",
    };
    let theme = "<button id=\"theme\">Dark</button>";
    head("Report", &headline(report), (connect, theme), out)?;
    answer(trials, out)?;
    board(report, out)?;
    charts::write(report, out)?;
    prose(report, out)?;
    out.write_all(FRAME.as_bytes())?;
    write!(out, "<script type=\"application/json\" id=\"data\">")?;
    write_json(out, &data(report, trials, source))?;
    writeln!(out, "</script>")
}

fn end(out: &mut impl Write) -> io::Result<()> {
    write!(out, "<script>{SCRIPT}</script>\n</body>\n</html>\n")
}

/// The elements that the script fills.
const FRAME: &str = r#"<p id="live" class="soft" role="status"></p>
<h2>Tasks</h2>
<p class="soft">Mean score of each agent on each task; a click shows the trials. <button id="hard">Sort by score</button></p>
<div id="heat"></div>
<h2 id="trials">Trials</h2>
<div class="controls"><input id="search" type="search" placeholder="filter: agent, task, status, outcome, message" aria-label="filter"><span id="choices" class="controls"></span></div>
<div id="hits"></div>
<div id="trial" tabindex="-1"></div>
<div id="list"></div>
<p class="soft">Keys: <kbd>j</kbd> and <kbd>k</kbd> next and previous trial, <kbd>n</kbd> next failure, <kbd>Esc</kbd> close.</p>
<noscript><p>Tasks and trials are shown by a script.</p></noscript>
"#;

/// The start of a page, with a part of its content security policy and the controls at its top.
pub(super) fn head(
    title: &str,
    subtitle: &str,
    (connect, controls): (&str, &str),
    out: &mut impl Write,
) -> io::Result<()> {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; {connect}base-uri 'none'; form-action 'none'"
    );
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Proctor {}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header><div><h1>{title}</h1><p class=\"soft\">{}</p></div>{controls}</header>\n",
        title.to_lowercase(),
        escape(subtitle)
    )
}

/// The answer of the run's experiment, with its evidence.
fn answer(trials: &Trials, out: &mut impl Write) -> io::Result<()> {
    let Some(results) = experiment::results_of(trials) else {
        return Ok(());
    };
    writeln!(out, "<h2>Answer</h2>")?;
    let results = match results {
        Ok(results) => results,
        Err(error) => return writeln!(out, "<p>{}</p>", escape(&error.to_string())),
    };
    for result in results {
        let (baseline, candidate) = (escape(&result.baseline), escape(&result.candidate));
        writeln!(out, "<p class=\"soft\">{candidate} against {baseline}</p>")?;
        writeln!(out, "<p><strong>{}</strong></p>", escape(&result.sentence))?;
        writeln!(out, "<div class=\"wide\"><table><tbody>")?;
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
        "<h2>Agents</h2>\n<div class=\"wide\"><table id=\"board\"><thead><tr>"
    )?;
    for name in head {
        writeln!(out, "<th data-key=\"{name}\"><button>{name}</button></th>")?;
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
            write!(
                out,
                "<td{class} data-value=\"{value}\">{}</td>",
                escape(cell)
            )?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

fn prose(report: &Report, out: &mut impl Write) -> io::Result<()> {
    for (title, lines) in [("Findings", &findings(report)), ("Notes", &report.notes)] {
        if lines.is_empty() {
            continue;
        }
        writeln!(out, "<h2>{title}</h2>\n<ul>")?;
        for line in lines {
            writeln!(out, "<li>{}</li>", escape(line))?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(out, "<p class=\"soft\">{}</p>", escape(&footing(report)))
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
    let rows = trials.trials.iter().map(|it| {
        json!([
            it.agent,
            it.task,
            it.run,
            it.trial,
            it.status,
            it.outcome,
            it.score,
            it.cost_usd,
            it.duration_ms,
            it.tokens,
            it.cached_tokens,
            it.message,
            it.folder,
        ])
    });
    let rows: Vec<serde_json::Value> = rows.collect();
    let order = report.agents.iter().map(|it| number(&agents, &it.name));
    let order: Vec<usize> = order.collect();
    let served = source == TrialSource::Served;
    json!({ "agents": agents, "order": order, "tasks": tasks, "broken": broken, "runs": runs, "cells": cells, "rows": rows, "served": served })
}

/// Writes JSON that cannot end its element.
fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(value)?;
    out.write_all(json.replace('<', "\\u003c").as_bytes())
}
