//! The state of a run from its directory, while it runs or afterwards: reads the plan, the records
//! and the event streams, writes nothing, and holds no lock.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    fs::is_locked,
    outcome::Outcome,
    record::{self, EVENTS_FILE, Event, NoRun, Phase, PlanFile, RECORD_FILE, Tail, TrialStatus},
    usage::{Usage, Usd},
};

/// The size of the end of a stream that is read to determine a trial's current activity.
const LAST_EVENTS: u64 = 64 << 10;
/// The number of rounds between checks of trials that have not started or may be retried.
const SLOW_ROUNDS: u32 = 4;

/// The observed state of a run.
#[derive(Clone, Debug, Default)]
pub struct RunView {
    /// The run's directory.
    pub run_dir: Utf8PathBuf,
    /// Whether a live process runs it.
    pub is_running: bool,
    /// Its trials, in the order of the plan.
    pub trials: Vec<TrialView>,
    /// The expected number of trials; more than in `trials` if the plan is missing.
    pub expected: usize,
}

/// The observed state of a trial.
#[derive(Clone, Debug)]
pub struct TrialView {
    /// The index in the plan, from 0.
    pub number: usize,
    /// The agent.
    pub agent: String,
    /// The task.
    pub task: String,
    /// The number of the trial, from 1.
    pub trial: u32,
    /// Its folder.
    pub folder: Utf8PathBuf,
    /// Its current state.
    pub state: TrialState,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// The duration, if it has ended.
    pub duration_ms: Option<u64>,
    /// Tokens so far, including cached ones; `None` if unknown.
    pub tokens: Option<u64>,
    /// The tokens of earlier iterations of its agent.
    pub earlier_tokens: u64,
    /// The cost; `None` if unknown.
    pub cost: Option<Usd>,
    /// The score, if it has ended and is judged.
    pub score: Option<f64>,
    /// The last event.
    pub last: Option<Event>,
}

/// The current phase of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialState {
    /// It has not started.
    Waiting,
    /// It is active.
    Active(Phase),
    /// It was active when its run was killed.
    Dead,
    /// It has ended.
    Ended(TrialStatus, Outcome),
}

/// Observes a run repeatedly.
#[derive(Debug)]
pub struct RunWatch {
    view: RunView,
    tails: Vec<Tail>,
    has_plan: bool,
    rounds: u32,
}

/// The fields of a record that are shown.
#[derive(Deserialize)]
pub struct SeenRecord {
    trial: u32,
    pub outcome: Outcome,
    pub status: TrialStatus,
    pub agent: NamedItem,
    pub task: NamedItem,
    started_at: String,
    pub completed_at: Option<String>,
    duration_ms: Option<u64>,
    pub usage: Option<Usage>,
    score: Option<SeenScore>,
}

#[derive(Deserialize)]
struct SeenScore {
    value: f64,
}

#[derive(Deserialize)]
pub struct NamedItem {
    pub name: String,
}

impl SeenRecord {
    pub fn read(folder: &Utf8Path) -> Option<SeenRecord> {
        let bytes = fs::read(folder.join("artifacts").join(RECORD_FILE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

impl RunWatch {
    /// Opens a run. A run of test cases has no plan: its trials appear when they start.
    pub fn open(run: &Utf8Path) -> Result<RunWatch, NoRun> {
        let run_dir = record::run_folder(run).unwrap_or_else(|_| run.to_owned());
        let plan = PlanFile::read(&run_dir);
        let mut watch = RunWatch {
            view: RunView {
                run_dir,
                ..RunView::default()
            },
            tails: Vec::new(),
            has_plan: plan.is_ok(),
            rounds: 0,
        };
        for key in plan.iter().flat_map(|plan| &plan.trials) {
            let mut trial =
                TrialView::waiting(watch.view.trials.len(), key.folder(&watch.view.run_dir));
            trial.agent.clone_from(&key.agent);
            trial.task.clone_from(&key.task);
            trial.trial = key.trial;
            watch.add(trial);
        }
        watch.refresh();
        match plan {
            Err(error) if watch.view.trials.is_empty() => Err(error),
            _ => Ok(watch),
        }
    }

    /// Observes a run of test cases from its start, before it has trials.
    pub fn expecting(run: &Utf8Path, trials: usize) -> RunWatch {
        RunWatch::open(run).unwrap_or_else(|_| RunWatch {
            view: RunView {
                run_dir: run.to_owned(),
                expected: trials,
                is_running: true,
                trials: Vec::new(),
            },
            tails: Vec::new(),
            has_plan: false,
            rounds: 0,
        })
    }

    /// The observed state.
    pub fn view(&self) -> &RunView {
        &self.view
    }

    /// Reads the changes.
    pub fn refresh(&mut self) {
        self.view.is_running = is_locked(&self.view.run_dir);
        if !self.has_plan {
            for (number, folder) in trial_folders(&self.view.run_dir) {
                if self.view.trials.iter().all(|trial| trial.folder != folder) {
                    self.add(TrialView::waiting(number, folder));
                }
            }
        }
        let is_slow_round = self.rounds.is_multiple_of(SLOW_ROUNDS);
        self.rounds = self.rounds.wrapping_add(1);
        for (trial, tail) in self.view.trials.iter_mut().zip(&mut self.tails) {
            let is_looked_at = match trial.state {
                TrialState::Active(_) => true,
                TrialState::Ended(TrialStatus::Passed | TrialStatus::Failed, _) => false,
                _ => is_slow_round,
            };
            if is_looked_at {
                trial.look(tail, self.view.is_running);
            }
        }
    }

    fn add(&mut self, trial: TrialView) {
        let events = trial.folder.join("artifacts").join(EVENTS_FILE);
        self.tails.push(Tail::of_last(events, LAST_EVENTS));
        self.view.trials.push(trial);
        self.view.expected = self.view.expected.max(self.view.trials.len());
    }
}

impl TrialView {
    /// A trial that has not started, with only its directory known.
    pub fn waiting(number: usize, folder: Utf8PathBuf) -> TrialView {
        TrialView {
            number,
            agent: String::new(),
            task: String::new(),
            trial: 1,
            folder,
            state: TrialState::Waiting,
            started_at: None,
            duration_ms: None,
            tokens: None,
            earlier_tokens: 0,
            cost: None,
            score: None,
            last: None,
        }
    }

    /// The duration so far.
    pub fn elapsed_ms(&self, now: Timestamp) -> Option<u64> {
        let running = || {
            let since = now.duration_since(self.started_at?);
            u64::try_from(since.as_millis()).ok()
        };
        match self.state {
            TrialState::Active(_) => running(),
            _ => self.duration_ms,
        }
    }

    fn look(&mut self, tail: &mut Tail, is_running: bool) {
        let Some(record) = SeenRecord::read(&self.folder) else {
            return;
        };
        let key = (&record.agent.name, &record.task.name, record.trial);
        // The record of another trial is ignored.
        if !self.agent.is_empty() && key != (&self.agent, &self.task, self.trial) {
            return;
        }
        let has_ended = record.completed_at.is_some();
        if !has_ended && matches!(self.state, TrialState::Waiting | TrialState::Ended(..)) {
            self.state = TrialState::Active(Phase::Preparing);
            (self.tokens, self.cost, self.duration_ms) = (None, None, None);
            self.score = None;
        }
        for entry in tail.read() {
            self.heard(entry.event);
        }
        self.agent = record.agent.name;
        self.task = record.task.name;
        self.trial = record.trial;
        self.started_at = record.started_at.parse().ok();
        if has_ended {
            self.state = TrialState::Ended(record.status, record.outcome);
            self.duration_ms = record.duration_ms;
            let usage = record.usage.as_ref();
            self.tokens = usage.and_then(Usage::tokens).or(self.tokens);
            self.cost = usage.and_then(|usage| usage.total.cost_usd);
            self.score = record.score.map(|it| it.value);
        } else if !is_running {
            self.state = TrialState::Dead;
        } else if self.state == TrialState::Dead {
            self.state = TrialState::Active(Phase::Preparing);
        }
    }

    /// Applies an event of its stream.
    pub fn heard(&mut self, event: Event) {
        match &event {
            Event::Phase { phase } => self.state = TrialState::Active(*phase),
            Event::Judged { .. } => self.state = TrialState::Active(Phase::Judging),
            Event::Iteration { .. } => self.earlier_tokens = self.tokens.unwrap_or_default(),
            Event::Usage {
                input_tokens,
                output_tokens,
            } => {
                self.tokens = Some(self.earlier_tokens + input_tokens + output_tokens);
                return;
            }
            Event::Ended(_) | Event::Unknown | Event::ToolResult { .. } => return,
            event if event.is_session() => self.state = TrialState::Active(Phase::Running),
            _ => {}
        }
        self.last = Some(event);
    }
}

/// The directories of a run of test cases, with their indices: the run's own, or one for each.
pub fn trial_folders(run: &Utf8Path) -> Vec<(usize, Utf8PathBuf)> {
    if run.join("artifacts").is_dir() {
        return vec![(0, run.to_owned())];
    }
    let entries = run.read_dir_utf8().into_iter().flatten().flatten();
    let mut found: Vec<(usize, Utf8PathBuf)> = entries
        .filter_map(|entry| {
            let number: usize = entry.file_name().split_once('-')?.0.parse().ok()?;
            let is_trial = entry.path().join("artifacts").is_dir();
            is_trial.then(|| (number.saturating_sub(1), entry.into_path()))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(dir.path().canonicalize().unwrap()).unwrap();
        let trial = |trial| json!({"agent": "a", "task": "t", "trial": trial});
        let plan = json!({"seed": 0, "trials": [trial(1), trial(2)]});
        fs::write(path.join("plan.json"), plan.to_string()).unwrap();
        (dir, path)
    }

    fn write(run: &Utf8Path, record: &serde_json::Value, events: &str) {
        let artifacts = run.join("trials/a/t/trial-1/artifacts");
        fs::create_dir_all(&artifacts).unwrap();
        fs::write(artifacts.join(RECORD_FILE), record.to_string()).unwrap();
        fs::write(artifacts.join(EVENTS_FILE), events).unwrap();
    }

    fn record() -> serde_json::Value {
        json!({
            "trial": 1, "outcome": "interrupted", "status": "interrupted",
            "agent": {"name": "a"}, "task": {"name": "t"}, "started_at": "2026-01-01T12:00:00Z",
        })
    }

    #[test]
    fn states_of_a_trial_are_observed() {
        let (_dir, run) = run();
        let held = crate::fs::lock_dir(&run).unwrap();
        let mut watch = RunWatch::open(&run).unwrap();
        assert_eq!(watch.view().trials[0].state, TrialState::Waiting);
        let usage = "{\"t\":5,\"event\":\"usage\",\"input_tokens\":3,\"output_tokens\":4}\n";
        write(&run, &record(), usage);
        let look = |watch: &mut RunWatch| {
            for _ in 0..SLOW_ROUNDS {
                watch.refresh();
            }
            watch.view().trials[0].clone()
        };
        let trial = look(&mut watch);
        assert_eq!(trial.state, TrialState::Active(Phase::Preparing));
        assert_eq!(trial.tokens, Some(7));
        let now = "2026-01-01T12:01:00Z".parse().unwrap();
        assert_eq!(trial.elapsed_ms(now), Some(60_000));
        drop(held);
        assert_eq!(look(&mut watch).state, TrialState::Dead);
        let mut ended = record();
        ended["completed_at"] = json!("2026-01-01T12:00:09Z");
        ended["duration_ms"] = json!(9000);
        ended["status"] = json!("passed");
        ended["outcome"] = json!("completed");
        write(&run, &ended, usage);
        let trial = look(&mut watch);
        let passed = TrialState::Ended(TrialStatus::Passed, Outcome::Completed);
        assert_eq!(trial.state, passed);
        assert_eq!(trial.elapsed_ms(now), Some(9000));
        assert_eq!(watch.view().trials[1].state, TrialState::Waiting);
    }

    #[test]
    fn directory_without_a_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap();
        assert!(matches!(RunWatch::open(path), Err(NoRun { .. })));
    }
}
