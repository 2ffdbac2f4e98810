//! Converts a command to the arguments of `CreateProcess`: file, command line, environment,
//! directory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::command_line::QuotingRules;
use super::environment::Variables;
use super::find::{find, plain};
use super::spawn::system_folder;
use super::{command_line, shim};
use crate::Error;

/// Something that can be started.
#[derive(Debug)]
pub(super) struct WindowsLaunch {
    pub(super) file: PathBuf,
    /// Closed by a zero.
    pub(super) line: Vec<u16>,
    /// The block of all variables.
    pub(super) env: Vec<u16>,
    pub(super) cwd: PathBuf,
}

impl WindowsLaunch {
    /// All errors of a command are reported here, before resources are created.
    pub(super) fn plan(
        program: &OsStr,
        args: &[OsString],
        env: &Variables,
        cwd: &Path,
    ) -> Result<Self, Error> {
        let missing = |_| Error::CwdMissing {
            cwd: cwd.to_owned(),
        };
        let cwd = plain(&std::path::absolute(cwd).map_err(missing)?);
        let found = find(program, env, &cwd)?;
        let (file, line) = lines(found, program, args, env, &cwd)?;
        let env = env.block().map_err(|source| Error::Start {
            program: program.to_owned(),
            source,
        })?;
        Ok(Self {
            file,
            line,
            env,
            cwd,
        })
    }
}

/// The file to start, and the command line for it.
fn lines(
    found: PathBuf,
    program: &OsStr,
    args: &[OsString],
    env: &Variables,
    cwd: &Path,
) -> Result<(PathBuf, Vec<u16>), Error> {
    if !is_script(&found) {
        let line = command_line::of_program(QuotingRules::of(&found), program, args)?;
        return Ok((found, line));
    }
    if let Some(target) = shim::target(&found, env, cwd) {
        let args: Vec<OsString> = target
            .args
            .into_iter()
            .chain(args.iter().cloned())
            .collect();
        let rules = QuotingRules::of(&target.program);
        let line = command_line::of_program(rules, target.program.as_os_str(), &args)?;
        return Ok((target.program, line));
    }
    // Not the one of `ComSpec` or `PATH`, which the agent controls.
    let folder = system_folder().ok_or_else(|| Error::Start {
        program: program.to_owned(),
        source: io::ErrorKind::NotFound.into(),
    })?;
    let shell = folder.join("cmd.exe");
    let line = command_line::of_script(&shell, &found, args)?;
    Ok((shell, line))
}

fn is_script(file: &Path) -> bool {
    let extension = file.extension().and_then(OsStr::to_str);
    extension.is_some_and(|it| it.eq_ignore_ascii_case("cmd") || it.eq_ignore_ascii_case("bat"))
}
