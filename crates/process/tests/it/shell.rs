//! Helpers for tests with shell scripts: scripts as commands, markers that identify their
//! processes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proctor_process::Command;

use crate::support::PATIENCE;

pub(crate) fn sh(script: &str) -> Command {
    let mut command = Command::new("sh", "/");
    command.args = vec!["-c".into(), script.into()];
    command.env = [("PATH".into(), "/usr/bin:/bin".into())].into();
    command
}

/// A number of seconds to sleep that no other process has in its arguments.
pub(crate) struct Marker(pub(crate) String);

impl Marker {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("3000.{}{next:03}7", std::process::id()))
    }

    /// The living processes whose arguments hold the marker.
    pub(crate) fn alive(&self) -> Vec<String> {
        let mut alive = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&arguments).into_owned();
            if arguments.contains(&self.0) {
                alive.push(format!("{} {arguments:?}", entry.file_name().display()));
            }
        }
        alive
    }

    #[track_caller]
    pub(crate) fn assert_gone(&self) {
        assert_eq!(self.alive(), Vec::<String>::new());
    }

    /// Waits until `count` processes with the marker live, at least.
    pub(crate) async fn wait_for(&self, count: usize) {
        let until = Instant::now() + PATIENCE;
        while self.alive().len() < count {
            assert!(Instant::now() < until, "{count} processes never came");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until no process with the marker lives.
    pub(crate) async fn wait_gone(&self) {
        let until = Instant::now() + PATIENCE;
        while !self.alive().is_empty() {
            assert!(Instant::now() < until, "still there: {:?}", self.alive());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
