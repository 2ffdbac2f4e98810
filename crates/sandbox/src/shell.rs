//! Runs a judging or preparing command: with a timeout, output on disk, and no remaining processes.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::{
    Background, Capture, CaptureLimits, CapturePaths, Command, EndReason, Event, Exit, Limits,
    Output, Status, Stdin,
};
use proctor_record::platform::{self, Shell};
use tokio_util::sync::CancellationToken;

use crate::{ContainerEnv, ExecEnv, Running, host::Host};

/// The length of the quoted end of the output.
const QUOTED_BYTES: usize = 400;

/// The command.
pub struct ShellCommand<'a> {
    /// Program and arguments.
    pub argv: &'a [String],
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub cwd: &'a Utf8Path,
    /// The timeout.
    pub timeout: Option<Duration>,
    /// The directory for its output.
    pub logs: Utf8PathBuf,
    /// The fate of background processes in a container.
    pub background: Background,
}

/// The result of a command.
pub struct ShellResult {
    /// The exit.
    pub exit: Exit,
    /// The last line of its output; empty if there is none.
    pub last_line: String,
    /// The shell that ran it, if it is not the expected one.
    pub shell: Option<&'static str>,
}

impl ShellResult {
    /// The exit code, or the reason that there is none.
    pub fn code(&self, line: &str) -> Result<i32, String> {
        match (self.exit.ended_by, self.exit.status) {
            (None, Some(Status::Code(code))) => Ok(code),
            (None, Some(Status::Signal(signal))) => {
                Err(format!("`{line}` was killed by signal {signal}"))
            }
            (Some(EndReason::TimedOut), _) => Err(format!("`{line}` exceeded its time limit")),
            (Some(EndReason::Cancelled), _) => Err(format!("`{line}` was interrupted")),
            (Some(EndReason::SupervisorLost), _) => {
                Err(format!("the supervisor of `{line}` was killed"))
            }
            _ => Err(format!("`{line}` ended in an unknown way")),
        }
    }
}

/// A shell command as a program with arguments.
pub fn line(text: &str) -> Vec<String> {
    ["sh", "-c", text].map(str::to_owned).into()
}

impl ShellCommand<'_> {
    /// Runs the command. Its result is data; only a failure of the machine is an error.
    pub async fn run(
        self,
        exec_env: &ExecEnv,
        host: &Host,
        cancel: &CancellationToken,
    ) -> Result<ShellResult, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let shell = match exec_env {
            ExecEnv::Local => host.shell(),
            ExecEnv::Docker(_) => Shell::Sh,
        };
        let script = shell.script(self.argv).map_err(|error| text(&error))?;
        let argv = match &script {
            None => self.argv.to_vec(),
            Some(script) => vec![self.write_script(script)?],
        };
        let mut command = ShellCommand {
            argv: &argv,
            ..self
        };
        if matches!(exec_env, ExecEnv::Local) {
            platform::look_in_path_only(&mut command.env);
        }
        let (command, mut capture) = command.prepare()?;
        let process = exec_env.start(command, host).await;
        let process = process.map_err(|error| text(&error))?;
        let ran = follow(process, &mut capture, cancel).await?;
        Ok(ShellResult {
            shell: script.map(|_| "cmd.exe"),
            ..ran
        })
    }

    /// Writes a script for `cmd.exe` next to the output.
    fn write_script(&self, script: &str) -> Result<String, String> {
        let path = self.logs.join("command.cmd");
        let written =
            fs_err::create_dir_all(&self.logs).and_then(|()| fs_err::write(&path, script));
        written.map_err(|error| error.to_string())?;
        Ok(path.into_string())
    }

    /// Runs it in a container as a user of the image.
    pub async fn run_as(
        self,
        user: Option<&str>,
        exec_env: &ContainerEnv,
        cancel: &CancellationToken,
    ) -> Result<ShellResult, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let (command, mut capture) = self.prepare()?;
        let process = exec_env.start(command, user.map(str::to_owned)).await;
        let process = process.map_err(|error| text(&error))?;
        follow(process, &mut capture, cancel).await
    }

    /// The command, and the files for its output.
    fn prepare(self) -> Result<(Command, Capture), String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        fs_err::create_dir_all(&self.logs).map_err(|error| text(&error))?;
        let paths = CapturePaths {
            stdout: self.logs.join("stdout").into(),
            stderr: self.logs.join("stderr").into(),
            transcript: self.logs.join("output.log").into(),
        };
        let capture =
            Capture::create(paths, CaptureLimits::default()).map_err(|error| text(&error))?;
        let command = Command {
            program: self.argv[0].clone().into(),
            args: self.argv[1..].iter().map(Into::into).collect(),
            env: self
                .env
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            cwd: self.cwd.into(),
            stdin: Stdin::Null,
            output: Output::Pipes,
            limits: Limits {
                wall: self.timeout,
                ..Limits::default()
            },
            background: self.background,
        };
        Ok((command, capture))
    }
}

/// Runs a command to its end.
async fn follow(
    mut process: Running,
    capture: &mut Capture,
    cancel: &CancellationToken,
) -> Result<ShellResult, String> {
    let text = |error: &dyn std::error::Error| error.to_string();

    let mut tail = Vec::new();
    let mut is_cancelled = false;
    let exit = loop {
        tokio::select! {
            event = process.next() => match event.map_err(|error| text(&error))? {
                Event::Output { stream, bytes } => {
                    capture.write(stream, bytes).map_err(|error| text(&error))?;
                    tail.extend_from_slice(&bytes[bytes.len().saturating_sub(QUOTED_BYTES)..]);
                    tail.drain(..tail.len().saturating_sub(QUOTED_BYTES));
                }
                Event::Ended(report) => break report.exit,
            },
            () = cancel.cancelled(), if !is_cancelled => {
                is_cancelled = true;
                process.end(EndReason::Cancelled);
            }
        }
    };
    Ok(ShellResult {
        exit,
        last_line: last_line(&tail),
        shell: None,
    })
}

fn last_line(tail: &[u8]) -> String {
    let said = String::from_utf8_lossy(tail);
    let mut lines = said.lines().rev().map(str::trim);
    lines
        .find(|line| !line.is_empty())
        .unwrap_or_default()
        .to_owned()
}
