//! The state of the view, and the effect of keys on it. This module does not draw or wait.

use std::collections::BTreeMap;

use proctor_record::record::{
    TrialStatus,
    follow::{RunView, TrialState, TrialView},
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The lines of a page.
const PAGE: usize = 10;

/// The purpose of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Shows a run of this process, which can be controlled.
    Run,
    /// Shows a run of another process.
    Watch,
    /// Plays back a session.
    Replay,
}

/// The layout of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Trials and session, if there is space for both.
    Both,
    /// The trials in full width.
    Table,
    /// The session in full width.
    Session,
}

/// The trials to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// All trials.
    All,
    /// Running trials.
    Active,
    /// Trials that ended and did not pass.
    Bad,
}

/// The input mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMode {
    /// Commands.
    Keys,
    /// The filter.
    Filter,
    /// The confirmation to stop the trial of this number.
    Cancel(usize),
    /// The confirmation to stop the run.
    Quit,
    /// The help page.
    Help,
}

/// Actions outside the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewAction {
    /// Close the view; a run of this process is stopped in an orderly way.
    Leave,
    /// Stop the run like Ctrl-C: orderly the first time, immediately the second time.
    Stop,
    /// Stop the trial of this number.
    Cancel(usize),
    /// Pause or continue starting trials.
    Pause,
    /// Play faster.
    Faster,
    /// Play slower.
    Slower,
    /// Skip ahead.
    Skip,
}

/// The view's state.
#[derive(Debug)]
pub struct ViewState {
    /// The purpose of the view.
    pub purpose: Purpose,
    /// The layout.
    pub layout: Layout,
    /// The trials to list.
    pub show: Show,
    /// The filter for the names of trials.
    pub filter: String,
    /// The index of the selected trial in the run.
    pub chosen: Option<usize>,
    /// Whether the selection moves to a running trial when the selected one has ended.
    pub follows: bool,
    /// The scroll position of the session, in lines above its end.
    pub up: usize,
    /// The input mode.
    pub input: InputMode,
    /// Whether starting trials or playback is paused.
    pub is_paused: bool,
    /// Whether the run is being stopped.
    pub is_stopping: bool,
}

impl ViewState {
    /// The initial state.
    pub fn new(purpose: Purpose) -> ViewState {
        ViewState {
            purpose,
            layout: match purpose {
                Purpose::Replay => Layout::Session,
                _ => Layout::Both,
            },
            show: Show::All,
            filter: String::new(),
            chosen: None,
            follows: true,
            up: 0,
            input: InputMode::Keys,
            is_paused: false,
            is_stopping: false,
        }
    }

    /// The indexes of the listed trials, agent by agent.
    pub fn listed(&self, run: &RunView) -> Vec<usize> {
        let wanted = self.filter.to_lowercase();
        let is_listed = |trial: &TrialView| {
            let is_shown = match self.show {
                Show::All => true,
                Show::Active => matches!(trial.state, TrialState::Active(_)),
                Show::Bad => !matches!(
                    trial.state,
                    TrialState::Waiting
                        | TrialState::Active(_)
                        | TrialState::Ended(TrialStatus::Passed, _)
                ),
            };
            is_shown && (wanted.is_empty() || name(trial).to_lowercase().contains(&wanted))
        };
        let mut agents: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, trial) in run.trials.iter().enumerate() {
            agents.entry(&trial.agent).or_insert(place);
        }
        let trials = run.trials.iter().enumerate();
        let mut listed: Vec<usize> = trials
            .filter_map(|(place, trial)| is_listed(trial).then_some(place))
            .collect();
        listed.sort_by_key(|place| agents[run.trials[*place].agent.as_str()]);
        listed
    }

    /// Keeps the selection within the listed trials, and follows running trials if enabled.
    pub fn settle(&mut self, run: &RunView) {
        let listed = self.listed(run);
        let is_active = |place: &usize| matches!(run.trials[*place].state, TrialState::Active(_));
        let is_listed = |place: &usize| listed.contains(place);
        if let Some(place) = self.chosen.filter(is_listed)
            && (!self.follows || is_active(&place))
        {
            return;
        }
        let active = || listed.iter().copied().find(is_active);
        let next = match (self.follows, self.chosen.filter(is_listed)) {
            (true, kept) => active().or(kept).or(listed.first().copied()),
            (false, _) => listed.first().copied(),
        };
        if next != self.chosen {
            self.chosen = next;
            self.up = 0;
        }
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent, run: &RunView) -> Option<ViewAction> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(match self.purpose {
                Purpose::Run => ViewAction::Stop,
                _ => ViewAction::Leave,
            });
        }
        let is_yes = matches!(key.code, KeyCode::Char('y' | 'Y'));
        match std::mem::replace(&mut self.input, InputMode::Keys) {
            InputMode::Keys => {}
            InputMode::Filter => {
                self.input = self.typed(key.code);
                return None;
            }
            InputMode::Cancel(number) => return is_yes.then_some(ViewAction::Cancel(number)),
            InputMode::Quit => return is_yes.then_some(ViewAction::Leave),
            InputMode::Help => return None,
        }
        self.moved(key.code, run);
        self.pressed(key.code, run)
    }

    /// Handles a key in the filter, and returns the next input mode.
    fn typed(&mut self, key: KeyCode) -> InputMode {
        match key {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => return InputMode::Keys,
            KeyCode::Esc => {
                self.filter.clear();
                return InputMode::Keys;
            }
            _ => {}
        }
        InputMode::Filter
    }

    fn moved(&mut self, key: KeyCode, run: &RunView) {
        let is_session = self.layout == Layout::Session;
        match key {
            KeyCode::Up | KeyCode::Char('k') if is_session => self.up += 1,
            KeyCode::Down | KeyCode::Char('j') if is_session => self.up = self.up.saturating_sub(1),
            KeyCode::Home | KeyCode::Char('g') if is_session => self.up = usize::MAX,
            KeyCode::End | KeyCode::Char('G') if is_session => self.up = 0,
            KeyCode::Up | KeyCode::Char('k') => self.step(run, -1),
            KeyCode::Down | KeyCode::Char('j') => self.step(run, 1),
            KeyCode::Home | KeyCode::Char('g') => self.step(run, isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(run, isize::MAX),
            KeyCode::PageUp => self.up = self.up.saturating_add(PAGE),
            KeyCode::PageDown => self.up = self.up.saturating_sub(PAGE),
            _ => {}
        }
    }

    /// Selects another listed trial.
    fn step(&mut self, run: &RunView, by: isize) {
        let listed = self.listed(run);
        let Some(last) = listed.len().checked_sub(1) else {
            return;
        };
        let at = listed.iter().position(|place| Some(*place) == self.chosen);
        let to = at.unwrap_or(0).saturating_add_signed(by).min(last);
        self.chosen = listed.get(to).copied();
        self.follows = false;
        self.up = 0;
    }

    fn pressed(&mut self, key: KeyCode, run: &RunView) -> Option<ViewAction> {
        let is_run = self.purpose == Purpose::Run;
        let is_replay = self.purpose == Purpose::Replay;
        match key {
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') if !is_replay => {
                self.layout = Layout::Session;
            }
            KeyCode::Esc | KeyCode::Left | KeyCode::Char('h') if !is_replay => {
                self.layout = Layout::Both;
            }
            KeyCode::Char('t') if !is_replay => self.layout = Layout::Table,
            KeyCode::Char('/') if !is_replay => self.input = InputMode::Filter,
            KeyCode::Tab if !is_replay => {
                self.show = match self.show {
                    Show::All => Show::Active,
                    Show::Active => Show::Bad,
                    Show::Bad => Show::All,
                }
            }
            KeyCode::Char('f') => {
                self.follows = !self.follows;
                self.up = 0;
            }
            KeyCode::Char('?') => self.input = InputMode::Help,
            KeyCode::Char('c') if is_run => self.input = self.cancelling(run),
            KeyCode::Char('q') if is_run => self.input = InputMode::Quit,
            KeyCode::Char('q') => return Some(ViewAction::Leave),
            KeyCode::Char('p') if is_run => return Some(ViewAction::Pause),
            KeyCode::Char(' ' | 'p') if is_replay => return Some(ViewAction::Pause),
            KeyCode::Char('+') if is_replay => return Some(ViewAction::Faster),
            KeyCode::Char('-') if is_replay => return Some(ViewAction::Slower),
            KeyCode::Right if is_replay => return Some(ViewAction::Skip),
            _ => {}
        }
        None
    }

    /// The confirmation to stop the selected trial, if it has not ended.
    fn cancelling(&self, run: &RunView) -> InputMode {
        let trial = self.chosen.and_then(|place| run.trials.get(place));
        let is_open =
            |trial: &&TrialView| matches!(trial.state, TrialState::Waiting | TrialState::Active(_));
        match trial.filter(is_open) {
            Some(trial) => InputMode::Cancel(trial.number),
            None => InputMode::Keys,
        }
    }
}

/// A trial's name.
pub fn name(trial: &TrialView) -> String {
    format!("{} · {} #{}", trial.agent, trial.task, trial.trial)
}
