//! How much a container has written, for engines that set no bound themselves.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proctor_record::platform;
use tokio::time::{Instant, sleep};

use super::container::Inner;

/// The shortest and the longest pause between two looks.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);

/// Looking takes at most one part in so many of the time.
const SHARE: u32 = 20;

/// The enforcement of a container's disk limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskLimit {
    /// The engine: writing fails.
    Engine,
    /// We do: the container is ended soon after.
    Watched,
}

impl DiskLimit {
    /// The word used in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Watched => "watched",
        }
    }
}

/// Waits until a container has written more than `limit`, and says how much.
pub(super) async fn exceeded(container: Arc<Inner>, limit: u64) -> u64 {
    loop {
        let began = Instant::now();
        let used = used(&container).await;
        if used > limit {
            return used;
        }
        // A tree of many files takes long to measure.
        let pause = began.elapsed() * SHARE;
        sleep(pause.clamp(SHORTEST, LONGEST)).await;
    }
}

async fn used(container: &Inner) -> u64 {
    let layer = container.engine.layer_bytes(&container.id).await;
    let folders = container.writable_mounts();
    let measure = move || folders.iter().map(|folder| size(folder)).sum::<u64>();
    let mounted = tokio::task::spawn_blocking(measure).await.unwrap_or(0);
    // An engine that is gone shows elsewhere.
    layer.unwrap_or(0) + mounted
}

/// The bytes on disk of everything below a folder; what vanishes meanwhile is not counted.
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

// Nowhere else do engines write to folders of ours.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_two_names_counts_once() {
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
