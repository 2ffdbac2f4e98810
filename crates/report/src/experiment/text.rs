//! The sentences of an experiment, and its text for a terminal.

use std::fmt::Write;

use proctor_record::{
    record::delivery::{DeliveryState, DeliverySummary},
    text::counted,
};

use super::{
    analysis::is_over,
    result::{ExperimentResult, MetricResult},
};
use crate::{
    compare::Metric,
    figures::{self, columns, dollars},
    stats::{CostPerSolved, Decision, Interval, Margins, Needed, Scope, Step, ToDecide},
};

/// Adds the sentences, which follow from the figures.
pub(super) fn finish(result: &mut ExperimentResult) {
    for metric in &mut result.metrics {
        metric.sentence = change(metric);
    }
    result.sentence = sentence(result);
}

fn sentence(result: &ExperimentResult) -> String {
    let Some(score) = result.metric(Metric::Score) else {
        return "nothing to compare: no task has a score of both agents".to_owned();
    };
    let missing: Vec<&str> = result.not_delivered().collect();
    if !missing.is_empty() {
        let names = missing.join(" and ");
        return format!("cannot be decided: the treatment of {names} was not delivered");
    }
    let margin = |it: Option<f64>| points(it.unwrap_or(0.0), false);
    let name = &result.candidate;
    let claim = match score.decision {
        Decision::Undecided => return undecided(result, score),
        Decision::Better => format!("{name} is better"),
        Decision::Worse => format!("{name} is worse"),
        Decision::Equivalent => {
            let margin = margin(result.margins.equivalent);
            format!("no difference larger than {margin}")
        }
        Decision::NotWorse => {
            let margin = margin(result.margins.not_worse);
            format!("{name} is not worse by more than {margin}")
        }
    };
    let tasks = match (score.scope, score.tasks) {
        (Scope::TasksLikeThese, tasks) => counted(tasks, "task"),
        (Scope::ExactlyTheseTasks, 1) => "exactly this task".to_owned(),
        (Scope::ExactlyTheseTasks, tasks) => format!("exactly these {tasks} tasks"),
    };
    let cost = result.metric(Metric::Cost);
    let cost = cost.map_or(String::new(), |it| format!("; {}", it.sentence));
    format!("{claim}: {} on {tasks}{cost}", amount(score))
}

fn undecided(result: &ExperimentResult, score: &MetricResult) -> String {
    if let Some(stage) = result.stage.filter(|it| !is_over(it.step)) {
        return format!(
            "not decided yet: {} of {} done",
            stage.analysis,
            if stage.of == 1 {
                "1 analysis".to_owned()
            } else {
                format!("{} analyses", stage.of)
            }
        );
    }
    let needed = result
        .to_decide
        .map_or_else(String::new, |it| decides(it, score.tasks));
    let has_margin = result.margins != Margins::default();
    if needed.is_empty() && score.difference.abs() < 1e-12 && !has_margin {
        "cannot be decided: no difference was seen; with a margin such as --equivalent 0.05, its absence could be shown"
            .to_owned()
    } else if needed.is_empty() {
        "cannot be decided: no reasonable number of tasks or trials would decide it".to_owned()
    } else {
        format!("cannot be decided: {needed} would decide it")
    }
}

fn decides(needed: ToDecide, tasks: usize) -> String {
    let mut ways = Vec::new();
    if let Needed::More(more) = needed.tasks {
        ways.push(counted(more, "more task"));
    }
    if let Needed::More(more) = needed.trials {
        let these = if tasks == 1 {
            "this task".to_owned()
        } else {
            format!("these {tasks} tasks")
        };
        ways.push(format!("{} of {these}", counted(more, "more trial")));
    }
    ways.join(" or ")
}

/// The change of a metric with its name, such as `cost +4 % [−1, +9]`.
fn change(metric: &MetricResult) -> String {
    format!("{} {}", metric.metric.as_str(), amount(metric))
}

/// The change of a metric, such as `+12 points [+3, +21]`.
fn amount(metric: &MetricResult) -> String {
    let base = metric.baseline.abs();
    if metric.metric.is_gain() {
        return format!(
            "{}{}",
            points(metric.difference, true),
            ends(metric.interval, 100.0)
        );
    }
    if base > 0.0 {
        let share = signed(100.0 * metric.difference / base);
        return format!("{share} %{}", ends(metric.interval, 100.0 / base));
    }
    let unit = |value: f64| crate::gate::signed(metric.metric, value);
    let ends = metric.interval.map_or(String::new(), |_| {
        format!(" {}", figures::interval(metric.interval, unit))
    });
    format!("{}{ends}", unit(metric.difference))
}

pub(super) fn points(share: f64, has_sign: bool) -> String {
    let value = 100.0 * share;
    let text = signed(value);
    let text = if has_sign {
        &text
    } else {
        text.trim_start_matches('+')
    };
    let is_one = rounded(value).trim_end_matches(".0") == "1";
    format!("{text} point{}", if is_one { "" } else { "s" })
}

pub(super) fn ends(interval: Option<Interval>, unit: f64) -> String {
    interval.map_or(String::new(), |it| {
        format!(" [{}, {}]", signed(it.low * unit), signed(it.high * unit))
    })
}

/// Whole numbers; small ones have one decimal, so that they are not 0.
fn rounded(value: f64) -> String {
    let size = value.abs();
    if (0.05..0.95).contains(&size) {
        format!("{size:.1}")
    } else {
        format!("{size:.0}")
    }
}

pub(super) fn signed(value: f64) -> String {
    let text = rounded(value);
    let sign = if value < 0.0 && text != "0" {
        "−"
    } else {
        "+"
    };
    format!("{sign}{text}")
}

fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::Better => "better",
        Decision::Worse => "worse",
        Decision::Equivalent => "equivalent",
        Decision::NotWorse => "not worse",
        Decision::Undecided => "undecided",
    }
}

impl ExperimentResult {
    /// The text for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.sentence);
        if !self.metrics.is_empty() {
            text.push_str(&columns(&self.rows(), &[]));
            text.push('\n');
        }
        for line in self.lines() {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// A row of words for each metric.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        self.metrics.iter().map(row).collect()
    }

    /// The evidence besides the metrics, one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut passed_by = |name: &str, tasks: &[String]| {
            if !tasks.is_empty() {
                lines.push(format!("Passed only by {name}: {}.", tasks.join(", ")));
            }
        };
        passed_by(&self.candidate, &self.flipped.gained);
        passed_by(&self.baseline, &self.flipped.lost);
        if let Some(it) = self.variance {
            let share = |value: f64| format!("{:.0} %", 100.0 * value);
            let luck = it.baseline_luck + it.candidate_luck;
            let (tasks, luck) = (share(it.tasks), share(luck));
            lines.push(format!("Variance: {tasks} tasks differ, {luck} luck."));
        }
        lines.extend(self.cost_line());
        for metric in &self.unknown {
            let name = metric.as_str();
            lines.push(format!("{name}: not available on both sides for any task."));
        }
        lines.extend(self.delivery.iter().map(delivered));
        lines.extend(self.stage_line());
        lines.extend(self.registration_line());
        lines.extend(self.notes.iter().map(|note| format!("{note}.")));
        lines
    }

    fn cost_line(&self) -> Option<String> {
        let (one, other) = (
            self.cost_per_solved.baseline?,
            self.cost_per_solved.candidate?,
        );
        let figure = |it: CostPerSolved| {
            let ends = it.interval.map_or(String::new(), |_| {
                format!(" {}", figures::interval(it.interval, dollars))
            });
            format!("{}{ends}", dollars(it.mean))
        };
        let recommended = self.cost_per_solved.recommended.as_ref();
        let recommended = recommended.map_or(String::new(), |name| {
            format!("; {name} is the cheapest of those not shown to be worse")
        });
        Some(format!(
            "Cost per solved task: {} {}, {} {}{recommended}.",
            self.baseline,
            figure(one),
            self.candidate,
            figure(other)
        ))
    }

    fn registration_line(&self) -> Option<String> {
        let registration = self.registration.as_ref()?;
        let digest = registration.digest.get(..12).unwrap_or_default();
        let deviations = registration.deviations.join("; ");
        Some(if deviations.is_empty() {
            format!("As planned before the first trial (plan {digest}).")
        } else {
            format!("Not as planned before the first trial (plan {digest}): {deviations}.")
        })
    }

    fn stage_line(&self) -> Option<String> {
        let stage = self.stage.filter(|it| it.of > 1 || !it.can_decide)?;
        let reason = match stage.step {
            Step::Continue => "continues",
            Step::StopForEffect => "stopped because there is a difference",
            Step::StopForMargin => "stopped because the difference is within the margin",
            Step::StopForFutility => "stopped because a significant difference is unlikely",
            Step::Complete => "complete",
        };
        let unused = match stage.unused_trials {
            0 => String::new(),
            unused => format!("; {} not used", counted(unused, "later trial")),
        };
        let cannot = if stage.can_decide {
            ""
        } else {
            "; this size cannot show any difference"
        };
        Some(format!(
            "Analysis {} of {}, significant at p ≤ {:.4}: {reason}{unused}{cannot}.",
            stage.analysis, stage.of, stage.level
        ))
    }
}

/// The delivery of a part of a treatment in one line.
fn delivered(part: &DeliverySummary) -> String {
    let digest = part.digest.as_ref().and_then(|it| it.get(..12));
    let digest = digest.map_or(String::new(), |it| format!(" {it}"));
    let name = format!(
        "{} {} of {}{digest}",
        part.kind.as_str(),
        part.name,
        part.agent
    );
    let reached = match part.state {
        DeliveryState::Delivered => "Delivered",
        DeliveryState::NotDelivered => "NOT delivered",
        DeliveryState::Unknown => {
            return format!("Delivery unknown: {name}; only the gateway sees all requests.");
        }
    };
    let used = part
        .used
        .map_or(String::new(), |used| format!(", used in {used}"));
    format!(
        "{reached}: {name} reached the model in {} of {}{used}.",
        part.delivered,
        counted(part.known, "trial")
    )
}

fn row(metric: &MetricResult) -> Vec<String> {
    vec![
        metric.metric.as_str().to_owned(),
        amount(metric),
        decision(metric.decision).to_owned(),
        format!("p {}", figures::p_value(metric.p_value)),
        format!(
            "{}, {}+{} trials",
            counted(metric.tasks, "task"),
            metric.baseline_trials,
            metric.candidate_trials
        ),
    ]
}
