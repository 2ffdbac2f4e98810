//! The thread that shows a run: it looks at the run's folder, draws, and reads keys. The run
//! itself never waits for it.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use proctor_harness::{
    control::Control,
    record::follow::{RunView, RunWatch},
};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    draw::draw,
    screen::{Screen, give_back},
    session::Session,
    state::{Action, Purpose, State},
};

/// How often the run's folder is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long keys are waited for before anything else is done.
const KEYS: Duration = Duration::from_millis(50);

/// What a view can do to the run that it shows.
#[derive(Clone, Debug)]
pub struct Steering {
    /// Pausing, and ending single trials.
    pub control: Arc<Control>,
    /// Ending the run.
    pub cancel: CancellationToken,
}

/// A view on the screen, until it is dropped.
pub struct View {
    is_over: Arc<AtomicBool>,
    left: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl View {
    /// Take the terminal and show a run; with `steering` it is ours.
    pub fn start(watch: RunWatch, steering: Option<Steering>) -> io::Result<View> {
        let screen = Screen::take()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let left = Arc::new(Notify::new());
        let mut shower = Shower::new(watch, steering, screen);
        let thread = std::thread::Builder::new().name("view".to_owned());
        let thread = thread.spawn({
            let (is_over, left) = (Arc::clone(&is_over), Arc::clone(&left));
            move || {
                // A terminal that is gone shows nothing any more; the run goes on.
                let _ = shower.show_until(&is_over);
                left.notify_one();
            }
        })?;
        Ok(View {
            is_over,
            left,
            thread: Some(thread),
        })
    }

    /// Wait until the user leaves the view.
    pub async fn left(&self) {
        self.left.notified().await;
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has given the terminal back and said why.
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Shower {
    watch: RunWatch,
    steering: Option<Steering>,
    screen: Screen,
    state: State,
    session: Session,
    /// The trial whose session is open.
    opened: Option<usize>,
}

impl Shower {
    fn new(watch: RunWatch, steering: Option<Steering>, screen: Screen) -> Shower {
        let purpose = match steering {
            Some(_) => Purpose::Run,
            None => Purpose::Watch,
        };
        Shower {
            watch,
            steering,
            screen,
            state: State::new(purpose),
            session: Session::empty(),
            opened: None,
        }
    }

    fn show_until(&mut self, is_over: &AtomicBool) -> io::Result<()> {
        let mut looked: Option<Instant> = None;
        while !is_over.load(Ordering::SeqCst) {
            let mut is_due = looked.is_none_or(|looked| looked.elapsed() >= LOOK);
            if is_due {
                self.watch.refresh();
                looked = Some(Instant::now());
            }
            while event::poll(if is_due { Duration::ZERO } else { KEYS })? {
                is_due = true;
                if let Event::Key(key) = event::read()?
                    && key.kind != KeyEventKind::Release
                    && let Some(action) = self.state.key(key, self.watch.view())
                    && self.act(action) == After::Left
                {
                    return Ok(());
                }
            }
            if is_due {
                self.draw()?;
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        if let Some(steering) = &self.steering {
            self.state.is_paused = steering.control.is_paused();
            self.state.is_stopping = steering.cancel.is_cancelled();
        }
        let run: &RunView = self.watch.view();
        self.state.settle(run);
        if self.state.chosen != self.opened {
            self.opened = self.state.chosen;
            let trial = self.opened.and_then(|place| run.trials.get(place));
            self.session = trial.map_or_else(Session::empty, |trial| Session::open(&trial.folder));
        }
        self.session.read();
        let (state, session) = (&mut self.state, &mut self.session);
        self.screen
            .draw(|frame| draw(frame, state, run, session, Timestamp::now()))
    }

    fn act(&mut self, action: Action) -> After {
        let Some(steering) = &self.steering else {
            return match action {
                Action::Leave | Action::Stop => After::Left,
                _ => After::Shown,
            };
        };
        match action {
            Action::Stop if steering.cancel.is_cancelled() => {
                // Asked twice: the supervisors see us go and take the agents along.
                give_back();
                std::process::exit(130);
            }
            Action::Stop | Action::Leave => steering.cancel.cancel(),
            Action::Cancel(trial) => steering.control.cancel(trial),
            Action::Pause if steering.control.is_paused() => steering.control.resume(),
            Action::Pause => steering.control.pause(),
            Action::Faster | Action::Slower | Action::Skip => {}
        }
        After::Shown
    }
}

/// Whether the view goes on after an action.
#[derive(PartialEq, Eq)]
enum After {
    Shown,
    Left,
}
