//! A pseudo-console of a given size: the terminal of a process, whose other end we read.
#![allow(
    unsafe_code,
    reason = "calls of the Windows API; each says why it is sound"
)]

use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle};

use windows_sys::Win32::System::Console::{COORD, ClosePseudoConsole, CreatePseudoConsole, HPCON};

/// A pseudo-console. Dropping it waits until all that was drawn has been read, or the reading end is closed.
#[derive(Debug)]
pub(super) struct PseudoConsole {
    raw: HPCON,
    /// Where keys would be typed. Closed, it would mean that the window was closed.
    _keys: io::PipeWriter,
}

impl PseudoConsole {
    /// A pseudo-console that writes to `output`, which it keeps a copy of.
    pub(super) fn open(columns: u16, rows: u16, output: BorrowedHandle<'_>) -> io::Result<Self> {
        let (input, keys) = io::pipe()?;
        let size = COORD {
            X: i16::try_from(columns).unwrap_or(i16::MAX),
            Y: i16::try_from(rows).unwrap_or(i16::MAX),
        };
        let mut raw = 0;
        // SAFETY: both handles are open and are copied by the call; it fills the one place that is passed.
        let answer = unsafe {
            CreatePseudoConsole(
                size,
                input.as_raw_handle(),
                output.as_raw_handle(),
                0,
                &raw mut raw,
            )
        };
        if answer < 0 {
            // The low half of such an answer is the error that the system had.
            return Err(io::Error::from_raw_os_error(answer & 0xffff));
        }
        Ok(Self { raw, _keys: keys })
    }

    pub(super) fn raw(&self) -> HPCON {
        self.raw
    }
}

impl Drop for PseudoConsole {
    fn drop(&mut self) {
        // SAFETY: it was opened by us and is closed once.
        unsafe { ClosePseudoConsole(self.raw) };
    }
}
