//! Progress on standard error: the agent's current action, elapsed time and tokens.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    sync::Mutex,
    time::{Duration, Instant},
};

use proctor_harness::{
    host::Host,
    record::{
        follow::RunWatch,
        run_event::{Phase, RunEvent, first_line, target},
    },
};

use super::{Steering, View};
use crate::args;

const TICK: Duration = Duration::from_millis(500);
const CLEAR_LINE: &str = "\r\x1b[2K";

/// Shows progress.
pub struct Progress {
    style: Style,
    began: Instant,
    state: Mutex<State>,
    /// If set, the live view shows the run once its directory exists.
    steering: Option<Steering>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Lines, and a status line below them.
    Terminal,
    /// Lines.
    Plain,
    /// Nothing.
    Quiet,
}

struct State {
    trial: String,
    started: Instant,
    phase: Option<Phase>,
    doing: String,
    tokens: Option<(u64, u64)>,
    /// The trials of a suite that run now.
    trials: BTreeMap<usize, String>,
    /// The view that shows the run instead of lines.
    view: Option<View>,
}

impl Progress {
    /// `auto` is quiet in CI and without a terminal.
    pub fn new(wanted: args::Progress, host: &Host) -> Progress {
        let is_watched = io::stderr().is_terminal() && !host.env.contains_key("CI");
        let style = match wanted {
            args::Progress::Auto if is_watched => Style::Terminal,
            args::Progress::Plain => Style::Plain,
            args::Progress::Auto | args::Progress::Quiet => Style::Quiet,
        };
        let state = State {
            trial: String::new(),
            started: Instant::now(),
            phase: None,
            doing: String::new(),
            tokens: None,
            trials: BTreeMap::new(),
            view: None,
        };
        Progress {
            style,
            began: Instant::now(),
            state: Mutex::new(state),
            steering: None,
        }
    }

    /// Shows the run in the live view, which can control it.
    pub fn in_view(mut self, steering: Steering) -> Progress {
        self.steering = Some(steering);
        self
    }

    /// Opens the live view if requested. If that fails, progress is printed as lines.
    fn open_view(&self, state: &mut State, event: &RunEvent<'_>) {
        if let (Some(steering), RunEvent::RunStarted { run_dir, trials }) = (&self.steering, event)
        {
            let watch = RunWatch::expecting(run_dir, *trials);
            match View::start(watch, Some(steering.clone())) {
                Ok(view) => state.view = Some(view),
                Err(error) => write(&format!("could not open the live view: {error}\n")),
            }
        }
    }

    /// Show an event.
    pub fn show(&self, event: &RunEvent<'_>) {
        let mut state = self.lock();
        self.open_view(&mut state, event);
        match self.style {
            Style::Quiet => {}
            _ if state.view.is_some() => {}
            Style::Plain => {
                if let Some(line) = state.take(event) {
                    write(&format!("{line}\n"));
                }
            }
            Style::Terminal => {
                let line = state.take(event).map(|line| format!("{line}\n"));
                let line = line.unwrap_or_default();
                write(&format!("{CLEAR_LINE}{line}{}", state.status()));
            }
        }
    }

    /// Shows the start and the end of one of several trials.
    pub fn show_trial(&self, trial: usize, event: &RunEvent<'_>) {
        let mut state = self.lock();
        self.open_view(&mut state, event);
        if self.style == Style::Quiet || state.view.is_some() {
            return;
        }
        let line = match event {
            RunEvent::TrialStarted(name) => {
                let name = format!("{} on {}, trial {}", name.agent, name.task, name.trial);
                state.trials.insert(trial, name.clone());
                format!("started  {name}")
            }
            RunEvent::TrialEnded(record) => {
                let name = state.trials.remove(&trial).unwrap_or_default();
                format!(
                    "{:<8} {name} ({})",
                    record.status.as_str(),
                    record.outcome.as_str()
                )
            }
            _ => return,
        };
        let line = format!("[{}] {line}\n", elapsed(self.began));
        match self.style {
            Style::Terminal => write(&format!("{CLEAR_LINE}{line}{}", state.status())),
            _ => write(&line),
        }
    }

    /// Redraws the status line periodically.
    pub async fn tick(&self) {
        tokio::time::sleep(TICK).await;
        let state = self.lock();
        if self.style == Style::Terminal && state.view.is_none() {
            write(&format!("{CLEAR_LINE}{}", state.status()));
        }
    }

    /// The user wants to stop.
    pub fn interrupted(&self) {
        if self.style != Style::Quiet && self.lock().view.is_none() {
            write(&format!(
                "{CLEAR_LINE}interrupted: stopping the agent and writing its record (press Ctrl-C again to exit immediately)\n"
            ));
        }
    }

    /// Ends the display and restores the terminal.
    pub fn finish(&self) {
        let view = self.lock().view.take();
        if view.is_none() && self.style == Style::Terminal {
            write(CLEAR_LINE);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    /// Applies an event, and returns its line if it has one.
    fn take(&mut self, event: &RunEvent<'_>) -> Option<String> {
        let line = match event {
            RunEvent::RunStarted { .. }
            | RunEvent::SessionStarted { .. }
            | RunEvent::ToolAnswered { .. }
            | RunEvent::Thought(_) => return None,
            RunEvent::TrialStarted(name) => {
                self.trial = format!("{} on {}", name.agent, name.task);
                self.started = Instant::now();
                self.tokens = None;
                self.trial.clone()
            }
            RunEvent::Phase(phase) => {
                self.phase = Some(*phase);
                self.doing.clear();
                match phase {
                    Phase::Preparing => "preparing the workspace".to_owned(),
                    Phase::Running => "running the agent".to_owned(),
                    Phase::Judging => "judging".to_owned(),
                }
            }
            RunEvent::Iteration {
                number,
                agent,
                reason,
            } => format!("iteration {number}, {agent}: {}", reason.describe()),
            RunEvent::ToolUsed {
                tool, arguments, ..
            } => {
                self.doing = format!("{tool} {}", target(*arguments).unwrap_or_default());
                self.doing.clone()
            }
            RunEvent::Said(text) => format!("“{}”", first_line(*text)),
            RunEvent::Tokens { input, output } => {
                self.tokens = Some((*input, *output));
                return None;
            }
            RunEvent::Note(note) => (*note).to_owned(),
            RunEvent::Judged(verdict) => format!("{}: {}", verdict.evaluator, verdict.message),
            RunEvent::TrialEnded(_) => {
                self.phase = None;
                return None;
            }
        };
        Some(format!("[{}] {line}", elapsed(self.started)))
    }

    /// The status line.
    fn status(&self) -> String {
        if !self.trials.is_empty() {
            return format!("{} running", self.trials.len());
        }
        if self.phase != Some(Phase::Running) {
            return String::new();
        }
        let tokens = self.tokens.map_or(String::new(), |(input, output)| {
            format!(
                " · {} in, {} out",
                super::report::count(input),
                super::report::count(output)
            )
        });
        let line = format!(
            "{} · {}{tokens} · {}",
            self.trial,
            elapsed(self.started),
            self.doing
        );
        line.chars().take(100).collect()
    }
}

fn elapsed(since: Instant) -> String {
    let seconds = since.elapsed().as_secs();
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

fn write(text: &str) {
    // Progress that cannot be shown must not stop the run.
    let _ = anstream::stderr().write_all(text.as_bytes());
}
