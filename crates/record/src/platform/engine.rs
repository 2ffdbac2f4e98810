//! Connections to a container engine of this machine: its socket, or on Windows its named pipe.

#[cfg(unix)]
pub use unix::{Connection, connect, listens, standard_streams};
#[cfg(windows)]
pub use windows::{Connection, connect, listens, standard_streams};

/// Whether this system's `ssh` can forward a local socket; otherwise it forwards a port.
pub const SSH_MAKES_SOCKETS: bool = cfg!(unix);

/// The prefix of addresses of local engines.
pub const SCHEME: &str = if cfg!(windows) { "npipe" } else { "unix" };

#[cfg(unix)]
mod unix {
    use std::{io, os::fd::AsFd, path::Path};

    use tokio::{
        io::{AsyncRead, AsyncWrite},
        net::{UnixStream, unix::pipe},
    };

    /// A connection to an engine of this machine.
    pub type Connection = UnixStream;

    /// Whether a socket has a listener that accepts us.
    pub fn listens(socket: &Path) -> bool {
        std::os::unix::net::UnixStream::connect(socket).is_ok()
    }

    /// Connects to the engine.
    pub async fn connect(socket: &Path) -> io::Result<Connection> {
        UnixStream::connect(socket).await
    }

    /// Our own standard input and output, which are pipes.
    pub fn standard_streams() -> io::Result<impl AsyncRead + AsyncWrite + Unpin> {
        let stdin = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
        let stdout = pipe::Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
        Ok(tokio::io::join(stdin, stdout))
    }
}

#[cfg(windows)]
mod windows {
    use std::{
        io,
        path::Path,
        pin::Pin,
        task::{Context, Poll},
        time::Duration,
    };

    use tokio::{
        io::{AsyncRead, AsyncWrite, ReadBuf},
        net::windows::named_pipe::{ClientOptions, NamedPipeClient},
    };
    use windows_sys::Win32::Foundation::ERROR_PIPE_BUSY;

    /// The number of attempts and the wait while all instances of a pipe are busy.
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(20);

    /// A connection to an engine of this machine.
    #[derive(Debug)]
    pub struct Connection(NamedPipeClient);

    /// Whether the pipe exists: it disappears with its server.
    pub fn listens(pipe: &Path) -> bool {
        pipe.exists()
    }

    /// Connects to the engine.
    pub async fn connect(pipe: &Path) -> io::Result<Connection> {
        let busy = Some(ERROR_PIPE_BUSY.cast_signed());
        for _ in 0..TRIES {
            match ClientOptions::new().open(pipe) {
                Err(error) if error.raw_os_error() == busy => tokio::time::sleep(PAUSE).await,
                other => return other.map(Connection),
            }
        }
        ClientOptions::new().open(pipe).map(Connection)
    }

    /// Our own standard input and output: only the first process of a container needs them.
    pub fn standard_streams() -> io::Result<impl AsyncRead + AsyncWrite + Unpin> {
        let unsupported = io::Error::from(io::ErrorKind::Unsupported);
        Err::<tokio::io::Join<tokio::io::Empty, tokio::io::Sink>, _>(unsupported)
    }

    impl AsyncRead for Connection {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            space: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(context, space)
        }
    }

    impl AsyncWrite for Connection {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        /// Pipes cannot be closed in one direction. Engines interpret an empty message as the end.
        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0)
                .poll_write(context, &[])
                .map(|written| written.map(|_| ()))
        }
    }
}
