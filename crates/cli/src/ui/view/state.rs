//! What is shown of a run and what keys do to that. Nothing here draws or waits.

use proctor_harness::record::{
    TrialStatus,
    follow::{RunView, TrialState, TrialView},
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// How far a page goes.
const PAGE: usize = 10;

/// What the view is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The run is ours: it can be steered.
    Run,
    /// The run is somebody else's.
    Watch,
    /// A session is played back.
    Replay,
}

/// What of the view is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Trials and session, where there is room for both.
    Both,
    /// The trials in full width.
    Table,
    /// The session in full width.
    Session,
}

/// Which trials are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// All.
    All,
    /// Those that run.
    Active,
    /// Those that ended and did not pass.
    Bad,
}

/// What the next key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Moving and asking for things.
    Keys,
    /// Typing the filter.
    Filter,
    /// Answering whether to end the trial of this number.
    Cancel(usize),
    /// Answering whether to end the run.
    Quit,
    /// Leaving the page that explains the keys.
    Help,
}

/// What a key asks of the world outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leave the view; a run of ours is ended in order.
    Leave,
    /// End the run as Ctrl-C does: in order, and at the second time at once.
    Stop,
    /// End the trial of this number.
    Cancel(usize),
    /// Start no more trials, or start them again.
    Pause,
    /// Play faster.
    Faster,
    /// Play slower.
    Slower,
    /// Go on to later events.
    Skip,
}

/// The view's state.
#[derive(Debug)]
pub struct State {
    /// What the view is for.
    pub purpose: Purpose,
    /// What is on the screen.
    pub layout: Layout,
    /// Which trials are listed.
    pub show: Show,
    /// What the names of listed trials contain.
    pub filter: String,
    /// The chosen trial, as its place in the run.
    pub chosen: Option<usize>,
    /// Whether the choice goes on to a trial that runs when the chosen one has ended.
    pub follows: bool,
    /// How many lines above its end the session is shown.
    pub up: usize,
    /// What the next key is for.
    pub input: Input,
    /// Whether no more trials are started, or playing rests.
    pub is_paused: bool,
    /// Whether the run is being ended.
    pub is_stopping: bool,
}

impl State {
    /// The state at the start.
    pub fn new(purpose: Purpose) -> State {
        State {
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
            input: Input::Keys,
            is_paused: false,
            is_stopping: false,
        }
    }

    /// The places of the trials that are listed.
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
        let trials = run.trials.iter().enumerate();
        trials
            .filter_map(|(place, trial)| is_listed(trial).then_some(place))
            .collect()
    }

    /// Keep the choice within what is listed, and with what runs when it follows.
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

    /// Take a key in.
    pub fn key(&mut self, key: KeyEvent, run: &RunView) -> Option<Action> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(match self.purpose {
                Purpose::Run => Action::Stop,
                _ => Action::Leave,
            });
        }
        let is_yes = matches!(key.code, KeyCode::Char('y' | 'Y'));
        match std::mem::replace(&mut self.input, Input::Keys) {
            Input::Keys => {}
            Input::Filter => {
                self.input = self.typed(key.code);
                return None;
            }
            Input::Cancel(number) => return is_yes.then_some(Action::Cancel(number)),
            Input::Quit => return is_yes.then_some(Action::Leave),
            Input::Help => return None,
        }
        self.moved(key.code, run);
        self.pressed(key.code, run)
    }

    /// Take a key of the filter in; tell what the next one is for.
    fn typed(&mut self, key: KeyCode) -> Input {
        match key {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => return Input::Keys,
            KeyCode::Esc => {
                self.filter.clear();
                return Input::Keys;
            }
            _ => {}
        }
        Input::Filter
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

    /// Choose another trial of those that are listed.
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

    fn pressed(&mut self, key: KeyCode, run: &RunView) -> Option<Action> {
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
            KeyCode::Char('/') if !is_replay => self.input = Input::Filter,
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
            KeyCode::Char('?') => self.input = Input::Help,
            KeyCode::Char('c') if is_run => self.input = self.cancelling(run),
            KeyCode::Char('q') if is_run => self.input = Input::Quit,
            KeyCode::Char('q') => return Some(Action::Leave),
            KeyCode::Char('p') if is_run => return Some(Action::Pause),
            KeyCode::Char(' ' | 'p') if is_replay => return Some(Action::Pause),
            KeyCode::Char('+') if is_replay => return Some(Action::Faster),
            KeyCode::Char('-') if is_replay => return Some(Action::Slower),
            KeyCode::Right if is_replay => return Some(Action::Skip),
            _ => {}
        }
        None
    }

    /// The question whether to end the chosen trial, if it has not ended.
    fn cancelling(&self, run: &RunView) -> Input {
        let trial = self.chosen.and_then(|place| run.trials.get(place));
        let is_open =
            |trial: &&TrialView| matches!(trial.state, TrialState::Waiting | TrialState::Active(_));
        match trial.filter(is_open) {
            Some(trial) => Input::Cancel(trial.number),
            None => Input::Keys,
        }
    }
}

/// A trial's name.
pub fn name(trial: &TrialView) -> String {
    format!("{} · {} #{}", trial.agent, trial.task, trial.trial)
}
