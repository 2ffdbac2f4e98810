//! LiteLLM between Proctor's gateway and the providers: started for a run and ended with it, or
//! already running elsewhere. Trials keep their own keys and accounts, because LiteLLM has neither
//! without its database; it sees one key, which it alone changes into the providers' own.

mod account;
mod config;

use std::{
    collections::BTreeMap,
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::{Command, Process};
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

pub use self::account::LiteLlmAccount;
use self::config::{Provider, providers};
use crate::{config::LiteLlmSettings, host::Host};

/// How long it may take to start: it loads a gigabyte of Python.
const START: Duration = Duration::from_mins(5);
/// Between two looks whether it is there.
const LOOK: Duration = Duration::from_millis(100);
/// How long one look may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long it may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// It writes its log a moment after it has answered.
const LOG_DELAY: Duration = Duration::from_millis(1500);
/// The log of its calls, in the run's folder.
const LOG_FILE: &str = "litellm.ndjson";
/// Variables that hold the key of one that runs already.
const KEYS: [&str; 2] = ["LITELLM_API_KEY", "LITELLM_MASTER_KEY"];

/// LiteLLM could not be used.
#[derive(Debug, thiserror::Error)]
pub enum LiteLlmError {
    /// It is not installed.
    #[error("there is no program {program}")]
    NotFound {
        /// The program as it was looked for.
        program: String,
    },
    /// The one that runs already wants a key.
    #[error(
        "LiteLLM at {url} needs a key, and neither LITELLM_API_KEY nor LITELLM_MASTER_KEY is set"
    )]
    NoKey {
        /// Where it is.
        url: String,
    },
    /// No provider is known that it could lead to.
    #[error("LiteLLM has no provider to lead to: no key is set")]
    NoProvider,
    /// Its files could not be written.
    #[error("the files of LiteLLM cannot be written")]
    Files {
        /// Why.
        source: io::Error,
    },
    /// It could not be started.
    #[error("LiteLLM could not be started")]
    Start {
        /// Why.
        source: proctor_process::Error,
    },
    /// It ended before it could be used.
    #[error("LiteLLM ended before it could be used: {said}")]
    Ended {
        /// The last that it said.
        said: String,
    },
    /// It did not answer.
    #[error("LiteLLM does not answer at {url}")]
    Silent {
        /// Where it should.
        url: String,
    },
    /// The run was cancelled while it started.
    #[error("the run was cancelled while LiteLLM started")]
    Cancelled,
}

/// LiteLLM in use. Dropped, it is ended.
#[derive(Debug)]
pub struct LiteLlm {
    url: String,
    key: String,
    /// The one that was started for this run.
    own: Option<Started>,
}

/// A process of ours.
#[derive(Debug)]
struct Started {
    /// Its last output.
    process: JoinHandle<String>,
    close: DropGuard,
    _folder: TempDir,
}

impl LiteLlm {
    /// Start it, or find the one that runs already. Its log goes to the folder of the run.
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
        let setup = Setup {
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
            own: Some(Started {
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

    /// The machine as the run is to see it: every provider is where LiteLLM is, and no key but its
    /// own is there.
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

    /// End it, once it has written its log.
    pub async fn close(self) {
        let Some(own) = self.own else {
            return;
        };
        if !own.process.is_finished() {
            sleep(LOG_DELAY).await;
        }
        drop(own.close);
        // A panic of the task has been reported already.
        let _ = own.process.await;
    }
}

/// Its input.
struct Setup {
    folder: Utf8PathBuf,
    log: Utf8PathBuf,
    port: u16,
}

impl Setup {
    /// No key is written: the config names the variables that hold them.
    fn write(&self, providers: &[Provider<'_>]) -> io::Result<()> {
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

/// Keeps it until it is to be closed; the last line that it said.
async fn keep(process: Process, closed: CancellationToken) -> String {
    last_words(&proctor_process::keep(process, closed.cancelled()).await)
}

/// The last line: a Python program ends with what went wrong.
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

/// Whether it answers there.
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
