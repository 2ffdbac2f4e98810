//! Decompresses a copy of an answer for metering, piece by piece. The client gets the original bytes.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use bytes::Bytes;
use flate2::write::{DeflateDecoder, GzDecoder, ZlibDecoder};
use hyper::HeaderMap;
use hyper::header::CONTENT_ENCODING;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Decoded bytes that were not fetched yet.
type Out = Vec<u8>;

/// One way of compressing.
pub(crate) enum Decoder {
    /// Not compressed.
    Identity,
    /// gzip.
    Gzip(Box<GzDecoder<Out>>),
    /// `deflate`: zlib by the standard, often raw in practice. The first byte decides.
    DeflateUnknown,
    /// deflate with a zlib header.
    Zlib(Box<ZlibDecoder<Out>>),
    /// deflate without one.
    Deflate(Box<DeflateDecoder<Out>>),
    /// Brotli.
    Brotli(Box<DecompressorWriter<Out>>),
    /// Zstandard.
    Zstd(Box<Zstd>),
    /// Something else, or broken: nothing can be said about the content.
    Unknown,
}

impl Decoder {
    /// The decoder for an answer with these headers.
    pub(crate) fn new(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(CONTENT_ENCODING) else {
            return Self::Identity;
        };
        match value.as_bytes().trim_ascii() {
            b"" | b"identity" => Self::Identity,
            b"gzip" | b"x-gzip" => Self::Gzip(Box::new(GzDecoder::new(Out::new()))),
            b"deflate" => Self::DeflateUnknown,
            b"br" => Self::Brotli(Box::new(DecompressorWriter::new(Out::new(), 4096))),
            b"zstd" => Self::Zstd(Box::default()),
            _ => Self::Unknown,
        }
    }

    /// Decodes the next bytes. `None` if they cannot be decoded.
    pub(crate) fn push(&mut self, bytes: &Bytes) -> Option<Bytes> {
        if let (Self::DeflateUnknown, Some(first)) = (&*self, bytes.first()) {
            *self = if first & 0x0f == 8 {
                Self::Zlib(Box::new(ZlibDecoder::new(Out::new())))
            } else {
                Self::Deflate(Box::new(DeflateDecoder::new(Out::new())))
            };
        }
        let decoded = match self {
            Self::Identity => return Some(bytes.clone()),
            Self::DeflateUnknown => return Some(Bytes::new()),
            Self::Unknown => return None,
            Self::Gzip(decoder) => fed(&mut **decoder, bytes).map(|()| take(decoder.get_mut())),
            Self::Zlib(decoder) => fed(&mut **decoder, bytes).map(|()| take(decoder.get_mut())),
            Self::Deflate(decoder) => fed(&mut **decoder, bytes).map(|()| take(decoder.get_mut())),
            Self::Brotli(decoder) => fed(&mut **decoder, bytes).map(|()| take(decoder.get_mut())),
            Self::Zstd(decoder) => decoder.push(bytes),
        };
        decoded.inspect_err(|_| *self = Self::Unknown).ok()
    }
}

fn fed(decoder: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    decoder.write_all(bytes)?;
    decoder.flush()
}

fn take(out: &mut Out) -> Bytes {
    Bytes::from(std::mem::take(out))
}

/// Zstandard in pieces: input waits until a whole block is there.
#[derive(Default)]
pub(crate) struct Zstd {
    frame: Option<FrameDecoder>,
    input: Vec<u8>,
    /// How many bytes follow the last block.
    trailer: usize,
}

impl Zstd {
    /// No frame header is longer.
    const HEADER: usize = 18;

    fn push(&mut self, bytes: &[u8]) -> io::Result<Bytes> {
        self.input.extend_from_slice(bytes);
        let mut out = Vec::new();
        loop {
            if self.frame.is_none() && !self.begin()? {
                return Ok(out.into());
            }
            let frame = self.frame.as_mut().expect("made just above");
            let Some(length) = block_length(&self.input, self.trailer) else {
                return Ok(out.into());
            };
            if self.input.len() < length {
                return Ok(out.into());
            }
            let mut rest = &self.input[..];
            frame
                .decode_blocks(&mut rest, BlockDecodingStrategy::UptoBlocks(1))
                .map_err(io::Error::other)?;
            let used = self.input.len() - rest.len();
            self.input.drain(..used);
            out.extend(frame.collect().unwrap_or_default());
            if frame.is_finished() {
                self.frame = None;
            }
        }
    }

    /// Reads a frame's header once enough of it is there.
    fn begin(&mut self) -> io::Result<bool> {
        let mut rest = &self.input[..];
        let mut frame = FrameDecoder::new();
        match frame.reset(&mut rest) {
            Ok(()) => {
                // The flags stand behind the magic number.
                let has_checksum = self.input[4] & 0b100 != 0;
                self.trailer = if has_checksum { 4 } else { 0 };
                let used = self.input.len() - rest.len();
                self.input.drain(..used);
                self.frame = Some(frame);
                Ok(true)
            }
            Err(_) if self.input.len() < Self::HEADER => Ok(false),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

/// The length of the block that starts here with its header, and with what follows the last one.
fn block_length(input: &[u8], trailer: usize) -> Option<usize> {
    let header = input.first_chunk::<3>()?;
    let bits = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let last = bits & 1 == 1;
    let size = usize::try_from(bits >> 3).ok()?;
    let body = if (bits >> 1) & 3 == 1 { 1 } else { size };
    Some(3 + body + if last { trailer } else { 0 })
}
