//! The number of bytes that a container has written, for engines without quotas.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proctor_record::platform;
use tokio::time::{Instant, sleep};

use super::container::Inner;

/// The minimum and maximum interval between measurements.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);

/// The fraction of the time for measurements is at most 1/SHARE.
const SHARE: u32 = 20;

/// The enforcement of a container's disk limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskLimit {
    /// The engine: writing fails.
    Engine,
    /// Proctor: the container is ended soon after.
    Watched,
}

impl DiskLimit {
    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Watched => "watched",
        }
    }
}

/// Waits until a container has written more than `limit`. Returns the size.
pub(super) async fn exceeded(container: Arc<Inner>, limit: u64) -> u64 {
    loop {
        let began = Instant::now();
        let used = used(&container).await;
        if used > limit {
            return used;
        }
        // Measuring many files takes long.
        let pause = began.elapsed() * SHARE;
        sleep(pause.clamp(SHORTEST, LONGEST)).await;
    }
}

async fn used(container: &Inner) -> u64 {
    let layer = container.engine.layer_bytes(&container.id).await;
    let folders = container.writable_mounts();
    let measure = move || folders.iter().map(|folder| size(folder)).sum::<u64>();
    let mounted = tokio::task::spawn_blocking(measure).await.unwrap_or(0);
    // A lost engine is reported elsewhere.
    layer.unwrap_or(0) + mounted
}

/// The bytes on disk of all files below a directory; disappearing files are not counted.
fn size(folder: &Path) -> u64 {
    let mut total = 0;
    let mut linked = HashSet::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            if data.is_dir() {
                folders.push(entry.path());
            }
            let names = platform::several_names(&data).filter(|_| !data.is_dir());
            if names.is_none_or(|names| linked.insert(names)) {
                total += platform::disk_bytes(&data);
            }
        }
    }
    total
}

// Only on Linux engines write to our directories.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn hard_links_are_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let sub = folder.path().join("sub");
        std::fs::create_dir(&sub).unwrap();
        std::fs::write(sub.join("a"), vec![1; 1 << 20]).unwrap();
        let once = size(folder.path());
        std::fs::hard_link(sub.join("a"), folder.path().join("b")).unwrap();
        assert_eq!(size(folder.path()), once);
        assert!(once >= 1 << 20);
    }
}
