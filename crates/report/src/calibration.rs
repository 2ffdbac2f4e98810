//! The floor and the ceiling of each task of a run, from the trials of the null agent and of the
//! reference solution, and scores on the scale between them.

use std::collections::BTreeSet;

use proctor_record::record::{TrialStatus, TrialSummary};
use serde::Serialize;

use crate::stats::Calibration;

/// Findings of a run about a task itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskSummary {
    /// The task.
    pub task: String,
    /// The score of the null agent; null if it was not judged on this task.
    pub floor: Option<f64>,
    /// The score of the reference solution; null if no oracle was judged on this task.
    pub ceiling: Option<f64>,
    /// Problems of the task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// Measures each task, and converts every score to the scale between its floor and its ceiling.
pub fn calibrate(trials: &mut [TrialSummary]) -> Vec<TaskSummary> {
    let names: BTreeSet<String> = trials.iter().map(|trial| trial.task.clone()).collect();
    let mut tasks = Vec::new();
    for name in names {
        let (task, calibration) = measure(&name, trials);
        for trial in trials.iter_mut().filter(|trial| trial.task == name) {
            let score = trial.score.zip(calibration);
            trial.normalized_score = score.map(|(score, scale)| scale.normalise(score));
        }
        tasks.push(task);
    }
    tasks
}

fn measure(name: &str, trials: &[TrialSummary]) -> (TaskSummary, Option<Calibration>) {
    let of = |kind: &str| {
        let is_meant = |trial: &&TrialSummary| trial.task == name && trial.agent_type == kind;
        trials.iter().filter(is_meant).collect::<Vec<_>>()
    };
    let (nulls, oracles) = (of("null"), of("oracle"));
    let (floor, ceiling) = (mean(&nulls), mean(&oracles));
    let mut problems = Vec::new();
    if nulls
        .iter()
        .any(|trial| trial.status == TrialStatus::Passed)
    {
        problems.push("the null agent passes the task".to_owned());
    }
    if oracles
        .iter()
        .any(|trial| trial.status == TrialStatus::Failed)
    {
        problems.push("the reference solution does not pass the task".to_owned());
    }
    let calibration = floor
        .zip(ceiling)
        .map(|(floor, ceiling)| Calibration::new(floor, ceiling));
    if let Some(Err(flat)) = &calibration {
        problems.push(flat.to_string());
    }
    let task = TaskSummary {
        task: name.to_owned(),
        floor,
        ceiling,
        problems,
    };
    (task, calibration.and_then(Result::ok))
}

/// The mean of the known scores.
fn mean(trials: &[&TrialSummary]) -> Option<f64> {
    let scores: Vec<f64> = trials.iter().filter_map(|trial| trial.score).collect();
    (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_record::outcome::Outcome;

    fn trial(kind: &str, status: TrialStatus, score: Option<f64>) -> TrialSummary {
        TrialSummary {
            agent: kind.to_owned(),
            agent_type: kind.to_owned(),
            task: "t".to_owned(),
            trial: 1,
            outcome: Outcome::Completed,
            status,
            score,
            normalized_score: None,
            iterations: None,
            record: "r".into(),
            usage: None,
            cost_usd: None,
            error: None,
            reason: None,
            replay: None,
            delivery: Vec::new(),
        }
    }

    #[test]
    fn scores_are_normalised_between_floor_and_ceiling() {
        let mut trials = [
            trial("null", TrialStatus::Failed, Some(0.2)),
            trial("oracle", TrialStatus::Passed, Some(1.0)),
            trial("some", TrialStatus::Failed, Some(0.6)),
            trial("some", TrialStatus::Error, None),
        ];
        let tasks = calibrate(&mut trials);
        assert_eq!((tasks[0].floor, tasks[0].ceiling), (Some(0.2), Some(1.0)));
        assert!(tasks[0].problems.is_empty());
        let scaled = trials[2].normalized_score.unwrap();
        assert!((scaled - 0.5).abs() < 1e-9);
        assert_eq!(trials[3].normalized_score, None);
    }

    #[test]
    fn broken_tasks_are_reported() {
        let mut trials = [
            trial("null", TrialStatus::Passed, Some(1.0)),
            trial("oracle", TrialStatus::Failed, Some(0.5)),
            trial("some", TrialStatus::Failed, Some(0.6)),
        ];
        let tasks = calibrate(&mut trials);
        assert_eq!(tasks[0].problems.len(), 3);
        assert_eq!(trials[2].normalized_score, None);
    }

    #[test]
    fn scores_are_not_normalised_without_null_and_oracle() {
        let mut trials = [trial("some", TrialStatus::Failed, Some(0.6))];
        let tasks = calibrate(&mut trials);
        assert_eq!((tasks[0].floor, tasks[0].ceiling), (None, None));
        assert_eq!(trials[0].normalized_score, None);
    }
}
