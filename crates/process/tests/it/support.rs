//! Test helpers: running programs to their end, scripted programs, and directories that show live
//! processes.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proctor_process::{Command, Error, Event, Process, Report, Stream, Supervisor};

/// Far more than anything here takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The maximum time between a limit and the end. The promise is one second; a busy machine gets
/// more.
pub(crate) const PROMPT: Duration = Duration::from_secs(4);

/// The example beside this test in the target folder.
pub(crate) fn program() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let profile = this.parent().and_then(|deps| deps.parent()).unwrap();
    let name = format!("supervisor{}", std::env::consts::EXE_SUFFIX);
    let program = profile.join("examples").join(name);
    assert!(program.exists(), "build it with `cargo build --examples`");
    program
}

/// A child that plays a script: see the example.
pub(crate) fn player(script: &str) -> Command {
    let mut command = Command::new(program(), program().parent().unwrap());
    command.args = vec!["play".into(), script.into()];
    command.env = std::env::vars_os().collect();
    command
}

pub(crate) async fn spawn(command: Command) -> Result<Process, Error> {
    Process::spawn(command, &Supervisor::at(program())).await
}

/// The output of a process, its exit and its duration.
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

/// A folder in which players lock a file while they live.
pub(crate) struct Nest(tempfile::TempDir);

impl Nest {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A script in which `alive` says that the player is in this nest.
    pub(crate) fn script(&self, script: &str) -> String {
        script.replace("alive", &format!("alive {}", self.0.path().display()))
    }

    /// How many players live.
    pub(crate) fn alive(&self) -> usize {
        let is_locked = |path: PathBuf| File::open(path).is_ok_and(|file| file.try_lock().is_err());
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        entries
            .filter(|entry| is_locked(entry.as_ref().unwrap().path()))
            .count()
    }

    #[track_caller]
    pub(crate) fn assert_gone(&self) {
        assert_eq!(self.alive(), 0);
    }

    /// Waits until `count` players live, at least.
    pub(crate) async fn wait_for(&self, count: usize) {
        let until = Instant::now() + PATIENCE;
        while self.alive() < count {
            assert!(Instant::now() < until, "{count} players never came");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until no player lives.
    pub(crate) async fn wait_gone(&self) {
        let until = Instant::now() + PATIENCE;
        while self.alive() > 0 {
            assert!(Instant::now() < until, "{} still live", self.alive());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
