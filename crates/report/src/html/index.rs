//! The list of runs, for a server that has the page of each.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use proctor_record::{record::list::RunListing, text::counted, usage::Usd};

use super::shell::{PageKind, Shell, short_path};
use crate::{figures::dollars, markup::escape};

/// The earlier runs of a suite that its trend shows.
const MOST_RUNS: usize = 20;
const WIDTH: f64 = 80.0;
const HEIGHT: f64 = 20.0;

/// The columns with the names of their sort keys.
const COLUMNS: [&str; 10] = [
    "started", "suite", "state", "passed", "failed", "excluded", "trend", "cost", "labels",
    "agents",
];

/// Writes the list of runs, newest first. The page of a run is at `runs/NAME/`.
pub fn index_html(runs: &[RunListing], out: &mut impl Write) -> io::Result<()> {
    let running = runs.iter().filter(|it| it.is_running).count();
    let active = match running {
        0 => String::new(),
        running => format!(", {running} running"),
    };
    Shell {
        title: "Runs",
        subtitle: &format!("{}{active}", counted(runs.len(), "run")),
        kind: PageKind::Index,
    }
    .start(out)?;
    if runs.is_empty() {
        writeln!(
            out,
            "<p>There are no runs yet: start one with <code>proctor run</code>.</p>"
        )?;
    } else {
        table(runs, out)?;
    }
    Shell::end(out)
}

fn table(runs: &[RunListing], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Runs\"><table id=\"board\"><thead><tr>"
    )?;
    for name in COLUMNS {
        write!(
            out,
            "<th scope=\"col\" data-key=\"{name}\"><button>{name}</button></th>"
        )?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    let trends = trends(runs);
    for (run, trend) in runs.iter().zip(&trends) {
        row(run, trend, out)?;
    }
    writeln!(
        out,
        "</tbody></table></div>\n<p class=\"soft\">Trend: the share of judged trials that passed, in this and up to {} earlier runs of the suite.</p>",
        MOST_RUNS - 1
    )
}

fn row(run: &RunListing, trend: &[f64], out: &mut impl Write) -> io::Result<()> {
    let started = run.started_at.map_or_else(
        || run.name.clone(),
        |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
    );
    let agents: Vec<&str> = run.agents.iter().map(String::as_str).collect();
    let names = agents
        .iter()
        .map(|it| format!("<span class=\"word\">{}</span>", escape(it)));
    let names = names.collect::<Vec<_>>().join(", ");
    let agents = escape(&agents.join(", "));
    let labels = run
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    let labels = escape(&labels.collect::<Vec<_>>().join(", "));
    let cost = run.cost_usd.map(Usd::dollars);
    let suite = escape(run.suite.as_deref().map_or("–", short_path));
    let state = state(run);
    let last = trend.last().map_or(String::new(), |it| format!("{it:.4}"));
    let link = format!("<a href=\"runs/{}/\">{started}</a>", escape(&run.name));
    // The content, and the value that the column is sorted by.
    let cells = [
        (link, escape(&run.name)),
        (suite.clone(), suite),
        (state.clone(), state),
        (run.passed.to_string(), run.passed.to_string()),
        (run.failed.to_string(), run.failed.to_string()),
        (run.errors.to_string(), run.errors.to_string()),
        (sparkline(trend), last),
        (
            cost.map_or("–".to_owned(), dollars),
            cost.map_or(String::new(), |it| it.to_string()),
        ),
        (labels.clone(), labels),
        (names, agents),
    ];
    write!(out, "<tr>")?;
    for (name, (cell, value)) in COLUMNS.iter().zip(cells) {
        let class = match *name {
            "labels" | "agents" => " class=\"names\"",
            _ => "",
        };
        write!(out, "<td{class} data-value=\"{value}\">{cell}</td>")?;
    }
    writeln!(out, "</tr>")
}

fn state(run: &RunListing) -> String {
    match (run.is_running, run.done == run.trials) {
        (true, _) => format!("running: {} of {}", run.done, run.trials),
        (false, true) => "ended".to_owned(),
        (false, false) => format!("stopped: {} of {}", run.done, run.trials),
    }
}

/// For each run, the shares of passed trials of its suite up to it, oldest first.
fn trends(runs: &[RunListing]) -> Vec<Vec<f64>> {
    let mut suites: BTreeMap<Option<&str>, Vec<f64>> = BTreeMap::new();
    let mut found: Vec<Vec<f64>> = runs
        .iter()
        .rev()
        .map(|run| {
            let shares = suites.entry(run.suite.as_deref()).or_default();
            let judged = run.passed + run.failed;
            if judged > 0 {
                shares.push(run.passed as f64 / judged as f64);
            }
            shares[shares.len().saturating_sub(MOST_RUNS)..].to_vec()
        })
        .collect();
    found.reverse();
    found
}

/// A line of shares, with the last one as text.
fn sparkline(shares: &[f64]) -> String {
    let Some(last) = shares.last() else {
        return "–".to_owned();
    };
    let step = WIDTH / (shares.len().max(2) - 1) as f64;
    let points: Vec<String> = shares
        .iter()
        .enumerate()
        .map(|(n, share)| {
            format!(
                "{:.1},{:.1}",
                step * n as f64,
                2.0 + (HEIGHT - 4.0) * (1.0 - share)
            )
        })
        .collect();
    let line = if shares.len() < 2 {
        String::new()
    } else {
        format!(
            "<svg class=\"spark\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" aria-hidden=\"true\"><polyline points=\"{}\"/></svg>",
            points.join(" ")
        )
    };
    format!("{line} {:.0} %", last * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(suite: &str, passed: usize, failed: usize) -> RunListing {
        RunListing {
            name: String::new(),
            run_dir: camino::Utf8PathBuf::new(),
            started_at: None,
            suite: Some(suite.to_owned()),
            labels: BTreeMap::new(),
            agents: std::collections::BTreeSet::new(),
            is_running: false,
            trials: passed + failed,
            done: passed + failed,
            passed,
            failed,
            errors: 0,
            cost_usd: None,
        }
    }

    #[test]
    fn trend_has_the_earlier_runs_of_the_same_suite() {
        let runs = [
            run("a", 3, 1),
            run("b", 1, 0),
            run("a", 0, 0),
            run("a", 1, 1),
        ];
        let found = trends(&runs);
        assert_eq!(found, [vec![0.5, 0.75], vec![1.0], vec![0.5], vec![0.5]]);
        assert_eq!(sparkline(&[]), "–");
        assert_eq!(sparkline(&[0.5]), " 50 %");
        assert!(sparkline(&[0.5, 1.0]).contains("points=\"0.0,10.0 80.0,2.0\""));
    }
}
