//! Calls on the side: those that an agent made and left out of its own figures, such as the one for
//! a title or a commit message. They are found by what is missing, and only when that fits exactly.

use crate::{record::SideCall, usage::Figures};

/// So many calls may together be what an agent left out.
const MOST: usize = 3;
/// Among so many of a trial's last calls they are looked for.
const LOOKED_AT: usize = 200;

/// Figures that can be held against each other.
type Row = [u64; 4];

/// One way to see figures: as a row whose numbers mean the same for agent and gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Input, cached input and output, each for itself.
    Apart,
    /// All input in one: the agent does not tell what was cached.
    Together,
}

impl View {
    /// How an agent with these figures sees them.
    pub(crate) fn of(agent: &Figures) -> View {
        if agent.cache_read_tokens.is_none() && agent.cache_creation_tokens.is_none() {
            View::Together
        } else {
            View::Apart
        }
    }

    /// The names of the numbers in a row.
    pub(crate) const NAMES: [&str; 4] = [
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_creation_tokens",
    ];

    /// The numbers; `None` for those that are not known.
    pub(crate) fn numbers(self, figures: &Figures) -> [Option<u64>; 4] {
        let Figures {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: read,
            cache_creation_tokens: written,
            ..
        } = *figures;
        match self {
            View::Apart => [input, output, read, written],
            View::Together => {
                let cached = read.unwrap_or_default() + written.unwrap_or_default();
                [input.map(|input| input + cached), output, None, None]
            }
        }
    }

    /// The numbers that `agent` knows, with 0 for the others.
    fn row(self, figures: &Figures, agent: &Figures) -> Row {
        let known = self.numbers(agent);
        let mut row = self.numbers(figures).map(Option::unwrap_or_default);
        for (number, known) in row.iter_mut().zip(known) {
            if known.is_none() {
                *number = 0;
            }
        }
        row
    }
}

/// The calls without which `all` would be exactly what the agent tells; none when there are no such.
pub(crate) fn left_out(agent: &Figures, all: &Figures, calls: &[SideCall]) -> Vec<SideCall> {
    let view = View::of(agent);
    let Some(missing) = minus(view.row(all, agent), view.row(agent, agent)) else {
        return Vec::new();
    };
    let calls = &calls[calls.len().saturating_sub(LOOKED_AT)..];
    let rows: Vec<Row> = calls
        .iter()
        .map(|call| view.row(&call.figures, agent))
        .collect();
    let found = (1..=MOST).find_map(|count| exactly(count, missing, &rows));
    let found = found.unwrap_or_default();
    found.into_iter().map(|at| calls[at].clone()).collect()
}

/// `count` of the rows that add up to `missing`; late ones first, because most side calls come last.
fn exactly(count: usize, missing: Row, rows: &[Row]) -> Option<Vec<usize>> {
    if count == 0 {
        return (missing == Row::default()).then(Vec::new);
    }
    (0..rows.len()).rev().find_map(|at| {
        let is_empty = rows[at] == Row::default();
        let rest = minus(missing, rows[at]).filter(|_| !is_empty)?;
        let mut found = exactly(count - 1, rest, &rows[..at])?;
        found.push(at);
        Some(found)
    })
}

fn minus(from: Row, row: Row) -> Option<Row> {
    let mut rest = Row::default();
    for (at, rest) in rest.iter_mut().enumerate() {
        *rest = from[at].checked_sub(row[at])?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(input: u64, output: u64, read: u64) -> Figures {
        Figures {
            input_tokens: Some(input),
            output_tokens: Some(output),
            cache_read_tokens: Some(read),
            ..Figures::default()
        }
    }

    fn calls(all: &[(u64, u64, u64)]) -> Vec<SideCall> {
        let call = |(at, (input, output, read)): (usize, &(u64, u64, u64))| SideCall {
            call: at as u64 + 1,
            model: None,
            figures: figures(*input, *output, *read),
        };
        all.iter().enumerate().map(call).collect()
    }

    #[track_caller]
    fn check(agent: &Figures, all: &Figures, seen: &[(u64, u64, u64)], expect: &[u64]) {
        let found = left_out(agent, all, &calls(seen));
        let numbers: Vec<u64> = found.iter().map(|call| call.call).collect();
        assert_eq!(numbers, expect);
    }

    #[test]
    fn what_is_missing_names_the_calls() {
        let seen = [(10, 1, 0), (100, 20, 50), (7, 3, 0)];
        let all = figures(117, 24, 50);
        check(&figures(117, 24, 50), &all, &seen, &[]);
        check(&figures(107, 23, 50), &all, &seen, &[1]);
        check(&figures(110, 21, 50), &all, &seen, &[3]);
        check(&figures(100, 20, 50), &all, &seen, &[1, 3]);
    }

    #[test]
    fn nothing_is_guessed_when_no_calls_fit() {
        let seen = [(10, 1, 0), (100, 20, 50)];
        let all = figures(110, 21, 50);
        check(&figures(105, 21, 50), &all, &seen, &[]);
        // The agent tells more than there was.
        check(&figures(200, 21, 50), &all, &seen, &[]);
    }

    #[test]
    fn an_agent_that_does_not_tell_cached_input_apart_is_compared_with_all_input() {
        let agent = Figures {
            input_tokens: Some(150),
            output_tokens: Some(20),
            ..Figures::default()
        };
        check(
            &agent,
            &figures(107, 23, 50),
            &[(100, 20, 50), (7, 3, 0)],
            &[2],
        );
    }
}
