//! The recorded runs: finds and summarizes them, with few and small reads.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use serde::{Deserialize, Serialize};

use crate::{
    fs::{LOCK_FILE, is_locked},
    parallel_map::parallel_map,
    record::{
        self, PLAN_FILE, PlanFile, SUMMARY_FILE, TrialStatus,
        follow::{SeenRecord, trial_folders},
    },
    usage::Usd,
};

/// The search depth for runs: `<dir>/<suite>/runs/<id>`.
const DEEPEST: usize = 3;
/// The length of the time and the random digits at the end of a run's name.
const ID_LENGTH: usize = 24;

/// A summary of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunListing {
    /// The name of its directory.
    pub name: String,
    /// Its folder.
    pub run_dir: Utf8PathBuf,
    /// When it was started.
    pub started_at: Option<Timestamp>,
    /// The suite's file, or the task of a run of one task.
    pub suite: Option<String>,
    /// The labels that the user gave it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its agents.
    pub agents: BTreeSet<String>,
    /// Whether a live process runs it.
    pub is_running: bool,
    /// The number of trials.
    pub trials: usize,
    /// The number of finished trials.
    pub done: usize,
    /// The number of passed trials.
    pub passed: usize,
    /// The number of failed trials.
    pub failed: usize,
    /// The number of excluded trials.
    pub errors: usize,
    /// The cost; null if it is unknown for a trial, or no trial has finished.
    pub cost_usd: Option<Usd>,
}

/// The runs in a directory and below it, or the run itself; newest first.
pub fn list(folder: &Utf8Path) -> Vec<RunListing> {
    let mut runs = parallel_map(&find(folder), |run| look(run));
    runs.sort_by(|one, other| {
        let key = |run: &RunListing| (run.started_at, run.name.clone());
        key(other).cmp(&key(one))
    });
    runs
}

/// The directories of runs in a directory and below it.
pub fn find(folder: &Utf8Path) -> Vec<Utf8PathBuf> {
    let mut found = Vec::new();
    find_below(folder, DEEPEST, &mut found);
    found
}

fn find_below(folder: &Utf8Path, depth: usize, found: &mut Vec<Utf8PathBuf>) {
    if is_run(folder) {
        found.push(folder.to_owned());
        return;
    }
    if depth == 0 {
        return;
    }
    for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
        // The target of a link such as `latest` is found anyway.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find_below(entry.path(), depth - 1, found);
        }
    }
}

/// Whether a directory is a run, by its name and its lock.
pub fn is_run(folder: &Utf8Path) -> bool {
    folder
        .file_name()
        .is_some_and(|name| started_at(name).is_some())
        && folder.join(LOCK_FILE).is_file()
}

/// The start time of a run, from its name.
pub fn started_at(name: &str) -> Option<Timestamp> {
    let id = name.get(name.len().checked_sub(ID_LENGTH)?..)?;
    let (time, random) = id.rsplit_once('-')?;
    let is_random = random.bytes().all(|byte| byte.is_ascii_hexdigit());
    let time = DateTime::strptime("%Y%m%d-%H%M%S", time).ok()?;
    let time = TimeZone::UTC.to_timestamp(time).ok()?;
    is_random.then_some(time)
}

/// The fields of `summary.json` and `meta.json` for a listing.
#[derive(Deserialize)]
struct RunTotals {
    #[serde(default)]
    not_run: usize,
    trials: Vec<SummaryTrial>,
}

#[derive(Deserialize)]
struct SummaryTrial {
    agent: String,
    #[serde(default)]
    task: String,
    status: TrialStatus,
    cost_usd: Option<Usd>,
}

#[derive(Deserialize)]
struct SeenMeta {
    status: TrialStatus,
    total_cost_usd: Option<Usd>,
    gateway: Option<SeenGateway>,
}

/// The gateway's account in `meta.json`, which takes precedence over the agent's own.
#[derive(Deserialize)]
struct SeenGateway {
    total_cost_usd: Option<Usd>,
}

/// The fields of `plan.json` for a finished run.
#[derive(Deserialize)]
struct PlanNames {
    suite: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

fn read<T: for<'de> Deserialize<'de>>(path: &Utf8Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Summarizes a run.
pub fn look(run: &Utf8Path) -> RunListing {
    let name = run.file_name().unwrap_or_default().to_owned();
    let mut listing = RunListing {
        started_at: started_at(&name),
        name,
        run_dir: run.to_owned(),
        suite: None,
        labels: BTreeMap::new(),
        agents: BTreeSet::new(),
        is_running: is_locked(run),
        trials: 0,
        done: 0,
        passed: 0,
        failed: 0,
        errors: 0,
        cost_usd: None,
    };
    let costs = if listing.is_running {
        // A summary would be from before the run was resumed.
        listing.add_plan(run)
    } else {
        listing.add_summary(run).or_else(|| listing.add_plan(run))
    };
    let costs = costs.unwrap_or_else(|| listing.add_records(run));
    listing.cost_usd = if costs.is_empty() {
        None
    } else {
        costs.into_iter().sum()
    };
    listing
}

type Costs = Vec<Option<Usd>>;

impl RunListing {
    fn add_summary(&mut self, run: &Utf8Path) -> Option<Costs> {
        let summary: RunTotals = read(&run.join(SUMMARY_FILE))?;
        let plan: PlanNames = read(&run.join(PLAN_FILE))?;
        self.trials = summary.trials.len() + summary.not_run;
        let costs = summary.trials.into_iter().map(|trial| {
            self.count(trial.status);
            self.add_agent(trial.agent);
            self.add_task(trial.task);
            trial.cost_usd
        });
        let costs = costs.collect();
        self.suite = plan.suite.or(self.suite.take());
        self.labels = plan.labels;
        Some(costs)
    }

    fn add_plan(&mut self, run: &Utf8Path) -> Option<Costs> {
        let plan = PlanFile::read(run).ok()?;
        self.trials = plan.trials.len();
        let metas = parallel_map(&plan.trials, |key| -> Option<SeenMeta> {
            read(&key.folder(run).join(record::META_FILE))
        });
        for key in plan.trials {
            self.add_agent(key.agent);
            self.add_task(key.task);
        }
        self.suite = plan.suite.or(self.suite.take());
        self.labels = plan.labels;
        let costs = metas.into_iter().flatten().map(|meta| {
            self.count(meta.status);
            let counted = meta.gateway.and_then(|gateway| gateway.total_cost_usd);
            counted.or(meta.total_cost_usd)
        });
        Some(costs.collect())
    }

    fn add_records(&mut self, run: &Utf8Path) -> Costs {
        let mut costs = Vec::new();
        for (_, folder) in trial_folders(run) {
            self.trials += 1;
            let Some(record) = SeenRecord::read(&folder) else {
                continue;
            };
            self.add_agent(record.agent.name);
            self.add_task(record.task.name);
            if record.completed_at.is_some() {
                self.count(record.status);
                costs.push(record.usage.and_then(|usage| usage.total.cost_usd));
            }
        }
        costs
    }

    /// Names a run of test cases after its task.
    fn add_task(&mut self, task: String) {
        self.suite = match self.suite.take() {
            None => Some(task),
            Some(one) if one == task => Some(one),
            Some(_) => Some("several tasks".to_owned()),
        };
    }

    fn add_agent(&mut self, agent: String) {
        if !self.agents.contains(&agent) {
            self.agents.insert(agent);
        }
    }

    fn count(&mut self, status: TrialStatus) {
        match status {
            TrialStatus::Passed => self.passed += 1,
            TrialStatus::Failed => self.failed += 1,
            TrialStatus::Error => self.errors += 1,
            // The trial runs again when the run is resumed.
            TrialStatus::Interrupted => return,
        }
        self.done += 1;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn name_of_a_run_ends_with_its_time() {
        let at = |name| started_at(name).map(|at| at.to_string());
        let expect = Some("2026-01-31T23:59:58Z".to_owned());
        assert_eq!(at("20260131-235958-00ff00ff"), expect);
        assert_eq!(at("my-run-20260131-235958-00ff00ff"), expect);
        for other in [
            "",
            "trials",
            "20261331-235958-00ff00ff",
            "20260131-235958-00ff00fg",
            "ä20260131-235958-00ff00f",
        ] {
            assert_eq!(at(other), None, "{other}");
        }
    }

    fn write(path: &Utf8Path, value: &serde_json::Value) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    }

    #[test]
    fn runs_are_found_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let whole = root.join("suite/runs/20260101-000000-00000001");
        let trial = |status| json!({"agent": "a", "status": status, "cost_usd": 0.25});
        write(
            &whole.join("summary.json"),
            &json!({"not_run": 1, "trials": [trial("passed"), trial("error")]}),
        );
        write(
            &whole.join("plan.json"),
            &json!({"seed": 0, "suite": "s.yaml", "trials": [], "labels": {"branch": "main"}}),
        );
        let killed = root.join("suite/runs/20260102-000000-00000002");
        let keys = [1, 2].map(|trial| json!({"agent": "b", "task": "t", "trial": trial}));
        write(
            &killed.join("plan.json"),
            &json!({"seed": 0, "trials": keys}),
        );
        write(
            &killed.join("trials/b/t/trial-1/meta.json"),
            &json!({"status": "failed", "total_cost_usd": null}),
        );
        let empty = root.join("suite/runs/20260103-000000-00000004");
        let keys = [json!({"agent": "c", "task": "u", "trial": 1})];
        write(
            &empty.join("plan.json"),
            &json!({"seed": 0, "trials": keys}),
        );
        for run in [&whole, &killed, &empty] {
            fs::write(run.join(".lock"), "").unwrap();
        }
        fs::create_dir_all(root.join("no-run-20260101-000000-00000003")).unwrap();
        let runs = list(root);
        let main = BTreeMap::from([("branch".to_owned(), "main".to_owned())]);
        assert_eq!(runs[2].labels, main);
        let shown: Vec<String> = runs
            .iter()
            .map(|run| {
                format!(
                    "{:?} {}/{} {} {} {} {:?}",
                    run.suite,
                    run.done,
                    run.trials,
                    run.passed,
                    run.failed,
                    run.errors,
                    run.cost_usd.map(Usd::dollars)
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "Some(\"u\") 0/1 0 0 0 None",
                "Some(\"t\") 1/2 0 1 0 None",
                "Some(\"s.yaml\") 2/3 1 0 1 Some(0.5)",
            ]
        );
    }
}
