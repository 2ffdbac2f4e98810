//! The agents of a run with their figures so far.

use std::collections::BTreeMap;

use proctor_record::{
    record::{
        TrialStatus,
        follow::{RunView, TrialState},
    },
    usage::Usd,
};

/// An agent of a run.
#[derive(Debug, Default, PartialEq)]
pub struct AgentGroup<'a> {
    pub agent: &'a str,
    trials: usize,
    ended: usize,
    passed: usize,
    /// Sums of scores, and their numbers, by task.
    scores: BTreeMap<&'a str, (f64, usize)>,
    /// The known tokens and costs so far.
    pub tokens: Option<u64>,
    pub cost: Option<Usd>,
}

impl<'a> AgentGroup<'a> {
    /// The agents, in the order of the plan.
    pub fn all(run: &'a RunView) -> Vec<AgentGroup<'a>> {
        let mut groups: Vec<AgentGroup<'a>> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for trial in &run.trials {
            let place = *places.entry(&trial.agent).or_insert(groups.len());
            if place == groups.len() {
                groups.push(AgentGroup {
                    agent: &trial.agent,
                    ..AgentGroup::default()
                });
            }
            let group = &mut groups[place];
            group.trials += 1;
            group.ended += usize::from(matches!(trial.state, TrialState::Ended(..)));
            if let Some(score) = trial.score {
                let is_passed = matches!(trial.state, TrialState::Ended(TrialStatus::Passed, _));
                group.passed += usize::from(is_passed);
                let (sum, count) = group.scores.entry(&trial.task).or_default();
                *sum += score;
                *count += 1;
            }
            let tokens = [group.tokens, trial.tokens];
            group.tokens = tokens.into_iter().flatten().reduce(|a, b| a + b);
            let costs = [group.cost, trial.cost];
            group.cost = costs.into_iter().flatten().reduce(|a, b| a + b);
        }
        groups
    }

    /// The mean over tasks of the scores so far, as in reports.
    fn score(&self) -> Option<f64> {
        let means = self.scores.values().map(|(sum, n)| sum / *n as f64);
        let sum: f64 = means.sum();
        (!self.scores.is_empty()).then(|| sum / self.scores.len() as f64)
    }

    /// The figures, the most important ones first.
    pub fn text(&self) -> String {
        let judged: usize = self.scores.values().map(|it| it.1).sum();
        let score = self.score().map_or_else(String::new, |score| {
            format!("score {score:.2}, {}/{judged} passed · ", self.passed)
        });
        format!("{score}{}/{} done", self.ended, self.trials)
    }
}

#[cfg(test)]
mod tests {
    use proctor_record::{outcome::Outcome, record::follow::TrialView};

    use super::*;

    #[test]
    fn score_so_far_is_the_mean_over_tasks() {
        let trial = |agent: &str, task: &str, score| {
            let status = TrialStatus::Passed;
            TrialView {
                agent: agent.to_owned(),
                task: task.to_owned(),
                state: TrialState::Ended(status, Outcome::Completed),
                score,
                ..TrialView::waiting(0, "trial".into())
            }
        };
        let waiting = TrialView {
            agent: "b".to_owned(),
            ..TrialView::waiting(3, "trial".into())
        };
        let run = RunView {
            trials: vec![
                trial("a", "one", Some(1.0)),
                trial("b", "one", None),
                trial("a", "one", Some(0.0)),
                trial("a", "two", Some(1.0)),
                waiting,
            ],
            ..RunView::default()
        };
        let groups = AgentGroup::all(&run);
        let shown: Vec<String> = groups
            .iter()
            .map(|it| format!("{}: {}", it.agent, it.text()))
            .collect();
        assert_eq!(
            shown,
            ["a: score 0.75, 3/3 passed · 3/3 done", "b: 1/2 done"]
        );
    }
}
