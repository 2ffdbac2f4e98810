//! Compares the estimators with results of scipy and statsmodels in `reference.json`, which
//! `scripts/stats-reference.py` creates.

use std::num::NonZeroU64;

use serde::Deserialize;

use super::*;
use super::{
    bootstrap::bca_of_width,
    interval::{normal_quantile, t_quantile},
    signs,
};

#[derive(Deserialize)]
struct ReferenceCases {
    quantiles: Vec<Quantile>,
    means: Vec<MeanCase>,
    wilson: Vec<WilsonCase>,
    clustered_wilson: Vec<RateCase>,
    k_tries: Vec<TriesCase>,
    bootstrap: Vec<BootstrapCase>,
    paired: Vec<PairedCase>,
    mcnemar: Vec<McNemarCase>,
    holm: Vec<HolmCase>,
    power: Vec<PowerCase>,
    welch: Vec<WelchCase>,
}

type TrialScores = Vec<(String, f64)>;

#[derive(Deserialize)]
struct Quantile {
    freedom: f64,
    share: f64,
    t: f64,
    z: f64,
}

#[derive(Deserialize)]
struct MeanCase {
    trials: TrialScores,
    mean: f64,
    error: f64,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct WilsonCase {
    passed: u64,
    trials: u64,
    level: f64,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct RateCase {
    trials: TrialScores,
    rate: f64,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct TriesCase {
    passed: u64,
    trials: u64,
    k: NonZeroU64,
    at: f64,
    pow: f64,
}

#[derive(Deserialize)]
struct BootstrapCase {
    trials: TrialScores,
    seed: u64,
    times: usize,
    low: f64,
    high: f64,
    scipy_low: f64,
    scipy_high: f64,
}

#[derive(Deserialize)]
struct PairedCase {
    differences: Vec<f64>,
    p: f64,
    mean: f64,
    hedges: f64,
}

#[derive(Deserialize)]
struct McNemarCase {
    gained: u64,
    lost: u64,
    p: f64,
}

#[derive(Deserialize)]
struct HolmCase {
    p: Vec<f64>,
    adjusted: Vec<f64>,
}

#[derive(Deserialize)]
struct PowerCase {
    effect: f64,
    tasks: f64,
}

#[derive(Deserialize)]
struct WelchCase {
    baseline: Vec<f64>,
    candidate: Vec<f64>,
    low: f64,
    high: f64,
    p: f64,
}

fn reference() -> ReferenceCases {
    serde_json::from_str(include_str!("reference.json")).unwrap()
}

#[track_caller]
fn same(found: f64, expected: f64) {
    near(found, expected, 1e-9);
}

#[track_caller]
fn near(found: f64, expected: f64, tolerance: f64) {
    assert!(
        (found - expected).abs() <= tolerance,
        "{found}, not {expected}"
    );
}

#[track_caller]
fn same_interval(found: Option<Interval>, low: f64, high: f64) {
    let found = found.expect("the interval is known");
    same(found.low, low);
    same(found.high, high);
}

#[test]
fn quantiles_match_scipy() {
    for case in reference().quantiles {
        let found = t_quantile(case.share, case.freedom);
        near(found / case.t, 1.0, 1e-8);
        same(normal_quantile(case.share), case.z);
    }
}

#[test]
fn clustered_standard_errors_match_a_regression() {
    for case in reference().means {
        let found = mean(&Scores::collect(case.trials).unwrap(), Level::P95).unwrap();
        same(found.mean, case.mean);
        same(found.standard_error.unwrap(), case.error);
        same_interval(found.interval, case.low, case.high);
    }
}

#[test]
fn wilson_intervals_match_scipy() {
    for case in reference().wilson {
        let tally = PassCount::new(case.passed, case.trials).unwrap();
        let found = wilson(tally, Level::new(case.level).unwrap());
        same_interval(found, case.low, case.high);
    }
}

#[test]
fn clustered_pass_rates_match_the_formula() {
    for case in reference().clustered_wilson {
        let passes = case.trials.into_iter().map(|(task, it)| (task, it > 0.5));
        let found = pass_rate(&Passes::collect(passes), Level::P95).unwrap();
        same(found.rate, case.rate);
        same_interval(found.interval, case.low, case.high);
    }
}

#[test]
fn pass_at_k_matches_binomial_coefficients() {
    for case in reference().k_tries {
        let passes = Passes::collect((0..case.trials).map(|i| ("t", i < case.passed)));
        let at = pass_at_k(&passes, case.k, Level::P95).unwrap();
        same(at.mean.mean, case.at);
        let pow = pass_pow_k(&passes, case.k, Level::P95).unwrap();
        same(pow.mean.mean, case.pow);
    }
}

#[test]
fn bootstrap_intervals_match_numpy_for_equal_draws() {
    for case in reference().bootstrap {
        let scores = Scores::collect(case.trials).unwrap();
        let resampling = Resampling::seeded(Seed(case.seed)).times(case.times);
        let found = bootstrap_mean(&scores, Level::P95, resampling);
        same_interval(found, case.low, case.high);
    }
}

#[test]
fn bootstrap_intervals_without_widening_match_scipy() {
    for case in reference().bootstrap {
        let scores = Scores::collect(case.trials).unwrap();
        let resampling = Resampling::seeded(Seed(1));
        let found = bca_of_width(&scores.clusters(), Level::P95.z(), resampling).unwrap();
        // The draws differ, and so do the last digits.
        let tolerance = 0.03 * found.width();
        near(found.low, case.scipy_low, tolerance);
        near(found.high, case.scipy_high, tolerance);
    }
}

#[test]
fn sign_flip_tests_and_effects_match_scipy() {
    for case in reference().paired {
        let resampling = Resampling::seeded(Seed(1)).times(999);
        same(
            signs::p_value(&case.differences, resampling).unwrap(),
            case.p,
        );
        let numbered = case.differences.iter().enumerate();
        let candidate = Scores::collect(numbered.map(|(i, it)| (i.to_string(), *it))).unwrap();
        let zeros = (0..case.differences.len()).map(|i| (i.to_string(), 0.0));
        let baseline = Scores::collect(zeros).unwrap();
        let paired = Paired::new(&baseline, &candidate);
        let found = paired.compare(Level::P95, resampling).unwrap();
        same(found.difference, case.mean);
        same(found.p_value, case.p);
        same(found.effect.standardized.unwrap(), case.hedges);
    }
}

#[test]
fn mcnemar_matches_statsmodels() {
    for case in reference().mcnemar {
        let tasks = case.gained + case.lost;
        let passes = |gained| {
            let passed = move |i| (i < case.gained) == gained;
            Passes::collect((0..tasks).map(|i| (i.to_string(), passed(i))))
        };
        let found = mcnemar(&passes(false), &passes(true)).unwrap();
        assert_eq!((found.gained, found.lost), (case.gained, case.lost));
        same(found.p_value, case.p);
    }
}

#[test]
fn holm_correction_matches_statsmodels() {
    for case in reference().holm {
        for (found, expected) in holm(&case.p).iter().zip(&case.adjusted) {
            same(*found, *expected);
        }
    }
}

#[test]
fn required_number_of_tasks_matches_the_noncentral_t() {
    for case in reference().power {
        // Ten tasks whose differences have a standard deviation of 1.
        let spread = f64::sqrt(0.9);
        let value = |i: u32| case.effect + if i.is_multiple_of(2) { spread } else { -spread };
        let candidate = Scores::collect((0..10).map(|i| (i.to_string(), value(i)))).unwrap();
        let baseline = Scores::collect((0..10).map(|i| (i.to_string(), 0.0))).unwrap();
        let power = Paired::new(&baseline, &candidate).power(Level::P95);
        let Needed::More(more) = power.unwrap().tasks else {
            panic!("{power:?}");
        };
        near((10 + more) as f64, case.tasks, 2.0);
    }
}

#[test]
fn comparisons_within_a_task_match_welch_and_exact_permutations() {
    for case in reference().welch {
        let scores = |values: &[f64]| Scores::collect(values.iter().map(|v| ("t", *v))).unwrap();
        let (baseline, candidate) = (scores(&case.baseline), scores(&case.candidate));
        let resampling = Resampling::seeded(Seed(4));
        let found = within_tasks(&baseline, &candidate, Level::P95, resampling).unwrap();
        same_interval(found.interval, case.low, case.high);
        near(found.p_value, case.p, 0.005);
    }
}
