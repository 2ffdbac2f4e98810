//! Writes output to disk byte for byte as it comes: one raw log per stream, and a transcript of both in order
//! of arrival that is short enough to be read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Stream;

/// Where a [`Capture`] writes.
#[derive(Clone, Debug)]
pub struct CapturePaths {
    /// Every byte of stdout.
    pub stdout: PathBuf,
    /// Every byte of stderr.
    pub stderr: PathBuf,
    /// Both in order of arrival.
    pub transcript: PathBuf,
}

/// How much a [`Capture`] writes.
#[derive(Clone, Copy, Debug)]
pub struct CaptureLimits {
    /// The maximum size of each raw log; 1 GiB by default. Further bytes are only counted.
    pub raw: u64,
    /// The most bytes of output in the transcript; 10 MiB by default. A line that says so follows.
    pub transcript: u64,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self {
            raw: 1024 * 1024 * 1024,
            transcript: 10 * 1024 * 1024,
        }
    }
}

/// A file of a capture could not be created or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct CaptureError {
    /// The file.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

/// Writes the output of one process to disk.
///
/// Nothing is buffered: chunks are large when there is much output, and what was captured must be on disk
/// even if this process is killed.
#[derive(Debug)]
pub struct Capture {
    stdout: Log,
    stderr: Log,
    transcript: Log,
    /// Whether the transcript is a second name of stdout's raw log. That saves a copy while nothing distinguishes the
    /// two: most agents write to one stream only.
    is_linked: bool,
}

impl Capture {
    /// Creates the three files, empty.
    pub fn create(paths: CapturePaths, limits: CaptureLimits) -> Result<Self, CaptureError> {
        let stdout = Log::create(paths.stdout, limits.raw)?;
        let stderr = Log::create(paths.stderr, limits.raw)?;
        // A file of an earlier attempt may be such a second name: its content must not be emptied.
        let _ = fs::remove_file(&paths.transcript);
        let is_linked = cfg!(unix) && fs::hard_link(&stdout.path, &paths.transcript).is_ok();
        let transcript = if is_linked {
            Log {
                path: paths.transcript,
                file: None,
                limit: limits.transcript,
                seen: 0,
            }
        } else {
            Log::create(paths.transcript, limits.transcript)?
        };
        Ok(Self {
            stdout,
            stderr,
            transcript,
            is_linked,
        })
    }

    /// Adds output of a process. An error is reported once per file; its later bytes are only
    /// counted.
    pub fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), CaptureError> {
        let unlinked = self.unlink_before(stream, bytes);
        let raw = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let raw = raw.write(bytes);
        let transcript = self.write_transcript(bytes);
        unlinked.and(raw).and(transcript)
    }

    /// Makes the transcript a file of its own if these bytes make it differ from stdout's raw log.
    fn unlink_before(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), CaptureError> {
        let seen = self.stdout.seen + bytes.len() as u64;
        let is_same =
            stream == Stream::Stdout && seen <= self.stdout.limit.min(self.transcript.limit);
        if !self.is_linked || is_same {
            return Ok(());
        }
        self.is_linked = false;
        let path = &self.transcript.path;
        let copied = fs::remove_file(path).and_then(|()| {
            let mut own = File::create_new(path)?;
            io::copy(&mut File::open(&self.stdout.path)?, &mut own)?;
            Ok(own)
        });
        self.transcript.file = Some(copied.map_err(|source| failed(path, source))?);
        Ok(())
    }

    fn write_transcript(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        let was_whole = !self.transcript.truncated();
        self.transcript.write(bytes)?;
        if was_whole && self.transcript.truncated() {
            let limit = self.transcript.limit;
            let marker = format!(
                "\n[OUTPUT TRUNCATED: only the first {limit} bytes are here; the raw logs hold more]\n"
            );
            self.transcript.append(marker.as_bytes())?;
        }
        Ok(())
    }

    /// Bytes of stdout so far, written or not.
    pub fn stdout_bytes(&self) -> u64 {
        self.stdout.seen
    }

    /// Bytes of stderr so far, written or not.
    pub fn stderr_bytes(&self) -> u64 {
        self.stderr.seen
    }

    /// Whether the transcript lacks the end of the output.
    pub fn truncated(&self) -> bool {
        self.transcript.truncated()
    }

    /// Whether a raw log lacks the end of its stream.
    pub fn raw_truncated(&self) -> bool {
        self.stdout.truncated() || self.stderr.truncated()
    }
}

/// One file that takes a limited number of bytes.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    /// `None` after a failed write, and while another file holds the content.
    file: Option<File>,
    limit: u64,
    seen: u64,
}

impl Log {
    fn create(path: PathBuf, limit: u64) -> Result<Self, CaptureError> {
        let file = File::create(&path).map_err(|source| failed(&path, source))?;
        Ok(Self {
            path,
            file: Some(file),
            limit,
            seen: 0,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        let room = self.limit.saturating_sub(self.seen);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        self.seen += bytes.len() as u64;
        self.append(&bytes[..bytes.len().min(room)])
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        if let Err(source) = file.write_all(bytes) {
            self.file = None;
            return Err(failed(&self.path, source));
        }
        Ok(())
    }

    fn truncated(&self) -> bool {
        self.seen > self.limit
    }
}

fn failed(path: &Path, source: io::Error) -> CaptureError {
    CaptureError {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(folder: &Path) -> CapturePaths {
        CapturePaths {
            stdout: folder.join("out"),
            stderr: folder.join("err"),
            transcript: folder.join("both"),
        }
    }

    #[test]
    fn streams_are_kept_apart_byte_for_byte_and_together_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::create(paths(folder.path()), CaptureLimits::default()).unwrap();
        capture.write(Stream::Stdout, b"a\xff\n").unwrap();
        capture.write(Stream::Stderr, b"\0b").unwrap();
        capture.write(Stream::Stdout, b"c").unwrap();
        assert_eq!(fs::read(folder.path().join("out")).unwrap(), b"a\xff\nc");
        assert_eq!(fs::read(folder.path().join("err")).unwrap(), b"\0b");
        assert_eq!(
            fs::read(folder.path().join("both")).unwrap(),
            b"a\xff\n\0bc"
        );
        assert_eq!((capture.stdout_bytes(), capture.stderr_bytes()), (4, 2));
        assert!(!capture.truncated() && !capture.raw_truncated());
    }

    #[cfg(unix)]
    #[test]
    fn transcript_takes_no_space_until_it_differs_from_stdout() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| fs::metadata(folder.path().join(name)).unwrap().ino();
        for attempt in ["first", "second"] {
            let mut capture =
                Capture::create(paths(folder.path()), CaptureLimits::default()).unwrap();
            capture.write(Stream::Stdout, attempt.as_bytes()).unwrap();
            assert_eq!(file("out"), file("both"));
            let transcript = fs::read_to_string(folder.path().join("both")).unwrap();
            assert_eq!(transcript, attempt);
        }
        let mut capture = Capture::create(paths(folder.path()), CaptureLimits::default()).unwrap();
        capture.write(Stream::Stderr, b"e").unwrap();
        assert_ne!(file("out"), file("both"));
        capture.write(Stream::Stdout, b"o").unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(
            (read("out"), read("err"), read("both")),
            ("o".into(), "e".into(), "eo".into())
        );
    }

    #[test]
    fn the_transcript_stops_at_its_limit_and_says_so_once() {
        let folder = tempfile::tempdir().unwrap();
        let limits = CaptureLimits {
            raw: 8,
            transcript: 5,
        };
        let mut capture = Capture::create(paths(folder.path()), limits).unwrap();
        capture.write(Stream::Stdout, b"12345").unwrap();
        assert!(!capture.truncated());
        capture.write(Stream::Stderr, b"6").unwrap();
        capture.write(Stream::Stdout, b"7890").unwrap();
        assert!(capture.truncated() && capture.raw_truncated());
        assert_eq!(capture.stdout_bytes(), 9);
        assert_eq!(fs::read(folder.path().join("out")).unwrap(), b"12345789");
        let transcript = fs::read_to_string(folder.path().join("both")).unwrap();
        assert!(transcript.starts_with("12345\n[OUTPUT TRUNCATED: "));
        assert!(transcript.ends_with("]\n"));
        assert_eq!(transcript.matches("[OUTPUT TRUNCATED").count(), 1);
    }

    /// Only Linux has a file that is always full.
    #[cfg(target_os = "linux")]
    #[test]
    fn full_disk_is_reported_once_and_other_files_continue() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = paths(folder.path());
        paths.stdout = "/dev/full".into();
        let mut capture = Capture::create(paths, CaptureLimits::default()).unwrap();
        let error = capture.write(Stream::Stdout, b"lost").unwrap_err();
        assert_eq!(error.path, Path::new("/dev/full"));
        capture.write(Stream::Stdout, b" too").unwrap();
        assert_eq!(capture.stdout_bytes(), 8);
        assert_eq!(fs::read(folder.path().join("both")).unwrap(), b"lost too");
    }
}
