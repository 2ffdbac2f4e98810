//! Linux and macOS: signals, users, modes of files.

use std::{collections::BTreeMap, io, os::unix::fs::PermissionsExt as _, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err::{self as fs, os::unix::fs::OpenOptionsExt as _};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The variables, in order of precedence, that name the user's home.
pub const HOME: &[&str] = &["HOME"];
/// The variables that name the directory for temporary files.
pub const TEMP: &[&str] = &["TMPDIR"];
/// The variables that name the cache directory.
pub const CACHE: &[&str] = &["XDG_CACHE_HOME"];

/// The default directory for temporary files.
pub fn usual_temp(_home: Option<&Utf8Path>) -> Utf8PathBuf {
    "/tmp".into()
}

/// The default cache directory.
pub fn usual_cache(home: &Utf8Path) -> Utf8PathBuf {
    home.join(".cache")
}

/// The normalized name of a variable.
pub fn variable_name(name: String) -> String {
    name
}

/// The user id and group id of this process.
pub fn ids() -> (u32, u32) {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    (user.as_raw(), group.as_raw())
}

/// The name of the machine.
pub fn machine(_env: &BTreeMap<String, String>) -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy().into_owned();
    if name.is_empty() {
        return "localhost".to_owned();
    }
    name
}

/// The canonical path of an existing file or directory.
pub fn true_name(path: &Utf8Path) -> io::Result<Utf8PathBuf> {
    path.canonicalize_utf8()
}

/// Whether a write failed because the reader closed the pipe.
pub fn reader_is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Waits for input of the terminal; an error if the terminal was closed.
pub fn wait_for_terminal(timeout: Duration) -> io::Result<()> {
    let stdin = rustix::stdio::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    if polled[0].revents().intersects(closed) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Whether a terminal of this type supports the live view.
pub fn can_draw(term: Option<&str>) -> bool {
    term.is_some_and(|term| term != "dumb")
}

/// Creates or truncates a file that only its owner can read.
pub fn private_file(path: &Utf8Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(path)?;
    // An existing file may have been readable by others.
    fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Makes a script executable.
pub fn make_executable(path: &Utf8Path) -> io::Result<()> {
    fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

/// The signals that stop a run: SIGINT, SIGTERM and SIGHUP.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl StopSignals {
    /// Replaces the default actions of these signals.
    pub fn listen() -> io::Result<StopSignals> {
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Wait for one of them.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
