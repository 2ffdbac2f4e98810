//! The score of a trial: one number from 0 to 1, made of what its evaluators gave, each counting as
//! much as the task says. Where nothing can be said there is no score, which is not a 0.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    outcome::Outcome,
    record::{TrialStatus, Verdict, VerdictStatus},
};

/// What a trial's work is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// From 0 to 1. It is 0 when the agent did not complete, whatever its work is worth.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub value: f64,
    /// What the work is worth, whatever became of the agent; null when an evaluator that counts
    /// could not tell.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub judged: Option<f64>,
    /// What it is made of, in the order of the evaluators.
    pub components: Vec<Component>,
}

/// What one evaluator adds to a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Component {
    /// The evaluator.
    pub evaluator: String,
    /// How much it counts; 0 for what only measures.
    #[schemars(range(min = 0.0))]
    pub weight: f64,
    /// From 0 to 1; null when it could not tell, or only measures.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub value: Option<f64>,
}

impl Component {
    fn of(verdict: &Verdict) -> Component {
        let value = match (verdict.score, verdict.status) {
            _ if verdict.weight == 0.0 && verdict.score.is_none() => None,
            (Some(score), _) => Some(score),
            (None, VerdictStatus::Passed) => Some(1.0),
            (None, VerdictStatus::Failed) => Some(0.0),
            (None, VerdictStatus::Skipped | VerdictStatus::Error) => None,
        };
        Component {
            evaluator: verdict.evaluator.clone(),
            weight: verdict.weight,
            value,
        }
    }
}

impl Score {
    /// The score of a trial with this result; `None` if it cannot be determined, or if no evaluator
    /// has a weight.
    pub fn of(outcome: Outcome, status: TrialStatus, verdicts: &[Verdict]) -> Option<Score> {
        if matches!(status, TrialStatus::Error | TrialStatus::Interrupted) {
            return None;
        }
        let components: Vec<Component> = verdicts.iter().map(Component::of).collect();
        if components.iter().all(|component| component.weight == 0.0) {
            return None;
        }
        let judged = mean(&components);
        let value = match outcome {
            Outcome::Completed => judged?,
            _ => 0.0,
        };
        Some(Score {
            value,
            judged,
            components,
        })
    }
}

/// The weighted mean of what counts; unknown when a part of it is.
fn mean(components: &[Component]) -> Option<f64> {
    let counting = components.iter().filter(|one| one.weight > 0.0);
    let mut total = 0.0;
    let mut sum = 0.0;
    for component in counting {
        total += component.weight;
        sum += component.value? * component.weight;
    }
    (total > 0.0).then(|| (sum / total).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: VerdictStatus, score: Option<f64>, weight: f64) -> Verdict {
        serde_json::from_value(serde_json::json!({
            "evaluator": "x", "status": status, "score": score, "weight": weight, "metrics": {},
            "message": "", "duration_ms": 0, "timestamp": "",
        }))
        .unwrap()
    }

    #[track_caller]
    fn check(outcome: Outcome, status: TrialStatus, verdicts: &[Verdict], expect: Option<f64>) {
        let score = Score::of(outcome, status, verdicts);
        assert_eq!(score.map(|score| score.value), expect);
    }

    const DONE: Outcome = Outcome::Completed;

    #[test]
    fn verdicts_without_a_score_count_as_1_and_0_by_their_weights() {
        let passed = verdict(VerdictStatus::Passed, None, 3.0);
        let failed = verdict(VerdictStatus::Failed, None, 1.0);
        let all = [passed, failed];
        check(DONE, TrialStatus::Failed, &all, Some(0.75));
        let half = verdict(VerdictStatus::Failed, Some(0.5), 1.0);
        let all = [half, verdict(VerdictStatus::Passed, None, 1.0)];
        check(DONE, TrialStatus::Failed, &all, Some(0.75));
    }

    #[test]
    fn what_only_measures_does_not_count() {
        let measure = verdict(VerdictStatus::Passed, None, 0.0);
        let failed = verdict(VerdictStatus::Failed, None, 1.0);
        let all = [measure.clone(), failed];
        check(DONE, TrialStatus::Failed, &all, Some(0.0));
        check(DONE, TrialStatus::Passed, &[measure], None);
        check(DONE, TrialStatus::Passed, &[], None);
    }

    #[test]
    fn an_evaluator_that_broke_is_no_0() {
        let passed = verdict(VerdictStatus::Passed, None, 1.0);
        let broke = verdict(VerdictStatus::Error, None, 1.0);
        check(DONE, TrialStatus::Error, &[passed, broke.clone()], None);
        // Failed for certain, but by how much is not known.
        let failed = verdict(VerdictStatus::Failed, None, 1.0);
        check(DONE, TrialStatus::Failed, &[failed, broke], None);
    }

    #[test]
    fn an_agent_that_did_not_complete_has_0_and_what_was_judged_beside() {
        let passed = [verdict(VerdictStatus::Passed, None, 1.0)];
        for outcome in [
            Outcome::Timeout,
            Outcome::AgentError,
            Outcome::BudgetExceeded,
        ] {
            let score = Score::of(outcome, TrialStatus::Failed, &passed).unwrap();
            assert_eq!((score.value, score.judged), (0.0, Some(1.0)));
        }
        check(Outcome::Auth, TrialStatus::Error, &passed, None);
        check(
            Outcome::Interrupted,
            TrialStatus::Interrupted,
            &passed,
            None,
        );
    }
}
