//! The time and cost of planned trials, from earlier trials of the same type of agent.

use crate::{
    definitions::Defined,
    model::agent::cost,
    trials::{Trial, Trials},
};

/// An estimate for planned trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The time of all trials one after another, in milliseconds.
    pub millis: f64,
    /// The cost in dollars; `None` if it is unknown for a type of agent.
    pub cost_usd: Option<f64>,
    /// The number of earlier trials that it is from.
    pub trials: usize,
}

/// The estimate for planned trials, each with its type of agent and its task. Earlier trials of the
/// same task count if there are any. `None` if there is no earlier trial of a type of agent.
pub fn estimate<'a>(
    earlier: &Trials,
    planned: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<Estimate> {
    let is_of = |trial: &&Trial, kind: &str| {
        let kinds = &earlier.agents[trial.agent].kinds;
        trial.score.is_some() && kinds.iter().any(|it| it == kind)
    };
    let mut used = vec![false; earlier.trials.len()];
    let (mut millis, mut dollars) = (0.0, Some(0.0));
    for (kind, task) in planned {
        let all = earlier.trials.iter().enumerate();
        let of_kind: Vec<(usize, &Trial)> = all.filter(|(_, it)| is_of(it, kind)).collect();
        let is_same = |it: &Trial| earlier.tasks[it.task].own_name() == task;
        let same = of_kind.iter().filter(|(_, it)| is_same(it));
        let same: Vec<(usize, &Trial)> = same.copied().collect();
        let chosen = if same.is_empty() { of_kind } else { same };
        for (at, _) in &chosen {
            used[*at] = true;
        }
        let rows = || chosen.iter().map(|(_, it)| *it);
        millis += mean(rows().filter_map(|it| Some(it.duration_ms? as f64)))?;
        dollars = dollars
            .zip(mean(rows().filter_map(cost)))
            .map(|(sum, it)| sum + it);
    }
    Some(Estimate {
        millis,
        cost_usd: dollars,
        trials: used.iter().filter(|it| **it).count(),
    })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    let number = values.len() as f64;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::made_up;

    #[test]
    fn trials_of_the_same_task_count_before_others_of_the_same_agent() {
        let earlier = made_up(&[
            ("a", "x", 1, Some(1.0), Some(1.0)),
            ("a", "x", 2, Some(0.0), Some(3.0)),
            ("a", "y", 1, Some(1.0), Some(9.0)),
            ("null", "x", 1, Some(0.0), None),
        ]);
        let of =
            |planned: &[(&'static str, &'static str)]| estimate(&earlier, planned.iter().copied());
        let found = of(&[("claude-code", "x"), ("claude-code", "x")]).unwrap();
        assert_eq!((found.cost_usd, found.trials), (Some(4.0), 2));
        // Trials take 61 and 62 seconds.
        assert!((found.millis - 123_000.0).abs() < 1e-6, "{found:?}");
        // An unknown task takes as much as others: 13 dollars for 3 trials.
        let found = of(&[("claude-code", "new")]).unwrap();
        assert!((found.cost_usd.unwrap() - 13.0 / 3.0).abs() < 1e-9);
        assert_eq!(of(&[("null", "x")]).unwrap().cost_usd, None);
        assert_eq!(of(&[("codex", "x")]), None);
    }
}
