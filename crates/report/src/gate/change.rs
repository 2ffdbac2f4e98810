//! Decides about limits of changes against a baseline. A rule fails only if the change is
//! significant; with too few trials it is undecided.

use proctor_record::text::counted;
use serde::Serialize;

use super::rule::{ChangeRule, Limit};
use crate::{
    compare::{Change, Metric, Versus},
    figures::{self, dollars, millis},
    stats::{Level, Needed, fewest_more, holm},
};

/// The fewest tasks that can give a significant result.
const FEWEST_TASKS: usize = 6;

impl ChangeRule {
    pub(super) fn is_fall(&self) -> bool {
        let (Limit::Absolute(limit) | Limit::Relative(limit)) = self.limit;
        limit.is_sign_negative()
    }

    /// The limit in the metric's own unit; `None` if it is relative to 0.
    fn limit(&self, change: &Change) -> Option<f64> {
        match self.limit {
            Limit::Absolute(limit) => Some(limit),
            Limit::Relative(share) => {
                let baseline = change.baseline.abs();
                (baseline > 0.0).then_some(share * baseline)
            }
        }
    }
}

/// The result of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// The change is significantly within the limit.
    Holds,
    /// There are too few trials.
    Undecided,
    /// There is nothing to compare: no shared task has this metric on both sides.
    Nothing,
    /// The change is significantly beyond the limit.
    Broken,
}

/// A rule, applied to a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ruled {
    /// The rule.
    pub rule: String,
    /// The compared agents.
    pub candidate: String,
    /// The result.
    pub ruling: Ruling,
    /// The reason, in one sentence.
    pub message: String,
}

/// Applies rules to comparisons. Significance is corrected over all of them (Holm): many rules and
/// many agents raise no more false alarms than one.
pub fn gate(rules: &[ChangeRule], comparisons: &[Versus], level: Level) -> Vec<Ruled> {
    let mut cases: Vec<Case> = Vec::new();
    for versus in comparisons {
        for rule in rules {
            let mut changes = versus.changes.iter();
            let change = changes.find(|change| change.metric == rule.metric);
            cases.push(Case {
                rule,
                versus,
                change,
            });
        }
    }
    let tested: Vec<f64> = cases
        .iter()
        .filter_map(|it| Some(it.change?.p_value))
        .collect();
    let mut adjusted = holm(&tested).into_iter();
    let applied = cases.iter().map(|case| {
        let p_value = case.change.and_then(|_| adjusted.next());
        case.ruled(p_value, level)
    });
    applied.collect()
}

struct Case<'a> {
    rule: &'a ChangeRule,
    versus: &'a Versus,
    change: Option<&'a Change>,
}

impl Case<'_> {
    fn ruled(&self, p_value: Option<f64>, level: Level) -> Ruled {
        let measured = self.change.zip(p_value);
        let measured = measured.and_then(|(change, p)| Some((change, p, self.rule.limit(change)?)));
        let (ruling, message) = match measured {
            Some((change, p_value, limit)) => {
                let ruling = self.rule_on(change, limit, p_value, level);
                (ruling, sentence(change, limit, p_value, ruling))
            }
            None => (
                Ruling::Nothing,
                format!("no task has a {} on both sides", self.rule.metric.as_str()),
            ),
        };
        Ruled {
            rule: self.rule.text.clone(),
            candidate: self.versus.candidate.clone(),
            ruling,
            message,
        }
    }

    fn rule_on(&self, change: &Change, limit: f64, p_value: f64, level: Level) -> Ruling {
        let is_fall = self.rule.is_fall();
        let beyond = |value: f64| {
            if is_fall {
                value < limit
            } else {
                value > limit
            }
        };
        let reaches_zero = change.interval.is_some_and(|it| it.contains(0.0));
        if p_value <= level.alpha() && !reaches_zero && beyond(change.difference) {
            return Ruling::Broken;
        }
        let worst = change
            .interval
            .map(|it| if is_fall { it.low } else { it.high });
        let is_same = change.difference == 0.0 && change.smallest_p <= level.alpha();
        match worst {
            Some(worst) if !beyond(worst) => Ruling::Holds,
            // None of a sufficient number of tasks changed.
            None if is_same => Ruling::Holds,
            _ => Ruling::Undecided,
        }
    }
}

fn sentence(change: &Change, limit: f64, p_value: f64, ruling: Ruling) -> String {
    let unit = |value: f64| signed(change.metric, value);
    let ends = change.interval.map_or(String::new(), |it| {
        format!(" [{}, {}]", unit(it.low), unit(it.high))
    });
    let name = change.metric.as_str();
    let seen = format!(
        "{name} changed by {}{ends} on {} (p = {p_value:.3})",
        unit(change.difference),
        counted(change.tasks, "task")
    );
    let limit_value = limit;
    let limit = unit(limit);
    match ruling {
        Ruling::Broken => format!("{seen}, beyond {limit}"),
        Ruling::Holds => format!("{seen}, within {limit}"),
        Ruling::Nothing => seen,
        Ruling::Undecided => {
            let found = change.power.and_then(|power| power.detectable);
            let found = found.map_or(String::new(), |it| {
                format!(
                    "; this sample can detect changes from {} on",
                    unit(it.abs()).trim_start_matches('+')
                )
            });
            let needed = figures::would_decide(tasks_to_decide(change, limit_value), "task");
            format!(
                "{seen}: too few trials to decide whether it is beyond {limit}{found}; {needed}"
            )
        }
    }
}

/// The number of further tasks until the interval is on one side of 0 or of the limit, if change and
/// spread stay the same.
fn tasks_to_decide(change: &Change, limit: f64) -> Needed {
    let is_beyond = (change.difference - limit) * limit.signum() > 0.0;
    let target = if is_beyond { 0.0 } else { limit };
    let distance = (change.difference - target).abs();
    let half = change.interval.map_or(0.0, |it| it.width() / 2.0);
    fewest_more(change.tasks.max(1), |tasks| {
        let shrunk = half * (change.tasks as f64 / tasks as f64).sqrt();
        tasks >= FEWEST_TASKS && shrunk < distance
    })
}

/// A change of a metric, with its sign.
pub(crate) fn signed(metric: Metric, value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    let size = value.abs();
    let text = match metric {
        Metric::Score | Metric::Passed => format!("{size:.3}"),
        Metric::Cost => dollars(size),
        Metric::Time => millis(size * 1000.0),
        Metric::Tokens => figures::count(size),
    };
    format!("{sign}{text}")
}
