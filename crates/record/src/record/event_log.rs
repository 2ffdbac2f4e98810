//! Writes `events.ndjson` during a trial. Senders only append to a buffer in memory; one thread for
//! the whole run writes the buffers a few times a second. If the disk is too slow, events are
//! counted instead of kept: a trial never waits.

use std::{
    fs::File,
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use super::event::{EVENTS_FILE, Event};

/// How long events are collected before they are written.
const BATCH: Duration = Duration::from_millis(100);
/// The maximum buffer size of one trial.
const MOST_HELD: usize = 1 << 20;
/// The maximum size of a session's events on disk; further ones are only counted.
const MOST_WRITTEN: u64 = 64 << 20;

/// Writes the events of a run's trials.
#[derive(Debug)]
pub struct EventWriter {
    shared: Arc<WriterQueue>,
    thread: Option<JoinHandle<()>>,
}

/// Collects the events of one trial. The rest is written when it is dropped.
#[derive(Debug)]
pub struct EventLog {
    stream: Arc<LogStream>,
    shared: Arc<WriterQueue>,
    began: Instant,
}

#[derive(Debug, Default)]
struct WriterQueue {
    work: Mutex<PendingStreams>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct PendingStreams {
    streams: Vec<Weak<LogStream>>,
    is_due: bool,
    is_over: bool,
}

#[derive(Debug)]
struct LogStream {
    path: Utf8PathBuf,
    /// Locked before `held`, and kept while writing, so that batches stay in order.
    file: Mutex<Option<File>>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    /// All bytes so far.
    taken: u64,
    lost: u64,
}

impl EventWriter {
    /// Starts the writer thread.
    pub fn start() -> io::Result<EventWriter> {
        let shared = Arc::new(WriterQueue::default());
        let thread = std::thread::Builder::new().name("events".to_owned());
        let thread = thread.spawn({
            let shared = Arc::clone(&shared);
            move || shared.write_until_over()
        })?;
        Ok(EventWriter {
            shared,
            thread: Some(thread),
        })
    }

    /// The event log of the trial in this directory. Its artifacts directory need not exist yet.
    pub fn trial(&self, folder: &Utf8Path) -> EventLog {
        let stream = Arc::new(LogStream {
            path: folder.join("artifacts").join(EVENTS_FILE),
            file: Mutex::default(),
            held: Mutex::default(),
        });
        let mut work = lock(&self.shared.work);
        work.streams.retain(|stream| stream.strong_count() > 0);
        work.streams.push(Arc::downgrade(&stream));
        EventLog {
            stream,
            shared: Arc::clone(&self.shared),
            began: Instant::now(),
        }
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        lock(&self.shared.work).is_over = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is already reported.
            let _ = thread.join();
        }
    }
}

impl EventLog {
    /// Adds an event.
    pub fn take(&self, event: &Event) {
        let t = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let was_empty = lock(&self.stream.held).push(t, event);
        if was_empty {
            lock(&self.shared.work).is_due = true;
            self.shared.wake.notify_all();
        }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.stream.write();
    }
}

impl WriterQueue {
    fn write_until_over(&self) {
        let mut work = lock(&self.work);
        while !work.is_over {
            if !work.is_due {
                work = self.wake.wait(work).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let gathered = self
                .wake
                .wait_timeout_while(work, BATCH, |work| !work.is_over);
            work = gathered.unwrap_or_else(PoisonError::into_inner).0;
            work.is_due = false;
            let streams: Vec<Arc<LogStream>> =
                work.streams.iter().filter_map(Weak::upgrade).collect();
            drop(work);
            let mut is_left = false;
            for stream in streams {
                is_left |= stream.write();
            }
            work = lock(&self.work);
            work.is_due |= is_left;
        }
    }
}

impl LogStream {
    /// Writes the buffered events. Returns `true` if they could not be written yet: the trial's
    /// directory is still being created, or the disk is full.
    fn write(&self) -> bool {
        let mut file = lock(&self.file);
        if file.is_none() {
            if lock(&self.held).bytes.is_empty() {
                // The file may belong to another process: a process that has lost its trial must
                // not write.
                return false;
            }
            *file = File::create(&self.path).ok();
        }
        let Some(file) = file.as_mut() else {
            return !lock(&self.held).bytes.is_empty();
        };
        let bytes = std::mem::take(&mut lock(&self.held).bytes);
        if file.write_all(&bytes).is_err() {
            let lines = memchr::memchr_iter(b'\n', &bytes).count();
            let mut held = lock(&self.held);
            held.lost += u64::try_from(lines).unwrap_or(u64::MAX);
            // After an incomplete line, the next event starts a new line.
            held.bytes.insert(0, b'\n');
            return true;
        }
        false
    }
}

impl Held {
    /// Buffers an event, if there is room. Returns whether the buffer was empty before.
    fn push(&mut self, t: u64, event: &Event) -> bool {
        let was_empty = self.bytes.is_empty();
        let is_full = self.bytes.len() >= MOST_HELD || self.taken >= MOST_WRITTEN;
        if is_full && event.is_session() {
            self.lost += 1;
            return was_empty;
        }
        if self.lost > 0 {
            let events = std::mem::take(&mut self.lost);
            self.append(t, &Event::Lost { events });
        }
        self.append(t, event);
        was_empty
    }

    fn append(&mut self, t: u64, event: &Event) {
        #[derive(Serialize)]
        struct Line<'a> {
            t: u64,
            #[serde(flatten)]
            event: &'a Event,
        }
        let before = self.bytes.len();
        serde_json::to_writer(&mut self.bytes, &Line { t, event })
            .expect("an event is JSON, and memory takes it");
        self.bytes.push(b'\n');
        self.taken += (self.bytes.len() - before) as u64;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Passage, Phase, Tail};

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::try_from(dir.path().to_owned()).unwrap();
        (dir, path)
    }

    fn read(folder: &Utf8Path) -> Vec<Event> {
        let mut tail = Tail::new(folder.join("artifacts").join(EVENTS_FILE));
        let entries = tail.read().into_iter();
        entries.map(|entry| entry.event).collect()
    }

    #[test]
    fn early_events_are_written_when_the_directory_exists() {
        let (_dir, path) = folder();
        let writer = EventWriter::start().unwrap();
        let log = writer.trial(&path);
        log.take(&Event::Phase {
            phase: Phase::Preparing,
        });
        std::thread::sleep(3 * BATCH);
        fs_err::create_dir(path.join("artifacts")).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while read(&path).is_empty() && Instant::now() < deadline {
            std::thread::sleep(BATCH);
        }
        assert_eq!(read(&path).len(), 1, "written while the trial lives");
        log.take(&Event::Phase {
            phase: Phase::Judging,
        });
        drop(log);
        assert_eq!(read(&path).len(), 2, "the rest is written when it ends");
    }

    #[test]
    fn memory_is_limited_and_lost_events_are_counted() {
        let mut held = Held::default();
        let note = || Event::Note(Passage::of(&"x".repeat(4000)));
        for t in 0..1000 {
            held.push(t, &note());
        }
        assert!(held.bytes.len() < MOST_HELD + 8192);
        let lost = held.lost;
        assert!(lost > 500, "{lost}");
        held.bytes.clear();
        held.push(1000, &note());
        let text = String::from_utf8(held.bytes).unwrap();
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            format!(r#"{{"t":1000,"event":"lost","events":{lost}}}"#)
        );
    }

    #[test]
    fn size_on_disk_is_limited_and_the_end_is_kept() {
        let mut held = Held {
            taken: MOST_WRITTEN,
            ..Held::default()
        };
        held.push(1, &Event::Note(Passage::of("x")));
        held.push(
            2,
            &Event::Phase {
                phase: Phase::Judging,
            },
        );
        let text = String::from_utf8(held.bytes).unwrap();
        assert!(!text.contains("note"), "{text}");
        assert!(
            text.contains(r#""events":1"#) && text.contains("judging"),
            "{text}"
        );
    }
}
