//! Adapters: the code that drives one kind of agent. Adapters do no I/O; they define the command
//! and interpret its output. All adapters are in a slice in `agents`.

mod prompt;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{Fault, Node};
use proctor_record::{
    platform,
    record::cli::{AuthCheck, Cli, Installed},
    secrets::Secrets,
    session::Session,
};

pub use prompt::read_prompt_file;
pub use prompt::{
    MAX_PROMPT_CHARS, PromptFileError, PromptSource, read_workspace_prompt, resolve_prompt,
};

/// The `agent` section of a test case, as an adapter gets it.
#[derive(Clone, Copy, Debug)]
pub struct AgentSection<'a> {
    /// The whole section.
    pub node: &'a Node,
    /// `agent.agent_name`.
    pub agent_name: Option<&'a str>,
    /// `agent.model`.
    pub model: Option<&'a str>,
    /// `agent.config`; an empty map when it is left out.
    pub config: &'a Node,
    /// The folder of the file that it stands in.
    pub folder: &'a Utf8Path,
    /// The prompt of the task, for an agent of a suite, which has no prompt of its own.
    pub prompt: Option<&'a PromptSource>,
}

/// The code that drives one kind of agent.
pub trait Adapter: Sync {
    /// The name in `agent.type`.
    fn name(&self) -> &'static str;

    /// One line for `proctor list`.
    fn summary(&self) -> &'static str;

    /// The program that it drives; `None` for built-in agents.
    fn cli(&self) -> Option<&'static Cli> {
        None
    }

    /// The provider of its models, for the log.
    fn provider(&self) -> &'static str {
        "unknown"
    }

    /// The JSON Schema of `agent.config` for this kind.
    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema;

    /// Turn the `agent` section of a test case into an agent.
    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>>;

    /// Whether there are credentials, judged from the environment that the agent would get and
    /// from what its CLI's own check said (`None` when it was not asked or has no check).
    fn authentication(
        &self,
        _env: &BTreeMap<String, String>,
        _check: Option<&AuthCheck>,
    ) -> Authentication {
        Authentication::NotNeeded
    }

    /// A session that reads a recorded output; `None` when this kind has no output to read.
    fn recorded_session(&self) -> Option<Box<dyn Session>> {
        None
    }
}

/// A configured contender.
pub trait Agent: Send + Sync {
    /// Where its prompt comes from; `None` for an agent that takes none.
    fn prompt(&self) -> Option<&PromptSource>;

    /// The model that was asked for.
    fn model(&self) -> Option<&str> {
        None
    }

    /// Sampling parameters that were asked for, for the log.
    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        BTreeMap::new()
    }

    /// The model by the name that its provider knows; `None` when that is the agent's own default, or
    /// a nickname that only its CLI understands.
    fn wire_model(&self) -> Option<&str> {
        self.model()
    }

    /// A sampling temperature that was asked for and that only the gateway can set.
    fn gateway_temperature(&self) -> Option<f64> {
        None
    }

    /// Whether it works in the user's own HOME and environment.
    fn inherits_user(&self) -> bool {
        false
    }

    /// Whether it needs a socket on loopback to connect to.
    fn wants_socket(&self) -> bool {
        false
    }

    /// Variables that the test case sets for it.
    fn env(&self) -> &BTreeMap<String, String> {
        const NONE: &BTreeMap<String, String> = &BTreeMap::new();
        NONE
    }

    /// A script of this machine that it runs. Containers get a copy of the script and of the files
    /// beside it.
    fn script(&self) -> Option<&Utf8Path> {
        None
    }

    /// The image that it has to run in.
    fn image(&self) -> Option<&str> {
        None
    }

    /// A file that it may leave in the workspace with figures of its own.
    fn sidecar(&self) -> Option<&'static str> {
        None
    }

    /// Files that it leaves in the workspace and that are not its work, as patterns of git.
    fn litter(&self) -> &'static [&'static str] {
        &[]
    }

    /// Lines that it adds to the workspace's `.gitignore` and that are not its work.
    fn ignore_lines(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it gets to see the reference solution.
    fn wants_reference(&self) -> bool {
        false
    }

    /// A folder of Markdown definitions (sub-agents) that is read from beside the test case
    /// and from the workspace, and handed to `launch`.
    fn definitions_folder(&self) -> Option<&'static str> {
        None
    }

    /// The command, its environment, and the session that reads its output. Pure.
    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError>;
}

/// Where the models are reached, instead of their makers' own addresses.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Such as `http://127.0.0.1:4000`: no path, no slash at the end.
    pub base_url: String,
    /// The key that is good there.
    pub key: String,
}

impl Endpoint {
    /// The variables by which programs of most vendors find it.
    pub fn env(&self) -> BTreeMap<String, String> {
        let Endpoint { base_url, key } = self;
        let env = [
            ("ANTHROPIC_BASE_URL", base_url.clone()),
            ("ANTHROPIC_API_BASE", base_url.clone()),
            ("ANTHROPIC_API_KEY", key.clone()),
            ("OPENAI_BASE_URL", format!("{base_url}/v1")),
            ("OPENAI_API_BASE", format!("{base_url}/v1")),
            ("OPENAI_API_KEY", key.clone()),
            ("GOOGLE_GEMINI_BASE_URL", base_url.clone()),
            ("GEMINI_API_KEY", key.clone()),
        ];
        BTreeMap::from(env.map(|(name, value)| (name.to_owned(), value)))
    }
}

/// Whether an agent's credentials are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// It needs none.
    NotNeeded,
    /// There are some, and this is where they come from.
    Found(String),
    /// There are none, or they are known to be bad.
    Missing,
    /// Unknown before a trial run.
    Unknown,
}

/// The input of `launch`.
#[derive(Debug)]
pub struct LaunchContext<'a> {
    /// The working directory: the one-commit copy of the repo.
    pub workspace: &'a Utf8Path,
    /// The trial's own HOME.
    pub home: &'a Utf8Path,
    /// A folder for the trial's own files, outside the workspace.
    pub scratch: &'a Utf8Path,
    /// What is asked.
    pub prompt: &'a str,
    /// The installed CLI, for agents that have one.
    pub cli: Option<&'a Installed>,
    /// The environment that every agent gets: allow-listed variables, own HOME, no telemetry.
    pub env: &'a BTreeMap<String, String>,
    /// Whether we run as root.
    pub is_root: bool,
    /// Where a socket listens, when `wants_socket`.
    pub socket: Option<SocketAddr>,
    /// The reference solution, when the task has one and the agent wants it.
    pub reference: Option<&'a ReferenceAt>,
    /// Definitions found in `definitions_folder`: name to Markdown text.
    pub definitions: &'a BTreeMap<String, String>,
    /// Where the models are, when not at their makers'.
    pub endpoint: Option<&'a Endpoint>,
    /// Where the agent's own [script](Agent::script) is, as the agent sees it.
    pub script: Option<&'a Utf8Path>,
}

/// Where the reference solution lies for the agent that applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceAt {
    /// A patch.
    Patch(Utf8PathBuf),
    /// A folder with `solve.sh`.
    Script {
        /// The folder.
        folder: Utf8PathBuf,
        /// More environment.
        env: BTreeMap<String, String>,
    },
}

/// The command.
pub struct Launch {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// Files to write before the start.
    pub files: Vec<(Utf8PathBuf, Vec<u8>)>,
    /// Files that the agent leaves behind and that the session reads after the end: some
    /// CLIs tell only there what they used.
    pub collect: Vec<Utf8PathBuf>,
    /// The standard input.
    pub input: Input,
    /// The format of standard output.
    pub terminal: Terminal,
    /// End the agent when it says nothing for so long (on top of the test case's own limits).
    pub message_deadline: Option<Duration>,
    /// The session that reads the output.
    pub session: Box<dyn Session>,
}

impl Launch {
    /// The names of the secrets that it would show to the agent.
    pub fn secrets<'a>(&self, secrets: &'a Secrets) -> Vec<&'a str> {
        let words = self.argv.iter().chain(self.env.values());
        let files = self.files.iter().map(|(_, bytes)| bytes.as_slice());
        let input = match &self.input {
            Input::Bytes(bytes) => bytes.as_slice(),
            Input::Closed | Input::Session => &[],
        };
        let all = words.map(String::as_bytes).chain(files).chain([input]);
        let mut found: Vec<_> = all.flat_map(|bytes| secrets.found_in(bytes)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The same with `key` in the place of every secret.
    #[must_use]
    pub fn without_secrets(mut self, secrets: &Secrets, key: &str) -> Launch {
        for text in self.argv.iter_mut().chain(self.env.values_mut()) {
            *text = secrets.replace(text, key).into_owned();
        }
        for (_, bytes) in &mut self.files {
            *bytes = secrets.replace_bytes(std::mem::take(bytes), key);
        }
        if let Input::Bytes(bytes) = &mut self.input {
            *bytes = secrets.replace_bytes(std::mem::take(bytes), key);
        }
        self
    }

    /// The same with paths below `roots`, which are folders of a container, as they are written there: agents put
    /// paths together by the rules of this machine.
    #[must_use]
    pub fn written_for(mut self, roots: &[&str]) -> Launch {
        if roots.is_empty() {
            return self;
        }
        let written = |text: &str| platform::slashed_below(text, roots).into_owned();
        for text in self.argv.iter_mut().chain(self.env.values_mut()) {
            *text = written(text);
        }
        for (path, bytes) in &mut self.files {
            *path = written(path.as_str()).into();
            if let Ok(text) = std::str::from_utf8(bytes) {
                *bytes = written(text).into_bytes();
            }
        }
        for path in &mut self.collect {
            *path = written(path.as_str()).into();
        }
        self
    }
}

/// The standard input of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing: it is closed.
    Closed,
    /// These bytes, then it is closed.
    Bytes(Vec<u8>),
    /// The replies of the session.
    Session,
}

/// The format of the agent's standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// Pipes: standard output and error apart.
    Pipes,
    /// One pseudo-terminal for both.
    Pty,
}

/// Why an agent cannot be launched as configured.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct LaunchError {
    /// The error.
    pub message: String,
    /// A suggestion for the user.
    pub hint: Option<String>,
    /// A code for the log.
    pub code: String,
}

impl LaunchError {
    /// The same error with what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> LaunchError {
        self.hint = Some(hint.into());
        self
    }
}
