//! Unix sockets.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};

/// Everybody on the machine may knock; a key decides, or the folder that the socket is in.
const MODE: u32 = 0o777;

/// A socket that is there, and of no runtime yet.
#[derive(Debug)]
pub(crate) struct Bound(StdUnixListener);

impl Bound {
    /// Makes it.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let listener = StdUnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        fs_err::set_permissions(path, Permissions::from_mode(MODE))?;
        Ok(Self(listener))
    }

    /// Listens, in the runtime that this is called in.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        Ok(Listener(UnixListener::from_std(self.0)?))
    }
}

/// Who waits for connections at a path.
#[derive(Debug)]
pub struct Listener(UnixListener);

impl Listener {
    /// Listens at a path where nothing is.
    pub fn bind(path: &Path) -> io::Result<Self> {
        Bound::new(path)?.listen()
    }

    /// The next connection. Safe to cancel.
    pub async fn accept(&mut self) -> io::Result<Stream> {
        Ok(Stream(self.0.accept().await?.0))
    }
}

/// A connection on its way to another runtime.
#[derive(Debug)]
pub(crate) struct Handed(StdUnixStream);

impl Handed {
    /// Goes on in the runtime that this is called in.
    pub(crate) fn take(self) -> io::Result<Stream> {
        Ok(Stream(UnixStream::from_std(self.0)?))
    }
}

/// A connection.
#[derive(Debug)]
pub struct Stream(UnixStream);

impl Stream {
    /// Connects to whoever listens at a path.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self(UnixStream::connect(path).await?))
    }

    /// Leaves its runtime for another one.
    pub(crate) fn hand_on(self) -> io::Result<Handed> {
        Ok(Handed(self.0.into_std()?))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, space)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
