//! Charts as SVG: scores with their confidence intervals, and cost against score with the Pareto
//! front.

use std::io::{self, Write};

use super::super::model::Report;
use crate::{AgentReport, Role, dollars, markup::escape};

const WIDTH: f64 = 560.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 24.0;
const ROW: f64 = 26.0;
const HEIGHT: f64 = 320.0;
const BOTTOM: f64 = 46.0;
const SIDE: f64 = 56.0;
/// The maximum length of names; the table has the complete ones.
const LONGEST_NAME: usize = 20;

pub(super) fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "<div class=\"charts\">")?;
    intervals(report, out)?;
    scatter(report, out)?;
    writeln!(out, "</div>")
}

fn short(name: &str) -> String {
    let mut text: String = name.chars().take(LONGEST_NAME).collect();
    if name.chars().count() > LONGEST_NAME {
        text.push('…');
    }
    escape(&text)
}

/// The range of scores: from 0 to 1 unless some are outside.
fn score_range(report: &Report) -> (f64, f64) {
    let scores = report.agents.iter().filter_map(|agent| agent.score);
    let ends = scores.flat_map(|score| {
        let interval = score.interval;
        [
            Some(score.mean),
            interval.map(|it| it.low),
            interval.map(|it| it.high),
        ]
    });
    let fold = |(low, high): (f64, f64), end: f64| (low.min(end), high.max(end));
    ends.flatten().fold((0.0, 1.0), fold)
}

fn intervals(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let height = ROW * report.agents.len() as f64 + BOTTOM;
    let (low, high) = score_range(report);
    let x = |score: f64| LEFT + (score - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    writeln!(
        out,
        "<figure><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"Scores with intervals\">"
    )?;
    let base = height - BOTTOM + 6.0;
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let at = x(share);
        writeln!(
            out,
            "<path class=\"axis\" d=\"M{at:.1} 4V{base:.1}\"/><text class=\"soft\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{share}</text>",
            base + 16.0
        )?;
    }
    for (number, agent) in report.agents.iter().enumerate() {
        let y = ROW * number as f64 + ROW / 2.0 + 4.0;
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            y + 4.0,
            short(&agent.name)
        )?;
        let Some(score) = agent.score else { continue };
        if let Some(interval) = score.interval {
            let (from, to) = (x(interval.low), x(interval.high));
            writeln!(out, "<path class=\"bar\" d=\"M{from:.1} {y:.1}H{to:.1}\"/>")?;
        }
        let at = x(score.mean);
        writeln!(
            out,
            "<circle class=\"dot\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>"
        )?;
    }
    writeln!(
        out,
        "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">score</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        base + 30.0
    )?;
    writeln!(
        out,
        "</svg><figcaption>Mean score and its interval. Whether two agents differ is decided in pairs, not by whether bars overlap.</figcaption></figure>"
    )
}

/// An agent with both a cost and a score.
struct Spot<'a> {
    agent: &'a AgentReport,
    cost: f64,
    score: f64,
    is_front: bool,
}

/// The range of the agents' values, with a margin.
fn spot_range(spots: &[Spot]) -> (f64, f64) {
    let scores = || spots.iter().map(|spot| spot.score);
    let (low, high) = (
        scores().fold(f64::INFINITY, f64::min),
        scores().fold(f64::NEG_INFINITY, f64::max),
    );
    let room = ((high - low) * 0.25).max(0.02);
    // Nothing is beyond 0 and 1 unless a score is.
    let (least, most) = (low.min(0.0), high.max(1.0));
    ((low - room).max(least), (high + room).min(most))
}

/// The positions of names, so that they do not overlap.
#[derive(Default)]
struct LabelBoxes {
    taken: Vec<(f64, f64)>,
}

impl LabelBoxes {
    /// The free line nearest to a spot.
    fn free_line(&mut self, x: f64, y: f64) -> f64 {
        let is_free = |line: f64| {
            let mut taken = self.taken.iter();
            taken.all(|(other, own)| (other - x).abs() > 130.0 || (own - line).abs() > 12.0)
        };
        let lines = (0..12).flat_map(|step| {
            let away = 13.0 * f64::from(step);
            [y - 8.0 - away, y + 17.0 + away]
        });
        let mut lines = lines.filter(|line| *line > 12.0 && *line < HEIGHT - BOTTOM);
        let line = lines.find(|line| is_free(*line)).unwrap_or(y - 8.0);
        self.taken.push((x, line));
        line
    }
}

fn spots(report: &Report) -> Vec<Spot<'_>> {
    let contenders = report.agents.iter().filter(|it| it.role == Role::Contender);
    let spots = contenders.filter_map(|agent| {
        Some(Spot {
            cost: agent.cost_usd?.median,
            score: agent.score?.mean,
            is_front: report.pareto_front.contains(&agent.name),
            agent,
        })
    });
    spots.collect()
}

fn scatter(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let spots = spots(report);
    if spots.is_empty() {
        return writeln!(
            out,
            "<figure><figcaption>No cost is known, so there is no chart of cost and score.</figcaption></figure>"
        );
    }
    let most = spots.iter().map(|spot| spot.cost).fold(0.0, f64::max);
    let most = if most > 0.0 { most * 1.1 } else { 1.0 };
    let (low, high) = spot_range(&spots);
    let x = |cost: f64| SIDE + cost / most * (WIDTH - SIDE - RIGHT);
    let y = |score: f64| HEIGHT - BOTTOM - (score - low) / (high - low) * (HEIGHT - BOTTOM - 16.0);
    writeln!(
        out,
        "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Cost and score\">"
    )?;
    for part in [0.0, 0.5, 1.0] {
        let (at, cost) = (x(part * most), dollars(part * most));
        let (level, score) = (y(low + part * (high - low)), low + part * (high - low));
        // The last label must not leave the chart.
        let anchor = if part < 1.0 { "middle" } else { "end" };
        writeln!(
            out,
            "<path class=\"axis\" d=\"M{at:.1} 16V{0:.1}M{SIDE} {level:.1}H{1:.1}\"/><text class=\"soft\" x=\"{at:.1}\" y=\"{2:.1}\" text-anchor=\"{anchor}\">{cost}</text><text class=\"soft\" x=\"{3:.1}\" y=\"{4:.1}\" text-anchor=\"end\">{score:.2}</text>",
            HEIGHT - BOTTOM,
            WIDTH - RIGHT,
            HEIGHT - BOTTOM + 18.0,
            SIDE - 8.0,
            level + 4.0
        )?;
    }
    writeln!(
        out,
        "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">median cost of a trial</text><text class=\"soft\" x=\"{:.1}\" y=\"11\">score</text>",
        f64::midpoint(SIDE, WIDTH - RIGHT),
        HEIGHT - 2.0,
        SIDE + 4.0
    )?;
    let mut front: Vec<&Spot> = spots.iter().filter(|spot| spot.is_front).collect();
    front.sort_by(|one, other| one.cost.total_cmp(&other.cost));
    let points: Vec<String> = front
        .iter()
        .map(|spot| format!("{:.1},{:.1}", x(spot.cost), y(spot.score)))
        .collect();
    writeln!(
        out,
        "<polyline class=\"front\" points=\"{}\"/>",
        points.join(" ")
    )?;
    let mut names = LabelBoxes::default();
    for spot in &spots {
        let (at, level) = (x(spot.cost), y(spot.score));
        let class = if spot.is_front { "dot" } else { "off" };
        // Names must not leave the chart.
        let (anchor, text) = if at > WIDTH * 0.7 {
            ("end", at - 8.0)
        } else {
            ("start", at + 8.0)
        };
        let line = names.free_line(text, level);
        writeln!(
            out,
            "<circle class=\"{class}\" cx=\"{at:.1}\" cy=\"{level:.1}\" r=\"5\"/><text x=\"{text:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            line,
            short(&spot.agent.name)
        )?;
    }
    writeln!(
        out,
        "</svg><figcaption>Median cost of a trial and mean score. On the dashed line: no agent is both cheaper and better.</figcaption></figure>"
    )
}
