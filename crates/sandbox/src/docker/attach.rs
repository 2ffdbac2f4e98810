//! The streams of a container: one connection with stdin in one direction and both outputs in the
//! other, with small headers. Implemented here, because bollard buffers output until a line end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use proctor_process::Stream;
use proctor_record::platform::engine;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_util::either::Either;

use super::Address;

/// The maximum size of a response head.
const LONGEST_HEAD: usize = 16 * 1024;

/// The header of each piece of output: the stream, three zeros, the length.
const HEADER: usize = 8;

const BUFFER: usize = 64 * 1024;

pub(super) type Connection = Either<engine::Connection, TcpStream>;
pub(super) type InputHalf = WriteHalf<Connection>;

/// Connects to an engine at this address.
pub(super) async fn connect(address: &Address) -> io::Result<Connection> {
    match address {
        Address::Local(path) => Ok(Either::Left(engine::connect(path).await?)),
        Address::Tcp(host) => Ok(Either::Right(TcpStream::connect(host).await?)),
        Address::Ssh { .. } | Address::Podman(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Both directions of a container's streams.
pub(super) struct Attached {
    pub(super) output: Demultiplexer<ReadHalf<Connection>>,
    pub(super) input: WriteHalf<Connection>,
}

/// Attaches to a container before its start, so that no byte is lost. `prefix` is the API version,
/// such as `/v1.41`.
pub(super) async fn attach(
    address: &Address,
    prefix: &str,
    container: &str,
) -> io::Result<Attached> {
    let mut connection = connect(address).await?;
    let request = format!(
        "POST {prefix}/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n\
         Host: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    // Byte by byte, so that the following data is not consumed; the head is short.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > LONGEST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(connection.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    if !head.starts_with("HTTP/1.1 101") && !head.starts_with("HTTP/1.1 200") {
        let line = head.lines().next().unwrap_or_default();
        return Err(io::Error::other(format!("cannot attach: {line}")));
    }
    let (output, input) = tokio::io::split(connection);
    Ok(Attached {
        output: Demultiplexer::new(output),
        input,
    })
}

/// Separates stdout and stderr.
pub(super) struct Demultiplexer<R> {
    reader: R,
    buffer: Box<[u8]>,
    /// The start of the unread part of the buffer.
    start: usize,
    end: usize,
    /// The stream of the current piece, and its remaining length.
    stream: Stream,
    left: usize,
}

/// A piece of output within [`Demultiplexer::bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutputPiece {
    pub(super) stream: Stream,
    start: usize,
    end: usize,
}

impl OutputPiece {
    pub(super) fn len(self) -> usize {
        self.end - self.start
    }

    /// The rest after `length` bytes.
    pub(super) fn rest(self, length: usize) -> Option<Self> {
        let start = self.start + length;
        (start < self.end).then_some(Self { start, ..self })
    }

    /// The first `length` bytes.
    pub(super) fn cut(self, length: usize) -> Self {
        Self {
            end: self.start + length.min(self.len()),
            ..self
        }
    }
}

impl<R: AsyncRead + Unpin> Demultiplexer<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            stream: Stream::Stdout,
            left: 0,
        }
    }

    /// The bytes of the last piece, valid until the next call.
    pub(super) fn bytes(&self, piece: OutputPiece) -> &[u8] {
        &self.buffer[piece.start..piece.end]
    }

    /// The next non-empty piece; `None` at the end of both streams.
    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<OutputPiece>> {
        loop {
            if self.left > 0 && self.start < self.end {
                let length = self.left.min(self.end - self.start);
                let piece = OutputPiece {
                    stream: self.stream,
                    start: self.start,
                    end: self.start + length,
                };
                self.start += length;
                self.left -= length;
                return Poll::Ready(Some(piece));
            }
            if self.left == 0 && self.end - self.start >= HEADER {
                self.take_header();
                continue;
            }
            match self.poll_fill(context) {
                Poll::Pending => return Poll::Pending,
                // A lost connection is an end, too; the state of the container is queried elsewhere.
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(None),
                Poll::Ready(Ok(_)) => {}
            }
        }
    }

    fn take_header(&mut self) {
        let header = &self.buffer[self.start..self.start + HEADER];
        self.stream = match header[0] {
            2 => Stream::Stderr,
            _ => Stream::Stdout,
        };
        let length = [header[4], header[5], header[6], header[7]];
        self.left = u32::from_be_bytes(length) as usize;
        self.start += HEADER;
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // At most part of a header is moved.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let mut space = ReadBuf::new(&mut self.buffer[self.end..]);
        let read = Pin::new(&mut self.reader).poll_read(context, &mut space);
        read.map_ok(|()| {
            let count = space.filled().len();
            self.end += count;
            count
        })
    }
}

/// Writes stdin as fast as it is read.
pub(super) struct StdinFeeder<W> {
    writer: W,
    queue: Vec<u8>,
    written: usize,
    closing: bool,
}

impl<W: AsyncWrite + Unpin> StdinFeeder<W> {
    pub(super) fn new(writer: W) -> Self {
        Self {
            writer,
            queue: Vec::new(),
            written: 0,
            closing: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if !self.closing {
            self.queue.extend_from_slice(bytes);
        }
    }

    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    /// Writes as much as possible; ready once stdin is closed by either side.
    pub(super) fn poll_feed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.written < self.queue.len() {
            let rest = &self.queue[self.written..];
            match Pin::new(&mut self.writer).poll_write(context, rest) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(count)) => self.written += count,
            }
        }
        self.queue.clear();
        self.written = 0;
        if self.closing {
            return Pin::new(&mut self.writer)
                .poll_shutdown(context)
                .map(|_| ());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(stream: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[stream, 0, 0, 0], &length[..], bytes].concat()
    }

    async fn read(mut reader: impl AsyncRead + Unpin) -> (Vec<u8>, Vec<u8>) {
        let mut demultiplexer = Demultiplexer::new(&mut reader);
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            let piece = std::future::poll_fn(|context| demultiplexer.poll_piece(context)).await;
            let Some(piece) = piece else {
                return (stdout, stderr);
            };
            let bytes = demultiplexer.bytes(piece);
            assert!(!bytes.is_empty());
            match piece.stream {
                Stream::Stdout => stdout.extend_from_slice(bytes),
                Stream::Stderr => stderr.extend_from_slice(bytes),
            }
        }
    }

    /// Yields a few bytes at a time.
    struct Dribble(Vec<u8>, usize, usize);

    impl AsyncRead for Dribble {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            space: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let end = (self.1 + self.2)
                .min(self.0.len())
                .min(self.1 + space.remaining());
            space.put_slice(&self.0[self.1..end]);
            self.1 = end;
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn streams_are_separated_for_all_chunk_sizes() {
        let large: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let bytes = [
            frame(1, b"a\x01\x02"),
            frame(2, &large),
            frame(1, b""),
            frame(1, b"b"),
        ]
        .concat();
        for step in [1, 3, 7, 8, 9, 4096, 1 << 20] {
            let (stdout, stderr) = read(Dribble(bytes.clone(), 0, step)).await;
            assert_eq!(stdout, b"a\x01\x02b", "in steps of {step}");
            assert_eq!(stderr, large, "in steps of {step}");
        }
    }
}
