//! Monitoring without an end: an e-process that raises an alarm if the results of nightly runs
//! drop. Its false alarms are limited over all nights together, however many there are.

use proctor_record::shuffle::Shuffle;
use schemars::JsonSchema;
use serde::Serialize;

use super::{interval::Level, sample::average};

/// The exponents of the bets: a small one stakes most on nights below all earlier ones.
const BETS: [f64; 3] = [0.15, 0.35, 0.6];
/// The night at which the prior of the drop's night has half of its weight.
const HALF: f64 = 60.0;

/// The state of a series of nights.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Trend {
    /// The evidence of a drop after each night: the capital of a player who bets on it. Without a
    /// drop, it exceeds 1/alpha at any time with a probability of at most alpha.
    pub evidence: Vec<f64>,
    /// The first night, from 0, with enough evidence for an alarm.
    pub alarm: Option<usize>,
    /// The most probable first night of the drop, if there is an alarm.
    pub since: Option<usize>,
    /// The mean of the nights before the drop, or of all nights.
    pub before: Option<f64>,
    /// The mean of the nights from the drop on, if there is an alarm.
    pub after: Option<f64>,
}

/// Monitors the means of nights, oldest first, for a drop. Each night is ranked among those so far.
/// If nothing changes, all orders are equally probable, and the ranks are independent and uniform.
pub fn trend(nights: &[f64], level: Level, seed: u64) -> Trend {
    let mut draws = Shuffle::new(seed);
    let chance = || ((draws.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let ranks = ranks(nights, chance);
    let (mut evidence, mut stakes, mut unused) = (Vec::new(), [0.0; BETS.len()], 1.0);
    for (night, rank) in ranks.iter().enumerate() {
        let weight = prior(night);
        unused -= weight;
        for (stake, exponent) in stakes.iter_mut().zip(BETS) {
            *stake = (*stake + weight) * payoff(*rank, exponent);
        }
        evidence.push(average(&stakes) + unused);
    }
    let alarm = evidence.iter().position(|it| *it >= 1.0 / level.alpha());
    // The estimate of the first night does not depend on chance.
    let since = alarm.map(|alarm| start(&self::ranks(&nights[..=alarm], || 0.5)));
    let mean = |nights: &[f64]| (!nights.is_empty()).then(|| average(nights));
    Trend {
        evidence,
        alarm,
        since,
        before: mean(&nights[..since.unwrap_or(nights.len())]),
        after: since.and_then(|since| mean(&nights[since..])),
    }
}

/// The share of earlier nights that are below each night. The place of a night among equal ones is
/// `place`, from 0 to 1.
fn ranks(nights: &[f64], mut place: impl FnMut() -> f64) -> Vec<f64> {
    let rank = |night: usize| {
        let earlier = &nights[..night];
        let below = earlier.iter().filter(|it| **it < nights[night]).count();
        let equal = earlier
            .iter()
            .filter(|it| it.total_cmp(&nights[night]).is_eq())
            .count();
        (below as f64 + place() * (equal + 1) as f64) / (night + 1) as f64
    };
    (0..nights.len()).map(rank).collect()
}

/// The payoff of a fair bet on low ranks: its mean is 1 if ranks are uniform.
fn payoff(rank: f64, exponent: f64) -> f64 {
    exponent * rank.powf(exponent - 1.0)
}

/// The prior probability that a drop begins in a night. The sum over all nights is 1.
fn prior(night: usize) -> f64 {
    let number = night as f64 + HALF;
    HALF / (number * (number + 1.0))
}

/// The first night with the largest weight in the evidence.
fn start(ranks: &[f64]) -> usize {
    let weight = |from: usize| -> f64 {
        let parts = ranks[from..].iter();
        let total =
            |exponent: f64| -> f64 { parts.clone().map(|it| payoff(*it, exponent)).product() };
        prior(from) * BETS.into_iter().map(total).sum::<f64>()
    };
    let nights = (0..ranks.len()).map(|from| (from, weight(from)));
    let most = nights.max_by(|one, other| one.1.total_cmp(&other.1));
    most.map_or(0, |(from, _)| from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payoffs_and_prior_are_fair() {
        for exponent in BETS {
            let steps = 1_000_000;
            let rank = |step: i32| (f64::from(step) + 0.5) / f64::from(steps);
            let mean =
                (0..steps).map(|it| payoff(rank(it), exponent)).sum::<f64>() / f64::from(steps);
            // The singularity at 0 is cut off by the steps.
            assert!(mean <= 1.0 && mean > 0.8, "{exponent} {mean}");
        }
        let sum: f64 = (0..1_000_000).map(prior).sum();
        assert!(sum <= 1.0 && sum > 0.999, "{sum}");
    }

    #[test]
    fn drop_is_found_with_its_first_night() {
        let night = |night: usize| 0.8 + 0.02 * f64::from(u8::try_from(night * 7 % 5).unwrap());
        let mut nights: Vec<f64> = (0..40).map(night).collect();
        assert_eq!(trend(&nights, Level::P95, 1).alarm, None);
        nights.extend((40..60).map(|it| night(it) - 0.3));
        let found = trend(&nights, Level::P95, 1);
        let alarm = found.alarm.unwrap();
        assert!((40..50).contains(&alarm), "{found:?}");
        assert_eq!(found.since, Some(40));
        assert!(found.before.unwrap() - found.after.unwrap() > 0.25);
        assert_eq!(trend(&[], Level::P95, 1).before, None);
    }

    #[test]
    fn first_night_of_a_drop_is_found_among_equal_nights() {
        let mut nights = vec![1.0; 30];
        nights.extend([0.0; 20]);
        for seed in 0..20 {
            assert_eq!(trend(&nights, Level::P95, seed).since, Some(30), "{seed}");
        }
    }

    #[test]
    fn improvement_is_not_a_drop() {
        let rising: Vec<f64> = (0..100).map(|night| f64::from(night) / 100.0).collect();
        assert_eq!(trend(&rising, Level::P95, 1).alarm, None);
    }
}
