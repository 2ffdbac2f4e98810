//! Writes call logs on a thread of its own, so that a slow disk slows no call down.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use fs_err::File;

use crate::error::GatewayError;

/// Where log lines go, and the thread that takes them there.
#[derive(Debug)]
pub(crate) struct LogWriter {
    /// `None` only while it is dropped.
    lines: Option<Sender<Job>>,
    thread: Option<thread::JoinHandle<()>>,
}

enum Job {
    Line(LogFile, String),
    /// Tell when everything before this is written.
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
}

impl LogWriter {
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

    /// Writes a line, soon.
    pub(crate) fn write(&self, file: &LogFile, line: String) {
        self.send(Job::Line(file.clone(), line));
    }

    /// Waits until everything so far is written.
    pub(crate) fn flush(&self) {
        let (done, wait) = channel();
        self.send(Job::Flush(done));
        let _ = wait.recv();
    }

    fn send(&self, job: Job) {
        if let Some(lines) = &self.lines {
            // The thread lives until this sender is dropped.
            let _ = lines.send(job);
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        drop(self.lines.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_all(jobs: &Receiver<Job>) {
    for job in jobs {
        match job {
            Job::Line(file, mut line) => {
                line.push('\n');
                // A full disk must not end calls; the ledger has the sums.
                let _ = (&*file.0).write_all(line.as_bytes());
            }
            Job::Flush(done) => drop(done.send(())),
        }
    }
}
