//! Simulated experiments with known truth: false alarms, power and saved trials of schedules, and
//! the errors of bisection, ablation and trend. The tests simulate a few; `scripts/simulate
//! experiments` sets `PROCTOR_SIMULATE_EXPERIMENTS` and simulates thousands.

use std::collections::BTreeMap;

use proctor_record::shuffle::Shuffle;

use super::*;

/// The number of simulations and their seed, if they are not those of the tests.
#[expect(clippy::disallowed_methods, reason = "set by scripts/simulate")]
fn settings() -> Option<(u32, u64)> {
    let text = std::env::var("PROCTOR_SIMULATE_EXPERIMENTS").ok()?;
    let (number, seed) = text.split_once(' ').unwrap();
    Some((number.parse().unwrap(), seed.parse().unwrap()))
}

fn requested() -> Option<u32> {
    settings().map(|(number, _)| number)
}

fn is_large() -> bool {
    requested().is_some()
}

fn say(text: &str) {
    if is_large() {
        println!("{text}");
    }
}

struct World {
    draws: Shuffle,
}

impl World {
    fn new(seed: u64) -> World {
        let more = settings().map_or(0, |(_, seed)| seed);
        World {
            draws: Shuffle::new(seed + 1000 * more),
        }
    }

    /// Uniform from 0 to 1.
    fn even(&mut self) -> f64 {
        (self.draws.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A pass probability with U-shaped density: most tasks are easy or hard.
    fn task(&mut self) -> f64 {
        (self.even() * std::f64::consts::FRAC_PI_2).sin().powi(2)
    }

    fn passes(&mut self, probability: f64) -> f64 {
        f64::from(self.even() < probability)
    }
}

/// An experiment: its size, and the truth.
#[derive(Clone, Copy, Debug)]
struct Setup {
    tasks: usize,
    trials: usize,
    adaptive: bool,
    /// The advantage of the candidate on the logit scale.
    gain: f64,
    /// The advantage varies by this much over tasks, with a mean of 0.
    varies: f64,
}

const SIZES: [(usize, usize); 6] = [(4, 1), (4, 3), (8, 1), (8, 3), (40, 1), (40, 3)];

impl Setup {
    fn of(tasks: usize, trials: usize) -> Setup {
        Setup {
            tasks,
            trials,
            adaptive: false,
            gain: 0.0,
            // Conclusions about exactly these tasks do not generalize to others.
            varies: if tasks < 20 && trials > 1 { 0.0 } else { 1.0 },
        }
    }

    fn schedule(self, stops_early: bool) -> Schedule {
        let names: Vec<String> = (0..self.tasks).map(|task| format!("t{task:02}")).collect();
        let options = ScheduleOptions {
            adaptive: self.adaptive,
            stops_early,
            ..ScheduleOptions::default()
        };
        Schedule::new(&names, self.trials, options)
    }

    /// The pass probabilities of both agents, by task.
    fn truth(self, world: &mut World) -> Vec<(f64, f64)> {
        let shifted = |p: f64, by: f64| {
            let odds = (p / (1.0 - p)).clamp(1e-9, 1e9) * by.exp();
            odds / (1.0 + odds)
        };
        let draw = |_| {
            let (p, even) = (world.task(), world.even());
            let suits = self.varies * (2.0 * even - 1.0);
            (
                shifted(p, -suits / 2.0),
                shifted(p, suits / 2.0 + self.gain),
            )
        };
        (0..self.tasks).map(draw).collect()
    }
}

/// The end of a simulated experiment.
struct Outcome {
    is_alarm: bool,
    is_higher: bool,
    trials: usize,
}

/// The number of random draws of a test.
fn draws() -> usize {
    if is_large() { 1_999 } else { 399 }
}

/// Runs an experiment until it stops. It is observed and resumed at random points: every state is
/// computed anew from the trials so far, and no alarm may disappear.
fn run(setup: Setup, schedule: &Schedule, world: &mut World) -> Outcome {
    let truth = setup.truth(world);
    let number = |task: &str| task[1..].parse::<usize>().unwrap();
    let mut arms = [ArmResults::new(), ArmResults::new()];
    loop {
        let state = schedule.progress(&arms[0], &arms[1], draws()).unwrap();
        let is_alarm = state.step == Step::StopForEffect;
        let is_over = is_alarm || matches!(state.step, Step::StopForFutility | Step::Complete);
        if is_over {
            let higher = state
                .decided
                .is_some_and(|it| it.decision == Decision::Better);
            let count = |arm: &ArmResults| arm.values().map(BTreeMap::len).sum::<usize>();
            return Outcome {
                is_alarm,
                is_higher: higher,
                trials: arms.iter().map(count).sum(),
            };
        }
        let next = state.next.unwrap();
        let mut missing: Vec<(usize, String, u32)> = Vec::new();
        for (task, quota) in &next {
            for (side, arm) in arms.iter().enumerate() {
                let done = arm.get(task).map_or(0, BTreeMap::len);
                let numbers = done + 1..=*quota;
                missing.extend(numbers.map(|it| (side, task.clone(), u32::try_from(it).unwrap())));
            }
        }
        // Interrupted after a random part; the rest follows after a resume.
        world.draws.apply(&mut missing);
        missing.sort_by_key(|it| it.2);
        let is_interrupted = world.even() < 0.3;
        let part = if is_interrupted {
            1 + world.draws.below(missing.len())
        } else {
            missing.len()
        };
        for (side, task, trial) in missing.into_iter().take(part) {
            let (a, b) = truth[number(&task)];
            let value = world.passes(if side == 0 { a } else { b });
            arms[side]
                .entry(task)
                .or_default()
                .insert(trial, Some(value));
        }
    }
}

/// The share of alarms, of alarms in favour of the candidate, and of the planned trials.
fn shares(setup: Setup, stops_early: bool, experiments: u32, seed: u64) -> (f64, f64, f64) {
    let mut world = World::new(seed);
    let (mut alarms, mut higher, mut trials) = (0, 0, 0);
    let mut schedule = setup.schedule(stops_early);
    for number in 0..experiments {
        schedule.seed = number.into();
        world.draws.apply(&mut schedule.tasks);
        let outcome = run(setup, &schedule, &mut world);
        alarms += u32::from(outcome.is_alarm);
        higher += u32::from(outcome.is_higher);
        trials += outcome.trials;
    }
    let planned = 2 * setup.tasks * setup.trials * experiments as usize;
    let share = |count: u32| f64::from(count) / f64::from(experiments);
    (share(alarms), share(higher), trials as f64 / planned as f64)
}

/// The lower 95 % bound of a share.
fn lower(share: f64, number: u32) -> f64 {
    // A share of a count that fits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let count = (share * f64::from(number)).round() as u64;
    let tally = PassCount::new(count, number.into()).unwrap();
    wilson(tally, Level::P95).unwrap().low
}

#[test]
fn equal_agents_stop_with_at_most_5_percent_false_alarms() {
    for (tasks, trials) in SIZES {
        for adaptive in [false, true] {
            if adaptive && (trials == 1 || !is_large() && tasks == 40) {
                continue;
            }
            let small = if tasks == 40 { 25 } else { 60 };
            let number = requested().unwrap_or(small);
            let setup = Setup {
                adaptive,
                ..Setup::of(tasks, trials)
            };
            let (alarms, _, spent) = shares(setup, true, number, 1);
            let bound = lower(alarms, number);
            say(&format!(
                "equal agents, {tasks} x {trials}, adaptive {adaptive}: {:.2} % false alarms (lower bound {:.2} %), {:.0} % of the trials",
                100.0 * alarms,
                100.0 * bound,
                100.0 * spent
            ));
            assert!(bound <= 0.05, "{setup:?} {alarms}");
            assert!(!is_large() || alarms <= 0.06, "{setup:?} {alarms}");
            assert!((tasks, trials) != (4, 1) || alarms == 0.0);
        }
    }
}

#[test]
fn power_is_close_to_that_of_the_fixed_design() {
    let cases = [(40, 3), (40, 1), (8, 3), (4, 3), (8, 1)];
    for (tasks, trials) in cases {
        if !is_large() && tasks == 40 && trials == 1 {
            continue;
        }
        let small = if tasks == 40 { 30 } else { 80 };
        let number = requested().unwrap_or(small);
        let gains: &[f64] = if is_large() {
            &[0.5, 1.0, 1.5, 2.0, 3.0]
        } else {
            &[1.5]
        };
        for gain in gains {
            let setup = Setup {
                gain: *gain,
                ..Setup::of(tasks, trials)
            };
            let (_, fixed, _) = shares(setup, false, number, 2);
            let (_, early, spent) = shares(setup, true, number, 2);
            let adaptive = Setup {
                adaptive: true,
                ..setup
            };
            let followed = if is_large() && trials > 1 && tasks < 20 {
                let (_, power, spent) = shares(adaptive, true, number, 2);
                format!(
                    ", adaptive {:.1} % with {:.0} %",
                    100.0 * power,
                    100.0 * spent
                )
            } else {
                String::new()
            };
            say(&format!(
                "gain {gain} (logit), {tasks} x {trials}: power {:.1} % fixed, {:.1} % with {:.0} % of the trials{followed}",
                100.0 * fixed,
                100.0 * early,
                100.0 * spent
            ));
            let allowed = if is_large() { 0.07 } else { 0.2 };
            assert!(fixed - early <= allowed, "{setup:?} {fixed} {early}");
        }
    }
}

/// The pass rates of four tasks before and after a drop from 0.9 to 0.5 on average.
type FourTasks = ([f64; 4], [f64; 4]);
const ALIKE: FourTasks = ([0.9; 4], [0.5; 4]);
const DIFFERENT: FourTasks = ([1.0, 0.95, 0.9, 0.75], [0.9, 0.6, 0.4, 0.1]);

/// Searches versions with a drop at `change`, with at most 40 trials of each; the step at the end,
/// and the number of trials.
fn search(
    versions: usize,
    change: usize,
    tasks: FourTasks,
    world: &mut World,
) -> (BisectStep, u64) {
    let mut search = Bisection::new(versions, 240, 0.2);
    loop {
        match search.next(|version| search.evidence()[version].trials < 40) {
            BisectStep::Query(version) => {
                let rates = if version < change { tasks.0 } else { tasks.1 };
                let passed = rates.iter().filter(|rate| world.passes(**rate) > 0.5);
                let passed = passed.count() as u64;
                search.observe(version, passed, 4);
            }
            end => return (end, search.trials()),
        }
    }
}

#[test]
fn noisy_bisection_finds_the_version() {
    let number = requested().unwrap_or(10);
    let mut world = World::new(3);
    let cases: &[(usize, FourTasks)] = if is_large() {
        &[(32, ALIKE), (32, DIFFERENT), (8, ALIKE), (100, ALIKE)]
    } else {
        &[(32, DIFFERENT)]
    };
    for (versions, tasks) in cases {
        let (mut found, mut wrong, mut trials) = (0, 0, 0);
        let (mut unchanged, mut unchanged_trials) = (0, 0);
        for _ in 0..number {
            let change = 1 + world.draws.below(versions - 1);
            let (end, spent) = search(*versions, change, *tasks, &mut world);
            let is_right = matches!(end, BisectStep::Found { version, .. } if version == change);
            found += u32::from(is_right);
            wrong += u32::from(!is_right && !matches!(end, BisectStep::BudgetSpent { .. }));
            trials += spent;
            let (end, spent) = search(*versions, *versions, *tasks, &mut world);
            unchanged += u32::from(matches!(end, BisectStep::NoChange { .. }));
            unchanged_trials += spent;
        }
        let share = |count: u32| f64::from(count) / f64::from(number);
        let mean = |trials: u64| trials as f64 / f64::from(number);
        say(&format!(
            "bisection of {versions} versions, {tasks:?}: {:.1} % found and {:.1} % wrong with {:.0} trials; without a change {:.1} % with {:.0} trials",
            100.0 * share(found),
            100.0 * share(wrong),
            mean(trials),
            100.0 * share(unchanged),
            mean(unchanged_trials)
        ));
        let is_target = *versions == 32;
        let least = if is_large() { 0.9 } else { 0.8 };
        assert!(!is_target || share(found) >= least, "{versions} {found}");
        assert!(share(unchanged) >= 0.9, "{versions} {unchanged}");
    }
}

/// An ablation of parts without an effect: whether any verdict is a false alarm.
fn false_part(parts: usize, tasks: usize, trials: usize, world: &mut World) -> bool {
    let design = AblationDesign::new(parts);
    let truth: Vec<f64> = (0..tasks).map(|_| world.task()).collect();
    let variants: Vec<Scores> = (0..design.variants.len())
        .map(|_| {
            let all = truth.iter().enumerate();
            let all = all.flat_map(|(task, p)| (0..trials).map(move |_| (task, *p)));
            let values = all.map(|(task, p)| (task.to_string(), world.passes(p)));
            Scores::collect(values.collect::<Vec<_>>()).unwrap()
        })
        .collect();
    let arms: Vec<(Scores, Scores)> = (0..parts)
        .map(|part| design.arms(part, &variants).unwrap())
        .collect();
    let samples = arms.iter().map(|(with, without)| PartSample {
        part: "p",
        with,
        without,
    });
    let samples: Vec<PartSample> = samples.collect();
    let resampling = Resampling::seeded(Seed(1)).times(draws());
    let found = part_effects(&samples, Some(0.05), Level::P95, resampling);
    let is_false = |it: &PartEffect| matches!(it.verdict, PartVerdict::Helps | PartVerdict::Hurts);
    found.iter().any(is_false)
}

#[test]
fn ablation_has_at_most_6_percent_family_wise_errors() {
    for (parts, tasks, trials) in [(5, 10, 3), (8, 20, 1), (12, 10, 1), (5, 4, 3)] {
        let number = requested().unwrap_or(8);
        let mut world = World::new(4);
        let errors = (0..number).filter(|_| false_part(parts, tasks, trials, &mut world));
        let share = errors.count() as f64 / f64::from(number);
        say(&format!(
            "ablation of {parts} parts without effect, {tasks} x {trials}: {:.2} % family-wise errors",
            100.0 * share
        ));
        assert!(lower(share, number) <= 0.05, "{parts} {share}");
        assert!(!is_large() || share <= 0.06, "{parts} {share}");
    }
}

/// Nights of 10 tasks with one trial each; from `drop` on, 0.3 fewer pass.
fn nights(number: usize, drop: usize, world: &mut World) -> Vec<f64> {
    // The mean is 0.7, so that a drop of 0.3 is possible.
    let truth: Vec<f64> = (0..10).map(|_| 0.4 + 0.6 * world.task()).collect();
    let night = |night: usize| {
        let less = if night < drop { 0.0 } else { 0.3 };
        let passed = truth.iter().map(|p| world.passes(p - less)).sum::<f64>();
        passed / 10.0
    };
    (0..number).map(night).collect()
}

#[test]
fn trend_finds_a_drop_and_few_false_alarms() {
    let number = requested().unwrap_or(100);
    let mut world = World::new(5);
    let alarms = (0..number).filter(|seed| {
        let nights = nights(300, 300, &mut world);
        trend(&nights, Level::P95, u64::from(*seed)).alarm.is_some()
    });
    let share = alarms.count() as f64 / f64::from(number);
    say(&format!(
        "trend: {:.2} % false alarms in 300 nights",
        100.0 * share
    ));
    assert!(
        lower(share, number) <= 0.05 && (!is_large() || share <= 0.05),
        "{share}"
    );
    for drop in [20, 30, 100, 200] {
        let mut delays = Vec::new();
        for seed in 0..number {
            let nights = nights(drop + 40, drop, &mut world);
            let alarm = trend(&nights, Level::P95, u64::from(seed)).alarm;
            delays.push(alarm.map_or(40, |it| (it + 1).saturating_sub(drop)));
        }
        delays.sort_unstable();
        let at = |share: usize| delays[delays.len() * share / 100];
        say(&format!(
            "trend, drop of 0.3 after {drop} nights: half found within {} nights, 90 % within {}",
            at(50),
            at(90)
        ));
        assert!(drop < 30 || at(90) <= 21, "{drop} {}", at(90));
        assert!(at(50) <= 20, "{drop} {}", at(50));
    }
}
