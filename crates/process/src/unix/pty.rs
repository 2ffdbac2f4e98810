//! A pseudo-terminal of a given size.

use std::io;
use std::os::fd::OwnedFd;

use rustix::termios::{Winsize, tcsetwinsize};

use super::platform;

/// Both ends of a pseudo-terminal.
pub(super) struct Pty {
    /// The end we read.
    pub(super) controller: OwnedFd,
    /// The end the process writes to.
    pub(super) terminal: OwnedFd,
}

pub(super) fn open(columns: u16, rows: u16) -> io::Result<Pty> {
    let (controller, terminal) = platform::open_terminal()?;
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size)?;
    Ok(Pty {
        controller,
        terminal,
    })
}
