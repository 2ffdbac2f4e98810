//! Checks the coverage of intervals and the error rates of tests on 2,000 simulated benchmarks with
//! known truth: 20 to 40 tasks with 3 to 5 trials each, where tasks differ in difficulty.

use proctor_record::shuffle::Shuffle;

use super::*;

const BENCHMARKS: u32 = 2_000;

/// A simulation: the difficulty of tasks, and the score of a trial.
struct SimulatedWorld {
    draws: Shuffle,
}

impl SimulatedWorld {
    fn new(seed: u64) -> SimulatedWorld {
        SimulatedWorld {
            draws: Shuffle::new(seed),
        }
    }

    /// Uniform from 0 to 1.
    fn even(&mut self) -> f64 {
        (self.draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.draws.below(most - least + 1)
    }

    /// The pass probability of a new task: some never pass, some always, most are in between. The
    /// mean is 0.55.
    fn task(&mut self) -> f64 {
        match self.even() {
            kind if kind < 0.15 => 0.0,
            kind if kind < 0.25 => 1.0,
            _ => 0.6 + 0.4 * (2.0 * self.even() - 1.0),
        }
    }

    /// One benchmark: for each of its trials, the value that `trial` draws for its task.
    fn benchmark(&mut self, trial: SimulatedTrial) -> Scores {
        let tasks = self.between(20, 40);
        let trials = self.between(3, 5);
        let mut values = Vec::with_capacity(tasks * trials);
        for task in 0..tasks {
            let ability = self.task();
            let name = || task.to_string();
            values.extend((0..trials).map(|_| (name(), trial(self, ability))));
        }
        Scores::collect(values).unwrap()
    }
}

/// Draws a trial of a task with some ability.
type SimulatedTrial = fn(&mut SimulatedWorld, f64) -> f64;

const MEAN: f64 = 0.15 * 0.0 + 0.10 * 1.0 + 0.75 * 0.6;

fn passes(world: &mut SimulatedWorld, ability: f64) -> f64 {
    f64::from(world.even() < ability)
}

/// Partial credit around the ability.
fn credit(world: &mut SimulatedWorld, ability: f64) -> f64 {
    let spread = ability.min(1.0 - ability).max(0.0);
    ability + spread * (2.0 * world.even() - 1.0)
}

/// Long-tailed seconds with a median of 60: a task is as often harder than most as easier.
fn seconds(world: &mut SimulatedWorld, ability: f64) -> f64 {
    let is_extreme = !(0.01..=0.99).contains(&ability);
    let hardness = if is_extreme { 0.0 } else { 0.6 - ability };
    60.0 * (2.0 * hardness + 1.5 * (world.even() - 0.5)).exp()
}

#[track_caller]
fn check_coverage(truth: f64, interval: impl Fn(u32, &mut SimulatedWorld) -> Option<Interval>) {
    let mut world = SimulatedWorld::new(20_260);
    let covered = (0..BENCHMARKS)
        .filter(|number| {
            let interval = interval(*number, &mut world);
            interval.is_some_and(|it| it.contains(truth))
        })
        .count();
    let share = covered as f64 / f64::from(BENCHMARKS);
    assert!((0.93..=0.97).contains(&share), "{share}");
}

#[test]
fn t_intervals_have_95_percent_coverage() {
    check_coverage(MEAN, |_, world| {
        mean(&world.benchmark(credit), Level::P95)?.interval
    });
    check_coverage(MEAN, |_, world| {
        mean(&world.benchmark(passes), Level::P95)?.interval
    });
}

#[test]
fn wilson_intervals_of_clustered_trials_have_95_percent_coverage() {
    check_coverage(MEAN, |_, world| {
        let scores = world.benchmark(passes);
        let values = scores.iter();
        let trials = values.flat_map(|(task, it)| it.iter().map(move |v| (task, *v > 0.5)));
        pass_rate(&Passes::collect(trials), Level::P95)?.interval
    });
}

#[test]
fn bootstrap_intervals_have_95_percent_coverage() {
    check_coverage(MEAN, |number, world| {
        let resampling = Resampling::seeded(Seed(number.into())).times(399);
        bootstrap_mean(&world.benchmark(credit), Level::P95, resampling)
    });
}

#[test]
fn intervals_of_medians_have_95_percent_coverage() {
    check_coverage(60.0, |_, world| {
        median(&world.benchmark(seconds), Level::P95)?.interval
    });
}

/// Two agents on the same tasks; `gain` is the mean advantage of the second.
fn duel(world: &mut SimulatedWorld, gain: f64, trial: SimulatedTrial) -> (Scores, Scores) {
    let tasks = world.between(20, 40);
    let trials = world.between(3, 5);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for task in 0..tasks {
        let ability = world.task();
        // The advantage on a task depends on the task, not on chance in a trial.
        let suits = 0.3 * (world.even() - 0.5);
        for _ in 0..trials {
            first.push((task.to_string(), trial(world, ability - suits)));
            second.push((task.to_string(), trial(world, ability + suits) + gain));
        }
    }
    (
        Scores::collect(first).unwrap(),
        Scores::collect(second).unwrap(),
    )
}

/// The fraction of duels in which a difference is claimed.
fn alarms(gain: f64, duels: u32, trial: SimulatedTrial) -> f64 {
    let mut world = SimulatedWorld::new(11);
    let alarms = (0..duels)
        .filter(|number| {
            let (first, second) = duel(&mut world, gain, trial);
            let resampling = Resampling::seeded(Seed((*number).into())).times(399);
            let paired = Paired::new(&first, &second);
            // The interval is expensive and computed only for a significant test.
            let is_unlikely = paired.p_value(resampling).unwrap() <= Level::P95.alpha();
            let compare = || paired.compare(Level::P95, resampling).unwrap();
            is_unlikely
                && matches!(
                    compare().significance(),
                    Significance::Higher | Significance::Lower
                )
        })
        .count();
    alarms as f64 / f64::from(duels)
}

#[test]
fn equal_agents_raise_at_most_5_percent_false_alarms() {
    for trial in [credit as SimulatedTrial, passes] {
        let share = alarms(0.0, BENCHMARKS, trial);
        assert!(share <= 0.05, "{share}");
        // A test that never raises one would be useless.
        assert!(share >= 0.02, "{share}");
    }
}

#[test]
fn better_agent_is_detected() {
    let found = alarms(0.2, 400, credit);
    assert!(found > 0.95, "{found}");
}

#[test]
fn paired_intervals_have_95_percent_coverage() {
    check_coverage(0.1, |number, world| {
        let (first, second) = duel(world, 0.1, credit);
        let resampling = Resampling::seeded(Seed(number.into())).times(399);
        let comparison = Paired::new(&first, &second).compare(Level::P95, resampling);
        comparison?.interval
    });
}

#[test]
fn ranking_of_equal_agents_raises_at_most_5_percent_false_alarms() {
    let mut world = SimulatedWorld::new(13);
    let rankings = 400;
    let alarms = (0..rankings)
        .filter(|number| {
            let agents: Vec<Scores> = (0..5).map(|_| alike(&mut world)).collect();
            let contenders = agents.iter().map(|scores| Contender { name: "x", scores });
            let contenders: Vec<Contender> = contenders.collect();
            let resampling = Resampling::seeded(Seed(*number)).times(399);
            let ranking = rank(&contenders, Level::P95, resampling);
            ranking.groups.first().is_none_or(|group| group.len() < 5)
        })
        .count();
    assert!(alarms as f64 / rankings as f64 <= 0.05, "{alarms}");
}

/// An agent on 20 tasks of fixed difficulty, two trials each.
fn alike(world: &mut SimulatedWorld) -> Scores {
    let trials = (0..40).map(|i| ((i / 2).to_string(), world.even() + f64::from(i / 2) / 10.0));
    Scores::collect(trials.collect::<Vec<_>>()).unwrap()
}
