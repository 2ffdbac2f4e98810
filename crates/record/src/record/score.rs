//! The score of a trial: one number from 0 to 1, made of what its evaluators gave, each counting as
//! much as the task says. Gates fail a trial and add no points; if there is nothing else, the score is 1 or 0.
//! Where nothing can be said there is no score, which is not a 0.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    outcome::Outcome,
    record::{TrialStatus, Verdict, VerdictStatus},
};

/// The score of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// The score from 0 to 1. It is 0 if the agent did not complete, regardless of its work, unless
    /// the verifier of a Harbor task gave a reward.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub value: f64,
    /// The score of the work, regardless of the agent's outcome; null if an evaluator with a weight
    /// has an error.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub judged: Option<f64>,
    /// The components, in the order of the evaluators.
    pub components: Vec<Component>,
}

/// One evaluator's component of a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Component {
    /// The evaluator.
    pub evaluator: String,
    /// How much it counts; 0 for gates and for what only measures.
    #[schemars(range(min = 0.0))]
    pub weight: f64,
    /// From 0 to 1; null if the evaluator has an error, or only measures.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub value: Option<f64>,
}

impl Component {
    fn of(verdict: &Verdict) -> Component {
        let value = match (verdict.score, verdict.status) {
            _ if verdict.weight == 0.0 && verdict.score.is_none() && !verdict.gate => None,
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
    /// has a weight or is a gate.
    pub fn of(outcome: Outcome, status: TrialStatus, verdicts: &[Verdict]) -> Option<Score> {
        if matches!(status, TrialStatus::Error | TrialStatus::Interrupted) {
            return None;
        }
        let components: Vec<Component> = verdicts.iter().map(Component::of).collect();
        let has_weight = components.iter().any(|component| component.weight > 0.0);
        let judged = if has_weight {
            mean(&components)
        } else if verdicts.iter().any(|verdict| verdict.gate) {
            gates(verdicts)
        } else {
            return None;
        };
        let value = match outcome {
            Outcome::Completed => judged?,
            _ if verdicts.iter().any(Verdict::is_reward) => judged?,
            _ => 0.0,
        };
        Some(Score {
            value,
            judged,
            components,
        })
    }
}

/// Why a trial without a score is excluded, in a word or two.
pub fn exclusion(status: TrialStatus, outcome: Outcome) -> &'static str {
    match status {
        TrialStatus::Interrupted => "interrupted",
        TrialStatus::Error if outcome.is_infrastructure() => outcome.as_str(),
        TrialStatus::Error => "evaluator error",
        TrialStatus::Passed | TrialStatus::Failed => "no evaluator counts",
    }
}

/// 1 if all gates passed, 0 if one failed; unknown when one could not tell.
fn gates(verdicts: &[Verdict]) -> Option<f64> {
    let gates = || verdicts.iter().filter(|verdict| verdict.gate);
    let is = |status| gates().any(|verdict| verdict.status == status);
    if is(VerdictStatus::Failed) {
        Some(0.0)
    } else if is(VerdictStatus::Error) || is(VerdictStatus::Skipped) {
        None
    } else {
        Some(1.0)
    }
}

/// The weighted mean; unknown if a component is unknown.
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
    fn reward_is_the_score_however_the_agent_ended() {
        let mut reward = verdict(VerdictStatus::Failed, Some(0.5), 1.0);
        reward.evaluator = crate::record::VERIFIER.to_owned();
        // Without a reward the agent's failure decides.
        let ended = [Outcome::AgentError, Outcome::Timeout];
        for outcome in ended {
            let all = std::slice::from_ref(&reward);
            check(outcome, TrialStatus::Failed, all, Some(0.0));
        }
        reward.metrics.insert("reward".to_owned(), 0.5.into());
        for outcome in ended {
            let all = std::slice::from_ref(&reward);
            check(outcome, TrialStatus::Failed, all, Some(0.5));
        }
        check(Outcome::Network, TrialStatus::Error, &[reward], None);
    }

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
    fn measurements_do_not_count() {
        let measure = verdict(VerdictStatus::Passed, None, 0.0);
        let failed = verdict(VerdictStatus::Failed, None, 1.0);
        let all = [measure.clone(), failed];
        check(DONE, TrialStatus::Failed, &all, Some(0.0));
        check(DONE, TrialStatus::Passed, &[measure], None);
        check(DONE, TrialStatus::Passed, &[], None);
    }

    #[test]
    fn gates_add_no_points_and_alone_they_are_1_or_0() {
        use VerdictStatus::{Error, Failed, Passed};
        let gate = |status| Verdict {
            gate: true,
            ..verdict(status, None, 0.0)
        };
        let tests = |status| verdict(status, None, 1.0);
        let (passed, failed) = (TrialStatus::Passed, TrialStatus::Failed);
        for (status, verdicts, expect) in [
            // Doing nothing keeps within all limits.
            (failed, vec![tests(Failed), gate(Passed)], Some(0.0)),
            (passed, vec![tests(Passed), gate(Passed)], Some(1.0)),
            (failed, vec![tests(Passed), gate(Failed)], Some(1.0)),
            (passed, vec![gate(Passed), gate(Passed)], Some(1.0)),
            (failed, vec![gate(Passed), gate(Failed)], Some(0.0)),
            (failed, vec![gate(Error), gate(Failed)], Some(0.0)),
            (TrialStatus::Error, vec![gate(Error), gate(Passed)], None),
            (
                passed,
                vec![verdict(Passed, None, 0.0), gate(Passed)],
                Some(1.0),
            ),
        ] {
            check(DONE, status, &verdicts, expect);
        }
        let score = Score::of(DONE, failed, &[tests(Passed), gate(Failed)]).unwrap();
        let parts: Vec<_> = score.components.iter().map(|it| it.value).collect();
        assert_eq!(parts, [Some(1.0), Some(0.0)]);
    }

    #[test]
    fn evaluator_with_an_error_does_not_score_0() {
        let passed = verdict(VerdictStatus::Passed, None, 1.0);
        let broke = verdict(VerdictStatus::Error, None, 1.0);
        check(DONE, TrialStatus::Error, &[passed, broke.clone()], None);
        // The trial failed, but its score is unknown.
        let failed = verdict(VerdictStatus::Failed, None, 1.0);
        check(DONE, TrialStatus::Failed, &[failed, broke], None);
    }

    #[test]
    fn incomplete_agent_scores_0_with_the_judged_score_recorded() {
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
