//! Statistics of trials: pure functions of the measurements and, for resampling, of a seed. Tasks
//! are the sample; trials of one task are correlated and never count as independent. Results that
//! require more trials are `None`. The choice of estimators: `docs/dev/design/statistics.md`.

mod ablation;
mod allocation;
mod bisect;
mod bootstrap;
mod calibrate;
mod cost;
mod eprocess;
mod equivalence;
mod fisher;
mod interval;
mod mean;
mod median;
mod pair_test;
mod paired;
mod pareto;
mod power;
mod progress;
mod ranking;
mod rate;
mod sample;
mod sequential;
mod signs;
mod within;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod simulated_experiments;
#[cfg(test)]
mod simulation;

pub use ablation::{AblationDesign, PartEffect, PartSample, PartVerdict, part_effects};
pub use allocation::{
    PlannedVariance, TaskTally, ToDecide, VarianceShares, neyman, to_decide, variance_shares,
};
pub use bisect::{BisectStep, Bisection, Likeliest, VersionTally};
pub use bootstrap::{Resampling, Seed, bootstrap_mean};
pub use calibrate::{Calibration, FlatTask, Variation, variations};
pub use cost::{CostPerSolved, PricedAgent, TaskCost, cost_per_solved, recommend};
pub use eprocess::{Trend, trend};
pub use equivalence::{AnalysisLevels, Decided, Decision, Margins, decide};
pub use fisher::{fewer_passes, trials_to_tell_apart};
pub use interval::{Interval, Level};
pub use mean::{Mean, mean};
pub use median::{Median, median};
pub use pair_test::{PairSample, PairTest, Scope};
pub use paired::{Comparison, Effect, McNemar, Paired, Significance, mcnemar};
pub use pareto::{Point, pareto_front};
pub use power::{Needed, Power, fewest_more};
pub use progress::{ArmResults, Progress, Quotas};
pub use ranking::{Contender, RankRange, Ranked, Ranking, holm, rank};
pub use rate::{
    AllOf, PassRate, more_to_exclude, pass_at_k, pass_pow_k, pass_rate, share_interval, wilson,
};
pub use sample::{BothWays, NotFinite, PassCount, Passes, Scores, Unit};
pub use sequential::{Look, LookUnit, Schedule, ScheduleOptions, Step, spending_levels};
pub use within::{Within, within_tasks};
