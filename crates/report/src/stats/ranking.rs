//! Rankings with groups of agents that cannot be told apart.

use proctor_record::parallel_map::parallel_map;
use serde::Serialize;

use super::{
    bootstrap::Resampling,
    interval::Level,
    mean::{Mean, mean},
    paired::Paired,
    sample::Scores,
};

/// A contestant.
#[derive(Clone, Copy, Debug)]
pub struct Contender<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its scores.
    pub scores: &'a Scores,
}

/// Agents, best first, with groups that cannot be told apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// All agents: those with a rank first, by their mean.
    pub agents: Vec<Ranked>,
    /// Groups of neighbours, by name, that cannot be told apart. An agent can be in several. Groups
    /// of one are not listed.
    pub groups: Vec<Vec<String>>,
}

/// An agent in a ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// Its name.
    pub name: String,
    /// The mean over tasks, with equal weight for all tasks; `None` without a trial.
    pub mean: Option<Mean>,
    /// The range of ranks; `None` with fewer than two tasks.
    pub place: Option<RankRange>,
}

/// A range of ranks, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankRange {
    /// One more than the number of significantly better agents.
    pub best: usize,
    /// The number of agents that are not significantly worse.
    pub worst: usize,
}

/// Ranks agents by their mean. Two agents are distinguished if their paired test on shared tasks is
/// significant after Holm's correction over all pairs.
pub fn rank(contenders: &[Contender], level: Level, resampling: Resampling) -> Ranking {
    let (mut placed, mut others): (Vec<RankedEntry>, Vec<RankedEntry>) = contenders
        .iter()
        .map(|contender| RankedEntry {
            contender: *contender,
            mean: mean(&contender.scores.by_task(), level),
        })
        .partition(|entry| entry.contender.scores.tasks() >= 2);
    placed.sort_by(RankedEntry::order);
    others.sort_by(RankedEntry::order);
    let order = tell_apart(&placed, level, resampling);
    let mut agents = Vec::new();
    for (index, entry) in placed.iter().enumerate() {
        agents.push(entry.ranked(Some(order.place(index))));
    }
    agents.extend(others.iter().map(|entry| entry.ranked(None)));
    let name = |index: usize| placed[index].contender.name.to_owned();
    let groups = order.groups();
    Ranking {
        agents,
        groups: groups.map(|group| group.map(name).collect()).collect(),
    }
}

struct RankedEntry<'a> {
    contender: Contender<'a>,
    mean: Option<Mean>,
}

impl RankedEntry<'_> {
    /// Best first, then by name.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let mean = |entry: &Self| entry.mean.map_or(f64::NEG_INFINITY, |it| it.mean);
        mean(other)
            .total_cmp(&mean(self))
            .then_with(|| self.contender.name.cmp(other.contender.name))
    }

    fn ranked(&self, place: Option<RankRange>) -> Ranked {
        Ranked {
            name: self.contender.name.to_owned(),
            mean: self.mean,
            place,
        }
    }
}

/// The significant differences between agents.
struct SignificantOrder {
    agents: usize,
    /// Pairs of indices, the better first.
    apart: Vec<(usize, usize)>,
}

impl SignificantOrder {
    fn place(&self, agent: usize) -> RankRange {
        let better = self.apart.iter().filter(|(_, worse)| *worse == agent);
        let worse = self.apart.iter().filter(|(better, _)| *better == agent);
        RankRange {
            best: 1 + better.count(),
            worst: self.agents - worse.count(),
        }
    }

    /// The longest runs of neighbours that cannot be told apart.
    fn groups(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let mut reached = 0;
        (0..self.agents).filter_map(move |start| {
            let mut end = start + 1;
            while end < self.agents && (start..end).all(|it| !self.are_apart(it, end)) {
                end += 1;
            }
            let is_new = end > reached;
            reached = reached.max(end);
            (is_new && end - start > 1).then_some(start..end)
        })
    }

    fn are_apart(&self, one: usize, other: usize) -> bool {
        self.apart.contains(&(one, other)) || self.apart.contains(&(other, one))
    }
}

fn tell_apart(placed: &[RankedEntry], level: Level, resampling: Resampling) -> SignificantOrder {
    let agents = placed.len();
    let pairs: Vec<(usize, usize)> = (0..agents)
        .flat_map(|one| (one + 1..agents).map(move |other| (one, other)))
        .collect();
    let resampling = fine_enough(resampling, pairs.len(), level);
    let tested = parallel_map(&pairs, |(one, other)| {
        let paired = Paired::new(
            placed[*other].contender.scores,
            placed[*one].contender.scores,
        );
        let p_value = paired.p_value(resampling).unwrap_or(1.0);
        (paired.difference().unwrap_or(0.0), p_value)
    });
    let (differences, p_values): (Vec<f64>, Vec<f64>) = tested.into_iter().unzip();
    let adjusted = holm(&p_values);
    let apart = (0..pairs.len())
        .filter(|index| adjusted[*index] <= level.alpha())
        .map(|index| match pairs[index] {
            (one, other) if differences[index] < 0.0 => (other, one),
            pair => pair,
        });
    SignificantOrder {
        agents,
        apart: apart.collect(),
    }
}

/// Enough draws for the strictest step of the correction.
fn fine_enough(resampling: Resampling, pairs: usize, level: Level) -> Resampling {
    let needed = (4.0 * pairs as f64 / level.alpha()).ceil();
    // The number fits for a few hundred agents.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let needed = needed as usize;
    resampling.times(resampling.count().max(needed))
}

/// Holm's correction: adjusted p-values that limit the probability of any false alarm to the level.
/// In the given order.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (step, index) in order.into_iter().enumerate() {
        let remaining = (p_values.len() - step) as f64;
        largest = largest.max((p_values[index] * remaining).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Seed;

    /// Scores around a level, with a fixed zigzag over tasks.
    fn agent(level: f64, tasks: usize, wobble: f64) -> Scores {
        let value = |task: usize| {
            let sign = if (task * 7 + 3) % 5 < 2 { 1.0 } else { -1.0 };
            level + wobble * sign + (task % 4) as f64 / 10.0
        };
        Scores::collect((0..tasks).map(|task| (task.to_string(), value(task)))).unwrap()
    }

    fn ranking(agents: &[(&str, Scores)]) -> Ranking {
        let contenders: Vec<Contender> = agents
            .iter()
            .map(|(name, scores)| Contender { name, scores })
            .collect();
        rank(
            &contenders,
            Level::P95,
            Resampling::seeded(Seed(3)).times(999),
        )
    }

    #[test]
    fn indistinguishable_neighbours_share_ranks_and_a_group() {
        let ranking = ranking(&[
            ("low", agent(0.1, 20, 0.0)),
            ("a", agent(0.500, 20, 0.2)),
            ("b", agent(0.501, 20, -0.2)),
        ]);
        let names: Vec<&str> = ranking.agents.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names[2], "low");
        let places: Vec<RankRange> = ranking.agents.iter().filter_map(|it| it.place).collect();
        assert_eq!(places[0], RankRange { best: 1, worst: 2 });
        assert_eq!(places[1], RankRange { best: 1, worst: 2 });
        assert_eq!(places[2], RankRange { best: 3, worst: 3 });
        assert_eq!(ranking.groups, [[names[0], names[1]]]);
    }

    #[test]
    fn one_trial_has_no_rank() {
        let ranking = ranking(&[
            ("once", agent(0.98, 1, 0.0)),
            ("often", agent(0.5, 10, 0.1)),
            ("never", Scores::default()),
        ]);
        let places: Vec<(&str, Option<RankRange>)> = ranking
            .agents
            .iter()
            .map(|it| (it.name.as_str(), it.place))
            .collect();
        let alone = RankRange { best: 1, worst: 1 };
        assert_eq!(
            places,
            [("often", Some(alone)), ("once", None), ("never", None)]
        );
        assert!(ranking.groups.is_empty());
    }

    #[test]
    fn groups_can_overlap() {
        let order = SignificantOrder {
            agents: 4,
            apart: vec![(0, 2), (0, 3)],
        };
        assert_eq!(order.groups().collect::<Vec<_>>(), [0..2, 1..4]);
    }

    #[test]
    fn holm_correction_steps_down() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
    }
}
