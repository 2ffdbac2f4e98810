//! Test helpers on Linux and macOS: signals, sessions, `/proc` or `ps`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use camino::Utf8Path;
use rustix::process::{Pid, Signal, getpid, kill_process, setsid};

use super::SignalName;

/// Where `git` and `sh` are. Not `/usr/local/bin`: a real agent CLI may lie there.
pub(crate) fn system_path() -> String {
    "/usr/bin:/bin".to_owned()
}

/// The separator of PATH.
pub(crate) const PATH_SEPARATOR: char = ':';

/// The environment of a user whose home and files lie below this folder, PATH excepted.
pub(crate) fn user_env(root: &Utf8Path) -> Vec<(&'static str, String)> {
    vec![
        ("HOME", root.join("home").into_string()),
        ("TMPDIR", root.join("tmp").into_string()),
        ("XDG_CACHE_HOME", root.join("cache").into_string()),
    ]
}

/// The environment of git for someone without settings, PATH excepted.
pub(crate) fn nobodys_env() -> Vec<(&'static str, String)> {
    vec![("HOME", "/nonexistent".to_owned())]
}

/// A folder under its one true name.
pub(crate) fn true_name(folder: &Path) -> io::Result<PathBuf> {
    folder.canonicalize()
}

/// Lets a program be interrupted alone.
pub(crate) fn prepare(_command: &mut Command) {}

/// Asks a program to stop, as Ctrl-C does.
pub(crate) fn interrupt(child: &Child) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), Signal::INT)?)
}

/// The signal that ended a program.
pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    status.signal()
}

/// Becomes the leader of a session of its own.
pub(crate) fn start_session() -> io::Result<()> {
    // A group leader may not start a session; it already is what is wanted.
    setsid().map(drop).or(Ok(()))
}

/// Ends this process with a signal.
pub(crate) fn kill_self(name: SignalName) -> io::Result<()> {
    let signal = match name {
        SignalName::Abrt => Signal::ABORT,
        SignalName::Hup => Signal::HUP,
        SignalName::Int => Signal::INT,
        SignalName::Kill => Signal::KILL,
        SignalName::Segv => Signal::SEGV,
        SignalName::Term => Signal::TERM,
    };
    // The first SIGSEGV only takes the handler off that Rust installs to notice stack overflows.
    for _ in 0..2 {
        kill_process(getpid(), signal)?;
    }
    // A signal to oneself arrives before the call returns, unless it is ignored.
    Err(io::Error::other("the signal did not end the process"))
}

/// Ends this process as one that used memory that is not its own.
pub(crate) fn crash() -> io::Result<()> {
    kill_self(SignalName::Segv)
}

/// Installs a handler that does nothing. Unlike an ignored signal it is not passed on to children.
pub(crate) fn ignore_term() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _inside = runtime.enter();
    // The handler stays when its listener is dropped.
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map(drop)
}

/// The living processes, this one excepted, that have `needle` in their command line, environment,
/// program or working directory, as "pid: command line".
#[cfg(not(target_os = "macos"))]
pub(crate) fn processes_with(needle: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let pid = entry.file_name().into_string().ok()?;
        let is_pid = pid.bytes().all(|digit| digit.is_ascii_digit());
        (is_pid && pid != own && mentions(&entry.path(), needle))
            .then(|| format!("{pid}: {}", command_line(&entry.path())))
    });
    found.collect()
}

#[cfg(not(target_os = "macos"))]
fn mentions(process: &Path, needle: &str) -> bool {
    let in_file = ["cmdline", "environ"].iter().any(|name| {
        let bytes = std::fs::read(process.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(needle)
    });
    // A process that ended but was not waited for has neither.
    in_file
        || ["exe", "cwd"].iter().any(|name| {
            let target = std::fs::read_link(process.join(name)).unwrap_or_default();
            target.to_string_lossy().contains(needle)
        })
}

#[cfg(not(target_os = "macos"))]
fn command_line(process: &Path) -> String {
    let bytes = std::fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// The living processes, this one excepted, that have `needle` in their command line or
/// environment, as "pid: command line". There is no `/proc`, so that `ps` is asked.
#[cfg(target_os = "macos")]
pub(crate) fn processes_with(needle: &str) -> Vec<String> {
    let mut ps = Command::new("/bin/ps");
    let ps = ps.args(["-A", "-E", "-ww", "-o", "pid=,command="]);
    let ps = ps.stderr(std::process::Stdio::null());
    let listed = ps.output().expect("every system has ps").stdout;
    let own = std::process::id().to_string();
    let listed = String::from_utf8_lossy(&listed);
    let found = listed.lines().filter_map(|line| {
        let (pid, command) = line.trim_start().split_once(' ')?;
        (pid != own && command.contains(needle)).then(|| format!("{pid}: {command}"))
    });
    found.collect()
}
