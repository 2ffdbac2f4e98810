//! The list of trials: one line each, with as many columns as fit. The trials of each agent are below a line with its
//! score so far.

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
    groups::AgentGroup,
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

/// A line of the list.
enum ListRow {
    /// The agent of the trials below, by its number.
    Agent(usize),
    /// A trial, by its index in the run.
    Trial(usize),
}

/// The listed trials, below the lines of their agents unless there is only one.
fn rows_of(listed: &[usize], run: &RunView, groups: &[AgentGroup]) -> Vec<ListRow> {
    let mut rows = Vec::new();
    let mut last = None;
    for place in listed {
        let agent = run.trials[*place].agent.as_str();
        if groups.len() > 1 && last != Some(agent) {
            let number = groups.iter().position(|it| it.agent == agent);
            rows.extend(number.map(ListRow::Agent));
        }
        last = Some(agent);
        rows.push(ListRow::Trial(*place));
    }
    rows
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
    let groups = AgentGroup::all(run);
    let all = rows_of(&listed, run, &groups);
    let rows = height.saturating_sub(1);
    let is_chosen =
        |row: &ListRow| matches!(row, ListRow::Trial(place) if Some(*place) == state.chosen);
    // Keep the selected row in the middle if possible.
    let top = all.iter().position(is_chosen).unwrap_or(0);
    let top = top.saturating_sub(rows / 2);
    let top = top.min(all.len().saturating_sub(rows));
    let mut lines = vec![head(&columns)];
    for entry in all.iter().skip(top).take(rows) {
        let place = match entry {
            ListRow::Agent(number) => {
                lines.push(group_row(&groups[*number], &columns));
                continue;
            }
            ListRow::Trial(place) => *place,
        };
        let trial = &run.trials[place];
        let name = if groups.len() > 1 {
            format!("{} #{}", trial.task, trial.trial)
        } else {
            name(trial)
        };
        let mut row = row(trial, &name, &columns, now);
        if is_chosen(entry) {
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

/// An agent with its score so far.
fn group_row(group: &AgentGroup, columns: &Columns) -> Line<'static> {
    let wide = columns.name + 2 + columns.state + columns.elapsed;
    let text = format!("{} · {}", tame(group.agent), group.text());
    let cost = group.cost.map(|cost| format!("${:.4}", cost.dollars()));
    let parts = [
        fit(&text, wide),
        fit_right(&group.tokens.map(short).unwrap_or_default(), columns.tokens),
        fit_right(&cost.unwrap_or_default(), columns.cost),
        fit("", columns.last),
    ];
    Line::styled(parts.concat(), Style::new().add_modifier(Modifier::BOLD))
}

fn row(trial: &TrialView, name: &str, columns: &Columns, now: Timestamp) -> Line<'static> {
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
        Span::raw(fit(&tame(name), columns.name)),
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
