//! Which parts help: each part is removed, and its effect is tested over tasks, with Holm's
//! correction over the parts. With many parts, a two-level design removes several at a time.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    bootstrap::Resampling,
    equivalence::{AnalysisLevels, Decision, Margins, decide},
    interval::{Interval, Level},
    pair_test::PairSample,
    ranking::holm,
    sample::{NotFinite, Scores},
};

/// With more parts, several are removed at a time.
const ONE_AT_A_TIME: usize = 8;

/// The effect of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PartVerdict {
    /// The figure is better with the part.
    Helps,
    /// The figure is worse with the part.
    Hurts,
    /// The effect is within the margin.
    NoMeasurableEffect,
    /// The sample does not decide it.
    Undecided,
}

/// The effect of one part.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PartEffect {
    /// The part.
    pub part: String,
    /// The mean with the part minus the mean without it; null without shared tasks.
    pub effect: Option<f64>,
    /// The confidence interval of the effect, not corrected for the number of parts.
    pub interval: Option<Interval>,
    /// The p-value after Holm's correction over all parts.
    pub p_value: Option<f64>,
    /// The conclusion.
    pub verdict: PartVerdict,
}

/// The results with and without one part.
#[derive(Clone, Copy, Debug)]
pub struct PartSample<'a> {
    /// The part.
    pub part: &'a str,
    /// Values of trials with the part.
    pub with: &'a Scores,
    /// Values of trials without it.
    pub without: &'a Scores,
}

/// The verdict on each part. A difference is claimed after Holm's correction; equivalence is a
/// claim about one part and is not corrected.
pub fn part_effects(
    parts: &[PartSample],
    margin: Option<f64>,
    level: Level,
    resampling: Resampling,
) -> Vec<PartEffect> {
    let margins = Margins {
        equivalent: margin,
        not_worse: None,
    };
    // The smallest p-value has to be reachable by random draws.
    let needed = 80 * parts.len();
    let resampling = resampling.times(resampling.count().max(needed));
    let decided = parts.iter().map(|part| {
        let sample = PairSample::of_experiment(part.without, part.with, level, resampling);
        decide(&sample, AnalysisLevels::fixed(level), margins, true)
    });
    let decided: Vec<_> = decided.collect();
    let p_values: Vec<f64> = decided
        .iter()
        .map(|it| it.map_or(1.0, |it| it.test.p_value))
        .collect();
    let adjusted = holm(&p_values);
    let each = parts.iter().zip(decided).zip(adjusted);
    each.map(|((part, decided), p_value)| {
        let is_apart = p_value <= level.alpha();
        PartEffect {
            part: part.part.to_owned(),
            effect: decided.map(|it| it.test.difference),
            interval: decided.and_then(|it| it.test.interval),
            p_value: decided.map(|_| p_value),
            verdict: match decided.map(|it| it.decision) {
                Some(Decision::Better) if is_apart => PartVerdict::Helps,
                Some(Decision::Worse) if is_apart => PartVerdict::Hurts,
                Some(Decision::Equivalent) => PartVerdict::NoMeasurableEffect,
                _ => PartVerdict::Undecided,
            },
        }
    })
    .collect()
}

/// Which parts the variants of an ablation have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AblationDesign {
    /// For each variant, whether it has each part.
    pub variants: Vec<Vec<bool>>,
    /// Whether each variant lacks one part at most.
    pub one_at_a_time: bool,
}

impl AblationDesign {
    /// The design for this many parts: the full text and one variant without each part; for more
    /// than 8 parts, an orthogonal design of resolution III (Plackett and Burman 1946).
    pub fn new(parts: usize) -> AblationDesign {
        if parts > ONE_AT_A_TIME {
            return AblationDesign {
                variants: orthogonal(parts),
                one_at_a_time: false,
            };
        }
        let without = |missing: usize| (0..parts).map(move |part| part != missing);
        let variants = std::iter::once(vec![true; parts]);
        let variants = variants.chain((0..parts).map(|missing| without(missing).collect()));
        AblationDesign {
            variants: variants.collect(),
            one_at_a_time: true,
        }
    }

    /// The values of trials with and without a part, from those of each variant. In an orthogonal
    /// design the difference of their means is the part's main effect, because each other part is
    /// in half of the variants of both.
    pub fn arms(&self, part: usize, variants: &[Scores]) -> Result<(Scores, Scores), NotFinite> {
        let has = |number: usize| self.variants[number][part];
        let is_used = |number: usize| !self.one_at_a_time || number == 0 || !has(number);
        let values = |with: bool| {
            let all = variants.iter().enumerate().take(self.variants.len());
            let own = all.filter(move |(number, _)| is_used(*number) && has(*number) == with);
            let values = own.flat_map(|(_, scores)| scores.iter());
            let values = values.flat_map(|(task, it)| it.iter().map(move |value| (task, *value)));
            Scores::collect(values)
        };
        Ok((values(true)?, values(false)?))
    }
}

/// Rows of a saturated two-level design: a multiple of 4 that is larger than the number of parts.
fn orthogonal(parts: usize) -> Vec<Vec<bool>> {
    let mut rows = 12;
    loop {
        if rows > parts && rows.is_power_of_two() {
            // Sylvester: the parity of common bits. Column 0 is constant.
            let has = |row: usize, part: usize| (row & (part + 1)).count_ones().is_multiple_of(2);
            return table(rows, parts, has);
        }
        if rows > parts && is_prime(rows - 1) {
            // Paley: quadratic residues, shifted by one in each row; the last row has no part.
            let prime = rows - 1;
            let squares: Vec<usize> = (0..prime).map(|it| it * it % prime).collect();
            let has = |row: usize, part: usize| {
                row < prime && squares.contains(&((part + prime - row) % prime))
            };
            return table(rows, parts, has);
        }
        rows += 4;
    }
}

fn table(rows: usize, parts: usize, has: impl Fn(usize, usize) -> bool) -> Vec<Vec<bool>> {
    let row = |row: usize| (0..parts).map(|part| has(row, part)).collect();
    (0..rows).map(row).collect()
}

fn is_prime(number: usize) -> bool {
    number > 1
        && (2..number)
            .take_while(|it| it * it <= number)
            .all(|it| !number.is_multiple_of(it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Seed;

    #[test]
    fn designs_are_balanced_and_orthogonal() {
        for parts in 9..=70 {
            let design = AblationDesign::new(parts);
            let rows = design.variants.len();
            assert!(
                !design.one_at_a_time && rows > parts && rows <= parts + 12,
                "{parts}"
            );
            let sign = |row: &[bool], part: usize| if row[part] { 1 } else { -1 };
            for one in 0..parts {
                let sum: i32 = design.variants.iter().map(|row| sign(row, one)).sum();
                assert_eq!(sum, 0, "{parts} {one}");
                for other in 0..one {
                    let products = design.variants.iter();
                    let products = products.map(|row| sign(row, one) * sign(row, other));
                    assert_eq!(products.sum::<i32>(), 0, "{parts} {one} {other}");
                }
            }
        }
    }

    #[test]
    fn few_parts_are_removed_one_at_a_time() {
        let design = AblationDesign::new(3);
        let has = |text: &str| text.chars().map(|it| it == '+').collect::<Vec<_>>();
        assert_eq!(design.variants, ["+++", "-++", "+-+", "++-"].map(has));
    }

    /// The verdicts for parts with these true effects, without chance in trials.
    fn verdicts(effects: &[f64], tasks: usize) -> Vec<PartEffect> {
        let design = AblationDesign::new(effects.len());
        let score = |variant: &Vec<bool>| {
            let with = effects.iter().zip(variant).filter(|(_, has)| **has);
            let shift: f64 = with.map(|(effect, _)| effect).sum();
            let wobble = |task: usize| 0.01 * ((task * 7 + 3) % 5) as f64;
            let row = variant.iter().filter(|it| **it).count();
            let value = |task: usize| (task.to_string(), 0.4 + shift + wobble(task + row));
            Scores::collect((0..tasks).map(value)).unwrap()
        };
        let variants: Vec<Scores> = design.variants.iter().map(score).collect();
        let names: Vec<String> = (0..effects.len()).map(|part| format!("p{part}")).collect();
        let arms: Vec<(Scores, Scores)> = (0..effects.len())
            .map(|part| design.arms(part, &variants).unwrap())
            .collect();
        let parts = names
            .iter()
            .zip(&arms)
            .map(|(part, (with, without))| PartSample {
                part,
                with,
                without,
            });
        let resampling = Resampling::seeded(Seed(1)).times(1_999);
        part_effects(
            &parts.collect::<Vec<_>>(),
            Some(0.05),
            Level::P95,
            resampling,
        )
    }

    #[test]
    fn parts_get_verdicts_in_both_designs() {
        for parts in [4, 10] {
            let mut effects = vec![0.0; parts];
            effects[1] = 0.2;
            effects[2] = -0.15;
            let found = verdicts(&effects, 20);
            let of = |part: usize| found[part].verdict;
            assert_eq!(of(1), PartVerdict::Helps, "{found:?}");
            assert_eq!(of(2), PartVerdict::Hurts, "{found:?}");
            assert_eq!(of(0), PartVerdict::NoMeasurableEffect, "{found:?}");
            assert!((found[1].effect.unwrap() - 0.2).abs() < 0.02, "{found:?}");
        }
    }

    #[test]
    fn two_tasks_do_not_decide() {
        let found = verdicts(&[0.2, 0.0], 2);
        assert_eq!(found[0].verdict, PartVerdict::Undecided);
    }
}
