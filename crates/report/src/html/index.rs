//! The list of runs, for a server that has the page of each.

use std::io::{self, Write};

use proctor_record::{record::list::RunListing, text::counted};

use super::page;
use crate::{figures::dollars, markup::escape};

/// Writes the list of runs. The page of a run is at `runs/NAME/`.
pub fn index_html(runs: &[RunListing], out: &mut impl Write) -> io::Result<()> {
    page::head("Runs", &counted(runs.len(), "run"), ("", ""), out)?;
    if runs.is_empty() {
        writeln!(
            out,
            "<p>There are no runs yet: start one with <code>proctor run</code>.</p>"
        )?;
    } else {
        table(runs, out)?;
    }
    writeln!(out, "</body>\n</html>")
}

fn table(runs: &[RunListing], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<div class=\"wide\"><table><thead><tr>")?;
    for name in [
        "started", "suite", "agents", "state", "passed", "failed", "excluded", "cost", "labels",
    ] {
        write!(out, "<th>{name}</th>")?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for run in runs {
        let started = run.started_at.map_or_else(
            || run.name.clone(),
            |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        );
        let agents: Vec<&str> = run.agents.iter().map(String::as_str).collect();
        let labels = run
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let cost = run
            .cost_usd
            .map_or("–".to_owned(), |it| dollars(it.dollars()));
        let cells = [
            escape(run.suite.as_deref().unwrap_or("–")),
            escape(&agents.join(", ")),
            state(run),
            run.passed.to_string(),
            run.failed.to_string(),
            run.errors.to_string(),
            cost,
            escape(&labels.collect::<Vec<_>>().join(", ")),
        ];
        write!(
            out,
            "<tr><td><a href=\"runs/{}/\">{started}</a></td>",
            escape(&run.name)
        )?;
        for cell in cells {
            write!(out, "<td>{cell}</td>")?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

fn state(run: &RunListing) -> String {
    match (run.is_running, run.done == run.trials) {
        (true, _) => format!("running: {} of {}", run.done, run.trials),
        (false, true) => "ended".to_owned(),
        (false, false) => format!("stopped: {} of {}", run.done, run.trials),
    }
}
