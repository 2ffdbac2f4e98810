//! Starts a process: streams, supervisor, request, answer.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::control::Control;
use super::message::{Notice, Request, TerminalRequest};
use super::{Feeder, Reader, find, platform, pty};
use crate::{Command, Error, Output, Stdin, Supervisor};

/// The longest a supervisor may take to answer before it counts as broken.
const ANSWER: Duration = Duration::from_secs(30);

/// How often and for how long each time a supervisor is waited for when the process exists.
const NUDGES: u32 = 40;
const NUDGE: Duration = Duration::from_millis(50);

/// A process that runs.
pub(crate) struct Started {
    pub(crate) pid: u32,
    pub(crate) control: Control,
    pub(crate) stdin: Option<Feeder>,
    pub(crate) stdout: Reader,
    pub(crate) stderr: Option<Reader>,
}

pub(crate) async fn start(command: Command, supervisor: &Supervisor) -> Result<Started, Error> {
    if !command.cwd.is_dir() {
        return Err(Error::CwdMissing { cwd: command.cwd });
    }
    let request = request(&command)?;
    let streams = StreamEnds::open(&command).map_err(|source| Error::Stdio {
        program: command.program.clone(),
        source,
    })?;
    let lost = |source| Error::Supervisor {
        executable: supervisor.executable.clone(),
        source,
    };
    let mut control = Control::launch(&supervisor.executable).map_err(lost)?;
    let theirs = &streams.theirs;
    let attached = [
        theirs.stdin.as_fd(),
        theirs.stdout.as_fd(),
        theirs.stderr.as_fd(),
    ];
    let answer = async {
        control.request(&request, attached).await?;
        answer(&mut control).await
    };
    let answer = tokio::time::timeout(ANSWER, answer)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    match answer.map_err(lost)? {
        StartAnswer::Runs { pid } => Ok(Started {
            pid,
            control,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
        }),
        StartAnswer::Failed { errno } => Err(Error::Start {
            program: command.program,
            source: io::Error::from_raw_os_error(errno),
        }),
    }
}

/// Whether the process runs.
enum StartAnswer {
    Runs { pid: u32 },
    Failed { errno: i32 },
}

async fn answer(control: &mut Control) -> io::Result<StartAnswer> {
    let mut forked = None;
    loop {
        let notice = match forked {
            None => poll_fn(|context| control.poll_notice(context)).await,
            Some(pid) => match confirmation(control).await {
                Some(notice) => notice,
                None => return Ok(StartAnswer::Runs { pid }),
            },
        };
        match (notice, forked) {
            (Ok(Notice::Forked { pid }), _) => forked = Some(pid),
            (Ok(Notice::Failed { errno }), _) => return Ok(StartAnswer::Failed { errno }),
            // A supervisor that is lost once there is a process is not a failed start: the owner will hear.
            (Ok(Notice::Started) | Err(_), Some(pid)) => return Ok(StartAnswer::Runs { pid }),
            (Err(error), None) => return Err(error),
            (Ok(Notice::Started | Notice::Finished(_)), _) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

/// The supervisor's message after the start of the process. The program may have stopped the
/// supervisor, so that it gets SIGCONT, and the wait has a timeout.
async fn confirmation(control: &mut Control) -> Option<io::Result<Notice>> {
    for _ in 0..NUDGES {
        let notice = poll_fn(|context| control.poll_notice(context));
        if let Ok(notice) = tokio::time::timeout(NUDGE, notice).await {
            return Some(notice);
        }
        control.resume();
    }
    None
}

fn request(command: &Command) -> Result<Request, Error> {
    let cwd = std::path::absolute(&command.cwd).map_err(|_| Error::CwdMissing {
        cwd: command.cwd.clone(),
    })?;
    Ok(Request {
        program: find::program(command, &cwd)?.into(),
        name: command.program.clone(),
        args: command.args.clone(),
        env: command.env.clone().into_iter().collect(),
        cwd: cwd.into(),
        terminal: match command.output {
            Output::Pipes => TerminalRequest::None,
            Output::Pty { .. } => TerminalRequest::Stdout,
        },
        wall: command.limits.wall,
        term_grace: command.limits.term_grace,
        leak_grace: command.limits.leak_grace,
    })
}

/// Our ends and the process's ends.
struct StreamEnds {
    stdin: Option<Feeder>,
    stdout: Reader,
    stderr: Option<Reader>,
    theirs: Theirs,
}

struct Theirs {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl StreamEnds {
    fn open(command: &Command) -> io::Result<Self> {
        let (stdin, their_stdin) = open_stdin(&command.stdin)?;
        let (stdout, stderr, their_stdout, their_stderr) = match command.output {
            Output::Pipes => {
                let (stdout, their_stdout) = platform::pipe()?;
                let (stderr, their_stderr) = platform::pipe()?;
                (
                    stdout,
                    Some(Reader::new(stderr)?),
                    their_stdout,
                    their_stderr,
                )
            }
            Output::Pty { columns, rows } => {
                let pty = pty::open(columns, rows)?;
                let second = pty.terminal.try_clone()?;
                (pty.controller, None, pty.terminal, second)
            }
        };
        Ok(Self {
            stdin,
            stdout: Reader::new(stdout)?,
            stderr,
            theirs: Theirs {
                stdin: their_stdin,
                stdout: their_stdout,
                stderr: their_stderr,
            },
        })
    }
}

fn open_stdin(stdin: &Stdin) -> io::Result<(Option<Feeder>, OwnedFd)> {
    if matches!(stdin, Stdin::Null) {
        return Ok((None, File::open("/dev/null")?.into()));
    }
    let (theirs, ours) = platform::pipe()?;
    let mut feeder = Feeder::new(ours)?;
    if let Stdin::Bytes(bytes) = stdin {
        feeder.push(bytes);
        feeder.close();
    }
    Ok((Some(feeder), theirs))
}
