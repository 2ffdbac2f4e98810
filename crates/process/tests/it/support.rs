//! What the tests share: shell scripts as commands, markers that find their processes again.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proctor_process::{Command, Error, Event, Process, Report, Stream, Supervisor};

/// Far more than anything here takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What may pass between a limit and the end. The promise is one second; a busy machine gets more.
pub(crate) const PROMPT: Duration = Duration::from_secs(4);

/// The example beside this test in the target folder.
pub(crate) fn program() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let profile = this.parent().and_then(|deps| deps.parent()).unwrap();
    let program = profile.join("examples/supervisor");
    assert!(program.exists(), "build it with `cargo build --examples`");
    program
}

pub(crate) fn sh(script: &str) -> Command {
    let mut command = Command::new("sh", "/");
    command.args = vec!["-c".into(), script.into()];
    command.env = [("PATH".into(), "/usr/bin:/bin".into())].into();
    command
}

pub(crate) async fn spawn(command: Command) -> Result<Process, Error> {
    Process::spawn(command, &Supervisor::at(program())).await
}

/// What a process wrote, how it ended and how long that took altogether.
pub(crate) struct Run {
    pub(crate) report: Report,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) took: Duration,
}

impl Run {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}

pub(crate) async fn run(command: Command) -> Run {
    finish(spawn(command).await.unwrap()).await
}

pub(crate) async fn finish(mut process: Process) -> Run {
    let started = Instant::now();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let report = tokio::time::timeout(PATIENCE, async {
        loop {
            match process.next().await {
                Event::Output { stream, bytes } => match stream {
                    Stream::Stdout => stdout.extend_from_slice(bytes),
                    Stream::Stderr => stderr.extend_from_slice(bytes),
                },
                Event::Ended(report) => break report,
            }
        }
    });
    Run {
        report: report.await.expect("every process ends"),
        stdout,
        stderr,
        took: started.elapsed(),
    }
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
