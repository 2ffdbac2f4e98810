//! Non-blocking ends of pipes and terminals: one that is read, one that is fed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::io::ioctl_fionbio;
use tokio::net::unix::pipe::{Receiver, Sender};

/// The end from which a process's output is read.
#[derive(Debug)]
pub(crate) struct Reader {
    pipe: Receiver,
}

impl Reader {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&fd, true)?;
        // Unchecked, because the reading end of a terminal is not a pipe but is read like one.
        let pipe = Receiver::from_owned_fd_unchecked(fd)?;
        Ok(Self { pipe })
    }

    /// Reads what is there; 0 is the end. A closed terminal says EIO, which is the end as well.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<usize> {
        loop {
            if ready!(self.pipe.poll_read_ready(context)).is_err() {
                return Poll::Ready(0);
            }
            match self.pipe.try_read(buffer) {
                Ok(count) => return Poll::Ready(count),
                Err(error) if is_passing(&error) => {}
                Err(_) => return Poll::Ready(0),
            }
        }
    }
}

/// The end into which a process's input is written, as fast as the process reads it.
#[derive(Debug)]
pub(crate) struct Feeder {
    pipe: Sender,
    queue: VecDeque<u8>,
    closing: bool,
}

impl Feeder {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&fd, true)?;
        Ok(Self {
            pipe: Sender::from_owned_fd_unchecked(fd)?,
            queue: VecDeque::new(),
            closing: false,
        })
    }

    /// Queues bytes, unless closed.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if !self.closing {
            self.queue.extend(bytes);
        }
    }

    /// Takes nothing more; what is queued is still written.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    /// Writes what the process takes; ready when this end may be dropped.
    pub(crate) fn poll_feed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while !self.queue.is_empty() {
            if ready!(self.pipe.poll_write_ready(context)).is_err() {
                return Poll::Ready(());
            }
            match self.pipe.try_write(self.queue.as_slices().0) {
                Ok(count) => drop(self.queue.drain(..count)),
                Err(error) if is_passing(&error) => {}
                // The process closed its stdin: its right, not an error.
                Err(_) => return Poll::Ready(()),
            }
        }
        if self.closing {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
