//! The result of several answers: the median of each criterion, their disagreement, and their
//! usage.

use proctor_record::{record::VerdictStatus, usage::Usage};
use serde_json::{Map, Value, json};

use super::{
    answer::{Answer, Answered},
    criteria::Criterion,
    settings::{JudgeSettings, Rule},
};

/// One criterion over all answers.
struct Row<'a> {
    criterion: &'a Criterion,
    /// The scores of all answers, relative to the scale.
    shares: Vec<f64>,
    median: f64,
    /// The answer nearest to the median.
    typical: Option<&'a Answered>,
}

/// All answers together.
pub(super) struct Tally<'a> {
    rule: Rule,
    threshold: f64,
    rows: Vec<Row<'a>>,
}

impl<'a> Tally<'a> {
    /// Combines valid answers.
    pub(super) fn of(settings: &'a JudgeSettings, answers: &'a [Answer]) -> Tally<'a> {
        let row = |criterion: &'a Criterion| {
            let shares: Vec<f64> = answers.iter().map(|one| one.share(criterion)).collect();
            let median = median(&shares);
            let distance = |one: &&Answered| (criterion.share(one.score) - median).abs();
            let all = answers.iter().flat_map(|answer| &answer.criteria);
            let typical = all
                .filter(|one| one.id == criterion.id)
                .min_by(|one, other| distance(one).total_cmp(&distance(other)));
            Row {
                criterion,
                shares,
                median,
                typical,
            }
        };
        Tally {
            rule: settings.rule,
            threshold: settings.threshold,
            rows: settings.criteria.iter().map(row).collect(),
        }
    }

    /// The weighted mean of the medians.
    pub(super) fn score(&self) -> f64 {
        let weights: f64 = self.rows.iter().map(|row| row.criterion.weight).sum();
        let sum: f64 = self
            .rows
            .iter()
            .map(|row| row.criterion.weight * row.median)
            .sum();
        sum / weights
    }

    pub(super) fn passes(&self) -> bool {
        match self.rule {
            Rule::Every => self.rows.iter().all(|row| self.holds(row)),
            Rule::Mean => self.score() >= self.threshold,
        }
    }

    fn holds(&self, row: &Row<'_>) -> bool {
        row.median >= self.threshold
    }

    pub(super) fn status(&self) -> VerdictStatus {
        if self.passes() {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        }
    }

    /// The maximum difference between answers.
    fn disagreement(&self) -> f64 {
        self.rows.iter().map(Row::spread).fold(0.0, f64::max)
    }

    pub(super) fn message(&self) -> String {
        let held = self.rows.iter().filter(|row| self.holds(row)).count();
        let mut message = format!(
            "score {:.2}, {held} of {} criteria reach {}",
            self.score(),
            self.rows.len(),
            self.threshold
        );
        let missed: Vec<String> = self
            .rows
            .iter()
            .filter(|row| !self.holds(row))
            .map(|row| {
                let reason = row.typical.map_or("", |one| one.reason.trim());
                match reason {
                    "" => row.criterion.id.clone(),
                    reason => format!("{}: {reason}", row.criterion.id),
                }
            })
            .collect();
        if !missed.is_empty() {
            message = format!("{message} (not {})", missed.join("; "));
        }
        let samples = self.rows.first().map_or(0, |row| row.shares.len());
        if samples > 1 {
            let apart = self.disagreement();
            message = format!("{message}; {samples} answers, up to {apart:.2} apart");
        }
        message
    }

    pub(super) fn metrics(&self) -> Map<String, Value> {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "id": row.criterion.id,
                    "weight": row.criterion.weight,
                    "score": row.median,
                    "passed": self.holds(row),
                    "samples": row.shares,
                    "disagreement": row.spread(),
                    "evidence": row.typical.map(|one| &one.evidence),
                    "reason": row.typical.map(|one| &one.reason),
                })
            })
            .collect();
        Map::from_iter([
            ("score".to_owned(), json!(self.score())),
            ("threshold".to_owned(), json!(self.threshold)),
            ("disagreement".to_owned(), json!(self.disagreement())),
            ("criteria".to_owned(), json!(rows)),
        ])
    }
}

impl Row<'_> {
    fn spread(&self) -> f64 {
        let most = self.shares.iter().copied().fold(f64::MIN, f64::max);
        let least = self.shares.iter().copied().fold(f64::MAX, f64::min);
        most - least
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(middle)) {
        (1, Some(value)) => *value,
        (_, Some(value)) => f64::midpoint(sorted[middle - 1], *value),
        _ => 0.0,
    }
}

/// The usage of the judge. It is never part of the usage of the agent.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// The number of cached answers.
    pub(super) kept: u32,
    asked: u32,
    /// The number of questions with unknown cost.
    unpriced: u32,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    nanos: i64,
}

impl Spent {
    /// Adds one question.
    pub(super) fn add(&mut self, usage: Option<&Usage>) {
        self.asked += 1;
        let total = usage.map(|usage| &usage.total);
        for (sum, tokens) in [
            (
                &mut self.input_tokens,
                total.and_then(|total| total.input_tokens),
            ),
            (
                &mut self.output_tokens,
                total.and_then(|total| total.output_tokens),
            ),
        ] {
            if let Some(tokens) = tokens {
                *sum = Some(sum.unwrap_or(0).saturating_add(tokens));
            }
        }
        match total.and_then(|total| total.cost_usd) {
            Some(cost) => self.nanos = self.nanos.saturating_add(cost.nanos()),
            None => self.unpriced += 1,
        }
    }

    /// The figures for the verdict. The cost is null unless the cost of every question is known.
    pub(super) fn metrics(&self) -> Value {
        let cost = (self.unpriced == 0).then(|| self.nanos as f64 / 1e9);
        json!({
            "asked": self.asked,
            "cached": self.kept,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": cost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle_two() {
        for (values, expect) in [
            (&[0.0, 1.0, 0.2][..], 0.2),
            (&[1.0, 0.0][..], 0.5),
            (&[0.3][..], 0.3),
        ] {
            assert!((median(values) - expect).abs() < 1e-9, "{values:?}");
        }
    }
}
