//! Writes call logs on a thread of its own, so that a slow disk does not delay calls.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use fs_err::File;

use crate::error::GatewayError;

/// How long lines are collected before they are written.
const GATHER: Duration = Duration::from_millis(5);

/// The size at which collected text is written, in bytes.
const LONGEST: usize = 64 << 10;

/// The thread that writes log lines, and its queue.
#[derive(Debug)]
pub(crate) struct CallLogWriter {
    /// `None` only during drop.
    lines: Option<Sender<WriterJob>>,
    thread: Option<thread::JoinHandle<()>>,
}

enum WriterJob {
    Line(LogFile, String),
    /// Report when all previous lines are written.
    Flush(Sender<()>),
}

/// An open call log.
#[derive(Debug, Clone)]
pub(crate) struct LogFile(std::sync::Arc<File>);

impl LogFile {
    /// Opens a log to append to.
    pub(crate) fn open(path: &Path) -> Result<Self, GatewayError> {
        let file = fs_err::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        let failed = |source| GatewayError::Log {
            path: PathBuf::from(path),
            source,
        };
        Ok(Self(std::sync::Arc::new(file.map_err(failed)?)))
    }

    fn is(&self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(&self.0, &other.0)
    }
}

impl CallLogWriter {
    pub(crate) fn start() -> Result<Self, GatewayError> {
        let (lines, jobs) = channel();
        let thread = thread::Builder::new()
            .name("gateway-log".to_owned())
            .spawn(move || write_all(&jobs))
            .map_err(|source| GatewayError::Thread { source })?;
        Ok(Self {
            lines: Some(lines),
            thread: Some(thread),
        })
    }

    /// Queues a line.
    pub(crate) fn write(&self, file: &LogFile, line: String) {
        self.send(WriterJob::Line(file.clone(), line));
    }

    /// Waits until all queued lines are written.
    pub(crate) fn flush(&self) {
        let (done, wait) = channel();
        self.send(WriterJob::Flush(done));
        let _ = wait.recv();
    }

    fn send(&self, job: WriterJob) {
        if let Some(lines) = &self.lines {
            // The thread lives until this sender is dropped.
            let _ = lines.send(job);
        }
    }
}

impl Drop for CallLogWriter {
    fn drop(&mut self) {
        drop(self.lines.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes queued lines in batches. Waking this thread for each line would cost as much as the call
/// itself.
fn write_all(jobs: &Receiver<WriterJob>) {
    while let Ok(first) = jobs.recv() {
        if matches!(first, WriterJob::Line(..)) {
            thread::sleep(GATHER);
        }
        let mut gathered = FileLines::default();
        for job in std::iter::once(first).chain(jobs.try_iter()) {
            match job {
                WriterJob::Line(file, line) => gathered.add(file, &line),
                WriterJob::Flush(done) => {
                    gathered.write();
                    let _ = done.send(());
                }
            }
        }
        gathered.write();
    }
}

/// Lines for one file.
#[derive(Default)]
struct FileLines {
    file: Option<LogFile>,
    text: String,
}

impl FileLines {
    fn add(&mut self, file: LogFile, line: &str) {
        let is_other = self.file.as_ref().is_some_and(|open| !open.is(&file));
        if is_other || self.text.len() > LONGEST {
            self.write();
        }
        self.file = Some(file);
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn write(&mut self) {
        if let Some(file) = self.file.take() {
            // A full disk must not end calls; the ledger has the totals.
            let _ = (&*file.0).write_all(self.text.as_bytes());
            self.text.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_files_stay_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        let files = paths.each_ref().map(|path| LogFile::open(path).unwrap());
        let writer = CallLogWriter::start().unwrap();
        for number in 0..100 {
            writer.write(&files[number % 3 % 2], number.to_string());
        }
        writer.flush();
        let numbers = paths.map(|path| -> Vec<usize> {
            let text = fs_err::read_to_string(path).unwrap();
            text.lines().map(|line| line.parse().unwrap()).collect()
        });
        assert_eq!(numbers[0].len() + numbers[1].len(), 100);
        assert!(numbers.iter().all(|numbers| numbers.is_sorted()));
    }
}
