//! An engine, containers of a run of the test's own, and jobs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use proctor_process::{Background, Event, Job, JobInput, Limits, Report, Stream, Supervisor};
use proctor_sandbox::docker::{
    Container, ContainerProcess, ContainerSpec, Engine, EngineError, EngineOptions, JobFacts,
    RUN_LABEL,
};
use proctor_testkit::{BUSYBOX, docker_host};
use tempfile::TempDir;

/// An engine for one test.
pub struct Rig {
    pub engine: Engine,
    pub folder: TempDir,
    /// The run that everything made here belongs to.
    pub run: String,
}

impl Rig {
    /// The engine of all tests; `None` if there is none.
    pub async fn new() -> Option<Self> {
        Some(Self::at(&docker_host()?).await)
    }

    pub async fn at(host: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("proctor-test-")
            .tempdir()
            .unwrap();
        let options = EngineOptions {
            address: host.parse().unwrap(),
            binary: env!("CARGO_BIN_EXE_proctor").into(),
            scratch: folder.path().to_owned(),
            supervisor: Supervisor::at(env!("CARGO_BIN_EXE_proctor")),
            env: Vec::new(),
        };
        let engine = Engine::connect(&options).await.unwrap();
        let run = folder
            .path()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        Self {
            engine,
            folder,
            run,
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(RUN_LABEL.to_owned(), self.run.clone())])
    }

    pub fn spec(&self) -> ContainerSpec {
        ContainerSpec {
            labels: self.labels(),
            ..ContainerSpec::new(BUSYBOX)
        }
    }

    pub async fn container(&self) -> Container {
        self.engine.create(self.spec()).await.unwrap()
    }

    /// Runs a script in a fresh container, which is removed.
    pub async fn run(&self, spec: ContainerSpec, script: &str, limits: Limits) -> Run {
        let container = self.engine.create(spec).await.unwrap();
        let mut process = container.start(sh(script), limits).await.unwrap();
        let run = finish(&mut process).await.unwrap();
        container.remove().await.unwrap();
        run
    }
}

/// A job that runs a script with the shell of the image.
pub fn sh(script: &str) -> Job {
    Job {
        argv: vec!["sh".into(), "-c".into(), script.into()],
        env: BTreeMap::from([("PATH".to_owned(), "/bin:/usr/bin".to_owned())]),
        cwd: "/".to_owned(),
        user: None,
        input: JobInput::Null,
        terminal: None,
        relays: Vec::new(),
        service: None,
        readiness: None,
        wall: None,
        term_grace: Duration::ZERO,
        leak_grace: Duration::ZERO,
        background: Background::End,
        has_secret: false,
    }
}

pub fn wall(limit: Duration) -> Limits {
    Limits {
        wall: Some(limit),
        ..Limits::default()
    }
}

/// The result of a job.
#[derive(Debug)]
pub struct Run {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub report: Report,
    pub facts: JobFacts,
}

impl Run {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}

pub async fn finish(process: &mut ContainerProcess) -> Result<Run, EngineError> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let report = loop {
        match process.next().await? {
            Event::Output { stream, bytes } => match stream {
                Stream::Stdout => stdout.extend_from_slice(bytes),
                Stream::Stderr => stderr.extend_from_slice(bytes),
            },
            Event::Ended(report) => break report,
        }
    };
    Ok(Run {
        stdout,
        stderr,
        report,
        facts: process.facts().unwrap().clone(),
    })
}
