//! Linux and macOS.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    fs::{DirBuilder, File, Metadata, OpenOptions, Permissions},
    io::{Error, Result, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use fs_err as fs;
use rustix::fs::{
    Dir, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens, openat, renameat,
};
use rustix::io::Errno;

/// Whether an engine of this machine can access our directories and sockets. On macOS it runs in a
/// virtual machine.
pub const SHARES_FILES_WITH_ENGINES: bool = cfg!(target_os = "linux");

/// Whether files have modes.
pub const HAS_MODES: bool = true;

/// The owner of files in archives, if the file system has none.
pub const OWNER_IN_ARCHIVES: Option<u32> = None;

/// Settings of git for this system in addition to the common ones.
pub fn git_settings() -> &'static [&'static str] {
    &[]
}

/// The settings that `git init` would detect for this system and an existing directory.
pub fn git_config(folder: &Path) -> String {
    if cfg!(target_os = "macos") {
        let ignores_case = !tells_case(folder);
        format!("\tfilemode = true\n\tignorecase = {ignores_case}\n\tprecomposeunicode = true\n")
    } else {
        "\tfilemode = true\n".to_owned()
    }
}

/// Whether the file system of a directory distinguishes upper and lower case in names.
pub fn tells_case(folder: &Path) -> bool {
    if cfg!(target_os = "linux") {
        return true;
    }
    super::text::other_case(folder).is_none_or(|other| !other.exists())
}

/// The default addresses of engines, the most likely first. `home` is the user's.
pub fn usual_engines(home: Option<&Path>) -> Vec<String> {
    let plain = "unix:///var/run/docker.sock".to_owned();
    let desktop = home.filter(|_| cfg!(target_os = "macos")).map(|home| {
        let socket = home.join(".docker/run/docker.sock");
        format!("unix://{}", socket.display())
    });
    std::iter::once(plain).chain(desktop).collect()
}

/// Whether Proctor runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The permissions of a file in the format of git and archives.
pub fn mode(about: &Metadata) -> u32 {
    about.permissions().mode()
}

/// Sets the permissions of a file.
pub fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Creates a symbolic link.
pub fn link(target: &Path, link: &Path) -> Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Changes the owner of a file, a directory or a link itself.
pub fn give(path: &Path, owner: u32) -> Result<()> {
    std::os::unix::fs::lchown(path, Some(owner), Some(owner))
}

/// Creates a directory that only its owner can enter.
pub fn make_private_folder(path: &Path) -> Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Creates a file that only its owner can read.
pub fn new_private_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path)
}

/// A path as bytes, as in git.
pub fn bytes_of(path: &Path) -> Cow<'_, [u8]> {
    path.as_os_str().as_bytes().into()
}

/// The path of git's bytes.
pub fn path_of(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

/// The change time of a file, which programs cannot set.
pub fn changed(about: &Metadata) -> SystemTime {
    let seconds = Duration::from_secs(about.ctime().try_into().unwrap_or_default());
    let nanos = Duration::from_nanos(about.ctime_nsec().try_into().unwrap_or_default());
    SystemTime::UNIX_EPOCH + seconds + nanos
}

/// The identity of a file within its file system.
pub fn file_id(file: &File) -> Result<u64> {
    Ok(file.metadata()?.ino())
}

/// The size of a file on disk.
pub fn disk_bytes(about: &Metadata) -> u64 {
    about.blocks() * 512
}

/// The common identity of the names of a file with several hard links.
pub fn several_names(about: &Metadata) -> Option<(u64, u64)> {
    (about.nlink() > 1).then(|| (about.dev(), about.ino()))
}

/// Makes the names in a directory durable.
pub fn sync_folder(folder: &Path) -> Result<()> {
    fs::File::open(folder)?.sync_all()
}

/// Sets the modification time of a file to now, by the clock of the file server.
pub fn touch(file: &File) -> Result<()> {
    let at = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let times = Timestamps {
        last_access: at(UTIME_OMIT),
        last_modification: at(UTIME_NOW),
    };
    Ok(futimens(file, &times)?)
}

/// Whether another process holds a file temporarily: never on this system.
pub(super) fn is_held(_error: &Error) -> bool {
    false
}

/// Makes the content of a directory removable.
pub(super) fn make_removable(folder: &Path) -> Result<()> {
    set_mode(folder, 0o700)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_removable(&entry.path())?;
        }
    }
    Ok(())
}

/// Opens a file or a directory below `root` without following links, and without blocking on a
/// pipe.
pub fn open_beneath(root: &Path, parts: &[OsString]) -> Result<File> {
    let mut here = File::open(root)?;
    for (number, part) in parts.iter().enumerate() {
        let mut flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        if number + 1 < parts.len() {
            flags |= OFlags::DIRECTORY;
        }
        let opened = openat(&here, part.as_os_str(), flags, Mode::empty());
        here = opened.map_err(not_followed)?.into();
    }
    Ok(here)
}

/// A clear error for a link that was not followed.
fn not_followed(error: Errno) -> Error {
    match error {
        Errno::LOOP => Error::other("not a regular file but a link"),
        other => other.into(),
    }
}

/// The names in a directory below `root`, without following links.
pub fn names_beneath(root: &Path, parts: &[OsString]) -> Result<Vec<OsString>> {
    let folder = open_beneath(root, parts)?;
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// An open directory: files are written to it even if it is moved.
#[derive(Debug)]
pub struct Folder(File);

impl Folder {
    /// Opens a directory.
    pub fn open(path: &Path) -> Result<Folder> {
        Ok(Folder(File::open(path)?))
    }

    /// Writes a file atomically, readable for all.
    pub fn write(&self, name: &str, fresh: &str, bytes: &[u8]) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&self.0, fresh, flags, Mode::from_raw_mode(0o644))?;
        let mut file = File::from(file);
        // Independent of the umask, because other users write reports, too.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(bytes)?;
        file.sync_data()?;
        renameat(&self.0, fresh, &self.0, name)?;
        self.0.sync_all()
    }
}
