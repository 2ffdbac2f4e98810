//! Runs that are killed again and again, at instants that only look random, and resumed.

use std::collections::BTreeMap;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::process::Signal;
use serde_json::Value;

use crate::command::Program;

/// How often a suite's runs are killed, and when.
#[derive(Clone, Copy, Debug)]
pub struct Kills {
    /// How often.
    pub count: u32,
    /// The seed of the instants.
    pub seed: u64,
    /// No later than this after a start.
    pub within: Duration,
}

/// How a run is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Anew.
    Fresh,
    /// Where the latest one ended.
    Resume,
}

/// The records of the finished trials of one run, byte for byte.
#[derive(Default)]
struct Known {
    run: Utf8PathBuf,
    records: BTreeMap<Utf8PathBuf, Vec<u8>>,
}

impl Kills {
    /// Kills what `start` starts until it was killed often enough, and then lets it come to its end. Panics when a
    /// finished trial is lost, changed or run again, or when a trial has not exactly one record in the end.
    pub fn survive(self, results: &Utf8Path, start: impl Fn(Start) -> Program) {
        let mut known = Known::default();
        let mut random = self.seed;
        let mut killed = 0;
        let mut next = Start::Fresh;
        for _ in 0..self.count * 10 {
            let is_last = killed == self.count;
            let running = start(next).spawn();
            if !is_last {
                std::thread::sleep(instant(&mut random, self.within));
                running.signal(Signal::KILL);
            }
            let output = running.wait();
            let run = results.join("latest").canonicalize_utf8().ok();
            if let Some(run) = &run {
                known.update(run);
            }
            if output.signal == Some(9) {
                killed += 1;
                let has_plan = run.is_some_and(|run| run.join("plan.json").exists());
                next = if has_plan {
                    Start::Resume
                } else {
                    Start::Fresh
                };
                continue;
            }
            output.assert_code(0);
            assert_whole(&run.expect("a finished run"));
            if is_last {
                return;
            }
            next = Start::Fresh;
        }
        panic!(
            "runs end before they can be killed: {killed} of {}",
            self.count
        );
    }
}

impl Known {
    fn update(&mut self, run: &Utf8Path) {
        if self.run != run {
            *self = Self {
                run: run.to_owned(),
                ..Self::default()
            };
        }
        let now = finished(run);
        for (path, before) in &self.records {
            let same = now.get(path) == Some(before);
            assert!(same, "{path} was finished, and is not what it was");
        }
        self.records = now;
    }
}

/// The next instant: xorshift, so that every machine has the same ones.
fn instant(random: &mut u64, within: Duration) -> Duration {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    within.mul_f64((*random % 1000) as f64 / 1000.0)
}

/// The folders of trials and earlier attempts in a run.
fn trial_folders(run: &Utf8Path) -> Vec<Utf8PathBuf> {
    let below = |folder: &Utf8PathBuf| -> Vec<Utf8PathBuf> {
        let entries = folder.read_dir_utf8().into_iter().flatten().flatten();
        entries.map(|entry| entry.path().to_owned()).collect()
    };
    let agents = below(&run.join("trials"));
    let tasks = agents.iter().flat_map(below);
    tasks.flat_map(|task| below(&task)).collect()
}

fn record_in(folder: &Utf8Path) -> Option<(Vec<u8>, Value)> {
    let bytes = fs_err::read(folder.join("artifacts/record.json")).ok()?;
    let record = serde_json::from_slice(&bytes);
    let record = record.unwrap_or_else(|error| panic!("{folder}: half a record: {error}"));
    Some((bytes, record))
}

fn is_attempt(folder: &Utf8Path) -> bool {
    folder.as_str().contains(".attempt-")
}

/// The records of finished trials.
fn finished(run: &Utf8Path) -> BTreeMap<Utf8PathBuf, Vec<u8>> {
    let folders = trial_folders(run).into_iter();
    let records = folders.filter(|folder| !is_attempt(folder));
    let records = records.filter_map(|folder| Some((record_in(&folder)?, folder)));
    records
        .filter(|((_, record), _)| record["status"] != "interrupted")
        .map(|((bytes, _), folder)| (folder, bytes))
        .collect()
}

/// Every trial of the plan has one record, and all other attempts are interrupted.
fn assert_whole(run: &Utf8Path) {
    let plan = fs_err::read(run.join("plan.json")).expect("the plan");
    let plan: Value = serde_json::from_slice(&plan).expect("a plan is JSON");
    let finished = finished(run);
    let planned = plan["trials"].as_array().map_or(0, Vec::len);
    assert_eq!(finished.len(), planned, "{:?}", finished.keys());
    for folder in finished.keys() {
        for file in ["meta.json", "diff.patch"] {
            assert!(folder.join(file).exists(), "{folder} has no {file}");
        }
        let names = folder.read_dir_utf8().expect("a trial's folder").flatten();
        let private: Vec<_> = names
            .filter(|entry| entry.file_name().starts_with(".trial"))
            .collect();
        assert!(private.is_empty(), "{folder} is not tidy: {private:?}");
    }
    for attempt in trial_folders(run).iter().filter(|path| is_attempt(path)) {
        if let Some((_, record)) = record_in(attempt) {
            assert_eq!(record["status"], "interrupted", "{attempt}");
        }
    }
}
