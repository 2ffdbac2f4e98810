//! Linux and macOS: signals, users, modes of files.

use std::{collections::BTreeMap, io, os::unix::fs::PermissionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err::{self as fs, os::unix::fs::OpenOptionsExt as _};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The variables, in their order of precedence, that name the user's home.
pub const HOME: &[&str] = &["HOME"];
/// Those that name the folder for temporary files.
pub const TEMP: &[&str] = &["TMPDIR"];
/// Those that name the folder of caches.
pub const CACHE: &[&str] = &["XDG_CACHE_HOME"];

/// The folder for temporary files when no variable names one.
pub fn usual_temp(_home: Option<&Utf8Path>) -> Utf8PathBuf {
    "/tmp".into()
}

/// The folder of caches when no variable names one.
pub fn usual_cache(home: &Utf8Path) -> Utf8PathBuf {
    home.join(".cache")
}

/// A variable's name as it is looked up.
pub fn variable_name(name: String) -> String {
    name
}

/// Our user and group.
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

/// The one true name of a file or folder that is there.
pub fn true_name(path: &Utf8Path) -> io::Result<Utf8PathBuf> {
    path.canonicalize_utf8()
}

/// Whether writing failed because nobody reads any more.
pub fn reader_is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Whether a terminal that calls itself this can be drawn on.
pub fn can_draw(term: Option<&str>) -> bool {
    term.is_some_and(|term| term != "dumb")
}

/// Make a file, or empty the one that is there, that only its owner can read.
pub fn private_file(path: &Utf8Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(path)?;
    // One that was there may have been open to others.
    fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Let a script be started by its name.
pub fn make_executable(path: &Utf8Path) -> io::Result<()> {
    fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

/// What asks us to stop: Ctrl-C, `kill`, and a terminal that is closed.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl StopSignals {
    /// From now on these signals do nothing by themselves.
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
