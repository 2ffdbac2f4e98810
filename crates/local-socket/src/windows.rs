//! Ports of loopback that only those get through who can read the file at the path: it holds the port and
//! a secret, which each connection begins with. Named pipes would do without, but they cannot say that one
//! direction is at its end, which requests and answers need.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdTcpListener};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A connection.
pub type Stream = TcpStream;
/// A connection without a runtime, on its way to another one.
pub type Unattached = std::net::TcpStream;

/// How long a client may take to send the secret.
const LONGEST: Duration = Duration::from_secs(5);

type Secret = [u8; 32];

/// A port that is taken, and of no runtime yet.
#[derive(Debug)]
pub struct Bound {
    listener: StdTcpListener,
    secret: Secret,
}

impl Bound {
    /// Binds a port and writes it to the path.
    pub fn new(path: &Path) -> io::Result<Self> {
        let listener = StdTcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let mut secret = Secret::default();
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        let mut file = std::fs::File::create_new(path)?;
        file.write_all(&listener.local_addr()?.port().to_le_bytes())?;
        file.write_all(&secret)?;
        Ok(Self { listener, secret })
    }

    /// Listens, in the runtime that this is called in.
    pub fn listen(self) -> io::Result<Listener> {
        Ok(Listener {
            port: TcpListener::from_std(self.listener)?,
            secret: self.secret,
            knocking: JoinSet::new(),
        })
    }
}

/// Waits for connections at a path.
#[derive(Debug)]
pub struct Listener {
    port: TcpListener,
    secret: Secret,
    /// Connections that have not sent the secret yet.
    knocking: JoinSet<Option<TcpStream>>,
}

impl Listener {
    /// Listens at a path where nothing is.
    pub fn bind(path: &Path) -> io::Result<Self> {
        Bound::new(path)?.listen()
    }

    /// The next connection. Safe to cancel.
    pub async fn accept(&mut self) -> io::Result<Stream> {
        loop {
            tokio::select! {
                accepted = self.port.accept() => {
                    self.knocking.spawn(check(accepted?.0, self.secret));
                }
                Some(checked) = self.knocking.join_next() => {
                    if let Ok(Some(stream)) = checked {
                        return Ok(stream);
                    }
                }
            }
        }
    }
}

/// The connection, if it knows the secret.
async fn check(mut stream: TcpStream, secret: Secret) -> Option<TcpStream> {
    stream.set_nodelay(true).ok()?;
    let mut said = Secret::default();
    let saying = stream.read_exact(&mut said);
    tokio::time::timeout(LONGEST, saying).await.ok()?.ok()?;
    (said == secret).then_some(stream)
}

/// Connects to the listener at a path.
pub async fn connect(path: &Path) -> io::Result<Stream> {
    let bytes = std::fs::read(path)?;
    let (port, secret) = bytes
        .split_first_chunk()
        .ok_or(io::ErrorKind::InvalidData)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, u16::from_le_bytes(*port)));
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(secret).await?;
    Ok(stream)
}
