//! A comparison as one page: the conclusion, the metrics, the rules, and the differences of each task.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use proctor_record::record::TrialStatus;

use super::shell::{PageKind, Shell};
use crate::{
    compare::{Metric, Side, Versus},
    definitions::shared_keys,
    markup::escape,
    versus::{Compared, lines, rows, rule_rows},
};

/// Writes the comparison of these pairs.
pub fn compared_html(
    compared: &Compared,
    pairs: &[(Side<'_>, Side<'_>)],
    out: &mut impl Write,
) -> io::Result<()> {
    Shell {
        title: "Comparison",
        subtitle: &compared.footing(),
        kind: PageKind::File,
    }
    .start(out)?;
    for (versus, pair) in compared.comparisons.iter().zip(pairs) {
        writeln!(
            out,
            "<h2>{} against {}</h2>\n<p class=\"answer\">{}</p>",
            escape(&versus.candidate),
            escape(&versus.baseline),
            escape(&sentence(versus))
        )?;
        table("Metrics", &rows(versus), out)?;
        list(&lines(versus), out)?;
        let tasks = task_rows(*pair);
        if tasks.len() > 1 {
            writeln!(out, "<h3>Tasks</h3>")?;
            table("Tasks", &tasks, out)?;
        }
    }
    if !compared.rules.is_empty() {
        writeln!(out, "<h2>Rules</h2>")?;
        table("Rules", &rule_rows(&compared.rules), out)?;
    }
    if !compared.notes.is_empty() {
        writeln!(out, "<h2>Notes</h2>")?;
        list(&compared.notes, out)?;
    }
    Shell::end(out)
}

/// The conclusion about the score.
fn sentence(versus: &Versus) -> String {
    let score = versus
        .changes
        .iter()
        .position(|it| it.metric == Metric::Score);
    let Some(at) = score else {
        return "There is no score to compare.".to_owned();
    };
    let row = &rows(versus)[at + 1];
    let (change, n, verdict) = (&row[3], &row[5], &row[6]);
    format!("Score {change} on {n}: {verdict}.")
}

fn list(lines: &[String], out: &mut impl Write) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "<ul>")?;
    for line in lines {
        writeln!(out, "<li>{}</li>", escape(line))?;
    }
    writeln!(out, "</ul>")
}

fn table(label: &str, rows: &[Vec<String>], out: &mut impl Write) -> io::Result<()> {
    let Some((head, rows)) = rows.split_first() else {
        return Ok(());
    };
    let line = |tag: &str, row: &[String]| {
        let cells = row.iter();
        let cells = cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    // A header cell without a text is not a header.
    let head: String = head
        .iter()
        .map(|cell| match cell.as_str() {
            "" => "<td></td>".to_owned(),
            cell => format!("<th scope=\"col\">{}</th>", escape(cell)),
        })
        .collect();
    let body: String = rows.iter().map(|row| line("td", row)).collect();
    writeln!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>"
    )
}

/// The judged trials of an agent on a task.
#[derive(Clone, Copy, Default)]
struct TaskScore {
    sum: f64,
    judged: usize,
    passed: usize,
}

impl TaskScore {
    fn mean(self) -> f64 {
        self.sum / self.judged as f64
    }

    fn is_mostly_passed(self) -> bool {
        self.passed * 2 > self.judged
    }

    fn text(self) -> String {
        format!("{:.2} {}/{}", self.mean(), self.passed, self.judged)
    }
}

fn scores(side: Side<'_>, keys: &[String]) -> BTreeMap<String, TaskScore> {
    let mut scores: BTreeMap<String, TaskScore> = BTreeMap::new();
    let own = side
        .trials
        .trials
        .iter()
        .filter(|it| it.agent == side.agent);
    for trial in own {
        let Some(score) = trial.score else { continue };
        let entry = scores.entry(keys[trial.task].clone()).or_default();
        entry.sum += score;
        entry.judged += 1;
        entry.passed += usize::from(trial.status == TrialStatus::Passed);
    }
    scores
}

/// The tasks of both, the largest changes first, with a header.
fn task_rows((baseline, candidate): (Side<'_>, Side<'_>)) -> Vec<Vec<String>> {
    let (ones, others) = shared_keys(&baseline.trials.tasks, &candidate.trials.tasks);
    let (one, other) = (scores(baseline, &ones), scores(candidate, &others));
    let mut tasks: Vec<(&str, TaskScore, TaskScore)> = one
        .iter()
        .filter_map(|(key, score)| {
            let name = key.split_once('\n').map_or(key.as_str(), |it| it.0);
            Some((name, *score, *other.get(key)?))
        })
        .collect();
    let size = |(_, a, b): &(&str, TaskScore, TaskScore)| (b.mean() - a.mean()).abs();
    tasks.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.0.cmp(b.0)));
    let head = ["task", "baseline", "candidate", "change", "flipped"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(tasks.into_iter().map(|(name, a, b)| {
        let flipped = match (a.is_mostly_passed(), b.is_mostly_passed()) {
            (false, true) => "gained",
            (true, false) => "lost",
            _ => "",
        };
        vec![
            name.to_owned(),
            a.text(),
            b.text(),
            format!("{:+.2}", b.mean() - a.mean()).replace('-', "−"),
            flipped.to_owned(),
        ]
    }));
    rows
}
