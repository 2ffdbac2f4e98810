//! Windows: console events, folders of the user's profile. Files below the profile are private to its
//! user, and there are no modes.

use std::{collections::BTreeMap, io};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
    ctrl_logoff, ctrl_shutdown,
};

/// The variables, in their order of precedence, that name the user's home. HOME comes last: shells of
/// other systems set it to what is no path here.
pub const HOME: &[&str] = &["USERPROFILE", "HOME"];
/// Those that name the folder for temporary files.
pub const TEMP: &[&str] = &["TMP", "TEMP"];
/// Those that name the folder of caches.
pub const CACHE: &[&str] = &["XDG_CACHE_HOME", "LOCALAPPDATA"];

/// The folder for temporary files when no variable names one.
pub fn usual_temp(home: Option<&Utf8Path>) -> Utf8PathBuf {
    home.map_or_else(
        || r"C:\Windows\Temp".into(),
        |home| home.join(r"AppData\Local\Temp"),
    )
}

/// The folder of caches when no variable names one.
pub fn usual_cache(home: &Utf8Path) -> Utf8PathBuf {
    home.join(r"AppData\Local")
}

/// A variable's name as it is looked up: names that differ only in case are the same, and PATH is
/// mostly written `Path`.
pub fn variable_name(name: String) -> String {
    if name.eq_ignore_ascii_case("PATH") {
        return "PATH".to_owned();
    }
    name
}

/// There are no numbers of users and groups: those of nobody.
pub fn ids() -> (u32, u32) {
    (u32::MAX, u32::MAX)
}

/// The name of the machine.
pub fn machine(env: &BTreeMap<String, String>) -> String {
    let name = env.get("COMPUTERNAME").cloned();
    name.unwrap_or_else(|| "localhost".to_owned())
}

/// The one true name of a file or folder that is there, as people write it: without the prefix that
/// turns off the rules for paths.
pub fn true_name(path: &Utf8Path) -> io::Result<Utf8PathBuf> {
    let real = path.canonicalize_utf8()?;
    Ok(proctor_process::plain_path(real.as_str())
        .into_owned()
        .into())
}

/// Whether writing failed because nobody reads any more. The standard library does not know all codes for that.
pub fn reader_is_gone(error: &io::Error) -> bool {
    const PIPE_NOT_CONNECTED: i32 = 233;
    error.kind() == io::ErrorKind::BrokenPipe || error.raw_os_error() == Some(PIPE_NOT_CONNECTED)
}

/// Whether a terminal that calls itself this can be drawn on. Consoles say nothing of themselves.
pub fn can_draw(term: Option<&str>) -> bool {
    term != Some("dumb")
}

/// Make a file, or empty the one that is there. Who may read it is what its folder says.
pub fn private_file(path: &Utf8Path) -> io::Result<fs::File> {
    fs::File::create(path)
}

/// There is nothing to do: what a file is called says whether it can be started.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub fn make_executable(_path: &Utf8Path) -> io::Result<()> {
    Ok(())
}

/// What asks us to stop: Ctrl-C, Ctrl-Break, a console that is closed. After the last Windows waits a
/// few seconds, in which agents are ended and records written.
///
/// Of a user who logs off and a machine that is shut down only services hear, and programs without the
/// library of windows (user32), which ours comes to load. Else we are ended without a word, and agents
/// with us, because their jobs end.
pub struct StopSignals {
    ctrl_c: CtrlC,
    ctrl_break: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl StopSignals {
    /// From now on these events do nothing by themselves.
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
