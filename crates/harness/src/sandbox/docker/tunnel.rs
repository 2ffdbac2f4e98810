//! An engine on another machine, through the `ssh` program: a socket here that leads to the socket there.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use proctor_process::{Command, Process, Stdin, Supervisor};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::{Address, EngineError};
use crate::{helper, platform::engine::SSH_MAKES_SOCKETS};

/// How long ssh may take to log in.
const LOGIN: Duration = Duration::from_secs(30);

/// A socket of this machine that leads to an engine elsewhere, as long as this lives.
#[derive(Debug)]
pub(super) struct Tunnel {
    address: Address,
    _folder: TempDir,
    _open: DropGuard,
}

/// Where a tunnel leads.
pub(super) struct Destination<'a> {
    pub(super) target: &'a str,
    pub(super) port: Option<u16>,
    pub(super) socket: &'a Path,
}

impl Tunnel {
    /// Starts ssh and waits until its socket is there.
    pub(super) async fn open(
        to: &Destination<'_>,
        supervisor: &Supervisor,
        env: &[(String, String)],
    ) -> Result<Self, EngineError> {
        let unreachable = |reason: String| EngineError::Unreachable {
            address: format!("ssh://{}", to.target),
            reason,
        };
        let folder = TempDir::with_prefix("proctor-ssh-");
        let folder = folder.map_err(|error| unreachable(error.to_string()))?;
        let address = near_end(folder.path()).map_err(|error| unreachable(error.to_string()))?;
        let command = command(to, &address, env);
        let process = Process::spawn(command, supervisor).await;
        let process = process.map_err(|error| unreachable(error.to_string()))?;
        let closed = CancellationToken::new();
        // Not among the engine's tasks, for whose end it waits while the tunnel is still in use.
        let ssh = TaskTracker::new().spawn(run(process, closed.clone()));
        let open = closed.drop_guard();
        let deadline = Instant::now() + LOGIN;
        while !is_open(&address).await {
            if ssh.is_finished() {
                return Err(unreachable(ssh.await.unwrap_or_default()));
            }
            if Instant::now() >= deadline {
                return Err(unreachable(format!("ssh took longer than {LOGIN:?}")));
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(Self {
            address,
            _folder: folder,
            _open: open,
        })
    }

    /// Where the engine is reached here.
    pub(super) fn address(&self) -> Address {
        self.address.clone()
    }
}

/// Where the tunnel begins: a socket in a folder of its own, or a port that is free.
fn near_end(folder: &Path) -> std::io::Result<Address> {
    if SSH_MAKES_SOCKETS {
        return Ok(Address::Local(folder.join("docker.sock")));
    }
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(Address::Tcp(free.local_addr()?.to_string()))
}

async fn is_open(near: &Address) -> bool {
    match near {
        Address::Local(socket) => socket.exists(),
        Address::Tcp(port) => match port.parse::<SocketAddr>() {
            Ok(port) => TcpStream::connect(port).await.is_ok(),
            Err(_) => false,
        },
        Address::Ssh { .. } => false,
    }
}

fn command(to: &Destination<'_>, near: &Address, env: &[(String, String)]) -> Command {
    let mut command = Command::new("ssh", "/");
    let port = to.port.map(|port| format!("-p{port}"));
    let near = match near {
        Address::Local(socket) => socket.display().to_string(),
        Address::Tcp(port) => port.clone(),
        Address::Ssh { target, .. } => target.clone(),
    };
    let forward = format!("{near}:{}", to.socket.display());
    let fixed = ["-N", "-T", "-oBatchMode=yes", "-oExitOnForwardFailure=yes"];
    command.args = fixed.iter().map(Into::into).collect();
    // A lost connection must show, and not look like an engine that thinks.
    command.args.push("-oServerAliveInterval=15".into());
    command.args.extend(port.map(Into::into));
    let rest = [
        "-L".to_owned(),
        forward,
        "--".to_owned(),
        to.target.to_owned(),
    ];
    command.args.extend(rest.map(Into::into));
    let env = env.iter().map(|(key, value)| (key.into(), value.into()));
    command.env = env.collect();
    command.stdin = Stdin::Null;
    command
}

/// Keeps ssh until the tunnel is dropped; the last that it said.
async fn run(process: Process, closed: CancellationToken) -> String {
    let said = helper::keep(process, closed).await;
    String::from_utf8_lossy(&said).trim().to_owned()
}
