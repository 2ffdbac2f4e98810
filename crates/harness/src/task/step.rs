//! The steps of a task: several prompts for one workspace, each judged on its own.

use std::{collections::BTreeMap, sync::Arc};

use camino::Utf8PathBuf;
use serde_json::{Map, Value, json};

use super::Task;
use crate::workspace::Healthcheck;

/// The steps of a task, in order.
#[derive(Clone, Debug)]
pub struct Steps {
    /// All steps; at least one.
    pub all: Vec<Step>,
    /// How the rewards of the steps become the reward of the trial.
    pub strategy: StepStrategy,
}

/// How the rewards of steps become the reward of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepStrategy {
    /// The mean of all steps that were judged, for each key.
    #[default]
    Mean,
    /// The rewards of the last step that was judged.
    Final,
}

impl StepStrategy {
    /// The word used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            StepStrategy::Mean => "mean",
            StepStrategy::Final => "final",
        }
    }
}

/// One step of a task.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name, which is the name of its folder.
    pub name: String,
    /// The task with the prompt, limits, solution and evaluators of this step.
    pub task: Arc<Task>,
    /// A folder that is copied into the working directory before the agent starts.
    pub workdir: Option<Utf8PathBuf>,
    /// A check that has to succeed before the agent starts.
    pub healthcheck: Option<Healthcheck>,
    /// The rewards that the next step requires, by key.
    pub min_reward: BTreeMap<String, f64>,
}

impl Step {
    /// The script of `workdir` that prepares the step.
    pub(crate) const SETUP: &str = "setup.sh";

    /// Why the next step does not start after these rewards, if it does not.
    pub(crate) fn missed(&self, rewards: Option<&Map<String, Value>>) -> Option<String> {
        missed(&self.min_reward, rewards)
    }

    /// The part of the task's definition that concerns the agent.
    pub(super) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "agent": self.task.definition(),
            "workdir": self.workdir.as_deref().map(proctor_record::fs::dir::digest),
            "healthcheck": self.healthcheck.as_ref().map(|it| &it.command),
            "min_reward": self.min_reward,
        })
    }
}

fn missed(
    min_reward: &BTreeMap<String, f64>,
    rewards: Option<&Map<String, Value>>,
) -> Option<String> {
    min_reward.iter().find_map(|(key, least)| {
        let reward = rewards.and_then(|all| all.get(key)).and_then(Value::as_f64);
        match reward {
            Some(reward) if reward >= *least => None,
            Some(reward) => Some(format!("{key} {reward} is below min_reward {least}")),
            None => Some(format!("there is no {key}, and min_reward is {least}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_reward_is_missed_by_a_lower_or_absent_reward() {
        for (least, rewards, expect) in [
            (vec![], None, None),
            (vec![("reward", 0.5)], Some(json!({"reward": 0.5})), None),
            (
                vec![("reward", 0.5)],
                Some(json!({"reward": 0.25})),
                Some("reward 0.25 is below min_reward 0.5"),
            ),
            (
                vec![("reward", 0.0)],
                Some(json!({"speed": 1})),
                Some("there is no reward, and min_reward is 0"),
            ),
            (
                vec![("a", 1.0), ("b", 2.0)],
                Some(json!({"a": 1, "b": 1.5})),
                Some("b 1.5 is below min_reward 2"),
            ),
            (
                vec![("a", 1.0)],
                None,
                Some("there is no a, and min_reward is 1"),
            ),
        ] {
            let least = least.into_iter().map(|(key, it)| (key.to_owned(), it));
            let least: BTreeMap<String, f64> = least.collect();
            let rewards = rewards.as_ref().and_then(Value::as_object);
            assert_eq!(missed(&least, rewards).as_deref(), expect);
        }
    }
}
