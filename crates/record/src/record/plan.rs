//! `plan.json`: the trials of a run, so that the run can be resumed and followed.

use std::collections::{BTreeMap, BTreeSet};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    definition::{Definition, DefinitionChange, PairDigests, changes},
    lease::Leases,
    trial_path,
};

/// The trials of a run, in its directory.
pub const PLAN_FILE: &str = "plan.json";
/// The results of a run, in its directory.
pub const SUMMARY_FILE: &str = "summary.json";

/// A directory is not a run.
#[derive(Debug, thiserror::Error)]
#[error("no run to resume in {run}")]
pub struct NoRun {
    /// The directory.
    pub run: Utf8PathBuf,
}

/// The content of `plan.json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlanFile {
    /// The suite's file, as given by the user.
    #[serde(default)]
    pub suite: Option<String>,
    /// The id of the run in its records; the directory may have been renamed.
    #[serde(default)]
    pub run_id: Option<String>,
    pub seed: u64,
    pub trials: Vec<TrialKey>,
    /// The labels that the user gave the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The digests of each agent on each task; empty in runs of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairDigests>,
    /// The plan of the run's experiment: the compared agents and the analyses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Value>,
    /// The digest of the plan of an experiment before its first trial (preregistration).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered: Option<String>,
    /// The definitions that the digests stand for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, Value>,
    /// The agents that are variants, with the agents that they are variants of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variants: BTreeMap<String, String>,
    /// The digests before a resume accepted other definitions, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<PairDigests>,
}

/// A definition that is not the one that a run was started with.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedDefinition {
    /// The agent or task.
    pub subject: String,
    /// The changes.
    pub changes: Vec<DefinitionChange>,
}

/// Identifies a trial within a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrialKey {
    pub agent: String,
    pub task: String,
    pub trial: u32,
    /// Whether the directory of the run is the directory of the trial, as for a single test case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole_run: bool,
}

fn agent_of(key: &TrialKey) -> &str {
    &key.agent
}

fn task_of(key: &TrialKey) -> &str {
    &key.task
}

impl PlanFile {
    pub fn read(run: &Utf8Path) -> Result<PlanFile, NoRun> {
        let plan = fs::read(run.join(PLAN_FILE)).ok();
        let plan = plan.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        plan.ok_or_else(|| NoRun {
            run: run.to_owned(),
        })
    }

    /// Whether both plans have the same trials. The suite's file may have moved.
    pub fn is_same(&self, other: &PlanFile) -> bool {
        self.seed == other.seed
            && self.trials == other.trials
            && self.experiment == other.experiment
    }

    /// The differences of another plan, as phrases.
    pub fn differences(&self, now: &PlanFile) -> Vec<String> {
        let mut found = Vec::new();
        for (kind, before, after) in [
            ("agents", self.names(agent_of), now.names(agent_of)),
            ("tasks", self.names(task_of), now.names(task_of)),
        ] {
            for (word, names) in [("new", &after - &before), ("missing", &before - &after)] {
                if !names.is_empty() {
                    let names: Vec<String> = names.iter().map(|it| format!("`{it}`")).collect();
                    found.push(format!("{word} {kind}: {}", names.join(", ")));
                }
            }
        }
        let (before, after) = (self.trials_of_one(), now.trials_of_one());
        if before != after {
            found.push(format!("trials: {before} → {after}"));
        }
        if self.seed != now.seed {
            found.push(format!("seed: {} → {}", self.seed, now.seed));
        }
        if self.experiment != now.experiment {
            found.push("the experiment's settings".to_owned());
        }
        if found.is_empty() {
            found.push("the order or the choice of trials".to_owned());
        }
        found
    }

    fn names(&self, of: fn(&TrialKey) -> &str) -> BTreeSet<&str> {
        self.trials.iter().map(of).collect()
    }

    /// The number of trials of each agent on each task.
    fn trials_of_one(&self) -> u32 {
        let numbers = self.trials.iter().map(|key| key.trial);
        numbers.max().unwrap_or_default()
    }

    /// The digest of everything that is decided before the first trial: the trials, the definitions
    /// of agents, tasks and evaluators, and the analyses of the experiment.
    pub fn digest(&self) -> String {
        let plan = json!({
            "seed": self.seed,
            "trials": self.trials,
            "pairs": self.pairs,
            "experiment": self.experiment,
        });
        Definition::new(plan).digest
    }

    /// The digests of an agent on a task.
    pub fn pair(&self, agent: &str, task: &str) -> Option<&PairDigests> {
        let mut pairs = self.pairs.iter();
        pairs.find(|pair| pair.agent == agent && pair.task == task)
    }

    /// The definitions that `now` has otherwise, each once. Those that one of the plans does not have are not compared.
    pub fn changed(&self, now: &PlanFile) -> Vec<ChangedDefinition> {
        let mut found = Vec::new();
        for pair in &now.pairs {
            let Some(kept) = self.pair(&pair.agent, &pair.task) else {
                continue;
            };
            let (agent, task) = (&pair.agent, &pair.task);
            for (subject, before, after) in [
                (
                    format!("agent `{agent}`"),
                    &kept.agent_digest,
                    &pair.agent_digest,
                ),
                (
                    format!("task `{task}`"),
                    &kept.task_digest,
                    &pair.task_digest,
                ),
                (
                    format!("evaluators of task `{task}`"),
                    &kept.evaluators_digest,
                    &pair.evaluators_digest,
                ),
            ] {
                let changed = ChangedDefinition {
                    subject,
                    changes: changes(self.definition(before), now.definition(after)),
                };
                if before != after && !found.contains(&changed) {
                    found.push(changed);
                }
            }
        }
        found
    }

    /// Takes over the definitions of `now` for the trials that are left. The earlier ones stay, for the trials that were
    /// made from them.
    pub fn accept(&mut self, now: PlanFile) {
        let before = std::mem::take(&mut self.pairs);
        let is_other = |pair: &PairDigests| !now.pairs.contains(pair);
        self.replaced.extend(before.into_iter().filter(is_other));
        self.pairs = now.pairs;
        self.definitions.extend(now.definitions);
        self.variants = now.variants;
    }

    /// The definition with this digest.
    fn definition(&self, digest: &str) -> &Value {
        self.definitions.get(digest).unwrap_or(&Value::Null)
    }
}

impl TrialKey {
    /// The trial's directory in a run.
    pub fn folder(&self, run: &Utf8Path) -> Utf8PathBuf {
        if self.is_whole_run {
            return run.to_owned();
        }
        run.join("trials").join(self.path())
    }

    /// The leases on the trial.
    pub fn leases(&self, run: &Utf8Path) -> Leases {
        Leases::at(run.join("claims").join(self.path()))
    }

    pub fn path(&self) -> Utf8PathBuf {
        trial_path(&self.agent, &self.task, self.trial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(model: &str, prompt: &str) -> PlanFile {
        let agent = Definition::new(json!({"model": model}));
        let task = Definition::new(json!({"prompt": prompt}));
        let evaluators = Definition::new(json!([]));
        let pair = |name: &str| PairDigests {
            agent: "a".to_owned(),
            task: name.to_owned(),
            agent_digest: agent.digest.clone(),
            task_digest: task.digest.clone(),
            evaluators_digest: evaluators.digest.clone(),
        };
        let pairs = vec![pair("t"), pair("u")];
        let all = [agent, task, evaluators];
        PlanFile {
            suite: None,
            run_id: None,
            seed: 0,
            trials: Vec::new(),
            labels: BTreeMap::new(),
            pairs,
            experiment: None,
            registered: None,
            definitions: all.into_iter().map(|it| (it.digest, it.text)).collect(),
            variants: BTreeMap::new(),
            replaced: Vec::new(),
        }
    }

    #[test]
    fn accepted_definitions_replace_those_of_the_plan_and_both_are_kept() {
        let mut kept = plan("x", "p");
        let before = kept.pairs.clone();
        kept.accept(plan("y", "p"));
        assert!(kept.changed(&plan("y", "p")).is_empty());
        assert_eq!(kept.changed(&plan("x", "p")).len(), 1);
        assert_eq!(kept.replaced, before);
        for pair in kept.pairs.iter().chain(&kept.replaced) {
            assert!(kept.definitions.contains_key(&pair.agent_digest));
        }
    }

    #[test]
    fn digest_of_a_plan_covers_definitions_and_analyses_but_not_places() {
        let one = plan("x", "p");
        let moved = PlanFile {
            suite: Some("elsewhere.yaml".to_owned()),
            run_id: Some("1".to_owned()),
            ..plan("x", "p")
        };
        assert_eq!(one.digest(), moved.digest());
        let analysed = PlanFile {
            experiment: Some(json!({"looks": 4})),
            ..plan("x", "p")
        };
        for other in [plan("y", "p"), plan("x", "q"), analysed] {
            assert_ne!(one.digest(), other.digest());
        }
    }

    #[test]
    fn a_changed_definition_is_named_once_with_its_values() {
        let differences = |before: &PlanFile, after: &PlanFile| -> Vec<String> {
            let found = before.changed(after).into_iter();
            found
                .map(|it| format!("{} {}", it.subject, it.changes[0]))
                .collect()
        };
        let kept = plan("x", "p");
        assert!(differences(&kept, &plan("x", "p")).is_empty());
        let found = differences(&kept, &plan("y", "p"));
        assert_eq!(found, ["agent `a` /model: \"x\" → \"y\""]);
        let found = differences(&kept, &plan("x", "q"));
        let change = "/prompt: \"p\" → \"q\"";
        assert_eq!(
            found,
            [format!("task `t` {change}"), format!("task `u` {change}")]
        );
    }

    #[test]
    fn a_plan_of_an_older_version_has_no_definitions_to_compare() {
        let older: PlanFile = serde_json::from_value(json!({"seed": 0, "trials": []})).unwrap();
        assert!(older.changed(&plan("x", "p")).is_empty());
    }

    #[test]
    fn differences_of_plans_are_named() {
        let with = |agents: &[&str], tasks: &[&str], trials: u32, seed: u64| {
            let mut all = Vec::new();
            for agent in agents {
                for task in tasks {
                    all.extend((1..=trials).map(|trial| TrialKey {
                        agent: (*agent).to_owned(),
                        task: (*task).to_owned(),
                        trial,
                        is_whole_run: false,
                    }));
                }
            }
            PlanFile {
                trials: all,
                seed,
                ..plan("m", "p")
            }
        };
        let kept = with(&["a"], &["t", "u"], 2, 1);
        for (now, expected) in [
            (with(&["a"], &["t", "u"], 5, 1), &["trials: 2 → 5"][..]),
            (with(&["a"], &["t", "u"], 2, 3), &["seed: 1 → 3"]),
            (
                with(&["b", "c"], &["t"], 2, 1),
                &[
                    "new agents: `b`, `c`",
                    "missing agents: `a`",
                    "missing tasks: `u`",
                ],
            ),
            (
                PlanFile {
                    experiment: Some(json!({})),
                    ..with(&["a"], &["t", "u"], 2, 1)
                },
                &["the experiment's settings"],
            ),
        ] {
            assert!(!kept.is_same(&now));
            assert_eq!(kept.differences(&now), expected);
        }
    }
}
