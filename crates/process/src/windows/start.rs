//! Starts a process: streams, job, watcher.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::windows::io::{AsHandle, OwnedHandle};
use std::sync::Arc;

use super::control::Control;
use super::environment::Variables;
use super::job::Job;
use super::launch::WindowsLaunch;
use super::pipe::{self, Direction};
use super::pseudo_console::PseudoConsole;
use super::spawn::{Console, Spawned, spawn};
use super::watch::{Orders, Watched};
use super::{Feeder, Reader, assist};
use crate::{Command, Error, Output, Stdin, Supervisor};

/// A process that runs.
pub(crate) struct Started {
    pub(crate) pid: u32,
    pub(crate) control: Control,
    pub(crate) stdin: Option<Feeder>,
    pub(crate) stdout: Reader,
    pub(crate) stderr: Option<Reader>,
}

/// Starts a process. Nothing is waited for here; it is elsewhere.
pub(crate) async fn start(command: Command, supervisor: &Supervisor) -> Result<Started, Error> {
    if !command.cwd.is_dir() {
        return Err(Error::CwdMissing { cwd: command.cwd });
    }
    let env = Variables::new(command.env.clone());
    let mut launch = WindowsLaunch::plan(&command.program, &command.args, &env, &command.cwd)?;
    if let Output::Pty { .. } = command.output {
        launch = inside(&launch, &command, supervisor, &env)?;
    }
    let streams = StreamEnds::open(&command).map_err(|source| Error::Stdio {
        program: command.program.clone(),
        source,
    })?;
    let failed = |source| Error::Start {
        program: command.program.clone(),
        source,
    };
    let job = Arc::new(Job::new().map_err(failed)?);
    let main = streams.spawn(&launch, &job).map_err(failed)?;
    let pid = main.pid;
    let watched = Watched {
        main,
        job,
        orders: Arc::new(Orders::new().map_err(failed)?),
        terminal: streams.terminal,
        limits: command.limits,
        assistant: supervisor.executable.clone(),
    };
    Ok(Started {
        pid,
        control: Control::start(watched).map_err(failed)?,
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
    })
}

/// The supervisor that starts the program within the terminal, because only there its stdout can be told apart from
/// its stdin.
fn inside(
    launch: &WindowsLaunch,
    command: &Command,
    supervisor: &Supervisor,
    env: &Variables,
) -> Result<WindowsLaunch, Error> {
    let words = [
        OsStr::new(crate::command::SUPERVISE),
        OsStr::new(assist::INSIDE),
    ];
    let mut args: Vec<OsString> = words.map(OsStr::to_owned).into();
    // The file it stands for, but not what the command line makes of it: that is made there once more.
    args.push(super::find::find(&command.program, env, &launch.cwd)?.into());
    args.extend(command.args.iter().cloned());
    WindowsLaunch::plan(supervisor.executable.as_os_str(), &args, env, &command.cwd)
}

/// Our ends and the process's ends.
struct StreamEnds {
    stdin: Option<Feeder>,
    stdout: Reader,
    stderr: Option<Reader>,
    terminal: Option<PseudoConsole>,
    their_stdin: OwnedHandle,
    /// None in a terminal.
    their_outputs: Option<(OwnedHandle, OwnedHandle)>,
}

impl StreamEnds {
    fn open(command: &Command) -> io::Result<Self> {
        let (stdin, their_stdin) = open_stdin(&command.stdin)?;
        let (stdout, their_stdout) = pipe::open(Direction::FromProcess)?;
        let (stderr, terminal, their_outputs) = match command.output {
            Output::Pipes => {
                let (stderr, their_stderr) = pipe::open(Direction::FromProcess)?;
                let theirs = (their_stdout, their_stderr);
                (Some(Reader::new(stderr)), None, Some(theirs))
            }
            Output::Pty { columns, rows } => {
                let terminal = PseudoConsole::open(columns, rows, their_stdout.as_handle())?;
                (None, Some(terminal), None)
            }
        };
        Ok(Self {
            stdin,
            stdout: Reader::new(stdout),
            stderr,
            terminal,
            their_stdin,
            their_outputs,
        })
    }

    fn spawn(&self, launch: &WindowsLaunch, job: &Job) -> io::Result<Spawned> {
        let outputs = self.their_outputs.as_ref();
        let streams = [
            Some(self.their_stdin.as_handle()),
            outputs.map(|(stdout, _)| stdout.as_handle()),
            outputs.map(|(_, stderr)| stderr.as_handle()),
        ];
        let console = self
            .terminal
            .as_ref()
            .map_or(Console::Hidden, Console::Pseudo);
        spawn(launch, streams, &console, Some(job))
    }
}

fn open_stdin(stdin: &Stdin) -> io::Result<(Option<Feeder>, OwnedHandle)> {
    if matches!(stdin, Stdin::Null) {
        return Ok((None, File::open("NUL")?.into()));
    }
    let (ours, theirs) = pipe::open(Direction::ToProcess)?;
    let mut feeder = Feeder::new(ours);
    if let Stdin::Bytes(bytes) = stdin {
        feeder.push(bytes);
        feeder.close();
    }
    Ok((Some(feeder), theirs))
}
