//! Rules such as `score<-0.05` or `cost>+20%`, which fail a build if an agent got worse. A rule
//! fails only if the change is significant; with too few trials it is undecided.

use proctor_record::text::counted;
use serde::Serialize;

use super::{
    compare::{Change, Metric, Versus},
    figures::{dollars, millis},
};
use crate::stats::{Level, holm};

/// A rule that a change may break.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// The text of the rule.
    pub text: String,
    /// The metric.
    pub metric: Metric,
    /// The maximum change, with its sign.
    pub limit: Limit,
}

/// The maximum change of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// In its own unit: dollars, seconds, tokens, or a fraction of 1.
    Absolute(f64),
    /// Relative to the baseline.
    Relative(f64),
}

/// A rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid rule `{text}`: {why}")]
pub struct RuleError {
    /// The text of the rule.
    pub text: String,
    /// The error.
    pub why: &'static str,
}

impl std::str::FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let fails = |why| RuleError {
            text: text.to_owned(),
            why,
        };
        let place = text.find(['<', '>']);
        let place = place.ok_or_else(|| fails("expected < or >, such as score<-0.05"))?;
        let name = text[..place].trim();
        let metric = Metric::ALL.into_iter().find(|it| it.as_str() == name);
        let metric = metric
            .ok_or_else(|| fails("the metric must be score, passed, cost, time or tokens"))?;
        let number = text[place + 1..].trim();
        let (number, is_share) = match number.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (number, false),
        };
        let value: Option<f64> = number.parse().ok().filter(|it: &f64| it.is_finite());
        let value = value.ok_or_else(|| fails("expected a number or a percentage after < or >"))?;
        let is_fall = text[place..].starts_with('<');
        // `score<0.1` would require an improvement, which does not protect against a loss.
        let is_sound = if is_fall { value <= 0.0 } else { value >= 0.0 };
        if !is_sound || number.starts_with('+') && is_fall {
            return Err(fails("< requires a negative number, > a positive one"));
        }
        let value = if is_fall { -value.abs() } else { value };
        Ok(Rule {
            text: text.to_owned(),
            metric,
            limit: if is_share {
                Limit::Relative(value / 100.0)
            } else {
                Limit::Absolute(value)
            },
        })
    }
}

impl Rule {
    fn is_fall(&self) -> bool {
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
pub fn gate(rules: &[Rule], comparisons: &[Versus], level: Level) -> Vec<Ruled> {
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
    rule: &'a Rule,
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
            format!("{seen}: too few trials to decide whether it is beyond {limit}{found}")
        }
    }
}

/// A change of a metric, with its sign.
pub(super) fn signed(metric: Metric, value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    let size = value.abs();
    let text = match metric {
        Metric::Score | Metric::Passed => format!("{size:.3}"),
        Metric::Cost => dollars(size),
        Metric::Time => millis(size * 1000.0),
        Metric::Tokens => super::figures::count(size),
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_parsed_and_useless_ones_refused() {
        let rule: Rule = "cost>+20%".parse().unwrap();
        assert_eq!(
            (rule.metric, rule.limit),
            (Metric::Cost, Limit::Relative(0.2))
        );
        let rule: Rule = "score < -0.05".parse().unwrap();
        assert_eq!(
            (rule.metric, rule.limit),
            (Metric::Score, Limit::Absolute(-0.05))
        );
        let rule: Rule = "score<0".parse().unwrap();
        assert!(rule.is_fall());
        for text in [
            "score",
            "price>1",
            "score<0.1",
            "cost>-1",
            "cost>x",
            "score<NaN",
            "cost<+0",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }
}
