//! Counts how often a file is written while commands run, under any name. The file exists before the commands start, so
//! that the watch on the file itself misses nothing.

use camino::Utf8Path;

/// The writes of a watched file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileWrites {
    /// How often programs have written the file, as far as that was seen.
    pub count: usize,
    /// Whether another file took its place. The first writes of the other file may be missing in the count.
    pub is_replaced: bool,
}

/// A watch on one file. It ends when it is dropped.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct FileWatch {
    /// Closing it ends the thread that follows the events.
    stop: Option<std::os::fd::OwnedFd>,
    thread: Option<std::thread::JoinHandle<FileWrites>>,
}

#[cfg(target_os = "linux")]
impl FileWatch {
    /// Watch the existing file `below` this folder; `None` if the system cannot. Links on the way are not followed.
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

    /// The writes until now. A file whose folder was moved or removed after a write counts as written again, and so do
    /// events that were lost.
    pub fn finish(mut self) -> FileWrites {
        self.end()
    }

    fn end(&mut self) -> FileWrites {
        drop(self.stop.take());
        let writes = self.thread.take().map(std::thread::JoinHandle::join);
        // A thread that panicked has seen nothing.
        writes.map_or(FileWrites::default(), Result::unwrap_or_default)
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
    pub fn finish(self) -> FileWrites {
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

    use super::FileWrites;

    /// Follows the events of a file and of the folders on the way to it.
    #[expect(clippy::struct_excessive_bools, reason = "independent observations")]
    pub(super) struct Follower {
        events: OwnedFd,
        /// The folders on the way, the root first, and the file at the end.
        path: Vec<Utf8PathBuf>,
        /// The watched folders by the system's numbers: their places on the way.
        folders: HashMap<i32, usize>,
        /// Watches on the folders above the root: a program that moves one can put another tree in its place.
        above: HashSet<i32>,
        /// Watches on the file itself. They show writes under another name.
        files: HashSet<i32>,
        writes: usize,
        /// Whether another file took the place of the first one.
        is_replaced: bool,
        /// Whether the file was changed after the end of the last write, as `truncate` does.
        is_changed: bool,
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
                above: HashSet::new(),
                files: HashSet::new(),
                writes: 0,
                is_replaced: false,
                is_changed: false,
                is_early: false,
                is_opened: false,
                is_named: false,
            };
            follower.watch_above(root);
            follower.extend(0);
            // A file that is there now was not written by a command.
            follower.is_early = false;
            (!follower.files.is_empty()).then_some(follower)
        }

        /// Follow until the other end of `wake` is closed.
        pub(super) fn follow(mut self, wake: &OwnedFd) -> FileWrites {
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

        /// The writes as far as events were read.
        pub(super) fn writes(&self) -> FileWrites {
            FileWrites {
                count: self.writes + usize::from(self.is_early) + usize::from(self.is_changed),
                is_replaced: self.is_replaced,
            }
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
                return self.take_of_file(event.flags);
            }
            self.is_replaced |= self.above.contains(&event.watch) && has(ReadFlags::MOVE_SELF);
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
            self.is_replaced |= appeared || has(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
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

        /// Take an event of the file itself.
        fn take_of_file(&mut self, flags: ReadFlags) {
            let has = |flag| flags.intersects(flag);
            if has(ReadFlags::MODIFY) {
                self.is_changed = true;
                return;
            }
            let is_named = std::mem::take(&mut self.is_named);
            self.is_opened |= has(ReadFlags::OPEN);
            self.is_replaced |= has(ReadFlags::MOVE_SELF);
            if has(ReadFlags::CLOSE_WRITE) {
                self.is_changed = false;
                if !is_named {
                    self.count();
                }
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
            self.writes += usize::from(self.writes().count > 0);
            self.is_replaced = true;
            let lost = self.folders.extract_if(|_, it| *it >= place);
            for (watch, _) in lost {
                // The watch of a removed folder is gone already.
                let _ = inotify::remove_watch(&self.events, watch);
            }
        }

        /// Watch the folders above the root, except those that this user may not watch: they cannot be moved either.
        fn watch_above(&mut self, root: &Utf8Path) {
            let flags = WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
            for folder in root.ancestors().skip(1) {
                let watch = inotify::add_watch(&self.events, folder.as_std_path(), flags);
                self.above.extend(watch);
            }
        }

        /// Watch the folders from this place on, as far as they are there.
        fn extend(&mut self, from: usize) {
            let usual = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MOVE_SELF;
            let usual = usual | WatchFlags::DELETE | WatchFlags::MOVED_FROM;
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
            let flags = WatchFlags::OPEN | WatchFlags::CLOSE_WRITE | WatchFlags::MODIFY;
            let flags = flags | WatchFlags::MOVE_SELF | WatchFlags::DONT_FOLLOW;
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
        /// Write a file without reading events.
        Unseen(&'static str),
        Link(&'static str, &'static str),
        Unlink(&'static str),
        Remove(&'static str),
    }
    use Step::{Hold, Link, Remove, Rename, Unlink, Unseen, Write};

    /// Check the writes of the report that are counted in these steps.
    #[track_caller]
    fn check(steps: &[Step], count: usize, is_replaced: bool) {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap().join("root");
        fs::create_dir_all(root.join("out/deep")).unwrap();
        fs::write(root.join(REPORT), "").unwrap();
        let mut follower = linux::Follower::start(&root, Utf8Path::new(REPORT)).unwrap();
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
                Unseen(path) => {
                    fs::write(root.join(path), "x").unwrap();
                    continue;
                }
                Rename(from, to) => fs::rename(root.join(from), root.join(to)).unwrap(),
                Link(from, to) => {
                    fs::hard_link(root.join(from), root.join(to)).unwrap();
                    continue;
                }
                Unlink(path) => {
                    fs::remove_file(root.join(path)).unwrap();
                    continue;
                }
                Remove(path) => fs::remove_dir_all(root.join(path)).unwrap(),
            }
            follower.read();
        }
        drop(held);
        follower.read();
        let found = follower.writes();
        assert_eq!(found, FileWrites { count, is_replaced });
    }

    #[test]
    fn writes_of_the_first_file_are_counted() {
        check(&[Write("out/deep/other"), Write("report")], 0, false);
        check(&[Write(REPORT)], 1, false);
        check(&[Write(REPORT), Write(REPORT)], 2, false);
        check(&[Hold(REPORT), Write(REPORT)], 2, false);
    }

    #[test]
    fn a_folder_that_is_made_again_is_followed() {
        let again = [Remove("out"), Write(REPORT), Write(REPORT)];
        check(&again[..2], 1, true);
        check(&again, 2, true);
        let moved = [Remove("out"), Write("x/deep/report"), Rename("x", "out")];
        check(&moved, 1, true);
        let written = [
            Remove("out"),
            Write("x/deep/report"),
            Rename("x", "out"),
            Write(REPORT),
        ];
        check(&written, 2, true);
        // The first write ends after the folder is watched.
        let slow = [
            Remove("out"),
            Write("x/deep/other"),
            Hold("x/deep/report"),
            Rename("x", "out"),
        ];
        check(&slow, 1, true);
    }

    #[test]
    fn another_file_or_folder_in_its_place_is_another_write() {
        let file = [Write(REPORT), Write("new"), Rename("new", REPORT)];
        check(&file, 2, true);
        let folder = [
            Write(REPORT),
            Write("x/deep/report"),
            Rename("out", "away"),
            Rename("x", "out"),
        ];
        check(&folder, 3, true);
    }

    /// None of these steps waits for the watch: the events are read at the end.
    #[test]
    fn writes_under_another_name_are_counted() {
        let linked = [
            Unseen(REPORT),
            Link(REPORT, "name"),
            Unseen("name"),
            Unlink("name"),
        ];
        check(&linked, 2, false);
        let before = [Link(REPORT, "name"), Unseen(REPORT), Unseen("name")];
        check(&before, 2, false);
        // The runner writes another file, which is removed in the end.
        let away = [
            Link(REPORT, "name"),
            Unlink(REPORT),
            Unseen(REPORT),
            Unlink(REPORT),
            Unseen("name"),
            Link("name", REPORT),
        ];
        check(&away, 2, true);
    }

    #[test]
    fn a_tree_that_is_swapped_for_a_time_counts_as_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(dir.path()).unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/report"), "").unwrap();
        let watch = FileWatch::start(&top.join("a/b"), Utf8Path::new("report")).unwrap();
        fs::rename(top.join("a"), top.join("c")).unwrap();
        fs::rename(top.join("c"), top.join("a")).unwrap();
        assert!(watch.finish().is_replaced);
    }

    #[test]
    fn a_watch_counts_until_it_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        fs::write(root.join("report"), "").unwrap();
        let watch = FileWatch::start(root, Utf8Path::new("report")).unwrap();
        fs::write(root.join("report"), "x").unwrap();
        fs::write(root.join("report"), "y").unwrap();
        assert_eq!(watch.finish().count, 2);
        assert!(FileWatch::start(root, Utf8Path::new("missing")).is_none());
    }
}
