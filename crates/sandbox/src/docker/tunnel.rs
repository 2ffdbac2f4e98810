//! An engine on another machine, through the `ssh` program: a socket here that leads to the socket there.

use std::path::Path;

use proctor_process::Command;

use super::EngineError;
use super::served::{Served, Server};

/// Where a tunnel leads.
pub(super) struct Destination<'a> {
    pub(super) target: &'a str,
    pub(super) port: Option<u16>,
    pub(super) socket: &'a Path,
}

/// Starts ssh and waits until its near end is there.
pub(super) async fn open(to: &Destination<'_>, server: &Server<'_>) -> Result<Served, EngineError> {
    Served::start(server, |near| command(to, near)).await
}

fn command(to: &Destination<'_>, near: &str) -> Command {
    let mut command = Command::new("ssh", "/");
    let port = to.port.map(|port| format!("-p{port}"));
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
    command
}
