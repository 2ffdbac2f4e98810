//! Windows.

use std::{
    borrow::Cow,
    ffi::OsString,
    fs::{File, FileTimes, Metadata, OpenOptions},
    io::{Error, ErrorKind, Result, Write},
    os::windows::{
        ffi::{OsStrExt, OsStringExt},
        fs::OpenOptionsExt,
        io::AsRawHandle,
    },
    path::{Path, PathBuf},
    sync::OnceLock,
    time::SystemTime,
};

use fs_err as fs;
use windows_sys::Win32::{
    Foundation::{
        ERROR_ACCESS_DENIED, ERROR_DIR_NOT_EMPTY, ERROR_LOCK_VIOLATION, ERROR_NOT_SUPPORTED,
        ERROR_PRIVILEGE_NOT_HELD, ERROR_SHARING_VIOLATION, ERROR_USER_MAPPED_FILE,
    },
    Storage::FileSystem::{
        BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_NAME_NORMALIZED,
        FILE_READ_ATTRIBUTES, GetFileInformationByHandle, GetFinalPathNameByHandleW,
    },
};

use super::{retry, slashed};

/// Whether an engine of this machine can access our directories and sockets: no, it runs in a
/// virtual machine.
pub const SHARES_FILES_WITH_ENGINES: bool = false;

/// Whether files have modes.
pub const HAS_MODES: bool = false;

/// The owner of files in archives: the user of agents in containers.
pub const OWNER_IN_ARCHIVES: Option<u32> = Some(1000);

/// Settings of git for this system in addition to the common ones. If links cannot be created, they
/// are files with the path of their target, in the workspace and in the judged copies.
pub fn git_settings() -> &'static [&'static str] {
    if makes_links() {
        &[
            "-c",
            "core.longpaths=true",
            "-c",
            "core.fileMode=false",
            "-c",
            "core.symlinks=true",
        ]
    } else {
        &[
            "-c",
            "core.longpaths=true",
            "-c",
            "core.fileMode=false",
            "-c",
            "core.symlinks=false",
        ]
    }
}

/// The settings that `git init` would detect for this system and an existing directory, and that
/// the user's settings must not change: agents see the same bytes everywhere.
pub fn git_config(folder: &Path) -> String {
    format!(
        "\tfilemode = false\n\tignorecase = {}\n\tsymlinks = {}\n\tautocrlf = false\n\tlongpaths = true\n",
        !tells_case(folder),
        makes_links()
    )
}

/// Whether we may create symbolic links: it requires a privilege or the developer mode. Checked
/// once.
fn makes_links() -> bool {
    static MAKES: OnceLock<bool> = OnceLock::new();
    *MAKES.get_or_init(|| {
        tempfile::tempdir().is_ok_and(|dir| {
            let link = dir.path().join("link");
            std::os::windows::fs::symlink_file("nowhere", &link).is_ok() && link.is_symlink()
        })
    })
}

/// Whether the file system of a directory distinguishes upper and lower case in names.
pub fn tells_case(folder: &Path) -> bool {
    super::text::other_case(folder).is_none_or(|other| !other.exists())
}

/// The default addresses of engines, the most likely first.
pub fn usual_engines(_home: Option<&Path>) -> Vec<String> {
    vec!["npipe:////./pipe/docker_engine".to_owned()]
}

/// Whether Proctor runs as root: Windows has no such user.
pub fn is_root() -> bool {
    false
}

/// The permissions of a file for git and archives. Executable bits are unknown here.
pub fn mode(about: &Metadata) -> u32 {
    let writable = if about.permissions().readonly() {
        0
    } else {
        0o200
    };
    writable | if about.is_dir() { 0o555 } else { 0o444 }
}

/// Sets the only permission of a file: whether it is writable.
pub fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_readonly(mode & 0o200 == 0);
    fs::set_permissions(path, permissions)
}

/// Creates a symbolic link. Without the privilege it creates a file with the target path, like git.
pub fn link(target: &Path, link: &Path) -> Result<()> {
    let leads_to_folder = link.parent().unwrap_or(link).join(target).is_dir();
    let path = backslashed(target);
    let made = if leads_to_folder {
        std::os::windows::fs::symlink_dir(&path, link)
    } else {
        std::os::windows::fs::symlink_file(&path, link)
    };
    // Some systems report success without creating the link.
    let made = made.and_then(|()| match link.symlink_metadata() {
        Ok(_) => Ok(()),
        Err(_) => Err(ErrorKind::Unsupported.into()),
    });
    let is_forbidden = |error: &Error| {
        is_one_of(error, &[ERROR_PRIVILEGE_NOT_HELD, ERROR_NOT_SUPPORTED])
            || error.kind() == ErrorKind::Unsupported
    };
    match made {
        Err(error) if is_forbidden(&error) => {
            let mut file = File::create_new(link)?;
            file.write_all(&bytes_of(target))
        }
        other => other,
    }
}

/// The target of a link with backslashes: Windows does not follow a link with slashes. The rest is
/// unchanged, so that git does not detect a change.
fn backslashed(path: &Path) -> PathBuf {
    let turn = |unit| {
        if unit == u16::from(b'/') {
            u16::from(b'\\')
        } else {
            unit
        }
    };
    let units: Vec<u16> = path.as_os_str().encode_wide().map(turn).collect();
    OsString::from_wide(&units).into()
}

/// Does nothing: file owners do not matter to containers on Windows.
#[expect(clippy::unnecessary_wraps, reason = "other platforms can fail")]
pub fn give(_path: &Path, _owner: u32) -> Result<()> {
    Ok(())
}

/// Creates a private directory: the user's temporary directory is already private.
pub fn make_private_folder(path: &Path) -> Result<()> {
    std::fs::create_dir(path)
}

/// Creates a private file, subject to the permissions of its directory.
pub fn new_private_file(path: &Path) -> Result<File> {
    File::create_new(path)
}

/// A path as bytes, as in git.
pub fn bytes_of(path: &Path) -> Cow<'_, [u8]> {
    slashed(&path.to_string_lossy())
        .into_owned()
        .into_bytes()
        .into()
}

/// The path of git's bytes.
pub fn path_of(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// The modification time of a file.
pub fn changed(about: &Metadata) -> SystemTime {
    let made = about.created().unwrap_or(SystemTime::UNIX_EPOCH);
    about.modified().map_or(made, |modified| modified.max(made))
}

/// The identity of a file within its file system.
#[expect(unsafe_code, reason = "there is no safe API")]
pub fn file_id(file: &File) -> Result<u64> {
    let mut about = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the buffer has the right type and outlives the call.
    let asked = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut about) };
    if asked == 0 {
        return Err(Error::last_os_error());
    }
    Ok(u64::from(about.nFileIndexHigh) << 32 | u64::from(about.nFileIndexLow))
}

/// The size of a file on disk, estimated from its length.
pub fn disk_bytes(about: &Metadata) -> u64 {
    about.len()
}

/// The common identity of the names of a file with several hard links: unknown.
pub fn several_names(_about: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Makes the names in a directory durable: the file system does so by itself.
#[expect(clippy::unnecessary_wraps, reason = "other platforms can fail")]
pub fn sync_folder(_folder: &Path) -> Result<()> {
    Ok(())
}

/// Sets the modification time of a file to now.
pub fn touch(file: &File) -> Result<()> {
    file.set_times(FileTimes::new().set_modified(SystemTime::now()))
}

/// Whether another process holds a file temporarily.
pub(super) fn is_held(error: &Error) -> bool {
    let held = [
        ERROR_ACCESS_DENIED,
        ERROR_SHARING_VIOLATION,
        ERROR_LOCK_VIOLATION,
        ERROR_DIR_NOT_EMPTY,
        ERROR_USER_MAPPED_FILE,
    ];
    is_one_of(error, &held)
        || matches!(
            error.kind(),
            ErrorKind::PermissionDenied | ErrorKind::DirectoryNotEmpty
        )
}

fn is_one_of(error: &Error, codes: &[u32]) -> bool {
    let code = error.raw_os_error().map(i32::cast_unsigned);
    code.is_some_and(|code| codes.contains(&code))
}

/// Makes the content of a directory removable.
pub(super) fn make_removable(folder: &Path) -> Result<()> {
    let _ = set_mode(folder, 0o700);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            make_removable(&entry.path())?;
        } else if kind.is_file() {
            // Retries while a file is held.
            let _ = set_mode(&entry.path(), 0o600);
        }
    }
    Ok(())
}

/// An open directory: files are written to it even if it is moved. Windows has no writes relative
/// to a handle, so the current path is queried before each write. If the directory is moved between
/// the query and the rename, the file is written to the new directory at that path.
#[derive(Debug)]
pub struct Folder(File);

impl Folder {
    /// Opens a directory. It can still be moved and removed.
    pub fn open(path: &Path) -> Result<Folder> {
        let mut options = OpenOptions::new();
        options.access_mode(FILE_READ_ATTRIBUTES);
        options.custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
        Ok(Folder(options.open(path)?))
    }

    /// Writes a file atomically.
    pub fn write(&self, name: &str, fresh: &str, bytes: &[u8]) -> Result<()> {
        let folder = self.place()?;
        self.check(&folder)?;
        let made = folder.join(fresh);
        let mut file = File::create_new(&made)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        drop(file);
        let named = self
            .check(&folder)
            .and_then(|()| retry::rename(&made, &folder.join(name)));
        if named.is_err() {
            let _ = std::fs::remove_file(&made);
        }
        named
    }

    /// Refuses to write to another directory with the same name.
    fn check(&self, place: &Path) -> Result<()> {
        let there = Folder::open(place)?;
        if file_id(&there.0)? == file_id(&self.0)? {
            return Ok(());
        }
        Err(Error::other(
            "the directory was moved and replaced by another",
        ))
    }

    /// The current path.
    #[expect(unsafe_code, reason = "there is no safe API")]
    fn place(&self) -> Result<PathBuf> {
        let mut text = vec![0_u16; 1024];
        loop {
            let room = u32::try_from(text.len()).map_err(Error::other)?;
            // SAFETY: the handle is open, and the buffer has the given size.
            let length = unsafe {
                GetFinalPathNameByHandleW(
                    self.0.as_raw_handle(),
                    text.as_mut_ptr(),
                    room,
                    FILE_NAME_NORMALIZED,
                )
            };
            match usize::try_from(length).map_err(Error::other)? {
                0 => return Err(Error::last_os_error()),
                length if length < text.len() => {
                    text.truncate(length);
                    return Ok(OsString::from_wide(&text).into());
                }
                needed => text.resize(needed, 0),
            }
        }
    }
}

/// Opens a file below `root`, without following links.
pub fn open_beneath(root: &Path, parts: &[std::ffi::OsString]) -> Result<std::fs::File> {
    std::fs::File::open(path_beneath(root, parts)?)
}

/// The names in a directory below `root`, without following links.
pub fn names_beneath(root: &Path, parts: &[std::ffi::OsString]) -> Result<Vec<std::ffi::OsString>> {
    let entries = std::fs::read_dir(path_beneath(root, parts)?)?;
    entries.map(|entry| Ok(entry?.file_name())).collect()
}

fn path_beneath(root: &Path, parts: &[std::ffi::OsString]) -> Result<PathBuf> {
    let mut path = root.to_owned();
    for part in parts {
        path.push(part);
        if path.symlink_metadata()?.is_symlink() {
            return Err(std::io::Error::other("a link is not followed"));
        }
    }
    Ok(path)
}
