//! A simulation of a large cluster with many kinds of failures, with the real planner, leases and
//! records on a real file system, and a simulated clock. After each run every trial has exactly one
//! record, and no trial started after it had one.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque},
    time::{Duration, SystemTime},
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{
    outcome::Outcome,
    record::{
        DirHandle, RECORD_FILE,
        lease::{BEAT, Ended, Evidence, Holder, JobName, Lease, Leases, Ownership, STALE, Taken},
    },
};
use serde_json::{Value, json};

use super::{
    lost_trials::LostTrial,
    planner::{LeaseState, Planner, Queued, Step, TaskEnd, TaskId, TrialObservation, arrays},
};
use crate::run::attempt::{finished, set_aside, settled};

/// The size of a simulated run.
#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    trials: usize,
}

const SLOTS: usize = 8;
const ROUND: Duration = Duration::from_secs(1);
const RETRIES: u32 = 4;
/// How long Slurm takes to notice a dead node.
const NOTICE: Duration = Duration::from_secs(15);
/// The maximum simulated duration of a run.
const END: Duration = Duration::from_hours(24 * 7);

/// A pseudo-random number generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Coordinator,
    HeadDies,
    Schedule,
    Beat(usize),
    Finish(usize),
    Killed(usize),
    NodeFails(usize),
    Noticed(usize),
    NodeIsBack(usize),
}

/// A task of the simulated Slurm.
#[derive(Clone, Copy)]
struct Task {
    id: TaskId,
    trial: usize,
    restarts: u32,
}

/// A process that runs a trial.
struct Process {
    task: Task,
    node: usize,
    lease: Option<Lease>,
    dir: DirHandle,
    lives: bool,
}

struct World {
    root: Utf8PathBuf,
    size: Size,
    dice: Dice,
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, usize, Event)>>,
    serial: usize,
    // The simulated Slurm.
    pending: VecDeque<Task>,
    running: BTreeMap<TaskId, usize>,
    ends: BTreeMap<TaskId, TaskEnd>,
    jobs: u64,
    nodes: Vec<BTreeSet<usize>>,
    down: BTreeSet<usize>,
    processes: Vec<Process>,
    // The head.
    planner: Planner,
    known: BTreeMap<usize, TaskId>,
    /// When a trial's record becomes visible to the head.
    visible: BTreeMap<usize, Duration>,
    // The checked properties.
    settled_at: BTreeMap<usize, Duration>,
    most_checks: usize,
}

fn at(now: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 30) + now
}

impl World {
    fn new(root: &Utf8Path, size: Size, seed: u64) -> World {
        World {
            root: root.to_owned(),
            size,
            dice: Dice(seed),
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            serial: 0,
            pending: VecDeque::new(),
            running: BTreeMap::new(),
            ends: BTreeMap::new(),
            jobs: 0,
            nodes: vec![BTreeSet::new(); size.nodes],
            down: BTreeSet::new(),
            processes: Vec::new(),
            planner: Planner::new(size.trials, RETRIES),
            known: BTreeMap::new(),
            visible: BTreeMap::new(),
            settled_at: BTreeMap::new(),
            most_checks: 0,
        }
    }

    fn folder(&self, trial: usize) -> Utf8PathBuf {
        self.root.join(format!("trials/{trial}"))
    }

    fn leases(&self, trial: usize) -> Leases {
        Leases::at(self.root.join(format!("claims/{trial}")))
    }

    fn later(&mut self, after: Duration, event: Event) {
        self.serial += 1;
        self.events
            .push(Reverse((self.now + after, self.serial, event)));
    }

    fn run(&mut self) {
        self.later(Duration::ZERO, Event::Coordinator);
        for _ in 0..2 {
            let after = self.dice.millis(5_000, 120_000);
            self.later(after, Event::HeadDies);
        }
        for node in 0..self.size.nodes {
            let after = self.dice.millis(1_000, 900_000);
            self.later(after, Event::NodeFails(node));
        }
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            assert!(time < END, "the run does not end");
            self.now = time;
            match event {
                Event::Coordinator if self.planner.is_done() => return,
                Event::Coordinator => self.head(),
                Event::HeadDies => self.head_dies(),
                Event::Schedule => self.schedule(),
                Event::Beat(process) => self.beat(process),
                Event::Finish(process) => self.finish(process),
                Event::Killed(process) => self.killed(process),
                Event::NodeFails(node) => self.node_fails(node),
                Event::Noticed(node) => self.noticed(node),
                Event::NodeIsBack(node) => {
                    self.down.remove(&node);
                    self.later(Duration::ZERO, Event::Schedule);
                }
            }
        }
    }

    fn head(&mut self) {
        let waiting = self.planner.waiting();
        for array in arrays(&waiting, |_| (), 1000) {
            self.jobs += 1;
            for index in array.indices {
                let id = TaskId {
                    job: self.jobs,
                    index,
                };
                let trial = usize::try_from(array.base + index).unwrap();
                self.planner.submitted(trial, id);
                self.known.insert(trial, id);
                let restarts = 0;
                self.pending.push_back(Task {
                    id,
                    trial,
                    restarts,
                });
            }
            self.later(Duration::from_millis(300), Event::Schedule);
        }
        let queue = self.queue();
        let changed = self.planner.to_check(&queue, self.now);
        self.most_checks = self.most_checks.max(changed.len());
        for (trial, gone) in changed {
            self.check(trial, gone);
        }
        self.later(ROUND, Event::Coordinator);
    }

    fn queue(&self) -> BTreeMap<TaskId, Queued> {
        let pending = self.pending.iter().map(|task| (task.id, Queued::Pending));
        let running = self.running.keys().map(|id| (*id, Queued::Running));
        pending.chain(running).collect()
    }

    fn check(&mut self, trial: usize, gone: Option<TaskId>) {
        let is_visible = self.visible.get(&trial).is_none_or(|at| *at <= self.now);
        let record = finished(&self.folder(trial), None).filter(|_| is_visible);
        let end = gone.map(|task| self.ends.get(&task).copied().unwrap_or(TaskEnd::Gone));
        // Like the head: the lease is relevant only after the task has ended.
        let lease = end.map_or(LeaseState::Free, |_| self.claimed(trial));
        let seen = TrialObservation {
            record: record.map(|record| record.outcome),
            lease,
            end,
        };
        let step = self.planner.decide(trial, seen, self.now);
        if let Step::Conclude(outcome, message) = step {
            let dead = LostTrial {
                first: &|| serde_json::from_value(record_of(trial, outcome)).unwrap(),
                folder: &self.folder(trial),
                leases: &self.leases(trial),
            };
            let who = Holder::here("head", None);
            let concluded = dead.conclude(&who, outcome, message).unwrap().outcome;
            if !concluded.is_infrastructure() {
                self.settled_at.entry(trial).or_insert(self.now);
            }
            let seen = TrialObservation {
                record: Some(concluded),
                ..seen
            };
            self.planner.decide(trial, seen, self.now);
        }
    }

    fn claimed(&self, trial: usize) -> LeaseState {
        match self.leases(trial).last().unwrap() {
            None => LeaseState::Free,
            Some(seen) => match seen.ended {
                Some(ended) => LeaseState::Over(ended),
                None if seen.is_silent(STALE, at(self.now)) => LeaseState::Free,
                None => LeaseState::Alive,
            },
        }
    }

    /// Another head takes over, with only the disk and the queue.
    fn head_dies(&mut self) {
        self.planner = Planner::new(self.size.trials, RETRIES);
        let (queue, ends) = (self.queue(), self.ends.clone());
        let mut known = self.known.clone();
        for trial in 0..self.size.trials {
            if settled(&self.folder(trial), "r").is_some() {
                self.planner.over(trial);
            }
            let is_queued = queue.contains_key(&known[&trial]);
            if !is_queued && finished(&self.folder(trial), None).is_some() {
                known.remove(&trial);
            }
        }
        self.planner.restore(&known, &queue, |task| {
            ends.get(&task).copied().unwrap_or(TaskEnd::Gone)
        });
    }

    fn schedule(&mut self) {
        for node in 0..self.size.nodes {
            while !self.down.contains(&node) && self.nodes[node].len() < SLOTS {
                let Some(task) = self.pending.pop_front() else {
                    return;
                };
                self.start(task, node);
            }
        }
    }

    fn start(&mut self, task: Task, node: usize) {
        let job = JobName {
            name: format!("{}_{}", task.id.job, task.id.index),
            restarts: task.restarts,
        };
        let who = Holder::here("node", Some(job));
        let leases = self.leases(task.trial);
        let now = self.now;
        let taken = leases
            .take(&who, Evidence::Silence(STALE), &|| Ok(at(now)))
            .unwrap();
        let Taken::Ours(lease) = taken else {
            return self.ended(task);
        };
        lease.beat_at(at(now)).unwrap();
        let folder = self.folder(task.trial);
        if settled(&folder, "r").is_some() {
            lease.end(Ended::Recorded).unwrap();
            return self.ended(task);
        }
        assert!(
            !self.settled_at.contains_key(&task.trial),
            "a trial with a record is started again"
        );
        set_aside(&folder).unwrap();
        let artifacts = folder.join("artifacts");
        fs_err::create_dir_all(&artifacts).unwrap();
        let number = self.processes.len();
        self.processes.push(Process {
            task,
            node,
            lease: Some(lease),
            dir: DirHandle::open(&artifacts).unwrap(),
            lives: true,
        });
        self.nodes[node].insert(number);
        self.running.insert(task.id, number);
        let (first, whole) = (
            self.dice.millis(100, 3_000),
            self.dice.millis(2_000, 40_000),
        );
        self.later(first, Event::Beat(number));
        self.later(whole, Event::Finish(number));
        // Some exceed their time or memory limit.
        if self.dice.percent(1) {
            let after = self.dice.millis(1_000, 45_000);
            self.later(after, Event::Killed(number));
        }
    }

    /// A task has ended for Slurm.
    fn ended(&mut self, task: Task) {
        self.running.remove(&task.id);
        self.ends.insert(task.id, TaskEnd::Gone);
        self.later(Duration::ZERO, Event::Schedule);
    }

    fn beat(&mut self, number: usize) {
        let (now, process) = (self.now, &mut self.processes[number]);
        let Some(lease) = process.lease.as_ref().filter(|_| process.lives) else {
            return;
        };
        if lease.beat_at(at(now)).unwrap() == Ownership::Lost {
            self.stop(number);
            return;
        }
        // Occasionally the file system hangs for longer than any timeout.
        let stalls = self.dice.below(2_000) == 0;
        let next = if stalls { STALE * 2 } else { BEAT };
        self.later(next, Event::Beat(number));
    }

    /// A process ends without writing anything more.
    fn stop(&mut self, number: usize) {
        let process = &mut self.processes[number];
        process.lives = false;
        process.lease = None;
        let (task, node) = (process.task, process.node);
        self.nodes[node].remove(&number);
        if self.running.get(&task.id) == Some(&number) {
            self.ended(task);
        }
    }

    /// Slurm kills and reports a task that exceeds its limits; an unreachable process continues.
    fn killed(&mut self, number: usize) {
        let process = &self.processes[number];
        let task = process.task;
        let is_its = self.running.get(&task.id) == Some(&number);
        if !process.lives || !is_its || self.down.contains(&process.node) {
            return;
        }
        let end = if self.dice.percent(50) {
            TaskEnd::Timeout
        } else {
            TaskEnd::Memory
        };
        self.stop(number);
        self.ends.insert(task.id, end);
    }

    fn finish(&mut self, number: usize) {
        if !self.processes[number].lives {
            return;
        }
        let trial = self.processes[number].task.trial;
        let lease = self.processes[number].lease.as_ref().unwrap();
        if lease.ownership().unwrap() == Ownership::Lost {
            return self.stop(number);
        }
        // Some trials end with a rate limit.
        let outcome = if self.dice.percent(4) {
            Outcome::RateLimit
        } else {
            Outcome::Completed
        };
        write_record(&self.processes[number].dir, trial, outcome);
        let lease = self.processes[number].lease.take().unwrap();
        if lease.ownership().unwrap() == Ownership::Ours {
            lease.end(Ended::Recorded).unwrap();
            if outcome == Outcome::Completed {
                let before = self.settled_at.insert(trial, self.now);
                assert_eq!(before, None, "a trial was completed twice");
            }
            let slow = if self.dice.percent(1) { 20_000 } else { 4_000 };
            let seen = self.now + self.dice.millis(0, slow);
            self.visible.insert(trial, seen);
        }
        self.stop(number);
    }

    /// A node dies, or is only unreachable for Slurm: then its processes continue.
    fn node_fails(&mut self, node: usize) {
        if !self.down.insert(node) {
            return;
        }
        if self.dice.percent(60) {
            for number in self.nodes[node].clone() {
                self.processes[number].lives = false;
                self.processes[number].lease = None;
            }
        }
        self.later(NOTICE, Event::Noticed(node));
    }

    fn noticed(&mut self, node: usize) {
        let here = std::mem::take(&mut self.nodes[node]);
        for number in here {
            let mut task = self.processes[number].task;
            if self.running.get(&task.id) != Some(&number) {
                continue;
            }
            self.running.remove(&task.id);
            if self.dice.percent(70) {
                task.restarts += 1;
                self.pending.push_back(task);
            } else {
                self.ends.insert(task.id, TaskEnd::Gone);
            }
        }
        let back = self.dice.millis(10_000, 300_000);
        self.later(back, Event::NodeIsBack(node));
        let again = self.dice.millis(300_000, 1_800_000);
        self.later(again, Event::NodeFails(node));
        self.later(Duration::ZERO, Event::Schedule);
    }
}

fn write_record(dir: &DirHandle, trial: usize, outcome: Outcome) {
    let record = record_of(trial, outcome);
    dir.write_json(RECORD_FILE, &record).unwrap();
}

fn record_of(trial: usize, outcome: Outcome) -> Value {
    let status = if outcome.is_infrastructure() {
        "error"
    } else {
        "passed"
    };
    json!({
        "version": "1.0.0", "run_id": "r", "trial": trial, "outcome": outcome, "status": status,
        "agent": {"name": "a", "type": "null", "adapter_version": "0"},
        "task": {"name": "t", "config_file": "", "config_hash": "", "repo": ""},
        "started_at": "", "completed_at": "", "counts": proctor_record::session::Counts::default(),
        "verdicts": [], "errors": [], "notes": [],
        "host": {"os": "", "arch": "", "cpus": 1}, "proctor_version": "0",
    })
}

/// Runs the simulation with this seed and checks the result.
fn simulate(size: Size, seed: u64) {
    let memory = std::path::Path::new("/dev/shm");
    let parent = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let dir = tempfile::tempdir_in(parent).unwrap();
    let root = Utf8Path::from_path(dir.path()).unwrap();
    let mut world = World::new(root, size, seed);
    world.run();
    for trial in 0..size.trials {
        let record = finished(&world.folder(trial), None);
        let record = record.unwrap_or_else(|| panic!("seed {seed}: trial {trial} has no record"));
        let has_settled = world.settled_at.contains_key(&trial);
        let is_settled = !record.outcome.is_infrastructure();
        assert_eq!(is_settled, has_settled, "seed {seed}: trial {trial}");
    }
    // The head checks only running and ended trials, regardless of the number of trials.
    let most = size.nodes * SLOTS * 4;
    assert!(world.most_checks <= most, "{} checks", world.most_checks);
}

/// `scripts/simulate` requests a large run with many seeds; the default is a small one with a few.
#[test]
fn every_trial_has_one_record_despite_failures() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the size comes from the environment"
    )]
    let wanted = std::env::var("PROCTOR_SIMULATE").ok();
    let wanted: Option<Vec<u64>> =
        wanted.map(|text| text.split(' ').map(|part| part.parse().unwrap()).collect());
    let (first, seeds, nodes, trials) = match wanted.as_deref() {
        None => (0, 20, 10, 300),
        Some(&[first, seeds, nodes, trials]) => (first, seeds, nodes, trials),
        Some(other) => panic!("four numbers, not {other:?}"),
    };
    let size = Size {
        nodes: usize::try_from(nodes).unwrap(),
        trials: usize::try_from(trials).unwrap(),
    };
    for seed in first..first + seeds {
        simulate(size, seed);
    }
}
