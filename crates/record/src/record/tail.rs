//! Reads `events.ndjson` while it is written, or afterwards. Nothing is locked and no file is kept
//! open between two reads.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use camino::Utf8PathBuf;

use super::event::Entry;
use crate::platform;

/// The maximum size of one read.
const MOST_READ: u64 = 4 << 20;

/// A position in an event stream.
#[derive(Debug)]
pub struct Tail {
    path: Utf8PathBuf,
    /// The identity of the file.
    file: u64,
    at: u64,
    /// The size of the end to read when the file is opened first.
    only_last: u64,
    /// The start of an incomplete line.
    partial: Vec<u8>,
}

impl Tail {
    /// Reads from the start.
    pub fn new(path: Utf8PathBuf) -> Tail {
        Tail::of_last(path, u64::MAX)
    }

    /// Reads from this many bytes before the end.
    pub fn of_last(path: Utf8PathBuf, bytes: u64) -> Tail {
        Tail {
            path,
            file: 0,
            at: 0,
            only_last: bytes,
            partial: Vec::new(),
        }
    }

    /// The entries since the last read, a few megabytes at most. A missing file is empty, and
    /// invalid lines are skipped.
    pub fn read(&mut self) -> Vec<Entry> {
        let Ok(bytes) = self.read_bytes() else {
            return Vec::new();
        };
        self.partial.extend_from_slice(&bytes);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let lines = self.partial[..end].split(|byte| *byte == b'\n');
        let entries = lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        self.partial.drain(..=end);
        entries
    }

    fn read_bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        let (id, length) = (platform::file_id(&file)?, file.metadata()?.len());
        if id != self.file || length < self.at {
            // Another attempt has a new file.
            self.file = id;
            self.at = length.saturating_sub(self.only_last);
            self.partial.clear();
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        let read = file.take(MOST_READ).read_to_end(&mut bytes)?;
        self.at += read as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn times(tail: &mut Tail) -> Vec<u64> {
        tail.read().iter().map(|entry| entry.t).collect()
    }

    fn line(t: u64) -> String {
        format!("{{\"t\":{t},\"event\":\"lost\",\"events\":1}}\n")
    }

    #[test]
    fn complete_lines_are_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(dir.path().join("events")).unwrap();
        let mut tail = Tail::new(path.clone());
        assert!(times(&mut tail).is_empty(), "no file yet");
        let mut file = File::create(&path).unwrap();
        let second = line(2);
        write!(file, "{}{}", line(1), &second[..9]).unwrap();
        assert_eq!(times(&mut tail), [1]);
        write!(file, "{}no line\n\n{}", &second[9..], line(3)).unwrap();
        assert_eq!(times(&mut tail), [2, 3]);
        assert!(times(&mut tail).is_empty());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, line(9)).unwrap();
        assert_eq!(times(&mut tail), [9], "another attempt has a new file");
    }

    #[test]
    fn only_the_requested_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(dir.path().join("events")).unwrap();
        let text: String = (0..100).map(line).collect();
        std::fs::write(&path, text).unwrap();
        let mut tail = Tail::of_last(path, 100);
        assert_eq!(times(&mut tail), [98, 99]);
    }
}
