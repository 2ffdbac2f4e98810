//! The messages between parent and supervisor, and their frames.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::wire::{Parser, Writer};
use crate::exit::Finished;
use crate::{EndReason, Exit, Leak, Status, Usage};

/// From the parent, with the three standard streams attached: run this.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    /// The file to execute.
    pub(super) program: OsString,
    /// The program's `argv[0]`.
    pub(super) name: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) cwd: OsString,
    pub(super) terminal: TerminalRequest,
    pub(super) wall: Option<Duration>,
    pub(super) term_grace: Duration,
    pub(super) leak_grace: Duration,
}

/// Whether the process's stdout is to be its controlling terminal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TerminalRequest {
    None,
    Stdout,
}

impl Request {
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut frame = Writer::new();
        frame.string(&self.program).string(&self.name);
        frame.number(self.args.len() as u64);
        for argument in &self.args {
            frame.string(argument);
        }
        frame.number(self.env.len() as u64);
        for (key, value) in &self.env {
            frame.string(key).string(value);
        }
        frame.string(&self.cwd);
        frame.number(u64::from(self.terminal == TerminalRequest::Stdout));
        frame.number(u64::from(self.wall.is_some()));
        frame.duration(self.wall.unwrap_or_default());
        frame.duration(self.term_grace).duration(self.leak_grace);
        frame.finish()
    }

    pub(super) fn decode(frame: &[u8]) -> io::Result<Self> {
        let mut frame = Parser::new(frame);
        Ok(Self {
            program: frame.string()?,
            name: frame.string()?,
            args: (0..frame.number()?)
                .map(|_| frame.string())
                .collect::<io::Result<_>>()?,
            env: (0..frame.number()?)
                .map(|_| Ok((frame.string()?, frame.string()?)))
                .collect::<io::Result<_>>()?,
            cwd: frame.string()?,
            terminal: match frame.number()? {
                0 => TerminalRequest::None,
                _ => TerminalRequest::Stdout,
            },
            wall: match (frame.number()?, frame.duration()?) {
                (0, _) => None,
                (_, wall) => Some(wall),
            },
            term_grace: frame.duration()?,
            leak_grace: frame.duration()?,
        })
    }
}

/// From the supervisor.
#[derive(Debug, PartialEq)]
pub(super) enum Notice {
    /// The process exists and is about to execute its program. It says so itself, so that a program that
    /// kills its supervisor at once is known nevertheless.
    Forked { pid: u32 },
    /// The process runs.
    Started,
    /// The process could not be started.
    Failed { errno: i32 },
    /// The process and all its descendants are gone.
    Finished(Finished),
}

impl Notice {
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut frame = Writer::new();
        match self {
            Self::Forked { pid } => frame.number(0).number((*pid).into()),
            Self::Started => frame.number(1),
            Self::Failed { errno } => frame.number(2).number(errno.unsigned_abs().into()),
            Self::Finished(finished) => finished.encode(frame.number(3)),
        };
        frame.finish()
    }

    pub(super) fn decode(frame: &[u8]) -> io::Result<Self> {
        let mut frame = Parser::new(frame);
        Ok(match frame.number()? {
            0 => Self::Forked {
                pid: frame.narrow()?,
            },
            1 => Self::Started,
            2 => Self::Failed {
                errno: frame.narrow()?,
            },
            3 => Self::Finished(Finished::decode(&mut frame)?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}

impl Finished {
    fn encode<'a>(&self, frame: &'a mut Writer) -> &'a mut Writer {
        let (kind, number) = match self.exit.status {
            None => (0, 0),
            Some(Status::Code(code)) => (1, code),
            Some(Status::Signal(signal)) => (2, signal),
        };
        frame.number(kind).number(number.unsigned_abs().into());
        frame.number(
            self.exit
                .ended_by
                .map_or(0, |reason| reason_byte(reason).into()),
        );
        frame.duration(self.duration);
        frame.number(self.leaked.len() as u64);
        for leak in &self.leaked {
            frame.number(leak.pid.into()).string(leak.name.as_ref());
        }
        if let Some(usage) = &self.usage {
            frame.number(1).duration(usage.cpu_user);
            frame.duration(usage.cpu_system);
            // No process has no memory at all, so that 0 is free to say that it is not known.
            frame.number(usage.max_rss_bytes.unwrap_or_default())
        } else {
            frame.number(0)
        }
    }

    fn decode(frame: &mut Parser<'_>) -> io::Result<Self> {
        let status = match (frame.number()?, frame.narrow()?) {
            (0, _) => None,
            (1, code) => Some(Status::Code(code)),
            (_, signal) => Some(Status::Signal(signal)),
        };
        let ended_by = reason_from_byte(frame.narrow()?);
        Ok(Self {
            exit: Exit { status, ended_by },
            duration: frame.duration()?,
            leaked: (0..frame.number()?)
                .map(|_| decode_leak(frame))
                .collect::<io::Result<_>>()?,
            usage: match frame.number()? {
                0 => None,
                _ => Some(decode_usage(frame)?),
            },
        })
    }
}

fn decode_leak(frame: &mut Parser<'_>) -> io::Result<Leak> {
    Ok(Leak {
        pid: frame.narrow()?,
        name: frame.string()?.to_string_lossy().into_owned(),
    })
}

fn decode_usage(frame: &mut Parser<'_>) -> io::Result<Usage> {
    Ok(Usage {
        cpu_user: frame.duration()?,
        cpu_system: frame.duration()?,
        max_rss_bytes: Some(frame.number()?).filter(|&bytes| bytes > 0),
    })
}

/// The byte by which the parent asks the supervisor to end the process; never 0.
pub(super) fn reason_byte(reason: EndReason) -> u8 {
    match reason {
        EndReason::TimedOut => 1,
        EndReason::Idle => 2,
        EndReason::OutputLimit => 3,
        EndReason::Cancelled => 4,
        EndReason::Asked => 5,
        EndReason::SupervisorLost => 6,
        EndReason::Finished => 7,
    }
}

pub(super) fn reason_from_byte(byte: u8) -> Option<EndReason> {
    match byte {
        1 => Some(EndReason::TimedOut),
        2 => Some(EndReason::Idle),
        3 => Some(EndReason::OutputLimit),
        4 => Some(EndReason::Cancelled),
        5 => Some(EndReason::Asked),
        6 => Some(EndReason::SupervisorLost),
        7 => Some(EndReason::Finished),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::wire::HEADER;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn a_request_survives_the_wire_with_bytes_that_are_not_utf8() {
        let strange = OsString::from_vec(vec![0xff, b'=', 0x80]);
        let request = Request {
            program: "/bin/sh".into(),
            name: "sh".into(),
            args: vec!["-c".into(), strange.clone(), "".into()],
            env: vec![("A".into(), strange)],
            cwd: "/".into(),
            terminal: TerminalRequest::Stdout,
            wall: Some(Duration::from_millis(1500)),
            term_grace: Duration::from_millis(1),
            leak_grace: Duration::ZERO,
        };
        let frame = request.encode().unwrap();
        assert_eq!(Request::decode(&frame[HEADER..]).unwrap(), request);
    }

    #[test]
    fn every_notice_survives_the_wire() {
        let finished = |status, ended_by, usage| {
            Notice::Finished(Finished {
                exit: Exit { status, ended_by },
                duration: Duration::from_nanos(7),
                leaked: vec![Leak {
                    pid: 9,
                    name: "x y".into(),
                }],
                usage,
            })
        };
        let usage = Usage {
            cpu_user: Duration::from_micros(3),
            cpu_system: Duration::from_micros(4),
            max_rss_bytes: Some(5),
        };
        for notice in [
            Notice::Forked { pid: 42 },
            Notice::Started,
            Notice::Failed { errno: 13 },
            finished(None, None, None),
            finished(Some(Status::Code(255)), None, Some(usage)),
            finished(Some(Status::Signal(9)), Some(EndReason::TimedOut), None),
            finished(Some(Status::Code(0)), Some(EndReason::Idle), None),
            finished(None, Some(EndReason::OutputLimit), None),
            finished(None, Some(EndReason::Cancelled), None),
            finished(None, Some(EndReason::Asked), None),
        ] {
            let frame = notice.encode().unwrap();
            assert_eq!(Notice::decode(&frame[HEADER..]).unwrap(), notice);
        }
    }

    #[test]
    fn a_cut_frame_is_an_error() {
        let frame = Notice::Forked { pid: 42 }.encode().unwrap();
        assert!(Notice::decode(&frame[HEADER..frame.len() - 1]).is_err());
    }
}
