//! Sockets with a path on this machine: Unix sockets, and loopback ports with a secret on Windows. The gateway and
//! agents' control sockets listen on them; connections out of containers end there. Depends on nothing of ours.

#[cfg(unix)]
#[path = "unix.rs"]
mod sys;
#[cfg(windows)]
#[path = "windows.rs"]
mod sys;

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use sys::Bound;
pub use sys::Listener;

/// A connection.
#[derive(Debug)]
pub struct Stream(sys::Connection);

impl Stream {
    /// Connects to the listener at a path.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        sys::connect(path).await.map(Self)
    }

    /// Leaves its runtime for another one.
    pub fn hand_on(self) -> io::Result<Handed> {
        self.0.into_std().map(Handed)
    }
}

/// A connection on its way to another runtime.
#[derive(Debug)]
pub struct Handed(sys::Unattached);

impl Handed {
    /// Goes on in the runtime that this is called in.
    pub fn take(self) -> io::Result<Stream> {
        sys::Connection::from_std(self.0).map(Stream)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn clients_connect_in_turn_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("way in.sock");
        assert!(Stream::connect(&path).await.is_err(), "no listener yet");
        let mut listener = Listener::bind(&path).unwrap();
        for word in [b"one", b"two"] {
            let asking = async {
                let mut stream = Stream::connect(&path).await.unwrap();
                stream.write_all(word).await.unwrap();
                stream.shutdown().await.unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await.unwrap();
                answer
            };
            let answering = async {
                let mut stream = listener.accept().await.unwrap();
                let mut asked = [0; 3];
                stream.read_exact(&mut asked).await.unwrap();
                stream.write_all(&asked).await.unwrap();
                stream.shutdown().await.unwrap();
            };
            let (answer, ()) = tokio::join!(asking, answering);
            assert_eq!(answer, word);
        }
    }

    #[cfg(windows)]
    #[tokio::test]
    async fn clients_without_the_secret_are_refused_without_blocking_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("way in");
        let mut listener = Listener::bind(&path).unwrap();
        let file = std::fs::read(&path).unwrap();
        let address = ("127.0.0.1", u16::from_le_bytes([file[0], file[1]]));
        let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut wrong = tokio::net::TcpStream::connect(address).await.unwrap();
        wrong.write_all(&[7; 40]).await.unwrap();
        let mut right = Stream::connect(&path).await.unwrap();
        right.write_all(b"!").await.unwrap();
        let mut stream = listener.accept().await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'!');
    }
}
