//! Calls that an agent made and omitted from its own figures, such as those for a title or a commit
//! message. They are identified by an exact match of the missing tokens.

use proctor_record::{record::SideCall, usage::Figures};

/// The maximum number of unreported calls.
const MOST: usize = 3;
/// The number of last calls that are searched.
const LOOKED_AT: usize = 200;

/// Comparable figures.
type FigureRow = [u64; 4];

/// A representation of figures with the same meaning for agent and gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FigureView {
    /// Input, cached input and output separately.
    Apart,
    /// All input together: the agent does not report cached input.
    Together,
}

impl FigureView {
    /// The representation for an agent with these figures.
    pub(crate) fn of(agent: &Figures) -> FigureView {
        if agent.cache_read_tokens.is_none() && agent.cache_creation_tokens.is_none() {
            FigureView::Together
        } else {
            FigureView::Apart
        }
    }

    /// The names of the numbers in a row.
    pub(crate) const NAMES: [&str; 4] = [
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_creation_tokens",
    ];

    /// The numbers; `None` if unknown.
    pub(crate) fn numbers(self, figures: &Figures) -> [Option<u64>; 4] {
        let Figures {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: read,
            cache_creation_tokens: written,
            ..
        } = *figures;
        match self {
            FigureView::Apart => [input, output, read, written],
            FigureView::Together => {
                let cached = read.unwrap_or_default() + written.unwrap_or_default();
                [input.map(|input| input + cached), output, None, None]
            }
        }
    }

    /// The numbers that `agent` has, with 0 for the others.
    fn row(self, figures: &Figures, agent: &Figures) -> FigureRow {
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

/// The calls by which `all` exceeds the agent's figures exactly; empty if there are none.
pub(crate) fn left_out(agent: &Figures, all: &Figures, calls: &[SideCall]) -> Vec<SideCall> {
    let view = FigureView::of(agent);
    let Some(missing) = minus(view.row(all, agent), view.row(agent, agent)) else {
        return Vec::new();
    };
    let calls = &calls[calls.len().saturating_sub(LOOKED_AT)..];
    let rows: Vec<FigureRow> = calls
        .iter()
        .map(|call| view.row(&call.figures, agent))
        .collect();
    let found = (1..=MOST).find_map(|count| exactly(count, missing, &rows));
    let found = found.unwrap_or_default();
    found.into_iter().map(|at| calls[at].clone()).collect()
}

/// Finds `count` rows that add up to `missing`, late ones first, because most of these calls come
/// last.
fn exactly(count: usize, missing: FigureRow, rows: &[FigureRow]) -> Option<Vec<usize>> {
    if count == 0 {
        return (missing == FigureRow::default()).then(Vec::new);
    }
    (0..rows.len()).rev().find_map(|at| {
        let is_empty = rows[at] == FigureRow::default();
        let rest = minus(missing, rows[at]).filter(|_| !is_empty)?;
        let mut found = exactly(count - 1, rest, &rows[..at])?;
        found.push(at);
        Some(found)
    })
}

fn minus(from: FigureRow, row: FigureRow) -> Option<FigureRow> {
    let mut rest = FigureRow::default();
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
    fn unreported_calls_are_found_by_the_difference() {
        let seen = [(10, 1, 0), (100, 20, 50), (7, 3, 0)];
        let all = figures(117, 24, 50);
        check(&figures(117, 24, 50), &all, &seen, &[]);
        check(&figures(107, 23, 50), &all, &seen, &[1]);
        check(&figures(110, 21, 50), &all, &seen, &[3]);
        check(&figures(100, 20, 50), &all, &seen, &[1, 3]);
    }

    #[test]
    fn no_calls_are_found_without_an_exact_match() {
        let seen = [(10, 1, 0), (100, 20, 50)];
        let all = figures(110, 21, 50);
        check(&figures(105, 21, 50), &all, &seen, &[]);
        // The agent reports more than the gateway.
        check(&figures(200, 21, 50), &all, &seen, &[]);
    }

    #[test]
    fn agent_without_cached_input_is_compared_by_all_input() {
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
