//! Unix sockets.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;

use tokio::net::{UnixListener, UnixStream};

/// A connection.
pub type Stream = UnixStream;
/// A connection without a runtime, on its way to another one.
pub type Unattached = std::os::unix::net::UnixStream;

/// Every user may connect. Access is controlled by keys, or by the directory of the socket.
const MODE: u32 = 0o777;

/// A socket that is there, and of no runtime yet.
#[derive(Debug)]
pub struct Bound(StdUnixListener);

impl Bound {
    /// Makes it.
    pub fn new(path: &Path) -> io::Result<Self> {
        let listener = StdUnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        fs_err::set_permissions(path, Permissions::from_mode(MODE))?;
        Ok(Self(listener))
    }

    /// Listens, in the runtime that this is called in.
    pub fn listen(self) -> io::Result<Listener> {
        Ok(Listener(UnixListener::from_std(self.0)?))
    }
}

/// Waits for connections at a path.
#[derive(Debug)]
pub struct Listener(UnixListener);

impl Listener {
    /// Listens at a path where nothing is.
    pub fn bind(path: &Path) -> io::Result<Self> {
        Bound::new(path)?.listen()
    }

    /// The next connection. Safe to cancel.
    pub async fn accept(&mut self) -> io::Result<Stream> {
        Ok(self.0.accept().await?.0)
    }
}

/// Connects to the listener at a path.
pub async fn connect(path: &Path) -> io::Result<Stream> {
    UnixStream::connect(path).await
}
