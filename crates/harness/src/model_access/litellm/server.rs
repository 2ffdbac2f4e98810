//! Starts LiteLLM for a run, or finds the one that is running, and ends it with the run.

use std::{
    collections::BTreeMap,
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::{Command, Process};
use proctor_sandbox::host::Host;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::config::{self, KeyedProvider, providers};
use crate::config::LiteLlmSettings;

/// The start timeout: it loads a gigabyte of Python.
const START: Duration = Duration::from_mins(5);

/// The interval between readiness checks.
const LOOK: Duration = Duration::from_millis(100);

/// The timeout of a readiness check.
const ANSWER: Duration = Duration::from_secs(10);

/// How long to wait for it to exit.
const GRACE: Duration = Duration::from_secs(2);

/// How long to wait for its log, which it writes after its answers.
const LOG_DELAY: Duration = Duration::from_millis(1500);

/// The log of its calls, in the run's directory.
pub(super) const LOG_FILE: &str = "litellm.ndjson";

/// Variables with the key of a running LiteLLM.
const KEYS: [&str; 2] = ["LITELLM_API_KEY", "LITELLM_MASTER_KEY"];

/// LiteLLM is not available.
#[derive(Debug, thiserror::Error)]
pub enum LiteLlmError {
    /// It is not installed.
    #[error("program {program} not found")]
    NotFound {
        /// The name or path of the program.
        program: String,
    },
    /// The running LiteLLM requires a key.
    #[error("LiteLLM at {url} requires a key: set LITELLM_API_KEY or LITELLM_MASTER_KEY")]
    NoKey {
        /// Its URL.
        url: String,
    },
    /// No provider is configured.
    #[error("no provider for LiteLLM: set a provider's API key")]
    NoProvider,
    /// Its files cannot be written.
    #[error("cannot write the files of LiteLLM")]
    Files {
        /// The cause.
        source: io::Error,
    },
    /// It could not be started.
    #[error("cannot start LiteLLM")]
    Start {
        /// The cause.
        source: proctor_process::Error,
    },
    /// It exited during the start.
    #[error("LiteLLM exited during its start: {said}")]
    Ended {
        /// The last line of its output.
        said: String,
    },
    /// It did not answer.
    #[error("LiteLLM does not answer at {url}")]
    Silent {
        /// Its URL.
        url: String,
    },
    /// The run was cancelled while it started.
    #[error("the run was cancelled while LiteLLM started")]
    Cancelled,
}

/// LiteLLM in use. Dropping it ends the process.
#[derive(Debug)]
pub struct LiteLlm {
    url: String,
    key: String,
    /// The process that was started for this run.
    own: Option<OwnProcess>,
}

/// A process of this run.
#[derive(Debug)]
struct OwnProcess {
    /// Returns its last output.
    process: JoinHandle<String>,
    close: DropGuard,
    _folder: TempDir,
}

impl LiteLlm {
    /// Starts LiteLLM, or connects to a running one. Its log is written to the run's directory.
    pub async fn open(
        settings: &LiteLlmSettings,
        host: &Host,
        run: &Utf8Path,
        cancel: &CancellationToken,
    ) -> Result<LiteLlm, LiteLlmError> {
        let mut litellm = match &settings.url {
            Some(url) => LiteLlm::running(url, &host.env)?,
            None => LiteLlm::start(settings, host, run).await?,
        };
        let ready = litellm.wait_until_ready();
        let ready = cancel.run_until_cancelled(ready).await;
        match ready.unwrap_or(Err(LiteLlmError::Cancelled)) {
            Ok(()) => Ok(litellm),
            Err(error) => {
                litellm.close().await;
                Err(error)
            }
        }
    }

    fn running(url: &str, env: &BTreeMap<String, String>) -> Result<LiteLlm, LiteLlmError> {
        let mut keys = KEYS.iter().filter_map(|name| env.get(*name));
        let key = keys.find(|key| !key.is_empty());
        let no_key = || LiteLlmError::NoKey {
            url: url.to_owned(),
        };
        Ok(LiteLlm {
            key: key.cloned().ok_or_else(no_key)?,
            url: url.trim_end_matches('/').to_owned(),
            own: None,
        })
    }

    async fn start(
        settings: &LiteLlmSettings,
        host: &Host,
        run: &Utf8Path,
    ) -> Result<LiteLlm, LiteLlmError> {
        let program = find(settings, host)?;
        let failed = |source| LiteLlmError::Files { source };
        let folder = tempfile::Builder::new()
            .prefix("proctor-litellm-")
            .tempdir_in(&host.temp)
            .map_err(failed)?;
        let port = settings.port.map_or_else(free_port, Ok).map_err(failed)?;
        let key = format!("sk-proctor-{}", uuid::Uuid::new_v4().simple());
        let setup = ProxyFiles {
            folder: utf8(folder.path()).map_err(failed)?,
            log: run.join(LOG_FILE),
            port,
        };
        let providers = providers(&host.env);
        if providers.is_empty() {
            return Err(LiteLlmError::NoProvider);
        }
        setup.write(&providers).map_err(failed)?;
        let command = setup.command(&program, host, &key);
        let process = Process::spawn(command, &host.supervisor).await;
        let process = process.map_err(|source| LiteLlmError::Start { source })?;
        let closed = CancellationToken::new();
        Ok(LiteLlm {
            url: format!("http://{}", SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            key,
            own: Some(OwnProcess {
                process: TaskTracker::new().spawn(keep(process, closed.clone())),
                close: closed.drop_guard(),
                _folder: folder,
            }),
        })
    }

    async fn wait_until_ready(&mut self) -> Result<(), LiteLlmError> {
        let deadline = Instant::now() + START;
        while !is_ready(&self.url).await {
            if let Some(own) = &mut self.own
                && own.process.is_finished()
            {
                let said = (&mut own.process).await.unwrap_or_default();
                return Err(LiteLlmError::Ended { said });
            }
            if Instant::now() >= deadline || self.own.is_none() {
                return Err(LiteLlmError::Silent {
                    url: self.url.clone(),
                });
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// The host for the run: every provider is reached through LiteLLM, and only LiteLLM's key is
    /// present.
    pub fn host(&self, host: &Host) -> Host {
        let mut host = host.clone();
        for name in config::KEYS.iter().chain(&KEYS) {
            host.env.remove(*name);
        }
        for (key, base_url) in config::PLACES {
            host.env.insert(key.to_owned(), self.key.clone());
            host.env.insert(base_url.to_owned(), self.url.clone());
        }
        host
    }

    /// Ends it after it has written its log.
    pub async fn close(self) {
        let Some(own) = self.own else {
            return;
        };
        if !own.process.is_finished() {
            sleep(LOG_DELAY).await;
        }
        drop(own.close);
        // A panic of the task is already reported.
        let _ = own.process.await;
    }
}

/// The input of LiteLLM.
struct ProxyFiles {
    folder: Utf8PathBuf,
    log: Utf8PathBuf,
    port: u16,
}

impl ProxyFiles {
    /// Writes the config. Keys are not written: the config names their variables.
    pub(super) fn write(&self, providers: &[KeyedProvider<'_>]) -> io::Result<()> {
        let config = config::of(providers).to_string();
        fs::create_dir_all(self.folder.join("tmp"))?;
        fs::write(self.folder.join("config.yaml"), config)?;
        fs::write(self.folder.join("recorder.py"), include_str!("recorder.py"))
    }

    fn command(&self, program: &Utf8Path, host: &Host, key: &str) -> Command {
        let mut command = Command::new(program, &self.folder);
        let port = self.port.to_string();
        let args = [
            "--config",
            "config.yaml",
            "--host",
            "127.0.0.1",
            "--port",
            &port,
            "--telemetry",
            "False",
        ];
        command.args = args.iter().map(Into::into).collect();
        let mut env = host.clean_env(&self.folder);
        for name in config::KEYS {
            env.extend(
                host.env
                    .get(*name)
                    .map(|key| ((*name).to_owned(), key.clone())),
            );
        }
        for (name, value) in [
            ("LITELLM_MASTER_KEY", key),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("LITELLM_LOG", "ERROR"),
            ("PROCTOR_LITELLM_LOG", self.log.as_str()),
        ] {
            env.insert(name.to_owned(), value.to_owned());
        }
        let env = env.into_iter();
        command.env = env
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        command.limits.term_grace = GRACE;
        command
    }
}

/// Runs it until it is closed. Returns its last line.
async fn keep(process: Process, closed: CancellationToken) -> String {
    last_words(&proctor_process::keep(process, closed.cancelled()).await)
}

/// The last line: the error of a Python program.
fn last_words(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let mut lines = said.lines().rev().map(str::trim);
    let last = lines.find(|line| !line.is_empty()).unwrap_or_default();
    last.to_owned()
}

fn find(settings: &LiteLlmSettings, host: &Host) -> Result<Utf8PathBuf, LiteLlmError> {
    let found = match &settings.program {
        Some(program) => Some(program.clone()).filter(|program| program.is_file()),
        None => host.find_program("litellm"),
    };
    found.ok_or_else(|| LiteLlmError::NotFound {
        program: settings
            .program
            .clone()
            .unwrap_or("litellm".into())
            .into_string(),
    })
}

fn utf8(path: &std::path::Path) -> io::Result<Utf8PathBuf> {
    let path = Utf8PathBuf::from_path_buf(path.to_owned());
    path.map_err(|path| io::Error::other(format!("{} is not UTF-8", path.display())))
}

/// A free port. If another process takes it first, LiteLLM reports that.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Whether it answers.
async fn is_ready(url: &str) -> bool {
    let Some(address) = url.split_once("://").map(|(_, rest)| rest) else {
        return false;
    };
    let address = address.split('/').next().unwrap_or_default();
    let asked = timeout(ANSWER, ask(address)).await;
    asked.is_ok_and(|status| status.is_ok_and(|status| status.starts_with(b"HTTP/1.1 200")))
}

async fn ask(address: &str) -> io::Result<Vec<u8>> {
    let with_port = format!("{address}:80");
    let address = if address.contains(':') {
        address
    } else {
        &with_port
    };
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET /health/liveliness HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}
