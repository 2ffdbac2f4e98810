//! The protocol between parent and supervisor: length-prefixed frames of integers and byte strings,
//! because arguments and environment need not be UTF-8.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

/// The bytes of a frame's length.
pub(super) const HEADER: usize = 4;

/// Builds one frame.
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; HEADER],
        }
    }

    pub(super) fn number(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn duration(&mut self, value: Duration) -> &mut Self {
        self.number(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn string(&mut self, value: &OsStr) -> &mut Self {
        self.number(value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
        self
    }

    /// The whole frame, header included.
    pub(super) fn finish(mut self) -> io::Result<Vec<u8>> {
        let length = u32::try_from(self.bytes.len() - HEADER)
            .map_err(|_| io::Error::from(io::ErrorKind::ArgumentListTooLong))?;
        self.bytes[..HEADER].copy_from_slice(&length.to_le_bytes());
        Ok(self.bytes)
    }
}

/// The length of the frame that starts with this header.
pub(super) fn frame_length(header: [u8; HEADER]) -> usize {
    u32::from_le_bytes(header) as usize
}

/// Takes one frame apart, without its header.
pub(super) struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    pub(super) fn new(frame: &'a [u8]) -> Self {
        Self { rest: frame }
    }

    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?;
        let bytes = bytes.try_into().expect("take returns 8 bytes");
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn narrow<T: TryFrom<u64>>(&mut self) -> io::Result<T> {
        T::try_from(self.number()?).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    pub(super) fn duration(&mut self) -> io::Result<Duration> {
        self.number().map(Duration::from_nanos)
    }

    pub(super) fn string(&mut self) -> io::Result<OsString> {
        let length = self.narrow()?;
        self.take(length)
            .map(|bytes| OsString::from_vec(bytes.to_vec()))
    }
}
