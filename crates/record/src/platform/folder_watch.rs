//! Watches folders while commands run: whether any of them was moved.

use camino::Utf8Path;

/// A watch on folders. The system queues the events, so that no program can stop the watch.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct FolderWatch {
    events: std::os::fd::OwnedFd,
    /// The index of each folder, by its watch descriptor.
    folders: std::collections::HashMap<i32, usize>,
}

#[cfg(target_os = "linux")]
impl FolderWatch {
    /// Watches these folders; `None` if the system does not support it.
    pub fn start<'a>(folders: impl Iterator<Item = &'a Utf8Path>) -> Option<FolderWatch> {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        let flags = WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        let numbered = folders.enumerate();
        let watched = numbered.filter_map(|(number, folder)| {
            let watch = add_watch(&events, folder.as_std_path(), flags).ok()?;
            Some((watch, number))
        });
        let folders = watched.collect();
        Some(FolderWatch { events, folders })
    }

    /// The numbers of the folders that were moved since the start, or since this was last called. Number 0 also stands
    /// for more events than the system keeps.
    pub fn moved(&self) -> Vec<usize> {
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
            let folder = self.folders.get(&event.wd()).copied();
            match folder {
                Some(number) if flags.contains(ReadFlags::MOVE_SELF) => found.push(number),
                None if flags.contains(ReadFlags::QUEUE_OVERFLOW) => found.push(0),
                _ => {}
            }
        }
    }
}

/// Other platforms have no watch.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub enum FolderWatch {}

#[cfg(not(target_os = "linux"))]
impl FolderWatch {
    /// Not supported.
    pub fn start<'a>(_: impl Iterator<Item = &'a Utf8Path>) -> Option<FolderWatch> {
        None
    }

    /// Never called.
    pub fn moved(&self) -> Vec<usize> {
        match *self {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn moves_are_seen_however_short_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let folders = ["a", "b"].map(|name| root.join(name));
        for folder in &folders {
            fs_err::create_dir(folder).unwrap();
        }
        let watch = FolderWatch::start(folders.iter().map(camino::Utf8PathBuf::as_path)).unwrap();
        fs_err::write(folders[0].join("file"), "x").unwrap();
        assert_eq!(watch.moved(), [] as [usize; 0]);
        fs_err::rename(&folders[1], root.join("c")).unwrap();
        fs_err::rename(root.join("c"), &folders[1]).unwrap();
        assert_eq!(watch.moved()[0], 1);
        assert_eq!(watch.moved(), [] as [usize; 0]);
    }
}
