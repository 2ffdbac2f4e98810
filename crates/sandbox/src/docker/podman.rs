//! podman, which serves Docker's API: its sockets, and how it is started without a listener.

use std::path::{Path, PathBuf};

use proctor_process::Command;
use proctor_record::platform;

use super::served::{ServedAddress, ServingProgram};
use super::{Address, EngineError};
use crate::host::Host;

const PROGRAM: &str = "podman";
/// The socket of root's service; that of a user is below `XDG_RUNTIME_DIR`.
const SOCKET: &str = "/run/podman/podman.sock";

/// The podman engine of this machine: at a socket with a listener, else one that is started for the
/// run if the program is installed.
pub(super) fn find(host: &Host) -> Option<Address> {
    // On other systems podman runs in a virtual machine, which has a docker context.
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

/// Starts podman's service and waits for its socket.
pub(super) async fn serve(
    program: &Path,
    server: &ServingProgram<'_>,
) -> Result<ServedAddress, EngineError> {
    ServedAddress::start(server, |socket| {
        // In the directory of its socket: container helpers write a file to the working directory when memory runs out.
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
    fn sockets_with_a_listener_are_preferred_to_the_program() {
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
