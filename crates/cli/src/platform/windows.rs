//! Windows: console events, folders of the user's profile. Files below the profile are private to its
//! user, and there are no modes.

use std::{collections::BTreeMap, io, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
    ctrl_logoff, ctrl_shutdown,
};

/// The variables, in order of precedence, that name the user's home. HOME is last, because
/// Unix-like shells set it to a path that is not valid on Windows.
pub const HOME: &[&str] = &["USERPROFILE", "HOME"];
/// The variables that name the directory for temporary files.
pub const TEMP: &[&str] = &["TMP", "TEMP"];
/// The variables that name the cache directory.
pub const CACHE: &[&str] = &["XDG_CACHE_HOME", "LOCALAPPDATA"];

/// The default directory for temporary files.
pub fn usual_temp(home: Option<&Utf8Path>) -> Utf8PathBuf {
    home.map_or_else(
        || r"C:\Windows\Temp".into(),
        |home| home.join(r"AppData\Local\Temp"),
    )
}

/// The default cache directory.
pub fn usual_cache(home: &Utf8Path) -> Utf8PathBuf {
    home.join(r"AppData\Local")
}

/// The normalized name of a variable. Names are not case-sensitive, and PATH is often spelled
/// `Path`.
pub fn variable_name(name: String) -> String {
    if name.eq_ignore_ascii_case("PATH") {
        return "PATH".to_owned();
    }
    name
}

/// Windows has no numeric user and group ids.
pub fn ids() -> (u32, u32) {
    (u32::MAX, u32::MAX)
}

/// The name of the machine.
pub fn machine(env: &BTreeMap<String, String>) -> String {
    let name = env.get("COMPUTERNAME").cloned();
    name.unwrap_or_else(|| "localhost".to_owned())
}

/// The canonical path of an existing file or directory, without the `\\?\` prefix.
pub fn true_name(path: &Utf8Path) -> io::Result<Utf8PathBuf> {
    let real = path.canonicalize_utf8()?;
    Ok(proctor_process::plain_path(real.as_str())
        .into_owned()
        .into())
}

/// Whether a write failed because the reader closed the pipe. The standard library does not map all
/// of these error codes.
pub fn reader_is_gone(error: &io::Error) -> bool {
    const PIPE_NOT_CONNECTED: i32 = 233;
    error.kind() == io::ErrorKind::BrokenPipe || error.raw_os_error() == Some(PIPE_NOT_CONNECTED)
}

/// Waits for input of the terminal.
pub fn wait_for_terminal(timeout: Duration) -> io::Result<()> {
    ratatui::crossterm::event::poll(timeout).map(drop)
}

/// Whether a terminal of this type supports the live view. Consoles do not set TERM.
pub fn can_draw(term: Option<&str>) -> bool {
    term != Some("dumb")
}

/// Creates or truncates a file. The permissions of its directory decide which users can read it.
pub fn private_file(path: &Utf8Path) -> io::Result<fs::File> {
    fs::File::create(path)
}

/// Does nothing: the extension of a file decides whether it is executable.
#[expect(clippy::unnecessary_wraps, reason = "other platforms can fail")]
pub fn make_executable(_path: &Utf8Path) -> io::Result<()> {
    Ok(())
}

/// The events that stop a run: Ctrl-C, Ctrl-Break and a closed console. After a closed console,
/// Windows waits a few seconds, in which agents are stopped and records are written.
///
/// Logoff and shutdown events reach only services and programs that have not loaded user32, which
/// Proctor loads. Otherwise Windows kills this process, and the agents with it, because their job
/// objects close.
pub struct StopSignals {
    ctrl_c: CtrlC,
    ctrl_break: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl StopSignals {
    /// Replaces the default actions of these events.
    pub fn listen() -> io::Result<StopSignals> {
        Ok(StopSignals {
            ctrl_c: ctrl_c()?,
            ctrl_break: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    /// Wait for one of them.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.ctrl_c.recv() => {}
            _ = self.ctrl_break.recv() => {}
            _ = self.close.recv() => {}
            _ = self.logoff.recv() => {}
            _ = self.shutdown.recv() => {}
        }
    }
}
