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

use super::events::{EVENTS_FILE, Entry, Event};
use crate::record::run_event::RunEvent;

/// How long events are gathered before they are written.
const BATCH: Duration = Duration::from_millis(100);
/// The most that is held in memory for one trial.
const MOST_HELD: usize = 1 << 20;
/// The most that a session puts on disk; what comes after it is counted only.
const MOST_WRITTEN: u64 = 64 << 20;

/// Writes the events of a run's trials.
#[derive(Debug)]
pub struct EventWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Collects the events of one trial. The rest is written when it is dropped.
#[derive(Debug)]
pub struct EventLog {
    stream: Arc<Stream>,
    shared: Arc<Shared>,
    began: Instant,
}

#[derive(Debug, Default)]
struct Shared {
    work: Mutex<Work>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    streams: Vec<Weak<Stream>>,
    is_due: bool,
    is_over: bool,
}

#[derive(Debug)]
struct Stream {
    path: Utf8PathBuf,
    /// Taken before `held`, and kept while writing: batches stay in their order.
    file: Mutex<Option<File>>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    /// All bytes that were taken so far.
    taken: u64,
    lost: u64,
}

impl EventWriter {
    /// Start the thread that writes.
    pub fn start() -> io::Result<EventWriter> {
        let shared = Arc::new(Shared::default());
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

    /// Take the events of the trial in this folder. Its artifacts folder need not be there yet.
    pub fn trial(&self, folder: &Utf8Path) -> EventLog {
        let stream = Arc::new(Stream {
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
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

impl EventLog {
    /// Take an event.
    pub fn take(&self, event: &RunEvent<'_>) {
        let Some(event) = Event::of(event) else {
            return;
        };
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

impl Shared {
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
            let streams: Vec<Arc<Stream>> = work.streams.iter().filter_map(Weak::upgrade).collect();
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

impl Stream {
    /// Write what is held. `true` when it could not be written yet: the trial's folder is still
    /// being made, or the disk is full.
    fn write(&self) -> bool {
        let mut file = lock(&self.file);
        if file.is_none() {
            if lock(&self.held).bytes.is_empty() {
                // The file may belong to another process: one that has lost its trial must not
                // write.
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
            // An incomplete line is dropped: the next one starts a new line.
            held.bytes.insert(0, b'\n');
            return true;
        }
        false
    }
}

impl Held {
    /// Hold an event, if there is room. Tells whether nothing was held before.
    fn push(&mut self, t: u64, event: Event) -> bool {
        let was_empty = self.bytes.is_empty();
        let is_full = self.bytes.len() >= MOST_HELD || self.taken >= MOST_WRITTEN;
        if is_full && event.is_session() {
            self.lost += 1;
            return was_empty;
        }
        if self.lost > 0 {
            let events = std::mem::take(&mut self.lost);
            self.append(&Entry {
                t,
                event: Event::Lost { events },
            });
        }
        self.append(&Entry { t, event });
        was_empty
    }

    fn append(&mut self, entry: &Entry) {
        let before = self.bytes.len();
        serde_json::to_writer(&mut self.bytes, entry)
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
    use crate::record::{Tail, run_event::Phase};

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
    fn events_told_before_the_folder_is_there_are_written_when_it_is() {
        let (_dir, path) = folder();
        let writer = EventWriter::start().unwrap();
        let log = writer.trial(&path);
        log.take(&RunEvent::Phase(Phase::Preparing));
        std::thread::sleep(3 * BATCH);
        fs_err::create_dir(path.join("artifacts")).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while read(&path).is_empty() && Instant::now() < deadline {
            std::thread::sleep(BATCH);
        }
        assert_eq!(read(&path).len(), 1, "written while the trial lives");
        log.take(&RunEvent::Phase(Phase::Judging));
        drop(log);
        assert_eq!(read(&path).len(), 2, "the rest is written when it ends");
    }

    #[test]
    fn memory_is_bounded_and_what_is_lost_is_counted() {
        let mut held = Held::default();
        let note = || Event::Note(super::super::events::Passage::of(&"x".repeat(4000)));
        for t in 0..1000 {
            held.push(t, note());
        }
        assert!(held.bytes.len() < MOST_HELD + 8192);
        let lost = held.lost;
        assert!(lost > 500, "{lost}");
        held.bytes.clear();
        held.push(1000, note());
        let text = String::from_utf8(held.bytes).unwrap();
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            format!(r#"{{"t":1000,"event":"lost","events":{lost}}}"#)
        );
    }

    #[test]
    fn a_session_without_end_does_not_fill_the_disk_and_its_end_is_kept() {
        let mut held = Held {
            taken: MOST_WRITTEN,
            ..Held::default()
        };
        held.push(1, Event::Note(super::super::events::Passage::of("x")));
        held.push(
            2,
            Event::Phase {
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
