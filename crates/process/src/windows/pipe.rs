//! Pipes whose one end we read or feed without blocking, and whose other end a process has as a
//! stream. Only named pipes can do that, so each has an unguessable name and accepts one client.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::windows::named_pipe::{NamedPipeServer, PipeMode, ServerOptions};
use windows_sys::Win32::Foundation::{GENERIC_READ, GENERIC_WRITE};
use windows_sys::Win32::Storage::FileSystem::{FILE_READ_ATTRIBUTES, FILE_WRITE_ATTRIBUTES};
use windows_sys::Win32::System::Pipes::PeekNamedPipe;

/// The buffer size of a pipe.
const SIZE: u32 = 64 * 1024;

/// The most bytes that are handed over at a time: the library copies them all.
const PIECE: usize = 64 * 1024;

/// Which way the bytes flow.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Direction {
    FromProcess,
    ToProcess,
}

/// A new pipe: our end, and that of the process, which works as any file does.
pub(super) fn open(direction: Direction) -> io::Result<(NamedPipeServer, OwnedHandle)> {
    let name = unique_name();
    let is_read = direction == Direction::FromProcess;
    let ours = ServerOptions::new()
        .access_inbound(is_read)
        .access_outbound(!is_read)
        .pipe_mode(PipeMode::Byte)
        .first_pipe_instance(true)
        .max_instances(1)
        .in_buffer_size(SIZE)
        .out_buffer_size(SIZE)
        .create(&name)?;
    // Attributes as well, because runtimes such as node's set and ask the mode of their streams.
    let access = match direction {
        Direction::FromProcess => GENERIC_WRITE | FILE_READ_ATTRIBUTES,
        Direction::ToProcess => GENERIC_READ | FILE_WRITE_ATTRIBUTES,
    };
    let theirs = OpenOptions::new().access_mode(access).open(&name)?;
    // It is connected already, so that this, from which our library learns of it, does not wait.
    let connected = pin!(ours.connect()).poll(&mut Context::from_waker(Waker::noop()));
    match connected {
        Poll::Ready(connected) => connected?,
        Poll::Pending => return Err(io::ErrorKind::NotConnected.into()),
    }
    Ok((ours, theirs.into()))
}

fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().build_hasher().finish();
    format!(
        r"\\.\pipe\proctor-{}-{next}-{random:016x}",
        std::process::id()
    )
}

/// The end from which a process's output is read.
#[derive(Debug)]
pub(crate) struct Reader {
    pipe: NamedPipeServer,
}

impl Reader {
    pub(super) fn new(pipe: NamedPipeServer) -> Self {
        Self { pipe }
    }

    /// Reads what is there; 0 is the end.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<usize> {
        loop {
            if ready!(self.pipe.poll_read_ready(context)).is_err() {
                return Poll::Ready(0);
            }
            match self.pipe.try_read(buffer) {
                // A process that writes no bytes at all makes us read none as well.
                Ok(0) if is_open(&self.pipe) => {}
                Ok(count) => return Poll::Ready(count),
                Err(error) if is_passing(&error) => {}
                Err(_) => return Poll::Ready(0),
            }
        }
    }
}

/// The same, for reading helpers as a stream.
impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Without room nothing would ever be read, and no end be seen.
        if buffer.remaining() > 0 {
            let room = buffer.initialize_unfilled();
            let count = ready!(Reader::poll_read(&self, context, room));
            buffer.advance(count);
        }
        Poll::Ready(Ok(()))
    }
}

/// Whether the other end is still open.
pub(super) fn is_open(pipe: &NamedPipeServer) -> bool {
    #[expect(unsafe_code, reason = "the library does not tell")]
    // SAFETY: the handle is open, and no memory is passed.
    let answer = unsafe {
        PeekNamedPipe(
            pipe.as_raw_handle(),
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    answer != 0
}

/// The end into which a process's input is written, as fast as the process reads it.
#[derive(Debug)]
pub(crate) struct Feeder {
    pipe: NamedPipeServer,
    queue: VecDeque<u8>,
    closing: bool,
}

impl Feeder {
    pub(super) fn new(pipe: NamedPipeServer) -> Self {
        Self {
            pipe,
            queue: VecDeque::new(),
            closing: false,
        }
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

    /// Writes the input; ready when this end may be dropped. Bytes already passed to the system are
    /// still written.
    pub(crate) fn poll_feed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while !self.queue.is_empty() {
            if ready!(self.pipe.poll_write_ready(context)).is_err() {
                return Poll::Ready(());
            }
            let piece = self.queue.as_slices().0;
            match self.pipe.try_write(&piece[..piece.len().min(PIECE)]) {
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
