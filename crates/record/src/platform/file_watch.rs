//! Counts how often a file is written while commands run, from before the file and its folders exist.

use camino::Utf8Path;

/// A watch on one file. It ends when it is dropped.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct FileWatch {
    /// Closing it ends the thread that follows the events.
    stop: Option<std::os::fd::OwnedFd>,
    thread: Option<std::thread::JoinHandle<usize>>,
}

#[cfg(target_os = "linux")]
impl FileWatch {
    /// Watch the file `below` this folder; `None` if the system cannot. Links on the way are not followed.
    pub fn start(root: &Utf8Path, below: &Utf8Path) -> Option<FileWatch> {
        let follower = linux::Follower::start(root, below)?;
        let (wake, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
        let builder = std::thread::Builder::new().name("file-watch".to_owned());
        let thread = builder.spawn(move || follower.follow(&wake)).ok()?;
        Some(FileWatch {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// How often programs have written the file until now. A file whose folder was moved or removed after a write
    /// counts as written again, and so do events that were lost.
    pub fn finish(mut self) -> usize {
        self.end()
    }

    fn end(&mut self) -> usize {
        drop(self.stop.take());
        let count = self.thread.take().map(std::thread::JoinHandle::join);
        // A thread that panicked has seen nothing.
        count.map_or(0, Result::unwrap_or_default)
    }
}

#[cfg(target_os = "linux")]
impl Drop for FileWatch {
    fn drop(&mut self) {
        self.end();
    }
}

/// Elsewhere nothing is watched.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub enum FileWatch {}

#[cfg(not(target_os = "linux"))]
impl FileWatch {
    /// None.
    pub fn start(_: &Utf8Path, _: &Utf8Path) -> Option<FileWatch> {
        None
    }

    /// Never called.
    pub fn finish(self) -> usize {
        match self {}
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        collections::{HashMap, HashSet},
        mem::MaybeUninit,
        os::fd::OwnedFd,
    };

    use camino::{Utf8Path, Utf8PathBuf};
    use rustix::{
        event::{PollFd, PollFlags, poll},
        fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
        io::Errno,
    };

    /// Follows the events of a file and of the folders on the way to it.
    pub(super) struct Follower {
        events: OwnedFd,
        /// The folders on the way, the root first, and the file at the end.
        path: Vec<Utf8PathBuf>,
        /// The watched folders by the system's numbers: their places on the way.
        folders: HashMap<i32, usize>,
        /// Watches on the file itself. They show writes under another name.
        files: HashSet<i32>,
        writes: usize,
        /// Whether the file was there before its folder could be watched, and no end of a write was seen since.
        is_early: bool,
        /// Whether the file was opened since its folder is watched.
        is_opened: bool,
        /// Whether the last event was the end of a write under the file's own name: then the next event of the file
        /// itself is about the same write.
        is_named: bool,
    }

    /// An event of a watched folder or file.
    struct Event {
        watch: i32,
        flags: ReadFlags,
        name: Option<Vec<u8>>,
    }

    impl Follower {
        pub(super) fn start(root: &Utf8Path, below: &Utf8Path) -> Option<Follower> {
            let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let mut path = vec![root.to_owned()];
            for part in below.components() {
                let next = path.last()?.join(part.as_str());
                path.push(next);
            }
            let mut follower = Follower {
                events,
                path,
                folders: HashMap::new(),
                files: HashSet::new(),
                writes: 0,
                is_early: false,
                is_opened: false,
                is_named: false,
            };
            // A file that is there now was not written by a command.
            follower.extend(0);
            follower.is_early = false;
            (!follower.folders.is_empty()).then_some(follower)
        }

        /// Follow until the other end of `wake` is closed; gives the number of writes.
        pub(super) fn follow(mut self, wake: &OwnedFd) -> usize {
            loop {
                let mut ready = [
                    PollFd::new(&self.events, PollFlags::IN),
                    PollFd::new(wake, PollFlags::IN),
                ];
                let polled = poll(&mut ready, None);
                let is_over = !ready[1].revents().is_empty();
                match polled {
                    Ok(_) | Err(Errno::INTR) => self.read(),
                    Err(_) => break,
                }
                if is_over {
                    break;
                }
            }
            self.writes()
        }

        /// The number of writes as far as events were read.
        pub(super) fn writes(&self) -> usize {
            self.writes + usize::from(self.is_early)
        }

        /// Read the events that are there.
        pub(super) fn read(&mut self) {
            for event in self.pending() {
                self.take(&event);
            }
        }

        fn pending(&self) -> Vec<Event> {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(&self.events, &mut buffer);
            let mut found = Vec::new();
            loop {
                match reader.next() {
                    Ok(event) => found.push(Event {
                        watch: event.wd(),
                        flags: event.events(),
                        name: event.file_name().map(|name| name.to_bytes().to_vec()),
                    }),
                    Err(Errno::INTR) => {}
                    Err(_) => return found,
                }
            }
        }

        fn take(&mut self, event: &Event) {
            let has = |flags| event.flags.intersects(flags);
            if has(ReadFlags::QUEUE_OVERFLOW) {
                self.writes += 2;
            }
            if self.files.contains(&event.watch) {
                let is_named = std::mem::take(&mut self.is_named);
                self.is_opened |= has(ReadFlags::OPEN);
                if has(ReadFlags::CLOSE_WRITE) && !is_named {
                    self.count();
                }
                return;
            }
            let Some(place) = self.folders.get(&event.watch).copied() else {
                return;
            };
            if has(ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF) {
                return self.lose(place);
            }
            let next = self.path.get(place + 1).and_then(|path| path.file_name());
            if next.map(str::as_bytes) != event.name.as_deref() {
                return;
            }
            let is_file = place + 2 == self.path.len();
            let appeared = has(ReadFlags::CREATE | ReadFlags::MOVED_TO);
            if is_file {
                self.is_named = has(ReadFlags::CLOSE_WRITE);
                self.is_opened |= has(ReadFlags::OPEN | ReadFlags::MOVED_TO);
                if has(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO) {
                    self.count();
                }
                if appeared {
                    self.watch_file();
                }
            } else if appeared {
                self.extend(place + 1);
            }
        }

        /// Count the end of a write. A file that was there early was written by another program, unless this one had
        /// opened it before that was seen.
        fn count(&mut self) {
            let is_early = std::mem::take(&mut self.is_early);
            self.writes += 1 + usize::from(is_early && self.is_opened);
        }

        /// Forget a folder that was moved or removed, and all below it.
        fn lose(&mut self, place: usize) {
            self.writes += usize::from(self.writes() > 0);
            let lost = self.folders.extract_if(|_, it| *it >= place);
            for (watch, _) in lost {
                // The watch of a removed folder is gone already.
                let _ = inotify::remove_watch(&self.events, watch);
            }
        }

        /// Watch the folders from this place on, as far as they are there.
        fn extend(&mut self, from: usize) {
            let usual = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MOVE_SELF;
            let usual = usual | WatchFlags::DELETE_SELF | WatchFlags::ONLYDIR;
            let last = self.path.len().saturating_sub(2);
            let mut was_there = false;
            for place in from..=last {
                let mut flags = usual | WatchFlags::DONT_FOLLOW;
                if place == last {
                    // The kernel merges equal consecutive events; an open event separates two closes.
                    flags |= WatchFlags::OPEN | WatchFlags::CLOSE_WRITE;
                    // Looked up before the folder is watched: a file that appears later has events.
                    let file = self.path.last();
                    was_there = file.is_some_and(|file| file.symlink_metadata().is_ok());
                }
                let folder = self.path[place].as_std_path();
                let Ok(watch) = inotify::add_watch(&self.events, folder, flags) else {
                    return;
                };
                self.folders.insert(watch, place);
            }
            self.is_early |= was_there;
            self.is_opened = false;
            self.watch_file();
        }

        fn watch_file(&mut self) {
            let flags = WatchFlags::OPEN | WatchFlags::CLOSE_WRITE | WatchFlags::DONT_FOLLOW;
            let Some(file) = self.path.last() else {
                return;
            };
            // A file that is gone again has no more events.
            if let Ok(watch) = inotify::add_watch(&self.events, file.as_std_path(), flags) {
                self.files.insert(watch);
            }
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use fs_err as fs;

    use super::*;

    const REPORT: &str = "out/deep/report";

    enum Step {
        Write(&'static str),
        /// Open a file for writing, and close it at the end of the steps.
        Hold(&'static str),
        Rename(&'static str, &'static str),
        Link(&'static str, &'static str),
        Remove(&'static str),
    }
    use Step::{Hold, Link, Remove, Rename, Write};

    /// Check how many writes of the report are counted in these steps.
    #[track_caller]
    fn check(steps: &[Step], expected: usize) {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let mut follower = linux::Follower::start(root, Utf8Path::new(REPORT)).unwrap();
        let mut held = Vec::new();
        for step in steps {
            match step {
                Hold(path) => held.push(fs::File::create(root.join(path)).unwrap()),
                Write(path) => {
                    let path = root.join(path);
                    // The follower sees each folder before there is anything in it.
                    let folders: Vec<&Utf8Path> = path.ancestors().skip(1).collect();
                    for folder in folders.into_iter().rev().filter(|it| !it.exists()) {
                        fs::create_dir(folder).unwrap();
                        follower.read();
                    }
                    fs::write(path, "x").unwrap();
                }
                Rename(from, to) => fs::rename(root.join(from), root.join(to)).unwrap(),
                Link(from, to) => fs::hard_link(root.join(from), root.join(to)).unwrap(),
                Remove(path) => fs::remove_dir_all(root.join(path)).unwrap(),
            }
            follower.read();
        }
        drop(held);
        follower.read();
        assert_eq!(follower.writes(), expected);
    }

    #[test]
    fn writes_are_counted_in_folders_that_appear_later() {
        check(&[Write("out/deep/other"), Write("report")], 0);
        check(&[Write(REPORT)], 1);
        check(&[Write(REPORT), Write(REPORT)], 2);
        let cleaned = [Write("out/deep/other"), Remove("out"), Write(REPORT)];
        check(&cleaned, 1);
    }

    /// A runner may make the folder and write the report before the folder can be watched.
    #[test]
    fn a_folder_that_appears_with_the_file_in_it_counts_as_one_write() {
        check(&[Write("x/deep/report"), Rename("x", "out")], 1);
        let again = [
            Write("x/deep/report"),
            Rename("x", "out"),
            Write(REPORT),
            Write(REPORT),
        ];
        check(&again[..3], 2);
        check(&again, 3);
        // The first write ends after the folder is watched.
        let slow = [
            Write("x/deep/other"),
            Hold("x/deep/report"),
            Rename("x", "out"),
        ];
        check(&slow, 1);
    }

    #[test]
    fn another_file_or_folder_in_its_place_is_another_write() {
        check(&[Write(REPORT), Write("new"), Rename("new", REPORT)], 2);
        let folder = [
            Write(REPORT),
            Write("x/deep/report"),
            Rename("out", "away"),
            Rename("x", "out"),
        ];
        check(&folder, 3);
    }

    #[test]
    fn writes_under_another_name_are_counted() {
        check(&[Write(REPORT), Link(REPORT, "name"), Write("name")], 2);
        let before = [
            Write("name"),
            Write("out/deep/x"),
            Link("name", REPORT),
            Write(REPORT),
            Write("name"),
            Write(REPORT),
        ];
        check(&before, 3);
    }

    #[test]
    fn a_watch_counts_until_it_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let watch = FileWatch::start(root, Utf8Path::new("report")).unwrap();
        fs::write(root.join("report"), "x").unwrap();
        fs::write(root.join("report"), "y").unwrap();
        assert_eq!(watch.finish(), 2);
    }
}
