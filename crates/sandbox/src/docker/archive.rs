//! Transfers files to and from containers: tar archives, created and unpacked on their own thread
//! and never completely in memory.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path};
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt};
use proctor_record::platform;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::without_modes;

/// The maximum number of buffered chunks.
const CHUNKS: usize = 8;

/// The size of a chunk.
const CHUNK: usize = 128 * 1024;

/// Set-user-id, set-group-id and the sticky bit.
const SPECIAL_BITS: u32 = 0o7000;

type ArchiveChunk = io::Result<Bytes>;

/// The archive that `fill` writes, as a stream.
pub(super) fn pack<F>(fill: F) -> impl Stream<Item = ArchiveChunk> + Send + 'static
where
    F: FnOnce(&mut tar::Builder<Sender>) -> io::Result<()> + Send + 'static,
{
    let (sender, mut receiver) = mpsc::channel(CHUNKS);
    let mut thread: Option<JoinHandle<()>> = Some(tokio::task::spawn_blocking(move || {
        let failed = sender.clone();
        let mut archive = tar::Builder::new(Sender {
            sender,
            buffer: Vec::with_capacity(CHUNK),
        });
        archive.follow_symlinks(false);
        // Engines do not support the header of a sparse file.
        archive.sparse(false);
        let done = fill(&mut archive)
            .and_then(|()| archive.into_inner())
            .and_then(|mut sender| sender.flush());
        if let Err(error) = done {
            // Aborts the request, so that the receiver does not accept a partial archive.
            let _ = failed.blocking_send(Err(error));
        }
    }));
    futures_util::stream::poll_fn(move |context| {
        let item = receiver.poll_recv(context);
        if let std::task::Poll::Ready(None) = item {
            thread.take();
        }
        item
    })
}

/// All files in a directory, with relative names.
pub(super) fn pack_folder(folder: &Path) -> impl Stream<Item = ArchiveChunk> + Send + 'static {
    pack_folder_as(".".to_owned(), folder)
}

/// All files in a directory, below another name.
pub(super) fn pack_folder_as(
    name: String,
    folder: &Path,
) -> impl Stream<Item = ArchiveChunk> + Send + 'static {
    let folder = folder.to_owned();
    pack(move |archive| {
        if platform::HAS_MODES {
            append_folder(archive, Path::new(&name), &folder)
        } else {
            without_modes::append(archive, &name, &folder)
        }
    })
}

/// One file, below a name.
pub(super) fn pack_file(
    name: String,
    file: &Path,
) -> impl Stream<Item = ArchiveChunk> + Send + 'static {
    let file = file.to_owned();
    pack(move |archive| {
        if platform::HAS_MODES {
            archive.append_path_with_name(&file, &name)
        } else {
            without_modes::append_file(archive, &name, &file)
        }
    })
}

/// Adds all files, directories and links of a directory under a name. Sockets and pipes are
/// skipped, because copies would not be connected. Files that disappear meanwhile are skipped too.
fn append_folder(
    archive: &mut tar::Builder<impl Write>,
    name: &Path,
    folder: &Path,
) -> io::Result<()> {
    let reported = |path: &Path, error: &io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    };
    let added = archive.append_dir(name, folder);
    added.map_err(|error| reported(folder, &error))?;
    let mut folders = vec![(name.to_owned(), folder.to_owned())];
    while let Some((name, folder)) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if is_gone(&error, &folder) => continue,
            entries => entries.map_err(|error| reported(&folder, &error))?,
        };
        for entry in entries {
            let entry = entry?;
            let (name, path) = (name.join(entry.file_name()), entry.path());
            let kind = entry.file_type()?;
            if !kind.is_file() && !kind.is_dir() && !kind.is_symlink() {
                continue;
            }
            let added = if kind.is_dir() {
                folders.push((name.clone(), path.clone()));
                archive.append_dir(&name, &path)
            } else if kind.is_file() {
                append_file(archive, &name, &path)
            } else {
                archive.append_path_with_name(&path, &name)
            };
            match added {
                Err(error) if is_gone(&error, &path) => {}
                added => added.map_err(|error| reported(&path, &error))?,
            }
        }
    }
    Ok(())
}

/// Adds a file with the number of bytes that it had when it was opened: an archive with a grown
/// file would be corrupt.
fn append_file(archive: &mut tar::Builder<impl Write>, name: &Path, path: &Path) -> io::Result<()> {
    let file = fs::File::open(path)?;
    let metadata = file.metadata()?;
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&metadata);
    let bytes = file.chain(io::repeat(0)).take(metadata.len());
    archive.append_data(&mut header, name, bytes)
}

/// Whether the file has disappeared: git cleans up on its own, and the agent's programs may still
/// run.
fn is_gone(error: &io::Error, path: &Path) -> bool {
    error.kind() == io::ErrorKind::NotFound && !exists(path)
}

/// Whether the name exists, even as a broken link.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Unpacks an archive into a directory. Files outside of it are never touched.
pub(super) async fn unpack<E>(
    archive: impl Stream<Item = Result<Bytes, E>> + Unpin,
    into: &Path,
) -> Result<io::Result<()>, E> {
    let into = into.to_owned();
    read_on_thread(archive, move |receiver| unpack_from(receiver, &into)).await
}

/// The newest modification time in an archive, without `.git` at its top. Nothing is unpacked.
pub(super) async fn newest_change<E>(
    archive: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> Result<io::Result<Option<SystemTime>>, E> {
    read_on_thread(archive, newest_in).await
}

/// Reads an archive with `read`, on a thread of its own.
async fn read_on_thread<T: Send + 'static, E>(
    mut archive: impl Stream<Item = Result<Bytes, E>> + Unpin,
    read: impl FnOnce(mpsc::Receiver<Bytes>) -> io::Result<T> + Send + 'static,
) -> Result<io::Result<T>, E> {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let thread = tokio::task::spawn_blocking(move || read(receiver));
    while let Some(chunk) = archive.next().await {
        if sender.send(chunk?).await.is_err() {
            break;
        }
    }
    drop(sender);
    Ok(thread
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error))))
}

fn newest_in(receiver: mpsc::Receiver<Bytes>) -> io::Result<Option<SystemTime>> {
    let mut archive = tar::Archive::new(Receiver {
        receiver,
        chunk: Bytes::new(),
    });
    let mut newest = None;
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path()?;
        let mut parts = path.components().filter(|part| *part != Component::CurDir);
        if parts.next() == Some(Component::Normal(".git".as_ref())) {
            continue;
        }
        let changed = Duration::from_secs(entry.header().mtime()?);
        newest = newest.max(Some(SystemTime::UNIX_EPOCH + changed));
    }
    Ok(newest)
}

fn unpack_from(receiver: mpsc::Receiver<Bytes>, into: &Path) -> io::Result<()> {
    let mut archive = tar::Archive::new(Receiver {
        receiver,
        chunk: Bytes::new(),
    });
    archive.set_preserve_ownerships(platform::is_root());
    archive.set_preserve_permissions(true);
    // A program of a container must not be set-user-id on this machine.
    archive.set_mask(SPECIAL_BITS);
    if platform::HAS_MODES {
        archive.unpack(into)
    } else {
        without_modes::unpack(archive, into)
    }
}

/// A writer into a channel.
pub(super) struct Sender {
    sender: mpsc::Sender<ArchiveChunk>,
    buffer: Vec<u8>,
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let chunk = std::mem::take(&mut self.buffer);
        if !chunk.is_empty() {
            let sent = self.sender.blocking_send(Ok(chunk.into()));
            sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        }
        Ok(())
    }
}

/// A reader from a channel.
struct Receiver {
    receiver: mpsc::Receiver<Bytes>,
    chunk: Bytes,
}

impl Read for Receiver {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn folder_survives_a_round_trip() {
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        std::fs::create_dir(from.path().join("sub")).unwrap();
        std::fs::write(from.path().join("sub/large"), vec![7; 1_000_000]).unwrap();
        platform::link(Path::new("nowhere"), &from.path().join("link")).unwrap();
        let large = from.path().join("sub/large");
        platform::set_mode(&large, 0o6755).unwrap();
        #[cfg(unix)]
        let _leads_to_us =
            std::os::unix::net::UnixListener::bind(from.path().join("socket")).unwrap();
        let archive = Box::pin(pack_folder(from.path()));
        unpack(archive, to.path()).await.unwrap().unwrap();
        assert_eq!(
            std::fs::read(to.path().join("sub/large")).unwrap(),
            vec![7; 1_000_000]
        );
        let link = proctor_record::fs::pointer::target(&to.path().join("link")).unwrap();
        assert_eq!(link, to.path().join("nowhere"));
        assert!(!exists(&to.path().join("socket")));
        let mode = |path: &Path| platform::mode(&path.metadata().unwrap()) & 0o7777;
        assert_eq!(mode(&to.path().join("sub/large")), mode(&large) & 0o1777);
    }

    /// Makes a file grow after its header is written.
    struct Grower<'a>(&'a Path, Vec<u8>);

    impl Write for Grower<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.starts_with(b"log") {
                std::fs::write(self.0, "one\ntwo\n".repeat(500)).unwrap();
            }
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn growing_file_has_its_initial_length() {
        let from = tempfile::tempdir().unwrap();
        let log = from.path().join("log");
        std::fs::write(&log, "one\n").unwrap();
        let mut archive = tar::Builder::new(Grower(&log, Vec::new()));
        append_folder(&mut archive, Path::new("."), from.path()).unwrap();
        let bytes = archive.into_inner().unwrap().1;
        let mut read = tar::Archive::new(&bytes[..]);
        let sizes = read.entries().unwrap().map(|entry| entry.unwrap().size());
        assert_eq!(sizes.collect::<Vec<_>>(), [0, 4]);
    }

    /// Removes a directory after something is written.
    struct Remover<'a>(&'a Path);

    impl Write for Remover<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.starts_with(b"sub") {
                std::fs::remove_dir_all(self.0).unwrap();
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn folder_that_disappears_is_skipped() {
        let from = tempfile::tempdir().unwrap();
        let below = from.path().join("sub");
        std::fs::create_dir(&below).unwrap();
        let mut archive = tar::Builder::new(Remover(&below));
        append_folder(&mut archive, Path::new("."), from.path()).unwrap();
        assert!(!exists(&below), "the folder was removed meanwhile");
    }

    #[tokio::test]
    async fn unreadable_folder_aborts_the_archive() {
        let archive = pack_folder(Path::new("/nonexistent/folder"));
        let chunks: Vec<ArchiveChunk> = archive.collect().await;
        assert!(chunks.iter().any(Result::is_err));
    }
}
