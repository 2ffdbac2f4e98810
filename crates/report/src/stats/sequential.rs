//! Group-sequential designs: when an experiment is analysed, and at which level, is fixed before
//! its first trial. Lan–DeMets spending of the O'Brien–Fleming type, with non-binding futility.

use proctor_record::shuffle::Shuffle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    equivalence::{AnalysisLevels, Decided, Decision, Margins, decide},
    interval::{Level, normal_quantile, normal_share},
    pair_test::{PairSample, Scope},
    paired::Significance,
    signs,
    within::smallest_of,
};

/// The most interim and final analyses of an experiment.
const LOOKS: usize = 4;
/// Futility: the conditional power below which an experiment stops.
const FUTILE: f64 = 0.05;
/// The fraction of the units from which on an experiment can stop for futility.
const FUTILE_FROM: f64 = 0.5;

/// The unit in which results are added between two analyses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LookUnit {
    /// Tasks with all their trials, in the order of the schedule.
    Task,
    /// Rounds of one trial of every task.
    Round,
}

/// An interim analysis, or the final one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Look {
    /// The number of complete units.
    pub units: usize,
    /// The fraction of all units.
    pub fraction: f64,
    /// The p-value that is significant at this analysis.
    pub level: f64,
    /// The same for both tests of a margin together.
    pub margin_level: f64,
}

impl Look {
    /// The levels of this analysis.
    pub fn levels(&self) -> Option<AnalysisLevels> {
        let difference = Level::new(1.0 - self.level)?;
        Some(AnalysisLevels {
            difference,
            margin: Level::new(1.0 - self.margin_level).unwrap_or(difference),
        })
    }
}

/// The analyses of an experiment. It is part of the plan, and a resumed run keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// The seed of the order of tasks, and of tests.
    pub seed: u64,
    /// The tasks, in the order in which they are run.
    pub tasks: Vec<String>,
    /// The number of trials of each task and agent.
    pub trials: usize,
    /// The unit of `looks`.
    pub unit: LookUnit,
    /// The scope of the conclusion.
    pub scope: Scope,
    /// Whether trials after the first round go to tasks with varying results.
    pub adaptive: bool,
    /// The analyses, the final one last.
    pub looks: Vec<Look>,
    /// The margins of practical importance.
    pub margins: Margins,
}

/// The settings of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduleOptions {
    /// The level of the whole experiment.
    pub level: Level,
    /// The seed.
    pub seed: u64,
    /// Whether to allocate trials by their variance; has an effect on rounds only.
    pub adaptive: bool,
    /// The margins of practical importance.
    pub margins: Margins,
    /// Whether to stop early. Otherwise, the final analysis is the only one.
    pub stops_early: bool,
}

impl Default for ScheduleOptions {
    fn default() -> ScheduleOptions {
        ScheduleOptions {
            level: Level::P95,
            seed: 1,
            adaptive: false,
            margins: Margins::default(),
            stops_early: true,
        }
    }
}

/// The consequence of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// More units are needed.
    Continue,
    /// Stop: there is a difference.
    StopForEffect,
    /// Stop: the difference is within a margin.
    StopForMargin,
    /// Stop: a significant difference is unlikely with the remaining units.
    StopForFutility,
    /// All units are complete.
    Complete,
}

impl Schedule {
    /// The schedule for these tasks and this number of trials of each.
    pub fn new(tasks: &[String], trials: usize, options: ScheduleOptions) -> Schedule {
        let mut tasks = tasks.to_vec();
        tasks.sort_unstable();
        Shuffle::new(options.seed).apply(&mut tasks);
        let scope = Scope::of_experiment(tasks.len(), trials, options.level);
        let (unit, units) = match scope {
            Scope::ExactlyTheseTasks if trials > 1 => (LookUnit::Round, trials),
            _ => (LookUnit::Task, tasks.len()),
        };
        let looks = looks(units.max(1), options);
        Schedule {
            seed: options.seed,
            scope,
            trials,
            unit,
            adaptive: options.adaptive && unit == LookUnit::Round,
            looks,
            margins: options.margins,
            tasks,
        }
    }

    /// Whether any result of the final analysis is significant.
    pub fn can_decide(&self) -> bool {
        let smallest = match self.scope {
            Scope::TasksLikeThese => signs::smallest(self.tasks.len()),
            Scope::ExactlyTheseTasks => smallest_of(self.tasks.len(), self.trials),
        };
        self.looks.last().is_some_and(|it| smallest <= it.level)
    }

    /// The number of tasks and of rounds that are complete at a look.
    pub fn size(&self, look: usize) -> (usize, usize) {
        let units = self.looks.get(look).map_or(0, |it| it.units);
        match self.unit {
            LookUnit::Task => (units, self.trials),
            LookUnit::Round => (self.tasks.len(), units),
        }
    }

    /// Analyses the units of a look. The same sample gives the same result, however often and
    /// whenever it is analysed. `None` for an unknown look, and without enough shared tasks.
    pub fn analyse(&self, look: usize, sample: &PairSample) -> Option<(Decided, Step)> {
        let now = self.looks.get(look)?;
        let decided = decide(sample, now.levels()?, self.margins, true)?;
        let is_last = look + 1 == self.looks.len();
        let is_apart = matches!(
            decided.test.significance,
            Significance::Higher | Significance::Lower
        );
        let step = match decided.decision {
            Decision::Equivalent | Decision::NotWorse => Step::StopForMargin,
            Decision::Better | Decision::Worse if is_apart => Step::StopForEffect,
            _ if is_last => Step::Complete,
            _ if self.is_futile(now, decided.test.p_value) => Step::StopForFutility,
            _ => Step::Continue,
        };
        Some((decided, step))
    }

    /// Whether a significant difference is unlikely. Not used with margins: a small difference
    /// becomes equivalence later.
    fn is_futile(&self, now: &Look, p_value: f64) -> bool {
        let last = self.looks.last().map_or(1.0, |it| it.level);
        self.margins.is_empty()
            && now.fraction >= FUTILE_FROM - 1e-9
            && conditional_power(p_value, now.fraction, last) < FUTILE
    }
}

/// The looks at quarters of the units, or at every unit if there are fewer than four.
fn looks(units: usize, options: ScheduleOptions) -> Vec<Look> {
    let number = if options.stops_early {
        LOOKS.min(units)
    } else {
        1
    };
    let at = |look: usize| (units * look).div_ceil(number);
    let units_of: Vec<usize> = (1..=number).map(at).collect();
    let fractions: Vec<f64> = units_of
        .iter()
        .map(|it| *it as f64 / units as f64)
        .collect();
    let alpha = options.level.alpha();
    let levels = spending_levels(&fractions, alpha);
    let margin_levels = spending_levels(&fractions, 2.0 * alpha);
    let all = units_of.iter().zip(&fractions);
    let all = all.zip(levels.iter().zip(&margin_levels));
    all.map(|((units, fraction), (level, margin_level))| Look {
        units: *units,
        fraction: *fraction,
        level: *level,
        margin_level: *margin_level,
    })
    .collect()
}

/// The probability of significance at the end if the observed trend is the truth. `p_value` is
/// two-sided, `fraction` is that of the information.
fn conditional_power(p_value: f64, fraction: f64, last: f64) -> f64 {
    let z = normal_quantile(1.0 - p_value.clamp(1e-12, 1.0) / 2.0);
    let end = normal_quantile(1.0 - last / 2.0);
    let trend = z / fraction.sqrt() * (1.0 - fraction);
    1.0 - normal_share((end - z * fraction.sqrt() - trend) / (1.0 - fraction).sqrt())
}

/// The two-sided nominal levels of analyses at increasing fractions of the information, the last
/// of which is 1. Their union has the probability `alpha` without a difference.
pub fn spending_levels(fractions: &[f64], alpha: f64) -> Vec<f64> {
    let mut levels = Vec::new();
    let mut paths = BrownianPaths::start();
    let mut spent = 0.0;
    for (number, fraction) in fractions.iter().enumerate() {
        let allowed = spent_until(*fraction, alpha);
        let bound = paths.bound(*fraction, allowed - spent);
        levels.push(2.0 * normal_share(-bound / fraction.sqrt()));
        spent = allowed;
        if number + 1 < fractions.len() {
            paths = paths.stay_within(*fraction, bound);
        }
    }
    levels
}

/// The O'Brien–Fleming type spending function of Lan and `DeMets` (1983), for each side.
fn spent_until(fraction: f64, alpha: f64) -> f64 {
    4.0 * normal_share(-normal_quantile(1.0 - alpha / 4.0) / fraction.sqrt())
}

/// The density of a Brownian motion that has not crossed a bound so far, on a grid (Armitage,
/// `McPherson` and Rowe 1969).
struct BrownianPaths {
    time: f64,
    /// Values, each with its probability.
    points: Vec<(f64, f64)>,
}

impl BrownianPaths {
    /// An even number of steps, for Simpson's rule.
    const STEPS: usize = 120;

    fn start() -> BrownianPaths {
        BrownianPaths {
            time: 0.0,
            points: vec![(0.0, 1.0)],
        }
    }

    /// The probability to be beyond a bound, on either side, at a later time.
    fn beyond(&self, time: f64, bound: f64) -> f64 {
        let spread = (time - self.time).sqrt();
        let tails = |value: f64| {
            normal_share((value - bound) / spread) + normal_share((-bound - value) / spread)
        };
        self.points
            .iter()
            .map(|(value, weight)| weight * tails(*value))
            .sum()
    }

    /// The bound that is crossed with this probability.
    fn bound(&self, time: f64, probability: f64) -> f64 {
        let (mut low, mut high) = (0.0, 12.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.beyond(time, middle) > probability {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    fn stay_within(&self, time: f64, bound: f64) -> BrownianPaths {
        let spread = (time - self.time).sqrt();
        let width = 2.0 * bound / Self::STEPS as f64;
        let density = |value: f64| -> f64 {
            let normal = |z: f64| (-z * z / 2.0).exp() / (std::f64::consts::TAU.sqrt() * spread);
            let parts = self.points.iter();
            parts
                .map(|(from, weight)| weight * normal((value - from) / spread))
                .sum()
        };
        let simpson = |step: usize| match step {
            0 | Self::STEPS => 1.0,
            odd if odd % 2 == 1 => 4.0,
            _ => 2.0,
        };
        let point = |step: usize| {
            let value = -bound + width * step as f64;
            (value, density(value) * simpson(step) * width / 3.0)
        };
        BrownianPaths {
            time,
            points: (0..=Self::STEPS).map(point).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tasks: usize) -> Vec<String> {
        (0..tasks).map(|task| format!("t{task}")).collect()
    }

    fn plan(tasks: usize, trials: usize) -> Schedule {
        Schedule::new(&names(tasks), trials, ScheduleOptions::default())
    }

    #[track_caller]
    fn check(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < expected * 0.02,
                "{found} {expected}"
            );
        }
    }

    #[test]
    fn levels_match_published_boundaries() {
        // Jennison and Turnbull (2000) and gsDesign: z of 4.333, 2.963, 2.359, 2.014.
        let quarters = spending_levels(&[0.25, 0.5, 0.75, 1.0], 0.05);
        check(&quarters, &[0.000_014_7, 0.003_05, 0.018_3, 0.044_0]);
        // Thirds: z of 3.710, 2.511, 1.993.
        let thirds = spending_levels(&[1.0 / 3.0, 2.0 / 3.0, 1.0], 0.05);
        check(&thirds, &[0.000_207, 0.012_0, 0.046_2]);
        check(&spending_levels(&[1.0], 0.05), &[0.05]);
    }

    #[test]
    fn conditional_power_follows_the_trend() {
        // z = 2 at half of the information: 1 - Phi((2.014 - 1.414 - 1.414) / 0.7071).
        let p_value = 2.0 * normal_share(-2.0);
        let power = conditional_power(p_value, 0.5, 0.044);
        assert!((power - 0.875).abs() < 0.002, "{power}");
        assert!(conditional_power(1.0, 0.5, 0.044) < 0.01);
    }

    #[test]
    fn units_are_tasks_or_rounds() {
        let cases = [
            (40, 3, LookUnit::Task, vec![10, 20, 30, 40], true),
            (40, 1, LookUnit::Task, vec![10, 20, 30, 40], true),
            (8, 3, LookUnit::Round, vec![1, 2, 3], true),
            (8, 1, LookUnit::Task, vec![2, 4, 6, 8], true),
            (4, 3, LookUnit::Round, vec![1, 2, 3], true),
            (4, 1, LookUnit::Task, vec![1, 2, 3, 4], false),
            (4, 10, LookUnit::Round, vec![3, 5, 8, 10], true),
        ];
        for (tasks, trials, unit, units, can_decide) in cases {
            let plan = plan(tasks, trials);
            let found: Vec<usize> = plan.looks.iter().map(|it| it.units).collect();
            assert_eq!((plan.unit, found), (unit, units), "{tasks} x {trials}");
            assert_eq!(plan.can_decide(), can_decide, "{tasks} x {trials}");
        }
    }

    #[test]
    fn schedule_depends_on_its_input_only_and_survives_a_file() {
        let mut backwards = names(30);
        backwards.reverse();
        let (one, other) = (
            plan(30, 2),
            Schedule::new(&backwards, 2, ScheduleOptions::default()),
        );
        assert_eq!(one, other);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), one);
        let seeded = ScheduleOptions {
            seed: 2,
            ..ScheduleOptions::default()
        };
        assert_ne!(Schedule::new(&names(30), 2, seeded).tasks, one.tasks);
    }
}
