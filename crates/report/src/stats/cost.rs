//! Cost per solved task, and the cheapest agent among those that are not worse.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    bootstrap::Resampling,
    interval::{Interval, Level, quantile},
    paired::Significance,
};

/// The total cost of a task's trials, and the number of solved ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskCost {
    /// Dollars.
    pub cost: f64,
    /// The number of passed trials.
    pub solved: f64,
}

/// Dollars for each passed trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostPerSolved {
    /// The total cost divided by the number of passed trials.
    pub mean: f64,
    /// The confidence interval, by resampling tasks; null for fewer than two tasks, and if none of
    /// a resampled set of tasks may be solved.
    pub interval: Option<Interval>,
}

/// The cost of a solved task; trials that fail count, too. `None` without a solved task.
pub fn cost_per_solved(
    tasks: &[TaskCost],
    level: Level,
    resampling: Resampling,
) -> Option<CostPerSolved> {
    let ratio = |cost: f64, solved: f64| (solved > 0.0).then(|| cost / solved);
    let sum = |of: fn(&TaskCost) -> f64| tasks.iter().map(of).sum::<f64>();
    let mean = ratio(sum(|it| it.cost), sum(|it| it.solved))?;
    let mut draws = resampling.draws();
    let mut draw = || {
        let (mut cost, mut solved) = (0.0, 0.0);
        for _ in tasks {
            let task = tasks[draws.below(tasks.len())];
            cost += task.cost;
            solved += task.solved;
        }
        ratio(cost, solved).unwrap_or(f64::INFINITY)
    };
    let mut ratios: Vec<f64> = (0..resampling.count()).map(|_| draw()).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let tail = level.alpha() / 2.0;
    let interval = Interval {
        low: quantile(&ratios, tail),
        high: quantile(&ratios, 1.0 - tail),
    };
    let is_known = tasks.len() > 1 && interval.high.is_finite();
    Some(CostPerSolved {
        mean,
        interval: is_known.then_some(interval),
    })
}

/// An agent to recommend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PricedAgent<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its score, compared with that of the agent with the best mean; `NotApart` for that agent.
    pub against_best: Significance,
    /// The cost of a solved task; `None` if it is unknown.
    pub cost_per_solved: Option<f64>,
}

/// The cheapest agent among those not shown to be worse than the best one. `None` if the cost of
/// one of these is unknown.
pub fn recommend<'a>(agents: &[PricedAgent<'a>]) -> Option<&'a str> {
    let good = agents
        .iter()
        .filter(|it| it.against_best != Significance::Lower);
    let priced: Option<Vec<(f64, &str)>> = good
        .map(|it| Some((it.cost_per_solved?, it.name)))
        .collect();
    let cheapest = priced?
        .into_iter()
        .min_by(|one, other| one.0.total_cmp(&other.0));
    cheapest.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Seed;

    fn resampling() -> Resampling {
        Resampling::seeded(Seed(1)).times(1_999)
    }

    #[test]
    fn failed_trials_are_part_of_the_price() {
        let task = |cost: f64, solved: f64| TaskCost { cost, solved };
        let tasks = [
            task(1.0, 1.0),
            task(2.0, 0.0),
            task(1.5, 1.0),
            task(0.5, 1.0),
        ];
        let found = cost_per_solved(&tasks, Level::P95, resampling()).unwrap();
        assert!((found.mean - 5.0 / 3.0).abs() < 1e-12);
        let none = [task(1.0, 0.0), task(2.0, 0.0)];
        assert_eq!(cost_per_solved(&none, Level::P95, resampling()), None);
        let one = cost_per_solved(&tasks[..1], Level::P95, resampling()).unwrap();
        assert_eq!(one.interval, None);
        let many: Vec<TaskCost> = (0..40).map(|it| task(1.0, f64::from(it % 2))).collect();
        let found = cost_per_solved(&many, Level::P95, resampling()).unwrap();
        let interval = found.interval.unwrap();
        assert!(interval.low > 1.3 && interval.low < 1.7, "{interval:?}");
        assert!(interval.high > 2.5 && interval.high < 3.5, "{interval:?}");
    }

    #[test]
    fn cheapest_agent_that_is_not_worse_is_recommended() {
        let agent = |name, against_best, cost_per_solved| PricedAgent {
            name,
            against_best,
            cost_per_solved,
        };
        let best = agent("best", Significance::NotApart, Some(3.0));
        let alike = agent("alike", Significance::TooFew, Some(1.0));
        let worse = agent("worse", Significance::Lower, Some(0.1));
        let unpriced = agent("unpriced", Significance::NotApart, None);
        assert_eq!(recommend(&[best, alike, worse]), Some("alike"));
        assert_eq!(recommend(&[best, worse]), Some("best"));
        assert_eq!(recommend(&[best, alike, unpriced]), None);
        assert_eq!(recommend(&[]), None);
    }
}
