//! Decides about absolute limits of an agent's figures, by their confidence intervals.

use proctor_record::text::counted;

use super::{
    change::Ruling,
    rule::{Bound, LevelRule},
};
use crate::{
    compare::Metric,
    figures,
    model::{
        agent::{Figure, Row},
        report::Basis,
    },
    stats::{Interval, Needed, Unit, mean, more_to_exclude, pass_rate, share_interval},
};

/// A figure of an agent.
struct Estimate {
    value: f64,
    /// `None` for a single unit.
    interval: Option<Interval>,
    trials: usize,
    tasks: usize,
    unit: Unit,
    /// The further units that would decide.
    needed: Needed,
}

/// The ruling on one agent, with its reason; `None` if the agent has no such figure.
pub(super) fn rule_on(rule: &LevelRule, row: &Row, basis: Basis) -> Option<(Ruling, String)> {
    let estimate = estimate(rule, row, basis)?;
    let mut ruling = ruling(rule, estimate.interval);
    let mut message = sentence(rule, &estimate, ruling);
    let counts_usage = matches!(rule.metric, Metric::Cost | Metric::Tokens);
    let lower = row.trials.iter().filter(|it| it.is_lower_bound).count();
    if counts_usage && lower > 0 && ruling == Ruling::Holds {
        // The true figure may be beyond the limit.
        ruling = Ruling::Undecided;
        let lower = counted(lower, "interrupted trial");
        message = format!("{message}, but {lower} used an unknown amount more");
    }
    Some((ruling, message))
}

fn estimate(rule: &LevelRule, row: &Row, basis: Basis) -> Option<Estimate> {
    if rule.metric == Metric::Passed {
        let rate = pass_rate(&row.passes, basis.level)?;
        return Some(Estimate {
            value: rate.rate,
            interval: rate.interval,
            trials: usize::try_from(rate.tally.trials()).unwrap_or(usize::MAX),
            tasks: rate.tasks,
            unit: rate.unit,
            needed: more_to_exclude(&row.passes, rule.limit, basis.level)?,
        });
    }
    let values = row.values(|trial| rule.metric.of(trial));
    let figure = Figure::of(&values, basis)?;
    let units = match figure.unit {
        Unit::Task => figure.tasks,
        Unit::Trial => figure.trials,
    };
    let each = if values.tasks() == 1 {
        values.clone()
    } else {
        values.by_task()
    };
    let spread = mean(&each, basis.level)?;
    let constant = || match rule.metric {
        Metric::Score | Metric::Passed => share_interval(figure.mean, units, basis.level),
        // Equal amounts in all units are taken as they are: there is nothing to infer.
        Metric::Cost | Metric::Time | Metric::Tokens => (units >= 2).then_some(Interval {
            low: figure.mean,
            high: figure.mean,
        }),
    };
    Some(Estimate {
        value: figure.mean,
        interval: figure.interval.or_else(constant),
        trials: figure.trials,
        tasks: figure.tasks,
        unit: figure.unit,
        needed: spread.more_to_exclude(units, rule.limit, basis.level),
    })
}

/// The ruling on a figure: the whole interval must be on one side of the limit.
fn ruling(rule: &LevelRule, interval: Option<Interval>) -> Ruling {
    let Some(Interval { low, high }) = interval else {
        return Ruling::Undecided;
    };
    let (is_within, is_beyond) = match rule.bound {
        Bound::AtLeast => (low >= rule.limit, high < rule.limit),
        Bound::AtMost => (high <= rule.limit, low > rule.limit),
    };
    match (is_within, is_beyond) {
        (true, _) => Ruling::Holds,
        (_, true) => Ruling::Broken,
        _ => Ruling::Undecided,
    }
}

fn sentence(rule: &LevelRule, estimate: &Estimate, ruling: Ruling) -> String {
    let unit = |value: f64| amount(rule.metric, value);
    let seen = format!(
        "{} is {} {} in {} on {}",
        rule.metric.as_str(),
        unit(estimate.value),
        figures::interval(estimate.interval, unit),
        counted(estimate.trials, "trial"),
        counted(estimate.tasks, "task"),
    );
    let noun = match estimate.unit {
        Unit::Task => "task",
        Unit::Trial => "trial",
    };
    match ruling {
        Ruling::Undecided => {
            let needed = figures::would_decide(estimate.needed, noun);
            format!("{seen}: too few {noun}s to decide; {needed}")
        }
        _ => seen,
    }
}

fn amount(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Passed => format!("{:.0} %", value * 100.0),
        Metric::Score => format!("{value:.3}"),
        Metric::Cost => figures::dollars(value),
        Metric::Time => figures::millis(value * 1000.0),
        Metric::Tokens => figures::count(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_is_decided_if_its_interval_is_on_one_side() {
        let at_least = LevelRule {
            metric: Metric::Passed,
            bound: Bound::AtLeast,
            limit: 0.8,
        };
        let at_most = LevelRule {
            metric: Metric::Cost,
            bound: Bound::AtMost,
            limit: 0.8,
        };
        let between = |low, high| Some(Interval { low, high });
        let table = [
            (at_least, between(0.8, 0.9), Ruling::Holds),
            (at_least, between(0.7, 0.9), Ruling::Undecided),
            (at_least, between(0.7, 0.8), Ruling::Undecided),
            (at_least, between(0.1, 0.79), Ruling::Broken),
            (at_least, None, Ruling::Undecided),
            (at_most, between(0.1, 0.8), Ruling::Holds),
            (at_most, between(0.8, 0.8), Ruling::Holds),
            (at_most, between(0.1, 0.9), Ruling::Undecided),
            (at_most, between(0.81, 0.9), Ruling::Broken),
            (at_most, None, Ruling::Undecided),
        ];
        for (rule, interval, expect) in table {
            assert_eq!(ruling(&rule, interval), expect, "{rule:?} {interval:?}");
        }
    }
}
