//! A connection to an engine on another machine, through the `ssh` program: a local socket that is
//! forwarded to the remote one.

use std::path::Path;

use proctor_process::Command;

use super::EngineError;
use super::served::{ServedAddress, ServingProgram};

/// The target of a tunnel.
pub(super) struct Destination<'a> {
    pub(super) target: &'a str,
    pub(super) port: Option<u16>,
    pub(super) socket: &'a Path,
}

/// Starts ssh and waits for the local end.
pub(super) async fn open(
    to: &Destination<'_>,
    server: &ServingProgram<'_>,
) -> Result<ServedAddress, EngineError> {
    ServedAddress::start(server, |near| command(to, near)).await
}

fn command(to: &Destination<'_>, near: &str) -> Command {
    let mut command = Command::new("ssh", "/");
    let port = to.port.map(|port| format!("-p{port}"));
    let forward = format!("{near}:{}", to.socket.display());
    let fixed = ["-N", "-T", "-oBatchMode=yes", "-oExitOnForwardFailure=yes"];
    command.args = fixed.iter().map(Into::into).collect();
    // A lost connection must be detected, and not look like a slow engine.
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
