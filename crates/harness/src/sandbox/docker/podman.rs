//! podman, which serves Docker's API: where it listens, and how it is started where nobody does.

use std::path::{Path, PathBuf};

use proctor_process::Command;

use super::served::{Served, Server};
use super::{Address, EngineError};
use crate::host::Host;

const PROGRAM: &str = "podman";
/// The socket of root's service; that of a user is below `XDG_RUNTIME_DIR`.
const SOCKET: &str = "/run/podman/podman.sock";

impl Address {
    /// The engine of this machine: the one that `DOCKER_HOST` names, else Docker's, else podman's, else one that is
    /// started for the run because the `podman` program is there. Docker's, if there is none of them.
    pub fn find(host: &Host) -> Result<Self, EngineError> {
        let named = host.env.get("DOCKER_HOST").map(String::as_str);
        let usual = Self::from_docker_host(named)?;
        let docker = match &usual {
            Self::Unix(socket) if named.is_none_or(str::is_empty) => socket.clone(),
            _ => return Ok(usual),
        };
        let of_user = host.env.get("XDG_RUNTIME_DIR");
        let of_user = of_user.map(|folder| Path::new(folder).join("podman/podman.sock"));
        let sockets = [Some(docker), of_user, Some(SOCKET.into())];
        let program = || host.find_program(PROGRAM).map(Into::into);
        Ok(choose(sockets.into_iter().flatten(), program).unwrap_or(usual))
    }
}

/// The first of these sockets at which somebody listens, else the program.
fn choose(
    sockets: impl IntoIterator<Item = PathBuf>,
    program: impl FnOnce() -> Option<PathBuf>,
) -> Option<Address> {
    let listening = sockets.into_iter().find(|socket| has_listener(socket));
    // Elsewhere the program only talks to a service on a machine of its own.
    let program = || cfg!(target_os = "linux").then(program).flatten();
    listening
        .map(Address::Unix)
        .or_else(|| program().map(Address::Podman))
}

/// Whether somebody listens at a socket and lets us in.
#[cfg(unix)]
fn has_listener(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

#[cfg(not(unix))]
fn has_listener(_: &Path) -> bool {
    false
}

/// Starts podman's service and waits until its socket is there.
pub(super) async fn serve(program: &Path, server: &Server<'_>) -> Result<Served, EngineError> {
    Served::start(server, |socket| {
        let mut command = Command::new(program, "/");
        let listen = format!("unix://{}", socket.display());
        let args = ["system", "service", "--time=0", &listen];
        command.args = args.map(Into::into).into();
        command
    })
    .await
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn who_listens_is_found_and_the_program_is_the_last_resort() {
        let folder = tempfile::tempdir().unwrap();
        let [docker, podman] = ["docker.sock", "podman.sock"].map(|name| folder.path().join(name));
        let find = |program: Option<&str>| {
            choose([docker.clone(), podman.clone()], || {
                program.map(PathBuf::from)
            })
        };
        assert_eq!(find(None), None);
        let started = Address::Podman("/bin/podman".into());
        assert_eq!(find(Some("/bin/podman")), Some(started.clone()));
        assert!(started.is_local());
        let second = UnixListener::bind(&podman).unwrap();
        assert_eq!(
            find(Some("/bin/podman")),
            Some(Address::Unix(podman.clone()))
        );
        let first = UnixListener::bind(&docker).unwrap();
        assert_eq!(find(None), Some(Address::Unix(docker.clone())));
        // Sockets at which nobody listens any more are as good as none.
        drop((first, second));
        assert_eq!(find(None), None);
    }
}
