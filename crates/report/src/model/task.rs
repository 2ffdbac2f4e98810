//! Tasks in figures: floor and ceiling, what is broken, and each agent on each of them.

use proctor_record::record::TrialStatus;
use serde::Serialize;

use crate::stats::Calibration;
use crate::{
    model::agent::{Role, Row},
    trials::{TaskRow, Trials},
};

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskReport {
    /// Its name, category, hashes and places.
    #[serde(flatten)]
    pub row: TaskRow,
    /// Its name again, for reading.
    #[serde(skip)]
    pub name: String,
    /// The score of the null agent; null if there was none.
    pub floor: Option<f64>,
    /// The score of the reference solution; null if it was not run.
    pub ceiling: Option<f64>,
    /// The scale from floor to ceiling; null when one is missing, or they do not differ.
    pub calibration: Option<Calibration>,
    /// Why nothing can be concluded from it.
    pub broken: Vec<String>,
    /// Judged trials of contenders.
    pub judged: usize,
    /// The mean score of those.
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
    /// Those with a score.
    pub judged: usize,
    /// Those that passed.
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
    let sums = |role: Role| {
        let mut sums = vec![Sum::default(); trials.tasks.len()];
        let rows = rows.iter().filter(|row| row.role == role);
        for trial in rows.flat_map(|row| row.trials) {
            let Some(score) = trial.score else { continue };
            let sum = &mut sums[trial.task];
            sum.judged += 1;
            sum.passed += usize::from(trial.status == TrialStatus::Passed);
            sum.score += score;
        }
        sums
    };
    let (floors, ceilings) = (sums(Role::Floor), sums(Role::Ceiling));
    let contenders = sums(Role::Contender);
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
            "doing nothing passes {} of {} trials",
            floor.passed, floor.judged
        ));
    }
    if ceiling.passed < ceiling.judged {
        let failed = ceiling.judged - ceiling.passed;
        reasons.push(format!(
            "the reference solution fails {failed} of {} trials",
            ceiling.judged
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
