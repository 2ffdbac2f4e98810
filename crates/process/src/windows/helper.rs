//! A helper program: a job that is killed as one, and pipes.

use std::fs::File;
use std::io;
use std::os::windows::io::{AsHandle, OwnedHandle};
use std::path::Path;

use tokio::net::windows::named_pipe::NamedPipeServer;
use tokio::sync::oneshot;

use super::environment::Variables;
use super::handle::{exit_code, wait_any};
use super::job::Job;
use super::launch::WindowsLaunch;
use super::pipe::{self, Direction, Reader};
use super::spawn::{Console, Spawned, spawn};
use super::status;
use crate::helper::{QuickCommand, Sink, Source};
use crate::{Error, Status};

/// A running helper. If dropped early, it is killed with its descendants.
pub(crate) struct Helper {
    job: Job,
    ended: HelperEnd,
}

/// The end of a helper, as the thread that waits for it tells it.
enum HelperEnd {
    Pending(oneshot::Receiver<io::Result<u32>>),
    Known(Status),
}

/// The pipes to a helper's standard streams, except those connected elsewhere.
pub(crate) struct Streams {
    pub(crate) stdin: Option<(NamedPipeServer, Vec<u8>)>,
    pub(crate) stdout: Option<Reader>,
    pub(crate) stderr: Option<Reader>,
}

impl Helper {
    pub(crate) fn start(command: QuickCommand) -> Result<(Self, Streams), Error> {
        let cwd = command.cwd.as_deref().unwrap_or(Path::new("."));
        let env = Variables::new(command.env);
        let launch = WindowsLaunch::plan(&command.program, &command.args, &env, cwd)?;
        let (streams, theirs) =
            open(command.stdin, command.stdout).map_err(|source| Error::Stdio {
                program: command.program.clone(),
                source,
            })?;
        let started = Job::new().and_then(|job| {
            let theirs = theirs.each_ref().map(|handle| Some(handle.as_handle()));
            let spawned = spawn(&launch, theirs, &Console::Hidden, Some(&job))?;
            let ended = HelperEnd::Pending(wait_for(spawned)?);
            Ok(Self { job, ended })
        });
        let helper = started.map_err(|source| Error::Start {
            program: command.program,
            source,
        })?;
        Ok((helper, streams))
    }

    /// Whether it has not been waited for.
    pub(crate) fn runs(&self) -> bool {
        matches!(self.ended, HelperEnd::Pending(_))
    }

    pub(crate) async fn wait(&mut self) -> io::Result<Status> {
        let code = match &mut self.ended {
            HelperEnd::Known(status) => return Ok(*status),
            HelperEnd::Pending(code) => code.await.map_err(io::Error::other)??,
        };
        let status = status(code);
        self.ended = HelperEnd::Known(status);
        Ok(status)
    }

    /// Kills it with all it started.
    pub(crate) fn kill(&self) {
        self.job.terminate();
    }
}

/// Waits for the end in a thread of its own, which lives no longer than the helper.
fn wait_for(spawned: Spawned) -> io::Result<oneshot::Receiver<io::Result<u32>>> {
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new()
        .name("proctor-helper".to_owned())
        .spawn(move || {
            let process = spawned.process.as_handle();
            let code = wait_any(&[process], None).and_then(|_| exit_code(process));
            // There is no receiver if the helper was dropped.
            let _ = sender.send(code);
        })?;
    Ok(receiver)
}

/// The environment of this process, for helpers that inherit it.
pub(super) fn ours() -> Variables {
    Variables::new(std::env::vars_os())
}

/// Our ends, and those of the helper: stdin, stdout, stderr.
fn open(stdin: Source, stdout: Sink) -> io::Result<(Streams, [OwnedHandle; 3])> {
    let (input, their_stdin) = match stdin {
        Source::Null => (None, File::open("NUL")?.into()),
        Source::File(file) => (None, file.into()),
        Source::Pipe(reader) => (None, reader.into()),
        Source::Bytes(bytes) => {
            let (ours, theirs) = pipe::open(Direction::ToProcess)?;
            (Some((ours, bytes)), theirs)
        }
    };
    let (output, their_stdout) = match stdout {
        Sink::File(file) => (None, file.into()),
        Sink::Pipe(writer) => (None, writer.into()),
        Sink::Collect => {
            let (ours, theirs) = pipe::open(Direction::FromProcess)?;
            (Some(Reader::new(ours)), theirs)
        }
    };
    let (errors, their_stderr) = pipe::open(Direction::FromProcess)?;
    let streams = Streams {
        stdin: input,
        stdout: output,
        stderr: Some(Reader::new(errors)),
    };
    Ok((streams, [their_stdin, their_stdout, their_stderr]))
}
