//! The terminal while the view uses it. The terminal is restored however the view ends.

use std::{
    io::{self, IsTerminal, Stderr},
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
};

use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor, execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};

static IS_OURS: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal in use by the view, until dropped. The view is drawn on standard error, because
/// standard output is for the result.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<io::BufWriter<Stderr>>>,
}

/// Whether there is a terminal to draw on and keys to read.
pub fn is_possible() -> bool {
    io::stderr().is_terminal() && io::stdin().is_terminal()
}

impl Screen {
    /// Switches the terminal to the view.
    pub fn take() -> io::Result<Screen> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        IS_OURS.store(true, Ordering::SeqCst);
        let taken = enable_raw_mode()
            .and_then(|()| execute!(io::stderr(), EnterAlternateScreen, cursor::Hide))
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::BufWriter::new(io::stderr()))));
        match taken {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Draws the changes. Does nothing once the terminal is restored.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if IS_OURS.load(Ordering::SeqCst) {
            self.terminal.draw(render)?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal, once.
pub fn give_back() {
    if IS_OURS.swap(false, Ordering::SeqCst) {
        // A failure cannot be reported.
        let _ = execute!(io::stderr(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}
