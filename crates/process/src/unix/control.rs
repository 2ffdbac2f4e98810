//! The parent's side of a supervisor: ask it to end, hear what it says, and clean up after it if it is lost.

use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, Shutdown};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;
use tokio::process::Child;

use super::message::{Notice, Request, reason_byte};
use super::platform::{self, Identity};
use super::tree::{self, ProcessEntry};
use super::wire::{HEADER, frame_length};
use crate::EndReason;
use crate::exit::Finished;

/// How long the clean-up after a lost supervisor may take.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// How long a supervisor may take to exit when all its processes are gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// A running supervisor. Dropping it closes the socket, upon which the supervisor kills everything.
#[derive(Debug)]
pub(crate) struct Control {
    socket: UnixStream,
    supervisor: Child,
    identity: Identity,
    received: Vec<u8>,
}

/// The supervisors of this process that have not been waited for. They are the only children of ours in
/// sessions of their own that are not orphans of a lost supervisor.
static SUPERVISORS: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

/// Orphans of dead supervisors fall back to this process from the first supervisor on.
static ADOPT: Once = Once::new();

/// Held while a supervisor starts, so that none exists that is not registered.
fn supervisors() -> MutexGuard<'static, BTreeSet<Identity>> {
    SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// Starts the supervisor, which then waits for its request.
    pub(super) fn launch(executable: &Path) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        ADOPT.call_once(platform::adopt_orphans);
        let mut registered = supervisors();
        #[expect(clippy::disallowed_methods, reason = "this is where processes start")]
        let supervisor = tokio::process::Command::new(executable)
            .arg0("proctor")
            .arg(crate::command::SUPERVISE)
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let id = supervisor.id().unwrap_or_default();
        let identity = Identity::of(id.cast_signed());
        registered.insert(identity);
        drop(registered);
        Ok(Self {
            socket: UnixStream::from_std(ours)?,
            supervisor,
            identity,
            received: Vec::new(),
        })
    }

    /// Sends what to run, with the streams attached to the first bytes.
    pub(super) async fn request(
        &self,
        request: &Request,
        streams: [BorrowedFd<'_>; 3],
    ) -> io::Result<()> {
        let frame = request.encode()?;
        let (header, body) = frame.split_at(HEADER);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut attached = SendAncillaryBuffer::new(&mut space);
        attached.push(SendAncillaryMessage::ScmRights(&streams));
        // The socket is empty, so that these few bytes go out at once and whole.
        rustix::net::sendmsg(
            &self.socket,
            &[io::IoSlice::new(header)],
            &mut attached,
            platform::SEND,
        )?;
        let mut rest = body;
        while !rest.is_empty() {
            self.socket.writable().await?;
            match self.socket.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The end of everything; an error says that the supervisor is lost.
    pub(crate) fn poll_finished(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Finished>> {
        loop {
            return Poll::Ready(match ready!(self.poll_notice(context)) {
                Ok(Notice::Finished(finished)) => Ok(finished),
                // Said late, by a supervisor that was stopped at the start.
                Ok(Notice::Started) => continue,
                Ok(Notice::Forked { .. } | Notice::Failed { .. }) => {
                    Err(io::ErrorKind::InvalidData.into())
                }
                Err(error) => Err(error),
            });
        }
    }

    /// The next notice; an error says that the supervisor is lost.
    pub(super) fn poll_notice(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Notice>> {
        loop {
            if let Some(notice) = self.take_notice() {
                return Poll::Ready(notice);
            }
            ready!(self.socket.poll_read_ready(context))?;
            match self.socket.try_read_buf(&mut self.received) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn take_notice(&mut self) -> Option<io::Result<Notice>> {
        let (header, rest) = self.received.split_first_chunk::<HEADER>()?;
        let length = frame_length(*header);
        let notice = Notice::decode(rest.get(..length)?);
        self.received.drain(..HEADER + length);
        Some(notice)
    }

    /// Asks for TERM, grace, KILL. Nothing to do if the supervisor is gone: the next notice says so.
    pub(crate) fn end(&self, reason: EndReason) {
        self.resume();
        let _ = self.socket.try_write(&[reason_byte(reason)]);
    }

    /// Lets the supervisor go on, should the process have stopped it.
    pub(crate) fn resume(&self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    /// Kills all processes directly, because the supervisor died or does not respond. `session` is
    /// the session of the process. Orphans of a dead supervisor are reparented to this process, if
    /// the platform supports that. A live supervisor sees the end of its socket and kills the rest.
    pub(crate) fn clean_up(&self, session: u32) {
        let is_orphan = |entry: &ProcessEntry| {
            platform::is_orphan(entry, self.identity)
                && !supervisors().contains(&Identity::of(entry.pid.as_raw_pid()))
        };
        tree::kill_from_outside(self.pid(), session, CLEAN_UP, &is_orphan);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        self.resume();
    }

    /// Waits until the supervisor itself is gone; it has nothing left to do. It is never killed, because it
    /// would leave those behind that it could not kill.
    pub(crate) async fn wait(&mut self) {
        let waited = tokio::time::timeout(FAREWELL, self.supervisor.wait()).await;
        if waited.is_ok() {
            supervisors().remove(&self.identity);
        }
    }

    fn pid(&self) -> Option<Pid> {
        let id = self.supervisor.id()?;
        Pid::from_raw(id.cast_signed())
    }
}

impl Drop for Control {
    /// The socket closes, which a stopped supervisor would not hear.
    fn drop(&mut self) {
        self.resume();
    }
}
