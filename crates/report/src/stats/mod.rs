//! Statistics of trials: pure functions of the measurements and, for resampling, of a seed. Tasks
//! are the sample; trials of one task are correlated and never count as independent. Results that
//! require more trials are `None`. The choice of estimators: `docs/dev/design/statistics.md`.

mod bootstrap;
mod calibrate;
mod interval;
mod mean;
mod median;
mod paired;
mod pareto;
mod power;
mod ranking;
mod rate;
mod sample;
mod signs;
mod within;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod simulation;

pub use bootstrap::{Resampling, Seed, bootstrap_mean};
pub use calibrate::{Calibration, FlatTask, Variation, variations};
pub use interval::{Interval, Level};
pub use mean::{Mean, mean};
pub use median::{Median, median};
pub use paired::{Comparison, Effect, McNemar, Paired, Significance, mcnemar};
pub use pareto::{Point, pareto_front};
pub use power::{Needed, Power};
pub use ranking::{Contender, RankRange, Ranked, Ranking, holm, rank};
pub use rate::{AllOf, PassRate, pass_at_k, pass_pow_k, pass_rate, wilson};
pub use sample::{BothWays, NotFinite, PassCount, Passes, Scores, Unit};
pub use within::{Within, within_tasks};
