//! Watches what is written to one file: each time that a program closes it, its content is kept.

use camino::Utf8Path;

/// What was written to a file.
#[derive(Debug, Default)]
pub struct Writes {
    /// How often a program that had written to it closed it, or put another file in its place.
    pub closes: usize,
    /// Its content at those times, where that changed; the last few.
    pub versions: Vec<Vec<u8>>,
}

/// Contents that are kept, and how large they may be.
#[cfg(target_os = "linux")]
const KEPT: (usize, u64) = (4, 64 << 20);

/// A watch on one file of a folder.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct WriteWatch {
    folder: camino::Utf8PathBuf,
    thread: std::thread::JoinHandle<Writes>,
}

#[cfg(target_os = "linux")]
impl WriteWatch {
    /// A file of this name ends the watch.
    const END: &str = ".end-of-watch";

    /// Watch the file `name` in `folder`; `None` when the system does not say.
    pub fn start(folder: &Utf8Path, name: &str) -> Option<WriteWatch> {
        let events = events_of(folder)?;
        let (path, name) = (folder.join(name), name.to_owned());
        let watch = move || follow(&events, &path, &name);
        let thread = std::thread::Builder::new().spawn(watch).ok()?;
        Some(WriteWatch {
            folder: folder.to_owned(),
            thread,
        })
    }

    /// End the watch.
    pub fn stop(self) -> Writes {
        let end = self.folder.join(Self::END);
        // Without this file the watch would go on.
        if fs_err::write(&end, "").is_err() {
            return Writes::default();
        }
        let writes = self.thread.join().unwrap_or_default();
        let _ = fs_err::remove_file(end);
        writes
    }
}

/// Ask the system for what happens in a folder. The kernel merges an event with an equal one before it that was not
/// read yet; that a file is opened stands between two of its closes.
#[cfg(target_os = "linux")]
fn events_of(folder: &Utf8Path) -> Option<std::os::fd::OwnedFd> {
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    let events = init(CreateFlags::CLOEXEC).ok()?;
    let flags = WatchFlags::OPEN | WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
    add_watch(&events, folder.as_std_path(), flags).ok()?;
    Some(events)
}

#[cfg(target_os = "linux")]
fn follow(events: &std::os::fd::OwnedFd, path: &Utf8Path, name: &str) -> Writes {
    use rustix::fs::inotify::ReadFlags;
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = rustix::fs::inotify::Reader::new(events, &mut buffer);
    let mut writes = Writes::default();
    loop {
        let event = match reader.next() {
            Ok(event) if event.events().contains(ReadFlags::OPEN) => continue,
            Ok(event) => event.file_name().map(|name| name.to_bytes().to_vec()),
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return writes,
        };
        match event {
            Some(file) if file == WriteWatch::END.as_bytes() => return writes,
            Some(file) if file == name.as_bytes() => writes.add(path),
            _ => {}
        }
    }
}

#[cfg(target_os = "linux")]
impl Writes {
    fn add(&mut self, path: &Utf8Path) {
        self.closes += 1;
        let (count, size) = KEPT;
        let is_small = |about: std::fs::Metadata| about.is_file() && about.len() <= size;
        if !path.symlink_metadata().is_ok_and(is_small) {
            return;
        }
        let Ok(content) = fs_err::read(path) else {
            return;
        };
        if self.versions.last() != Some(&content) {
            self.versions.push(content);
            let more = self.versions.len().saturating_sub(count);
            self.versions.drain(..more);
        }
    }
}

/// Elsewhere nothing is watched.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub enum WriteWatch {}

#[cfg(not(target_os = "linux"))]
impl WriteWatch {
    /// None.
    pub fn start(_: &Utf8Path, _: &str) -> Option<WriteWatch> {
        None
    }

    /// Never called.
    pub fn stop(self) -> Writes {
        match self {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn two_writes_before_the_first_is_seen_are_two() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(dir.path()).unwrap();
        let events = events_of(folder).unwrap();
        for name in ["report", "report", WriteWatch::END] {
            fs_err::write(folder.join(name), "x").unwrap();
        }
        assert_eq!(follow(&events, &folder.join("report"), "report").closes, 2);
    }

    #[test]
    fn every_content_that_a_program_closes_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(dir.path()).unwrap();
        let watch = WriteWatch::start(folder, "report").unwrap();
        fs_err::write(folder.join("other"), "x").unwrap();
        fs_err::write(folder.join("report"), "one").unwrap();
        // The content is read a moment after the event.
        std::thread::sleep(std::time::Duration::from_millis(100));
        fs_err::write(folder.join("new"), "two").unwrap();
        fs_err::rename(folder.join("new"), folder.join("report")).unwrap();
        let writes = watch.stop();
        assert_eq!(writes.closes, 2);
        assert_eq!(writes.versions, [b"one".to_vec(), b"two".to_vec()]);
    }
}
