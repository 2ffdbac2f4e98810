//! The figures of tasks: floor and ceiling, problems, and each agent on each task.

use proctor_record::{record::TrialStatus, text::counted};
use serde::Serialize;

use crate::stats::Calibration;
use crate::{
    model::agent::{Role, Row},
    trials::{TaskRow, Trial, Trials},
};

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskReport {
    /// Its name, category, hashes and places.
    #[serde(flatten)]
    pub row: TaskRow,
    /// The name, repeated for serialization.
    #[serde(skip)]
    pub name: String,
    /// The score of the null agent; null if there was none.
    pub floor: Option<f64>,
    /// The score of the reference solution; null if it was not run.
    pub ceiling: Option<f64>,
    /// The scale from floor to ceiling; null if one is missing, or they do not differ.
    pub calibration: Option<Calibration>,
    /// Why the task is broken.
    pub broken: Vec<String>,
    /// Judged trials of contestants.
    pub judged: usize,
    /// Their mean score.
    pub mean: Option<f64>,
}

/// One agent on one task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The agent.
    pub agent: String,
    /// The task.
    pub task: String,
    /// All trials.
    pub trials: usize,
    /// Trials with a score.
    pub judged: usize,
    /// Passed trials.
    pub passed: usize,
    /// The mean score; null without a judged trial.
    pub score: Option<f64>,
}

/// Sums over the trials of one task.
#[derive(Clone, Copy, Default)]
struct Sum {
    judged: usize,
    passed: usize,
    score: f64,
}

impl Sum {
    fn mean(self) -> Option<f64> {
        (self.judged > 0).then(|| self.score / self.judged as f64)
    }
}

pub(crate) fn task_reports(trials: &Trials, rows: &[Row]) -> Vec<TaskReport> {
    let of = |role: Role| rows.iter().filter(move |row| row.role == role);
    let sums = |trials_of: &mut dyn Iterator<Item = &Trial>| {
        let mut sums = vec![Sum::default(); trials.tasks.len()];
        for trial in trials_of {
            let Some(score) = trial.score else { continue };
            let sum = &mut sums[trial.task];
            sum.judged += 1;
            sum.passed += usize::from(trial.status == TrialStatus::Passed);
            sum.score += score;
        }
        sums
    };
    // Of several definitions of the null agent or of the oracle, the one that makes the scale smaller counts.
    let outermost = |role: Role, is_beyond: fn(f64, f64) -> bool| {
        let mut chosen = vec![Sum::default(); trials.tasks.len()];
        for row in of(role) {
            let sums = sums(&mut row.trials.iter());
            for (chosen, sum) in chosen.iter_mut().zip(sums) {
                let is_better = match (chosen.mean(), sum.mean()) {
                    (Some(known), Some(mean)) => is_beyond(mean, known),
                    (None, Some(_)) => true,
                    (_, None) => false,
                };
                if is_better {
                    *chosen = sum;
                }
            }
        }
        chosen
    };
    let floors = outermost(Role::Floor, |mean, known| mean > known);
    let ceilings = outermost(Role::Ceiling, |mean, known| mean < known);
    let contenders = sums(&mut of(Role::Contender).flat_map(|row| row.trials));
    let tasks = trials.tasks.iter().enumerate();
    let report = |(number, row): (usize, &TaskRow)| {
        let (floor, ceiling) = (floors[number], ceilings[number]);
        let both = floor.mean().zip(ceiling.mean());
        TaskReport {
            row: row.clone(),
            name: row.name.clone(),
            floor: floor.mean(),
            ceiling: ceiling.mean(),
            calibration: both.and_then(|(low, high)| Calibration::new(low, high).ok()),
            broken: broken(floor, ceiling),
            judged: contenders[number].judged,
            mean: contenders[number].mean(),
        }
    };
    tasks.map(report).collect()
}

fn broken(floor: Sum, ceiling: Sum) -> Vec<String> {
    let mut reasons = Vec::new();
    if floor.passed > 0 {
        reasons.push(format!(
            "doing nothing passes {} of {}",
            floor.passed,
            counted(floor.judged, "trial")
        ));
    }
    if ceiling.passed < ceiling.judged {
        let failed = ceiling.judged - ceiling.passed;
        reasons.push(format!(
            "the reference solution fails {failed} of {}",
            counted(ceiling.judged, "trial")
        ));
    }
    if let Some((low, high)) = floor.mean().zip(ceiling.mean())
        && reasons.is_empty()
        && let Err(flat) = Calibration::new(low, high)
    {
        reasons.push(flat.to_string());
    }
    reasons
}

pub(crate) fn cells(trials: &Trials, rows: &[Row]) -> Vec<Cell> {
    let cell = |row: &Row, own: &[crate::Trial]| {
        let scores: Vec<f64> = own.iter().filter_map(|trial| trial.score).collect();
        let passed = own
            .iter()
            .filter(|trial| trial.status == TrialStatus::Passed);
        Cell {
            agent: row.agent.name.clone(),
            task: trials.tasks[own[0].task].name.clone(),
            trials: own.len(),
            judged: scores.len(),
            passed: passed.count(),
            score: (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64),
        }
    };
    rows.iter()
        .flat_map(|row| {
            let tasks = row.trials.chunk_by(|one, other| one.task == other.task);
            tasks.map(|own| cell(row, own))
        })
        .collect()
}
