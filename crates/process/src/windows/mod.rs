//! Everything that asks Windows: the same items as `unix`.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::task::{Context, Poll};

use crate::exit::Finished;
use crate::quick::QuickCommand;
use crate::{Command, EndReason, Error, Status, Supervisor};

const NOT_YET: &str = "provisional: replaced by the next commits";

#[derive(Debug)]
pub(crate) struct Control;
impl Control {
    pub(crate) fn poll_finished(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Finished>> {
        Poll::Ready(Err(io::Error::other(NOT_YET)))
    }
    pub(crate) fn end(&self, _: EndReason) {}
    pub(crate) fn resume(&self) {}
    pub(crate) fn clean_up(&self, _: u32) {}
    pub(crate) async fn wait(&mut self) {}
}

#[derive(Debug)]
pub(crate) struct Reader;
impl Reader {
    pub(crate) fn poll_read(&self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<usize> {
        Poll::Ready(0)
    }
}

#[derive(Debug)]
pub(crate) struct Feeder;
impl Feeder {
    pub(crate) fn push(&mut self, _: &[u8]) {}
    pub(crate) fn close(&mut self) {}
    pub(crate) fn poll_feed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

pub(crate) struct Started {
    pub(crate) pid: u32,
    pub(crate) control: Control,
    pub(crate) stdin: Option<Feeder>,
    pub(crate) stdout: Reader,
    pub(crate) stderr: Option<Reader>,
}

pub(crate) async fn start(command: Command, _: &Supervisor) -> Result<Started, Error> {
    Err(Error::Start {
        program: command.program,
        source: io::Error::other(NOT_YET),
    })
}

pub(crate) struct Helper;
pub(crate) struct Streams {
    pub(crate) stdin: Option<(tokio::process::ChildStdin, Vec<u8>)>,
    pub(crate) stdout: Option<tokio::process::ChildStdout>,
    pub(crate) stderr: Option<tokio::process::ChildStderr>,
}
impl Helper {
    pub(crate) fn start(command: QuickCommand) -> Result<(Self, Streams), Error> {
        Err(Error::Start {
            program: command.program,
            source: io::Error::other(NOT_YET),
        })
    }
    pub(crate) fn runs(&self) -> bool {
        false
    }
    pub(crate) async fn wait(&mut self) -> io::Result<Status> {
        Err(io::Error::other(NOT_YET))
    }
    pub(crate) fn kill(&self) {}
}

pub(crate) fn this_executable() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

pub(crate) fn supervise() -> ExitCode {
    ExitCode::FAILURE
}

pub(crate) fn init() -> ExitCode {
    ExitCode::FAILURE
}
