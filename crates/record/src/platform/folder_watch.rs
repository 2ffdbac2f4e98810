//! Watches folders while commands run: which of them were moved, and how often their files were written.

use camino::Utf8Path;

/// Something that happened in a watched folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderEvent {
    /// The folder with this number was moved or removed.
    Moved(usize),
    /// A program that had written to this file of a folder closed it, or put another file in its place.
    Written(usize, Vec<u8>),
    /// There were more events than the system keeps.
    Overflow,
}

/// The events that a watch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// That a folder is moved.
    Moves,
    /// That a file of a folder is written, or the folder is moved or removed.
    Writes,
}

/// A watch on some folders. The system keeps the events, so that no program can end the watch.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct FolderWatch {
    events: std::os::fd::OwnedFd,
    /// The number of each folder, by the system's number of its watch.
    folders: std::collections::HashMap<i32, usize>,
}

#[cfg(target_os = "linux")]
impl FolderWatch {
    /// Watch these folders; `None` if the system cannot.
    pub fn start<'a>(
        watched: Watched,
        folders: impl Iterator<Item = &'a Utf8Path>,
    ) -> Option<FolderWatch> {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let mut flags = WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        if watched == Watched::Writes {
            // The kernel merges equal events that follow each other: opening stands between two closes.
            flags |= WatchFlags::OPEN | WatchFlags::CLOSE_WRITE;
            flags |= WatchFlags::MOVED_TO | WatchFlags::DELETE_SELF;
        }
        let numbered = folders.enumerate();
        let watched = numbered.filter_map(|(number, folder)| {
            let watch = add_watch(&events, folder.as_std_path(), flags).ok()?;
            Some((watch, number))
        });
        let folders = watched.collect();
        Some(FolderWatch { events, folders })
    }

    /// The events since the start, or since they were last asked for.
    pub fn events(&self) -> Vec<FolderEvent> {
        use rustix::fs::inotify::{ReadFlags, Reader};
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.events, &mut buffer);
        let mut found = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return found,
            };
            let flags = event.events();
            let Some(number) = self.folders.get(&event.wd()).copied() else {
                if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                    found.push(FolderEvent::Overflow);
                }
                continue;
            };
            if flags.intersects(ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF) {
                found.push(FolderEvent::Moved(number));
            } else if flags.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO)
                && let Some(name) = event.file_name()
            {
                found.push(FolderEvent::Written(number, name.to_bytes().to_vec()));
            }
        }
    }
}

/// Elsewhere nothing is watched.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub enum FolderWatch {}

#[cfg(not(target_os = "linux"))]
impl FolderWatch {
    /// None.
    pub fn start<'a>(_: Watched, _: impl Iterator<Item = &'a Utf8Path>) -> Option<FolderWatch> {
        None
    }

    /// Never called.
    pub fn events(&self) -> Vec<FolderEvent> {
        match *self {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn writes_and_moves_are_seen_however_short_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(dir.path()).unwrap().join("a");
        fs_err::create_dir(&folder).unwrap();
        let watch = FolderWatch::start(Watched::Writes, [folder.as_path()].into_iter()).unwrap();
        for name in ["report", "report", "new"] {
            fs_err::write(folder.join(name), "x").unwrap();
        }
        fs_err::rename(folder.join("new"), folder.join("report")).unwrap();
        let written = |name: &str| FolderEvent::Written(0, name.as_bytes().to_vec());
        let expected = ["report", "report", "new", "report"].map(written);
        assert_eq!(watch.events(), expected);
        fs_err::rename(&folder, dir.path().join("b")).unwrap();
        fs_err::rename(dir.path().join("b"), &folder).unwrap();
        assert_eq!(watch.events()[0], FolderEvent::Moved(0));
        assert_eq!(watch.events(), []);
    }
}
