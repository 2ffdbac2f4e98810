//! Fisher's exact test of two pass rates, for the repeats of one task.

use statrs::distribution::{DiscreteCDF, Hypergeometric};

use super::{
    power::{Needed, fewest_more},
    sample::PassCount,
};

/// The one-sided p-value: the probability of at most this many passes now, if nothing changed.
pub fn fewer_passes(before: PassCount, now: PassCount) -> f64 {
    let all = before.trials() + now.trials();
    let passed = before.passed() + now.passed();
    Hypergeometric::new(all, passed, now.trials())
        .map_or(1.0, |chance| chance.cdf(now.passed()).clamp(0.0, 1.0))
}

/// The number of further trials on both sides until the fall is significant, if both rates stay the
/// same.
pub fn trials_to_tell_apart(before: PassCount, now: PassCount, alpha: f64) -> Needed {
    let rate = |tally: PassCount| tally.passed() as f64 / tally.trials().max(1) as f64;
    if rate(now) >= rate(before) {
        return Needed::OutOfReach;
    }
    let scaled = |tally: PassCount, trials: usize| {
        // A share of the trials: not negative, and not more than all.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let passed = (rate(tally) * trials as f64).round() as u64;
        PassCount::new(passed.min(trials as u64), trials as u64).unwrap_or_default()
    };
    let fewest = before.trials().min(now.trials()).max(1);
    let fewest = usize::try_from(fewest).unwrap_or(usize::MAX / 4);
    fewest_more(fewest, |trials| {
        fewer_passes(scaled(before, trials), scaled(now, trials)) <= alpha
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: u64, trials: u64) -> PassCount {
        PassCount::new(passed, trials).unwrap()
    }

    /// One of the 20 ways to choose 3 of 6 trials.
    #[test]
    fn fall_from_three_of_three_to_none_has_a_probability_of_one_in_twenty() {
        let p = fewer_passes(tally(3, 3), tally(0, 3));
        assert!((p - 0.05).abs() < 1e-9, "{p}");
        assert!((fewer_passes(tally(3, 3), tally(3, 3)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn partial_fall_needs_more_trials() {
        let needed = trials_to_tell_apart(tally(3, 3), tally(1, 3), 0.05);
        assert!(matches!(needed, Needed::More(1..=6)), "{needed:?}");
        let same = trials_to_tell_apart(tally(2, 3), tally(2, 3), 0.05);
        assert_eq!(same, Needed::OutOfReach);
    }
}
