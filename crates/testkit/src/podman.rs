//! The real podman that `scripts/podman` set up for all tests: storage with images, and a service on top of it.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::command::Program;

/// Names its folder.
const FOLDER: &str = "PROCTOR_TEST_PODMAN";

/// A podman with storage of its own.
#[derive(Debug)]
pub struct Podman {
    folder: PathBuf,
}

impl Podman {
    /// The podman of the tests. When there is none the test says so and gets none; under `CI` it fails.
    pub fn find() -> Option<Self> {
        let folder = std::env::var(FOLDER).ok().filter(|it| !it.is_empty());
        if folder.is_none() {
            assert!(
                std::env::var_os("CI").is_none(),
                "there is no podman: run `scripts/podman start` and set {FOLDER} to what it prints"
            );
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("test");
            // Not a reason to fail: the line is only for those who look.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED {test}: no podman ({FOLDER}; `scripts/podman start`)"
            );
        }
        Some(Self {
            folder: folder?.into(),
        })
    }

    /// The same for tests in which no engine is named: not beside a Docker engine at the usual place, which would be
    /// taken before it.
    pub fn in_dockers_place() -> Option<Self> {
        if UnixStream::connect("/var/run/docker.sock").is_err() {
            return Self::find();
        }
        // Not a reason to fail: the line is only for those who look.
        let line = "SKIPPED: a Docker engine listens at the usual place";
        let _ = writeln!(std::io::stderr(), "{line}");
        None
    }

    /// A user of this machine who has a podman too. Where the kernel lets users have none, the test says so.
    pub fn user(&self) -> Option<String> {
        let name = std::fs::read_to_string(self.folder.join("user"));
        if name.is_err() {
            // Not a reason to fail: `scripts/podman` has said why.
            let _ = writeln!(std::io::stderr(), "SKIPPED: users have no podman here");
        }
        Some(name.ok()?.trim().to_owned())
    }

    /// The address of its service.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The socket of its service.
    pub fn socket(&self) -> PathBuf {
        let address = std::fs::read_to_string(self.folder.join("address"));
        let address = address.expect("scripts/podman wrote it");
        let socket = address.trim().strip_prefix("unix://");
        Path::new(socket.expect("a socket of this machine")).to_owned()
    }

    /// Has a program that starts podman by itself use the same storage.
    #[must_use]
    pub fn on(&self, program: Program) -> Program {
        let file = |name: &str| self.folder.join(name).display().to_string();
        program
            .env("CONTAINERS_CONF", file("containers.conf"))
            .env("CONTAINERS_STORAGE_CONF", file("storage.conf"))
    }
}
