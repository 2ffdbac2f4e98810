//! The sign-flip permutation test of paired differences: for equal agents, each task's difference
//! could have the other sign. Exact for few tasks.

use proctor_record::shuffle::Shuffle;

use super::bootstrap::Resampling;

/// The maximum number of tasks for the exact test.
const EXACT: usize = 16;
/// The number of differences whose signed sums are in one table.
const TABLE: usize = 8;

/// The probability of a sum at least as far from 0 with random signs. Two-sided. `None` without a
/// nonzero difference.
pub(super) fn p_value(differences: &[f64], resampling: Resampling) -> Option<f64> {
    let differences: Vec<f64> = differences
        .iter()
        .copied()
        .filter(|it| *it != 0.0)
        .collect();
    if differences.is_empty() {
        return None;
    }
    let tables: Vec<Vec<f64>> = differences.chunks(TABLE).map(signed_sums).collect();
    let size: f64 = differences.iter().map(|it| it.abs()).sum();
    // Sums that differ only by rounding are equal.
    let observed = differences.iter().sum::<f64>().abs() - size * 1e-12;
    let extreme = |sum: f64| sum.abs() >= observed;
    Some(if differences.len() <= EXACT {
        let all = 1_u64 << differences.len();
        let hits = (0..all)
            .filter(|signs| extreme(sum(&tables, *signs)))
            .count();
        hits as f64 / all as f64
    } else {
        let mut draws = resampling.draws();
        let times = resampling.count();
        let hits = (0..times)
            .filter(|_| extreme(random_sum(&tables, &mut draws)))
            .count();
        // The observed outcome is one of the possible ones, so p is never 0.
        (hits + 1) as f64 / (times + 1) as f64
    })
}

/// The smallest possible p-value with this many differences.
pub(super) fn smallest(differences: usize) -> f64 {
    let exponent = i32::try_from(differences).unwrap_or(i32::MAX);
    (2.0 * 0.5_f64.powi(exponent)).min(1.0)
}

/// The sums of a few differences for all combinations of signs.
fn signed_sums(differences: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for difference in differences {
        let minus: Vec<f64> = sums.iter().map(|sum| sum - difference).collect();
        for sum in &mut sums {
            *sum += difference;
        }
        sums.extend(minus);
    }
    sums
}

/// The sum for one combination of signs, up to 64 of them.
fn sum(tables: &[Vec<f64>], signs: u64) -> f64 {
    let mut signs = signs;
    let mut total = 0.0;
    for table in tables {
        // The last table may be shorter; its length is a power of two.
        let place = usize::try_from(signs & 0xff).expect("a byte fits") & (table.len() - 1);
        total += table[place];
        signs >>= TABLE;
    }
    total
}

fn random_sum(tables: &[Vec<f64>], draws: &mut Shuffle) -> f64 {
    tables
        .chunks(64 / TABLE)
        .map(|part| sum(part, draws.next_u64()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Seed;

    fn p(differences: &[f64]) -> f64 {
        p_value(differences, Resampling::seeded(Seed(1))).unwrap()
    }

    #[test]
    fn p_value_of_darwins_maize_matches_fisher() {
        // Fisher (1935), The Design of Experiments, section 21: 863 of 32,768 on each side.
        let darwin = [
            49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0,
            -48.0,
        ];
        assert!((p(&darwin) - 2.0 * 863.0 / 32_768.0).abs() < 1e-12);
    }

    #[test]
    fn sampled_p_value_is_close_to_the_exact_one() {
        let many: Vec<f64> = (0..40)
            .map(|i| f64::from(i * i % 41).sqrt() - 3.3)
            .collect();
        let sampled = p(&many);
        // By the normal approximation of the sum of signs.
        let sum: f64 = many.iter().sum();
        let size = many.iter().map(|d| d * d).sum::<f64>().sqrt();
        let expected = 2.0 * super::super::interval::normal_share(-sum.abs() / size);
        assert!((sampled - expected).abs() < 0.015, "{sampled} {expected}");
    }

    #[test]
    fn smallest_p_value_is_reached_if_all_signs_agree() {
        let same = [0.1, 0.2, 0.3, 0.1, 0.5, 0.2];
        assert!((p(&same) - smallest(6)).abs() < 1e-12);
        assert_eq!(p_value(&[0.0, 0.0], Resampling::seeded(Seed(1))), None);
    }
}
