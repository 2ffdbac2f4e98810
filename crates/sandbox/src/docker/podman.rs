//! podman, which serves Docker's API: its sockets, and how it is started if there is no listener.

use std::path::{Path, PathBuf};

use proctor_process::Command;
use proctor_record::platform;

use super::served::{Served, Server};
use super::{Address, EngineError};
use crate::host::Host;

const PROGRAM: &str = "podman";
/// The socket of root's service; that of a user is below `XDG_RUNTIME_DIR`.
const SOCKET: &str = "/run/podman/podman.sock";

/// The podman engine of this machine: at a socket with a listener, else one that is started for the
/// run if the program is installed.
pub(super) fn find(host: &Host) -> Option<Address> {
    // Elsewhere than on Linux the program only talks to a service on a machine of its own, which has a context.
    if !cfg!(target_os = "linux") {
        return None;
    }
    let of_user = host.variable("XDG_RUNTIME_DIR");
    let of_user = of_user.map(|folder| Path::new(folder).join("podman/podman.sock"));
    let sockets = [of_user, Some(SOCKET.into())];
    let program = || host.find_program(PROGRAM).map(Into::into);
    choose(sockets.into_iter().flatten(), program)
}

/// The first of these sockets with a listener, else the program.
fn choose(
    sockets: impl IntoIterator<Item = PathBuf>,
    program: impl FnOnce() -> Option<PathBuf>,
) -> Option<Address> {
    let mut sockets = sockets.into_iter();
    let listening = sockets.find(|socket| platform::engine::listens(socket));
    let listening = listening.map(Address::Local);
    listening.or_else(|| program().map(Address::Podman))
}

/// Starts podman's service and waits until its socket is there.
pub(super) async fn serve(program: &Path, server: &Server<'_>) -> Result<Served, EngineError> {
    Served::start(server, |socket| {
        // In the folder of its socket: helpers of containers write a file where it was started when memory runs out.
        let folder = Path::new(socket).parent().unwrap_or(Path::new("/"));
        let mut command = Command::new(program, folder);
        let listen = format!("unix://{socket}");
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
            Some(Address::Local(podman.clone()))
        );
        let first = UnixListener::bind(&docker).unwrap();
        assert_eq!(find(None), Some(Address::Local(docker.clone())));
        // Sockets without a listener count as missing.
        drop((first, second));
        assert_eq!(find(None), None);
    }
}
