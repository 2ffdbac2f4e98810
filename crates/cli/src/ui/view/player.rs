//! Plays back a trial's session on the screen, at its original speed or another.

use std::{
    collections::VecDeque,
    io,
    time::{Duration, Instant},
};

use camino::Utf8Path;
use jiff::{SignedDuration, Timestamp};
use proctor_record::record::{
    EVENTS_FILE, Entry, Event as Happened, Tail,
    follow::{RunView, TrialState, TrialView},
};
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::{
    draw::draw,
    screen::Screen,
    session::SessionView,
    state::{Purpose, ViewAction, ViewState},
};

/// The redraw interval.
const FRAME: Duration = Duration::from_millis(50);
/// The length of a skip, in milliseconds of the session.
const SKIP: f64 = 10_000.0;

/// Plays back a trial until the user quits or `is_over` returns true.
pub fn replay(folder: &Utf8Path, speed: f64, is_over: &dyn Fn() -> bool) -> io::Result<()> {
    let mut player = PlaybackPosition::open(folder, speed);
    let mut screen = Screen::take()?;
    let mut state = ViewState::new(Purpose::Replay);
    state.chosen = Some(0);
    let mut at = Instant::now();
    while !is_over() {
        let passed = at.elapsed();
        at = Instant::now();
        player.advance(passed, state.is_paused);
        let (run, session, now) = (&player.run, &mut player.session, player.now);
        screen.draw(|frame| draw(frame, &mut state, run, session, now))?;
        while event::poll(FRAME)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                match state.key(key, &player.run) {
                    Some(ViewAction::Leave | ViewAction::Stop) => return Ok(()),
                    Some(ViewAction::Pause) => state.is_paused = !state.is_paused,
                    Some(ViewAction::Faster) => player.speed *= 2.0,
                    Some(ViewAction::Slower) => player.speed /= 2.0,
                    Some(ViewAction::Skip) => player.at += SKIP,
                    Some(ViewAction::Cancel(_)) | None => {}
                }
                break;
            }
        }
    }
    Ok(())
}

/// The state of a playback.
struct PlaybackPosition {
    tail: Tail,
    /// Events that are read but not yet due.
    next: VecDeque<Entry>,
    session: SessionView,
    run: RunView,
    /// Milliseconds of the session.
    at: f64,
    speed: f64,
    began: Timestamp,
    now: Timestamp,
}

impl PlaybackPosition {
    fn open(folder: &Utf8Path, speed: f64) -> PlaybackPosition {
        let trial = TrialView::waiting(0, folder.to_owned());
        let began = Timestamp::now();
        PlaybackPosition {
            tail: Tail::new(folder.join("artifacts").join(EVENTS_FILE)),
            next: VecDeque::new(),
            session: SessionView::empty(),
            run: RunView {
                run_dir: folder.to_owned(),
                is_running: true,
                trials: vec![TrialView {
                    started_at: Some(began),
                    ..trial
                }],
                expected: 1,
            },
            at: 0.0,
            speed,
            began,
            now: began,
        }
    }

    /// Shows the events that are due.
    fn advance(&mut self, passed: Duration, is_paused: bool) {
        if !is_paused {
            self.at += passed.as_secs_f64() * 1000.0 * self.speed;
        }
        loop {
            if self.next.is_empty() {
                self.next.extend(self.tail.read());
            }
            match self.next.front() {
                Some(entry) if entry.t as f64 <= self.at => {}
                _ => break,
            }
            if let Some(entry) = self.next.pop_front() {
                self.session.push(&entry);
                self.happened(entry);
            }
        }
        let at = SignedDuration::try_from_secs_f64(self.at / 1000.0).unwrap_or_default();
        self.now = self.began + at;
    }

    fn happened(&mut self, entry: Entry) {
        let trial = &mut self.run.trials[0];
        match &entry.event {
            Happened::Started {
                agent,
                task,
                trial: number,
                ..
            } => {
                trial.agent.clone_from(agent);
                trial.task.clone_from(task);
                trial.trial = *number;
            }
            Happened::Ended(ended) => {
                trial.state = TrialState::Ended(ended.status, ended.outcome);
                trial.duration_ms = Some(entry.t);
                trial.tokens = ended.tokens.or(trial.tokens);
                trial.cost = ended.cost_usd;
                self.run.is_running = false;
                return;
            }
            _ => {}
        }
        trial.heard(entry.event);
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;

    #[test]
    fn session_plays_at_requested_speed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8PathBuf::try_from(dir.path().to_owned()).unwrap();
        std::fs::create_dir(folder.join("artifacts")).unwrap();
        let lines = [0, 1000, 3000]
            .map(|t| format!("{{\"t\":{t},\"event\":\"note\",\"text\":\"at {t}\"}}\n"));
        std::fs::write(folder.join("artifacts").join(EVENTS_FILE), lines.concat()).unwrap();
        let mut player = PlaybackPosition::open(&folder, 2.0);
        let shown = |player: &mut PlaybackPosition| player.session.window(40, 10, &mut 0).len();
        player.advance(Duration::from_millis(400), false);
        assert_eq!(shown(&mut player), 1);
        player.advance(Duration::from_millis(200), false);
        assert_eq!(shown(&mut player), 2);
        player.advance(Duration::from_mins(1), true);
        assert_eq!(shown(&mut player), 2, "it is paused");
        player.at += SKIP;
        player.advance(Duration::ZERO, true);
        assert_eq!(shown(&mut player), 3, "skipping works while paused");
    }
}
