//! Figures as text, the same in every format.

pub(super) use proctor_record::text::columns;
use proctor_record::text::counted;

use crate::stats::{Interval, Median, Needed, PassRate, Power, RankRange};

use super::model::agent::{AgentReport, Figure, Role};

/// The text for an unknown figure.
pub(super) const UNKNOWN: &str = "–";

pub(super) fn place(agent: &AgentReport) -> String {
    match (agent.role, agent.place) {
        (Role::Contender, Some(RankRange { best, worst })) if best == worst => best.to_string(),
        (Role::Contender, Some(RankRange { best, worst })) => format!("{best}–{worst}"),
        (Role::Contender, None) => UNKNOWN.to_owned(),
        (role, _) => role.as_str().to_owned(),
    }
}

/// A mean with its interval.
pub(super) fn score(figure: Option<Figure>) -> String {
    figure.map_or(UNKNOWN.to_owned(), |it| {
        format!(
            "{:.3} {}",
            it.mean,
            interval(it.interval, |end| format!("{end:.3}"))
        )
    })
}

pub(super) fn rate(rate: Option<PassRate>) -> String {
    rate.map_or(UNKNOWN.to_owned(), |it| {
        let ends = interval(it.interval, |end| format!("{:.0}", end * 100.0));
        let tally = format!("{}/{}", it.tally.passed(), it.tally.trials());
        format!("{tally} {:.0} % {ends}", it.rate * 100.0)
    })
}

pub(super) fn interval(interval: Option<Interval>, end: impl Fn(f64) -> String) -> String {
    interval.map_or("[?]".to_owned(), |it| {
        format!("[{}, {}]", end(it.low), end(it.high))
    })
}

pub(super) fn with_ends(figure: Option<Median>, value: impl Fn(f64) -> String) -> String {
    figure.map_or(UNKNOWN.to_owned(), |it| {
        format!("{} {}", value(it.median), interval(it.interval, &value))
    })
}

/// Dollars, with as many digits as are significant.
pub fn dollars(amount: f64) -> String {
    match amount.abs() {
        size if size >= 100.0 => format!("${amount:.0}"),
        size if size >= 1.0 || size == 0.0 => format!("${amount:.2}"),
        _ => format!("${amount:.4}"),
    }
}

/// A duration.
pub fn millis(ms: f64) -> String {
    match ms / 1000.0 {
        seconds if seconds < 100.0 => format!("{seconds:.1} s"),
        seconds if seconds < 6000.0 => format!("{:.1} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

/// A number of tokens.
pub fn count(number: f64) -> String {
    match number {
        number if number < 1e4 => format!("{number:.0}"),
        number if number < 1e7 => format!("{:.0}k", number / 1e3),
        number => format!("{:.1}M", number / 1e6),
    }
}

/// A p-value, never 0.
pub(super) fn p_value(p_value: f64) -> String {
    if p_value < 0.001 {
        "<0.001".to_owned()
    } else {
        format!("{p_value:.3}")
    }
}

/// Larger numbers of further tasks or trials are not reasonable.
const MOST_REASONABLE: u64 = 1000;

/// The sample size needed to separate two agents.
pub(super) fn power(power: &Power) -> String {
    let tasks = match power.tasks {
        Needed::Enough => "would require as many tasks as these".to_owned(),
        Needed::More(more) if more <= MOST_REASONABLE => {
            format!("would require {}", counted(more, "more task"))
        }
        Needed::More(_) | Needed::OutOfReach => {
            "cannot be shown with a reasonable number of tasks".to_owned()
        }
    };
    let trials = match power.trials_per_task {
        Some(Needed::Enough) => ", or another run of as many trials".to_owned(),
        Some(Needed::More(more)) if more <= MOST_REASONABLE => {
            format!(", or {} of each", counted(more, "more trial"))
        }
        Some(Needed::More(_) | Needed::OutOfReach) => {
            "; more trials of the same tasks would not be enough".to_owned()
        }
        None => String::new(),
    };
    format!("{tasks}{trials}")
}

/// The number of further tasks or trials that would decide a rule.
pub(super) fn would_decide(needed: Needed, noun: &str) -> String {
    match needed {
        Needed::More(more) if more <= MOST_REASONABLE => {
            format!(
                "about {} would decide",
                counted(more, &format!("more {noun}"))
            )
        }
        Needed::Enough => format!("about as many {noun}s again would decide"),
        Needed::More(_) | Needed::OutOfReach => {
            format!("it cannot be decided with a reasonable number of {noun}s")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_significant_digits() {
        let shown = [0.0, 0.0912, 1.5, 123.4].map(dollars);
        assert_eq!(shown, ["$0.00", "$0.0912", "$1.50", "$123"]);
        let shown = [1_500.0, 600_000.0, 7_200_000.0].map(millis);
        assert_eq!(shown, ["1.5 s", "10.0 min", "2.0 h"]);
        assert_eq!([950.0, 45_600.0, 1.2e7].map(count), ["950", "46k", "12.0M"]);
    }

    #[test]
    fn absurd_sample_sizes_are_not_reasonable() {
        let shown = |tasks, trials_per_task| {
            power(&Power {
                detectable: None,
                trials_per_task,
                tasks,
            })
        };
        assert_eq!(shown(Needed::More(29), None), "would require 29 more tasks");
        for tasks in [Needed::More(40_390), Needed::OutOfReach] {
            assert_eq!(
                shown(tasks, None),
                "cannot be shown with a reasonable number of tasks"
            );
        }
        assert_eq!(
            shown(Needed::More(29), Some(Needed::More(40_390))),
            "would require 29 more tasks; more trials of the same tasks would not be enough"
        );
    }
}
