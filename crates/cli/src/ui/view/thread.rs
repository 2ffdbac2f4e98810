//! The thread of the live view: reads the run's directory, draws, and handles keys. The run never
//! waits for it.

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
use proctor_harness::run::control::Control;
use proctor_record::record::follow::{RunView, RunWatch};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    draw::draw,
    screen::{Screen, give_back},
    session::SessionView,
    state::{Purpose, ViewAction, ViewState},
};
use crate::platform;

/// The interval between reads of the run's directory.
const LOOK: Duration = Duration::from_millis(200);
/// The timeout for keys.
const KEYS: Duration = Duration::from_millis(50);

/// Controls of the run that a view shows.
#[derive(Clone, Debug)]
pub struct Steering {
    /// Pauses the run and stops single trials.
    pub control: Arc<Control>,
    /// Stops the run.
    pub cancel: CancellationToken,
}

/// A view on the screen, until it is dropped.
pub struct View {
    is_over: Arc<AtomicBool>,
    left: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl View {
    /// Opens the view of a run; with `steering`, the user can control the run.
    pub fn start(watch: RunWatch, steering: Option<Steering>) -> io::Result<View> {
        let screen = Screen::take()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let left = Arc::new(Notify::new());
        let mut shower = Shower::new(watch, steering, screen);
        let thread = std::thread::Builder::new().name("view".to_owned());
        let thread = thread.spawn({
            let (is_over, left) = (Arc::clone(&is_over), Arc::clone(&left));
            move || {
                // If the terminal is gone, the run continues without a view.
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

    /// Waits until the user closes the view.
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

/// The state of the thread.
struct Shower {
    watch: RunWatch,
    steering: Option<Steering>,
    screen: Screen,
    state: ViewState,
    session: SessionView,
    /// The trial of the open session.
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
            state: ViewState::new(purpose),
            session: SessionView::empty(),
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
            // crossterm would read the end of a closed terminal again and again.
            platform::wait_for_terminal(if is_due { Duration::ZERO } else { KEYS })?;
            while event::poll(Duration::ZERO)? {
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
            self.session =
                trial.map_or_else(SessionView::empty, |trial| SessionView::open(&trial.folder));
        }
        self.session.read();
        let (state, session) = (&mut self.state, &mut self.session);
        self.screen
            .draw(|frame| draw(frame, state, run, session, Timestamp::now()))
    }

    fn act(&mut self, action: ViewAction) -> After {
        let Some(steering) = &self.steering else {
            return match action {
                ViewAction::Leave | ViewAction::Stop => After::Left,
                _ => After::Shown,
            };
        };
        match action {
            ViewAction::Stop if steering.cancel.is_cancelled() => {
                // Asked twice: the supervisors see us go and take the agents along.
                give_back();
                std::process::exit(130);
            }
            ViewAction::Stop | ViewAction::Leave => steering.cancel.cancel(),
            ViewAction::Cancel(trial) => steering.control.cancel(trial),
            ViewAction::Pause if steering.control.is_paused() => steering.control.resume(),
            ViewAction::Pause => steering.control.pause(),
            ViewAction::Faster | ViewAction::Slower | ViewAction::Skip => {}
        }
        After::Shown
    }
}

/// Whether the view continues after an action.
#[derive(PartialEq, Eq)]
enum After {
    Shown,
    Left,
}
