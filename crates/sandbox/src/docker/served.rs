//! A local address that a program of ours serves: the local end of an ssh tunnel, or podman's API.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proctor_process::{Command, Process, Stdin, Supervisor};
use proctor_record::platform::engine::{self, SSH_MAKES_SOCKETS};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::{Address, EngineError};

/// The start timeout of the program: ssh logs in, podman opens its storage.
const START: Duration = Duration::from_secs(30);

/// A local address that connects to an engine, as long as this value lives.
#[derive(Debug)]
pub(super) struct ServedAddress {
    near: Near,
    _folder: TempDir,
    _open: DropGuard,
}

/// The local address.
#[derive(Clone, Debug)]
enum Near {
    Socket(PathBuf),
    Port(SocketAddr),
}

/// The program that serves it.
pub(super) struct ServingProgram<'a> {
    /// The owner of the program.
    pub(super) supervisor: &'a Supervisor,
    /// Its environment.
    pub(super) env: &'a [(String, String)],
    /// The name of the engine for users.
    pub(super) address: String,
}

impl ServedAddress {
    /// Starts the program that serves the given socket or port, and waits for it.
    pub(super) async fn start(
        server: &ServingProgram<'_>,
        command: impl FnOnce(&str) -> Command,
    ) -> Result<Self, EngineError> {
        let unreachable = |reason: String| EngineError::Unreachable {
            address: server.address.clone(),
            reason,
        };
        let folder = TempDir::with_prefix("proctor-engine-");
        let folder = folder.map_err(|error| unreachable(error.to_string()))?;
        let near = Near::free(folder.path()).map_err(|error| unreachable(error.to_string()))?;
        let mut command = command(&near.text());
        let env = server.env.iter();
        command.env = env.map(|(key, value)| (key.into(), value.into())).collect();
        command.stdin = Stdin::Null;
        let process = Process::spawn(command, server.supervisor).await;
        let process = process.map_err(|error| unreachable(error.to_string()))?;
        let closed = CancellationToken::new();
        // Not one of the engine's tasks, which are awaited while this is still in use.
        let serving = TaskTracker::new().spawn(serve(process, closed.clone()));
        let open = closed.drop_guard();
        let deadline = Instant::now() + START;
        while !near.is_open().await {
            if serving.is_finished() {
                return Err(unreachable(serving.await.unwrap_or_default()));
            }
            if Instant::now() >= deadline {
                return Err(unreachable(format!("the start took longer than {START:?}")));
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(Self {
            near,
            _folder: folder,
            _open: open,
        })
    }

    /// The local address of the engine.
    pub(super) fn address(&self) -> Address {
        match &self.near {
            Near::Socket(path) => Address::Local(path.clone()),
            Near::Port(port) => Address::Tcp(port.to_string()),
        }
    }
}

impl Near {
    /// A socket in a directory, or a free port.
    fn free(folder: &Path) -> std::io::Result<Near> {
        if SSH_MAKES_SOCKETS {
            return Ok(Near::Socket(folder.join("docker.sock")));
        }
        let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok(Near::Port(free.local_addr()?))
    }

    fn text(&self) -> String {
        match self {
            Near::Socket(path) => path.display().to_string(),
            Near::Port(port) => port.to_string(),
        }
    }

    async fn is_open(&self) -> bool {
        match self {
            // The socket exists shortly before there is a listener.
            Near::Socket(path) => engine::listens(path),
            Near::Port(port) => TcpStream::connect(port).await.is_ok(),
        }
    }
}

/// Runs the program until it is not needed any more. Returns its last output.
async fn serve(process: Process, closed: CancellationToken) -> String {
    let said = proctor_process::keep(process, closed.cancelled()).await;
    String::from_utf8_lossy(&said).trim().to_owned()
}
