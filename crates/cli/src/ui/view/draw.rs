//! Draws the view: a title, the totals, trials and session, and the keys.

use jiff::Timestamp;
use proctor_record::record::{
    VerdictStatus,
    follow::{RunView, TrialState},
};
use ratatui::{
    Frame,
    layout::{Constraint, Layout as Split, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span, Text},
    widgets::{Block, Borders, Paragraph},
};

use super::{
    session::{ItemKind, SessionItem, SessionView, ToolResult},
    state::{InputMode, Layout, Purpose, Show, ViewState, name},
    table::{self, ListStyle, state_of},
    text::{clock, fit, tame},
    totals::ViewTotals,
};

/// Minimum width to show trials and session side by side.
const WIDE: u16 = 100;
/// Minimum width of the session to show times.
const WITH_TIMES: usize = 40;
const TIMES: usize = 7;

const HELP: &str = "\
↑ ↓ k j      move; in an open session, scroll
PgUp PgDn    scroll the session
g G          first or last trial
Enter →      open the session
Esc ←        back to the split view
t            table in full width
/            filter by name: Enter applies, Esc clears
Tab          show all, running, or not passed
f            follow running trials
c            cancel the chosen trial
p            pause: do not start more trials
q            quit
Ctrl-C       stop the run; twice: immediately";

/// Draw everything.
pub fn draw(
    frame: &mut Frame<'_>,
    state: &mut ViewState,
    run: &RunView,
    session: &mut SessionView,
    now: Timestamp,
) {
    let rows = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ];
    let [title, totals, body, keys] = Split::vertical(rows).areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    put(frame, title, &headline(state, run), bold);
    put(
        frame,
        totals,
        &ViewTotals::of(run, now).text(),
        Style::new(),
    );
    let mut pane = Pane {
        frame,
        state,
        run,
        now,
    };
    if pane.state.input == InputMode::Help {
        pane.frame.render_widget(Paragraph::new(HELP), body);
    } else {
        pane.body(body, session);
    }
    let style = match state.input {
        InputMode::Cancel(_) | InputMode::Quit => Style::new().fg(Color::Black).bg(Color::Yellow),
        InputMode::Filter => bold,
        InputMode::Keys | InputMode::Help => Style::new().add_modifier(Modifier::DIM),
    };
    put(frame, keys, &footer(state, run), style);
}

fn put(frame: &mut Frame<'_>, area: Rect, text: &str, style: Style) {
    let text = fit(text, usize::from(area.width));
    frame.render_widget(Line::styled(text, style), area);
}

fn headline(state: &ViewState, run: &RunView) -> String {
    let now = match (state.purpose, run.is_running) {
        (Purpose::Replay, _) if state.is_paused => "replay, paused",
        (Purpose::Replay, _) => "replay",
        _ if state.is_stopping => "stopping agents and writing records",
        (_, true) if state.is_paused => "paused: not starting more trials",
        (_, true) => "running",
        (_, false) => "ended",
    };
    let run = run.run_dir.file_name().unwrap_or_default();
    format!("proctor · {run} · {now}")
}

fn footer(state: &ViewState, run: &RunView) -> String {
    match state.input {
        InputMode::Filter => return format!("/{}▏", tame(&state.filter)),
        InputMode::Quit => {
            return "Stop the run? Agents are stopped and their records are written. y/n"
                .to_owned();
        }
        InputMode::Cancel(number) => {
            let trial = run.trials.iter().find(|trial| trial.number == number);
            let name = trial.map(name).unwrap_or_default();
            return format!("Stop {}? y/n", tame(&name));
        }
        InputMode::Keys | InputMode::Help => {}
    }
    let keys = match state.purpose {
        Purpose::Run => {
            "? help · ↑↓ move · ⏎ open · c cancel · p pause · / filter · t table · q quit"
        }
        Purpose::Watch => "? help · ↑↓ move · ⏎ open · f follow · / filter · t table · q quit",
        Purpose::Replay => "space pause · + faster · - slower · → skip · ↑↓ scroll · q quit",
    };
    let mut held = String::new();
    if !state.filter.is_empty() {
        held = format!("[/{}] ", tame(&state.filter));
    }
    match state.show {
        Show::All => {}
        Show::Active => held.push_str("[running] "),
        Show::Bad => held.push_str("[not passed] "),
    }
    format!("{held}{keys}")
}

/// The data for drawing the body.
struct Pane<'a, 'b> {
    frame: &'a mut Frame<'b>,
    state: &'a mut ViewState,
    run: &'a RunView,
    now: Timestamp,
}

impl Pane<'_, '_> {
    fn body(&mut self, area: Rect, session: &mut SessionView) {
        match self.state.layout {
            Layout::Session => self.session(area, session),
            Layout::Table => self.list(area, ListStyle::Wide),
            Layout::Both if area.width < WIDE => self.list(area, ListStyle::Narrow),
            Layout::Both => {
                let halves = [Constraint::Percentage(46), Constraint::Min(0)];
                let [left, right] = Split::horizontal(halves).areas(area);
                self.list(left, ListStyle::Narrow);
                let block = Block::new().borders(Borders::LEFT);
                let inner = block.inner(right);
                self.frame.render_widget(block, right);
                self.session(inner, session);
            }
        }
    }

    fn list(&mut self, area: Rect, style: ListStyle) {
        let size = (usize::from(area.width), usize::from(area.height));
        let lines = table::lines(self.state, self.run, size, style, self.now);
        self.frame
            .render_widget(Paragraph::new(Text::from(lines)), area);
    }

    fn session(&mut self, area: Rect, session: &mut SessionView) {
        let Some(trial) = self
            .state
            .chosen
            .and_then(|place| self.run.trials.get(place))
        else {
            return;
        };
        let (mark, word, color) = state_of(trial.state);
        let ended = match trial.state {
            TrialState::Ended(_, outcome) => format!(" ({})", outcome.as_str()),
            _ => String::new(),
        };
        let width = usize::from(area.width);
        let title = format!("{mark} {} · {word}{ended}", tame(&name(trial)));
        let mut lines = vec![Line::styled(fit(&title, width), Style::new().fg(color))];
        let changed: Vec<&str> = session.changed().collect();
        if !changed.is_empty() {
            let text = format!("  changed: {}", changed.join(", "));
            let dim = Style::new().add_modifier(Modifier::DIM);
            lines.push(Line::styled(fit(&text, width), dim));
        }
        let times = if width >= WITH_TIMES { TIMES } else { 0 };
        let rows = usize::from(area.height).saturating_sub(lines.len());
        let columns = width.saturating_sub(times + 2);
        let window = session.window(columns, rows, &mut self.state.up);
        lines.extend(window.into_iter().map(|line| session_line(line, times)));
        self.frame
            .render_widget(Paragraph::new(Text::from(lines)), area);
    }
}

fn session_line((item, text, is_first): (&SessionItem, &str, bool), times: usize) -> Line<'static> {
    let dim = Style::new().add_modifier(Modifier::DIM);
    let time = match (times, is_first) {
        (0, _) => String::new(),
        (_, true) => fit(&clock(item.t), times),
        (_, false) => " ".repeat(times),
    };
    let (mark, mark_style, style) = match item.kind {
        ItemKind::Said => (' ', Style::new(), Style::new()),
        ItemKind::Thought => ('~', dim, dim.add_modifier(Modifier::ITALIC)),
        ItemKind::Tool(ToolResult::Open) => (
            '▸',
            Style::new().fg(Color::Cyan),
            Style::new().fg(Color::Cyan),
        ),
        ItemKind::Tool(ToolResult::Good) => (
            '✓',
            Style::new().fg(Color::Green),
            Style::new().fg(Color::Cyan),
        ),
        ItemKind::Tool(ToolResult::Bad) => (
            '✗',
            Style::new().fg(Color::Red),
            Style::new().fg(Color::Cyan),
        ),
        ItemKind::Note => (
            '!',
            Style::new().fg(Color::Yellow),
            Style::new().fg(Color::Yellow),
        ),
        ItemKind::Judged(status) => judged(status),
        ItemKind::Step => ('─', dim, dim),
    };
    let mark = if is_first { mark } else { ' ' };
    Line::from(vec![
        Span::styled(time, dim),
        Span::styled(format!("{mark} "), mark_style),
        Span::styled(text.to_owned(), style),
    ])
}

fn judged(status: VerdictStatus) -> (char, Style, Style) {
    let (mark, color) = match status {
        VerdictStatus::Passed => ('✓', Color::Green),
        VerdictStatus::Failed => ('✗', Color::Red),
        VerdictStatus::Skipped => ('–', Color::DarkGray),
        VerdictStatus::Error => ('!', Color::Yellow),
    };
    (mark, Style::new().fg(color), Style::new())
}
