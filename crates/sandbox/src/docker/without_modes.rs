//! Creates and unpacks archives on file systems without modes and owners. Executable bits come from
//! git's index, or else from the start of a file.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use proctor_record::platform;

/// All users inside can access the files: the container is private.
const FOLDER: u32 = 0o777;
const PROGRAM: u32 = 0o777;
const FILE: u32 = 0o666;

/// The owner of files without a known owner.
const OWNER: u32 = match platform::OWNER_IN_ARCHIVES {
    Some(owner) => owner,
    None => 0,
};

/// Appends all files in a directory, below a name.
pub(super) fn append<W: Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    folder: &Path,
) -> io::Result<()> {
    let programs = Programs::of(folder);
    let mut waiting = vec![String::new()];
    while let Some(below) = waiting.pop() {
        let inside = joined(name, &below);
        archive.append_data(
            &mut header(tar::EntryType::Directory, 0, FOLDER),
            &inside,
            io::empty(),
        )?;
        let mut entries =
            std::fs::read_dir(folder.join(&below))?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let own = entry.file_name();
            let own = own.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
            let path = joined(&below, own);
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_symlink() {
                let target = std::fs::read_link(entry.path())?;
                let target = platform::bytes_of(&target).into_owned();
                let target = String::from_utf8_lossy(&target).into_owned();
                let mut header = header(tar::EntryType::Symlink, 0, PROGRAM);
                archive.append_link(&mut header, joined(name, &path), target)?;
            } else if kind.is_file() {
                let mode = programs.mode(&path, &entry.path())?;
                put(archive, &joined(name, &path), &entry.path(), mode)?;
            }
        }
    }
    Ok(())
}

/// Appends one file.
pub(super) fn append_file<W: Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    file: &Path,
) -> io::Result<()> {
    let mode = Programs::default().mode(name, file)?;
    put(archive, name, file, mode)
}

fn put<W: Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    file: &Path,
    mode: u32,
) -> io::Result<()> {
    let content = std::fs::File::open(file)?;
    let size = content.metadata()?.len();
    let mut header = header(tar::EntryType::Regular, size, mode);
    archive.append_data(&mut header, name, content.take(size))
}

fn joined(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", one) | (one, "") => one.to_owned(),
        (folder, name) => format!("{folder}/{name}"),
    }
}

fn header(kind: tar::EntryType, size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(OWNER.into());
    header.set_gid(OWNER.into());
    header
}

/// The executable files of a directory, according to its repository.
#[derive(Debug, Default)]
struct Programs {
    known: BTreeSet<String>,
    programs: BTreeSet<String>,
}

impl Programs {
    fn of(folder: &Path) -> Programs {
        let index = std::fs::read(folder.join(".git/index")).unwrap_or_default();
        Programs::read(&index).unwrap_or_default()
    }

    /// Reads git's index (version 2 or 3); `None` for other versions.
    fn read(index: &[u8]) -> Option<Programs> {
        /// The fields before the name of an entry: times, numbers, mode, sizes, the id of the
        /// content, flags.
        const FIXED: usize = 62;
        let number = |at: usize| Some(u32::from_be_bytes(*index.get(at..)?.first_chunk()?));
        if index.get(..4)? != b"DIRC" || !matches!(number(4)?, 2 | 3) {
            return None;
        }
        let mut found = Programs::default();
        let mut at = 12;
        for _ in 0..number(8)? {
            let mode = number(at + 24)?;
            let flags = u16::from_be_bytes(*index.get(at + 60..)?.first_chunk()?);
            let is_extended = flags & 0x4000 != 0;
            let start = at + FIXED + if is_extended { 2 } else { 0 };
            let length = index.get(start..)?.iter().position(|byte| *byte == 0)?;
            let name = String::from_utf8_lossy(&index[start..start + length]).into_owned();
            if mode == 0o100_755 {
                found.programs.insert(name.clone());
            }
            found.known.insert(name);
            // Padded with zeros, at least one, to a multiple of eight.
            at += (start + length - at + 8) & !7;
        }
        Some(found)
    }

    /// The mode of a file.
    fn mode(&self, name: &str, file: &Path) -> io::Result<u32> {
        let may_run = if self.known.contains(name) {
            self.programs.contains(name)
        } else {
            begins_like_a_program(file)?
        };
        Ok(if may_run { PROGRAM } else { FILE })
    }
}

fn begins_like_a_program(file: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    std::fs::File::open(file)?.take(4).read_to_end(&mut start)?;
    Ok(start.starts_with(b"#!") || start == b"\x7fELF")
}

/// Unpacks an archive into a directory; links that cannot be created become files with the target
/// path.
pub(super) fn unpack(mut archive: tar::Archive<impl Read>, into: &Path) -> io::Result<()> {
    let mut links = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_symlink() {
            let (Some(place), Some(target)) = (inside(into, &entry.path()?), entry.link_name()?)
            else {
                continue;
            };
            links.push((place, target.into_owned()));
        } else {
            entry.unpack_in(into)?;
        }
    }
    // Last, so that nothing is written through a link.
    for (place, target) in links {
        std::fs::create_dir_all(place.parent().unwrap_or(into))?;
        if place.symlink_metadata().is_err() {
            platform::link(&target, &place)?;
        }
    }
    Ok(())
}

/// The path of an archive's name in a directory; `None` if it leads out of it.
fn inside(folder: &Path, name: &Path) -> Option<PathBuf> {
    let mut place = folder.to_owned();
    for part in name.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => place.push(part),
            _ => return None,
        }
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of git's index.
    fn entry(name: &str, mode: u32) -> Vec<u8> {
        let mut entry = vec![0; 62];
        entry[24..28].copy_from_slice(&mode.to_be_bytes());
        entry.extend_from_slice(name.as_bytes());
        entry.resize((entry.len() + 8) & !7, 0);
        entry
    }

    fn modes(archive: &[u8]) -> Vec<(String, u32, u64)> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().replace('\\', "/");
            let header = entry.header();
            (name, header.mode().unwrap(), header.uid().unwrap())
        });
        entries.collect()
    }

    #[test]
    fn executable_bits_come_from_git_or_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::create_dir(root.join("bin")).unwrap();
        for (name, text) in [
            ("bin/known", "no shebang"),
            ("text", "#!/bin/sh\nthis is a template\n"),
            ("new.sh", "#!/bin/sh\n"),
            ("new.txt", "hello"),
        ] {
            std::fs::write(root.join(name), text).unwrap();
        }
        let entries = [entry("bin/known", 0o100_755), entry("text", 0o100_644)].concat();
        let index = [b"DIRC\0\0\0\x02\0\0\0\x02".as_slice(), &entries].concat();
        std::fs::write(root.join(".git/index"), index).unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        append(&mut archive, "workspace", root).unwrap();
        let found = modes(&archive.into_inner().unwrap());
        for (name, mode) in [
            ("workspace", FOLDER),
            ("workspace/bin/known", PROGRAM),
            ("workspace/text", FILE),
            ("workspace/new.sh", PROGRAM),
            ("workspace/new.txt", FILE),
        ] {
            let expect = (name.to_owned(), mode, OWNER.into());
            assert!(found.contains(&expect), "{expect:?} in {found:?}");
        }
    }

    #[test]
    fn archive_survives_a_round_trip_with_links() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("into");
        std::fs::create_dir(&into).unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        let mut link = header(tar::EntryType::Symlink, 0, PROGRAM);
        archive.append_link(&mut link, "link", "sub/file").unwrap();
        let mut file = header(tar::EntryType::Regular, 2, FILE);
        archive
            .append_data(&mut file, "./sub/file", &b"hi"[..])
            .unwrap();
        let bytes = archive.into_inner().unwrap();
        unpack(tar::Archive::new(&bytes[..]), &into).unwrap();
        assert_eq!(std::fs::read(into.join("sub/file")).unwrap(), b"hi");
        let target = proctor_record::fs::pointer::target(&into.join("link")).unwrap();
        assert_eq!(std::fs::read(target).unwrap(), b"hi");
        assert_eq!(inside(&into, Path::new("../x")), None);
        assert_eq!(inside(&into, Path::new("a/../../x")), None);
    }
}
