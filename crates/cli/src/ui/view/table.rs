//! The list of trials: one line each, with as many columns as fit.

use jiff::Timestamp;
use proctor_record::record::{
    Phase, TrialStatus,
    follow::{RunView, TrialState, TrialView},
};
use ratatui::{
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use super::{
    state::{ViewState, name},
    text::{clock, fit, fit_right, line, short, tame},
};

const STATE: usize = 11;
const ELAPSED: usize = 8;
const TOKENS: usize = 8;
const COST: usize = 9;
/// The minimum width of the name column.
const LEAST_NAME: usize = 18;

/// The width of each column; 0 hides it.
#[derive(Debug)]
struct Columns {
    name: usize,
    state: usize,
    elapsed: usize,
    tokens: usize,
    cost: usize,
    last: usize,
}

impl Columns {
    /// The columns that fit; columns on the right are dropped first.
    fn of(width: usize, with_last: bool) -> Columns {
        let mut left = width.saturating_sub(2 + LEAST_NAME);
        let mut take = |wanted: usize| {
            let taken = if left >= wanted { wanted } else { 0 };
            left -= taken;
            taken
        };
        let (state, elapsed, tokens, cost) = (take(STATE), take(ELAPSED), take(TOKENS), take(COST));
        let last = if with_last { left * 2 / 3 } else { 0 };
        Columns {
            name: width.saturating_sub(2 + state + elapsed + tokens + cost + last),
            state,
            elapsed,
            tokens,
            cost,
            last,
        }
    }
}

/// The layout of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListStyle {
    /// Next to a session.
    Narrow,
    /// In full width, with the last action of each trial.
    Wide,
}

/// Draws the list for a size: a header, and the rows around the selected one.
pub fn lines(
    state: &ViewState,
    run: &RunView,
    (width, height): (usize, usize),
    style: ListStyle,
    now: Timestamp,
) -> Vec<Line<'static>> {
    let columns = Columns::of(width, style == ListStyle::Wide);
    let listed = state.listed(run);
    let rows = height.saturating_sub(1);
    let at = listed.iter().position(|place| Some(*place) == state.chosen);
    // Keep the selected row in the middle if possible.
    let top = at.unwrap_or(0).saturating_sub(rows / 2);
    let top = top.min(listed.len().saturating_sub(rows));
    let mut lines = vec![head(&columns)];
    for place in listed.iter().skip(top).take(rows) {
        let mut row = row(&run.trials[*place], &columns, now);
        if Some(*place) == state.chosen {
            row = row.patch_style(Style::new().add_modifier(Modifier::REVERSED));
        }
        lines.push(row);
    }
    if listed.is_empty() {
        let text = if run.trials.is_empty() {
            "no trials yet"
        } else {
            "no matching trials"
        };
        lines.push(Line::from(fit(text, width)));
    }
    lines
}

fn head(columns: &Columns) -> Line<'static> {
    let text = [
        fit("  trial", columns.name + 2),
        fit(" state", columns.state),
        fit_right("time", columns.elapsed),
        fit_right("tokens", columns.tokens),
        fit_right("cost", columns.cost),
        fit(" last", columns.last),
    ];
    Line::styled(text.concat(), Style::new().add_modifier(Modifier::DIM))
}

fn row(trial: &TrialView, columns: &Columns, now: Timestamp) -> Line<'static> {
    let (mark, word, color) = state_of(trial.state);
    let unknown = || "–".to_owned();
    let began = trial.state != TrialState::Waiting;
    let figure = |text: Option<String>| match text {
        Some(text) => text,
        None if began => unknown(),
        None => String::new(),
    };
    let last = trial.last.as_ref().and_then(line).unwrap_or_default();
    let style = Style::new().fg(color);
    Line::from(vec![
        Span::styled(format!("{mark} "), style),
        Span::raw(fit(&tame(&name(trial)), columns.name)),
        Span::styled(fit(&format!(" {word}"), columns.state), style),
        Span::raw(fit_right(
            &figure(trial.elapsed_ms(now).map(clock)),
            columns.elapsed,
        )),
        Span::raw(fit_right(&figure(trial.tokens.map(short)), columns.tokens)),
        Span::raw(fit_right(
            &figure(trial.cost.map(|cost| format!("${:.4}", cost.dollars()))),
            columns.cost,
        )),
        Span::styled(
            fit(&format!(" {}", tame(last.trim())), columns.last),
            Style::new().add_modifier(Modifier::DIM),
        ),
    ])
}

/// The mark, text and colour of a state.
pub fn state_of(state: TrialState) -> (char, &'static str, Color) {
    match state {
        TrialState::Waiting => ('·', "waiting", Color::DarkGray),
        TrialState::Active(Phase::Preparing) => ('◌', "preparing", Color::Cyan),
        TrialState::Active(Phase::Running) => ('●', "running", Color::Cyan),
        TrialState::Active(Phase::Judging) => ('◍', "judging", Color::Cyan),
        TrialState::Dead => ('!', "killed", Color::Yellow),
        TrialState::Ended(TrialStatus::Passed, _) => ('✓', "passed", Color::Green),
        TrialState::Ended(TrialStatus::Failed, _) => ('✗', "failed", Color::Red),
        TrialState::Ended(TrialStatus::Error, _) => ('!', "excluded", Color::Yellow),
        TrialState::Ended(TrialStatus::Interrupted, _) => ('!', "ended", Color::Yellow),
    }
}
