//! Progress on standard error: the agent's current action, elapsed time and tokens.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    sync::Mutex,
    time::{Duration, Instant},
};

use proctor_record::record::{Event, Phase, first_line, follow::RunWatch};
use proctor_sandbox::host::Host;

use super::{Steering, View, counted};
use crate::args;

const TICK: Duration = Duration::from_millis(500);
/// The time between two lines of progress without a terminal.
const INTERVAL: Duration = Duration::from_secs(30);
/// The variable that sets another interval, in seconds.
const INTERVAL_VARIABLE: &str = "PROCTOR_PROGRESS_INTERVAL";
const CLEAR_LINE: &str = "\r\x1b[2K";

/// Shows progress.
pub struct Progress {
    style: Style,
    began: Instant,
    state: Mutex<TrialLine>,
    /// If set, the live view shows the run once its directory exists.
    steering: Option<Steering>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Lines, and a status line below them.
    Terminal,
    /// Lines.
    Plain,
    /// One line at each interval.
    Periodic(Duration),
    /// Nothing.
    Quiet,
}

struct TrialLine {
    trial: String,
    started: Instant,
    /// The time of the last periodic line.
    reported: Instant,
    /// The number of trials of the run, and of those that have ended.
    planned: usize,
    ended: usize,
    phase: Option<Phase>,
    doing: String,
    tokens: Option<(u64, u64)>,
    /// The message that the agent is writing, as far as it is shown and not shown.
    message: PartialMessage,
    /// The trials of a suite that run now.
    trials: BTreeMap<usize, String>,
    /// The view that shows the run instead of lines.
    view: Option<View>,
}

impl Progress {
    /// `auto` prints a line at each interval in CI and without a terminal.
    pub fn new(wanted: args::ProgressStyle, host: &Host) -> Progress {
        let is_watched = io::stderr().is_terminal() && !host.env.contains_key("CI");
        let style = match wanted {
            args::ProgressStyle::Auto if is_watched => Style::Terminal,
            args::ProgressStyle::Auto => Style::Periodic(interval(host)),
            args::ProgressStyle::Plain => Style::Plain,
            args::ProgressStyle::Quiet => Style::Quiet,
        };
        let state = TrialLine {
            trial: String::new(),
            started: Instant::now(),
            reported: Instant::now(),
            planned: 0,
            ended: 0,
            phase: None,
            doing: String::new(),
            tokens: None,
            message: PartialMessage::default(),
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
    fn open_view(&self, state: &mut TrialLine, event: &Event) {
        if let (Some(steering), Event::RunStarted { run_dir, trials }) = (&self.steering, event) {
            let watch = RunWatch::expecting(run_dir, *trials);
            match View::start(watch, Some(steering.clone())) {
                Ok(view) => state.view = Some(view),
                Err(error) => write(&format!("could not open the live view: {error}\n")),
            }
        }
    }

    /// Show an event.
    pub fn show(&self, event: &Event) {
        let mut state = self.lock();
        self.open_view(&mut state, event);
        match self.style {
            Style::Quiet => {}
            _ if state.view.is_some() => {}
            Style::Periodic(_) => drop(state.take(event)),
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
    pub fn show_trial(&self, trial: usize, event: &Event) {
        let mut state = self.lock();
        self.open_view(&mut state, event);
        if self.style == Style::Quiet || state.view.is_some() {
            return;
        }
        let line = match event {
            Event::RunStarted { trials, .. } => {
                state.planned = *trials;
                return;
            }
            Event::Started {
                agent,
                task,
                trial: number,
                ..
            } => {
                let name = format!("{agent} on {task}, trial {number}");
                state.trials.insert(trial, name.clone());
                format!("started  {name}")
            }
            Event::Ended(ended) => {
                let name = state.trials.remove(&trial).unwrap_or_default();
                state.ended += 1;
                format!(
                    "{:<8} {name} ({})",
                    ended.status.as_str(),
                    ended.outcome.as_str()
                )
            }
            _ => return,
        };
        let line = format!("[{}] {line}\n", elapsed(self.began));
        match self.style {
            Style::Terminal => write(&format!("{CLEAR_LINE}{line}{}", state.status())),
            Style::Periodic(_) => {}
            _ => write(&line),
        }
    }

    /// Redraws the status line periodically, or prints a line at each interval.
    pub async fn tick(&self) {
        tokio::time::sleep(TICK).await;
        let mut state = self.lock();
        if state.view.is_some() {
            return;
        }
        match self.style {
            Style::Terminal => write(&format!("{CLEAR_LINE}{}", state.status())),
            Style::Periodic(interval) if state.reported.elapsed() >= interval => {
                state.reported = Instant::now();
                write(&format!("[{}] {}\n", elapsed(self.began), state.summary()));
            }
            Style::Periodic(_) | Style::Plain | Style::Quiet => {}
        }
    }

    /// Prints a line about the run. The live view does not show it.
    pub fn note(&self, text: &str) {
        let state = self.lock();
        match self.style {
            _ if state.view.is_some() => {}
            Style::Quiet => {}
            Style::Terminal => write(&format!("{CLEAR_LINE}{text}\n{}", state.status())),
            Style::Periodic(_) | Style::Plain => write(&format!("{text}\n")),
        }
    }

    /// The user wants to stop.
    pub fn interrupted(&self) {
        if self.style != Style::Quiet && self.lock().view.is_none() {
            let clear = match self.style {
                Style::Terminal => CLEAR_LINE,
                _ => "",
            };
            write(&format!(
                "{clear}interrupted: stopping the agent and writing its record (press Ctrl-C again to exit immediately)\n"
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

    fn lock(&self) -> std::sync::MutexGuard<'_, TrialLine> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl TrialLine {
    /// Applies an event, and returns its line if it has one.
    fn take(&mut self, event: &Event) -> Option<String> {
        let line = match event {
            Event::RunStarted { .. }
            | Event::Session { .. }
            | Event::ToolResult { .. }
            | Event::Thought(_)
            | Event::Lost { .. }
            | Event::Unknown => return None,
            Event::Started { agent, task, .. } => {
                self.trial = format!("{agent} on {task}");
                self.started = Instant::now();
                self.tokens = None;
                self.trial.clone()
            }
            Event::Phase { phase } => {
                self.phase = Some(*phase);
                self.doing.clear();
                phase_in_words(*phase).to_owned()
            }
            Event::Iteration {
                number,
                agent,
                reason,
            } => format!("iteration {number}, {agent}: {}", reason.describe()),
            Event::Tool { tool, target, .. } => {
                self.doing = format!("{tool} {}", target.as_deref().unwrap_or_default());
                self.doing.clone()
            }
            Event::Saying(passage) => self.message.add(&passage.text)?,
            Event::Said(said) => match std::mem::take(&mut self.message) {
                PartialMessage {
                    is_shown: false, ..
                } => format!("“{}”", first_line(&said.text)),
                PartialMessage { rest, .. } if rest.trim().is_empty() => return None,
                PartialMessage { rest, .. } => printable(&rest),
            },
            Event::Usage {
                input_tokens,
                output_tokens,
            } => {
                self.tokens = Some((*input_tokens, *output_tokens));
                return None;
            }
            Event::Note(note) => note.text.clone(),
            Event::Judged {
                evaluator, message, ..
            } => format!("{evaluator}: {message}"),
            Event::Ended(_) => {
                self.phase = None;
                return None;
            }
        };
        Some(format!("[{}] {line}", elapsed(self.started)))
    }

    /// The line that is printed at each interval.
    fn summary(&self) -> String {
        let running: Vec<&str> = self.trials.values().map(String::as_str).collect();
        match running.as_slice() {
            [] if self.planned > 0 => self.ended_of_planned(),
            [] => match self.phase {
                Some(phase) => {
                    let doing = format!("{} {}", phase_in_words(phase), self.doing);
                    format!("{}: {}", self.trial, doing.trim_end())
                }
                None => "starting".to_owned(),
            },
            [first, more @ ..] => {
                let more = match more.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("{}; running {first}{more}", self.ended_of_planned())
            }
        }
    }

    fn ended_of_planned(&self) -> String {
        format!("{} of {} ended", self.ended, counted(self.planned, "trial"))
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

/// The longest line of a message that is shown while it is being written.
const MESSAGE_COLUMNS: usize = 100;

/// A message that the agent is writing.
#[derive(Default)]
struct PartialMessage {
    /// Whether a part of it is on the screen.
    is_shown: bool,
    /// The part that is not.
    rest: String,
}

impl PartialMessage {
    /// Adds text, and returns a line as soon as there is a whole one.
    fn add(&mut self, text: &str) -> Option<String> {
        self.rest.push_str(text);
        let end = match self.rest.rfind('\n') {
            Some(end) => end + 1,
            None if self.rest.chars().count() < MESSAGE_COLUMNS => return None,
            None => self.rest.rfind(' ').map_or(self.rest.len(), |end| end + 1),
        };
        let rest = self.rest.split_off(end);
        let line = printable(&std::mem::replace(&mut self.rest, rest));
        self.is_shown |= !line.is_empty();
        (!line.is_empty()).then_some(line)
    }
}

/// Text of an agent without control characters, on one line.
fn printable(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .collect()
}

fn phase_in_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Preparing => "preparing the workspace",
        Phase::Running => "running the agent",
        Phase::Judging => "judging",
    }
}

/// The time between two lines of progress without a terminal.
fn interval(host: &Host) -> Duration {
    let set = host.env.get(INTERVAL_VARIABLE);
    let seconds = set.and_then(|seconds| seconds.parse::<u64>().ok());
    seconds.map_or(INTERVAL, Duration::from_secs)
}

fn elapsed(since: Instant) -> String {
    let seconds = since.elapsed().as_secs();
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

fn write(text: &str) {
    // Progress that cannot be shown must not stop the run.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use proctor_record::record::Passage;

    use super::*;

    fn state() -> TrialLine {
        TrialLine {
            reported: Instant::now(),
            planned: 0,
            ended: 0,
            trial: String::new(),
            started: Instant::now(),
            phase: None,
            doing: String::new(),
            tokens: None,
            message: PartialMessage::default(),
            trials: BTreeMap::new(),
            view: None,
        }
    }

    fn lines(events: &[Event]) -> Vec<String> {
        let mut state = state();
        let lines = events.iter().filter_map(|event| state.take(event));
        lines
            .map(|line| line["[00:00] ".len()..].to_owned())
            .collect()
    }

    #[test]
    fn message_is_shown_while_it_is_written() {
        let long = format!("{} end", "word ".repeat(20));
        let whole = format!("First.\nThe second\x1b line.\n{long}");
        let said = Event::Said(Passage::of(&whole));
        assert_eq!(
            lines(&[
                Event::Saying(Passage::of("Fir")),
                Event::Saying(Passage::of("st.\nThe second\x1b")),
                Event::Saying(Passage::of(" line.\n")),
                Event::Saying(Passage::of(&long)),
                said.clone(),
                said.clone(),
            ]),
            [
                "First.",
                "The second line.",
                "word ".repeat(20).trim_end(),
                "end",
                "“First.”",
            ]
        );
        assert_eq!(lines(&[Event::Saying(Passage::of("all\n")), said]), ["all"]);
    }
}
