//! A program that the user talks to, on the user's own terminal.

use std::{collections::BTreeMap, ffi::OsString, io, path::Path};

/// Runs a program on the terminal of this process until it ends. Returns its exit code; `None` if a
/// signal ended it. It has no limits: the user ends it.
pub fn run_interactive(
    program: &Path,
    args: &[OsString],
    cwd: &Path,
    env: &BTreeMap<OsString, OsString>,
) -> io::Result<Option<i32>> {
    #[expect(clippy::disallowed_methods, reason = "this crate starts processes")]
    let mut command = std::process::Command::new(program);
    command.args(args).current_dir(cwd).env_clear().envs(env);
    Ok(command.status()?.code())
}
