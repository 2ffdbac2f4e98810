//! A socket of this machine that a program of ours serves: the end of an ssh tunnel, or podman's API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use proctor_process::{Command, Process, Stdin, Supervisor};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::EngineError;
use crate::helper;

/// How long the program may take until its socket is there: ssh logs in, podman opens its storage.
const START: Duration = Duration::from_secs(30);

/// A socket of this machine that leads to an engine, as long as this lives.
#[derive(Debug)]
pub(super) struct Served {
    folder: TempDir,
    _open: DropGuard,
}

/// Who serves a socket.
pub(super) struct Server<'a> {
    /// What owns the program.
    pub(super) supervisor: &'a Supervisor,
    /// Its environment.
    pub(super) env: &'a [(String, String)],
    /// What users know the engine as.
    pub(super) address: String,
}

impl Served {
    /// Starts the program that serves a socket at the given path, and waits until that is there.
    pub(super) async fn start(
        server: &Server<'_>,
        command: impl FnOnce(&Path) -> Command,
    ) -> Result<Self, EngineError> {
        let unreachable = |reason: String| EngineError::Unreachable {
            address: server.address.clone(),
            reason,
        };
        let folder = TempDir::with_prefix("proctor-engine-");
        let folder = folder.map_err(|error| unreachable(error.to_string()))?;
        let socket = folder.path().join("docker.sock");
        let mut command = command(&socket);
        let env = server.env.iter();
        command.env = env.map(|(key, value)| (key.into(), value.into())).collect();
        command.stdin = Stdin::Null;
        let process = Process::spawn(command, server.supervisor).await;
        let process = process.map_err(|error| unreachable(error.to_string()))?;
        let closed = CancellationToken::new();
        // Not among the engine's tasks, for whose end it waits while the socket is still in use.
        let serving = TaskTracker::new().spawn(serve(process, closed.clone()));
        let open = closed.drop_guard();
        let deadline = Instant::now() + START;
        while !socket.exists() {
            if serving.is_finished() {
                return Err(unreachable(serving.await.unwrap_or_default()));
            }
            if Instant::now() >= deadline {
                return Err(unreachable(format!("it took longer than {START:?}")));
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(Self {
            folder,
            _open: open,
        })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }
}

/// Keeps the program until its socket is dropped; the last that it said.
async fn serve(process: Process, closed: CancellationToken) -> String {
    let said = helper::keep(process, closed).await;
    String::from_utf8_lossy(&said).trim().to_owned()
}
