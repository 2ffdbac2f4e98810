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
use serde_json::{Map, Value};

pub use prompt::read_prompt_file;
pub use prompt::{
    MAX_PROMPT_CHARS, PromptFileError, PromptSource, read_workspace_prompt, resolve_prompt,
};
pub(crate) use prompt::{both_prompts, slash_command};

/// The `agent` section of a test case, as input of an adapter.
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
    /// The directory of the file with the section.
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

    /// Turns the `agent` section of a test case into an agent.
    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>>;

    /// Whether there are credentials, from the environment of the agent and the result of the CLI's
    /// own check (`None` if it was not run or does not exist).
    fn authentication(
        &self,
        _env: &BTreeMap<String, String>,
        _check: Option<&AuthCheck>,
    ) -> Authentication {
        Authentication::NotNeeded
    }

    /// The folder in the workspace where it looks for skills; `None` if it has none.
    fn skills_folder(&self) -> Option<&'static str> {
        None
    }

    /// The types of MCP servers that a launch gives it in addition to its own.
    fn mcp_types(&self) -> &'static [&'static str] {
        &[]
    }

    /// The folder of a user's own skills, below HOME; `None` if it is not known to have one.
    fn home_skills_folder(&self) -> Option<&'static str> {
        None
    }

    /// A session that reads recorded output; `None` if this kind has no readable output.
    fn recorded_session(&self) -> Option<Box<dyn Session>> {
        None
    }
}

/// A configured agent.
pub trait Agent: Send + Sync {
    /// The source of its prompt; `None` for an agent without a prompt.
    fn prompt(&self) -> Option<&PromptSource>;

    /// The configured model.
    fn model(&self) -> Option<&str> {
        None
    }

    /// The configured sampling parameters, for the log.
    fn parameters(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }

    /// The provider's name of the model; `None` for the agent's default and for aliases that only
    /// its CLI resolves.
    fn wire_model(&self) -> Option<&str> {
        self.model()
    }

    /// The configured sampling temperature, if only the gateway can set it.
    fn gateway_temperature(&self) -> Option<f64> {
        None
    }

    /// The MCP servers that it was given and cannot do without, by name.
    fn required_mcp_servers(&self) -> &[String] {
        &[]
    }

    /// Whether it uses the user's own HOME and environment.
    fn inherits_user(&self) -> bool {
        false
    }

    /// Whether it needs a loopback socket to connect to.
    fn wants_socket(&self) -> bool {
        false
    }

    /// The variables that the test case sets for it.
    fn env(&self) -> &BTreeMap<String, String> {
        const NONE: &BTreeMap<String, String> = &BTreeMap::new();
        NONE
    }

    /// Refuses input that no version of its CLI can be launched with: a prompt that would be run as a
    /// command, and settings that would bypass the gateway.
    fn check(&self, _prompt: &str, _has_gateway: bool) -> Result<(), LaunchError> {
        Ok(())
    }

    /// The program that it runs on this machine, by its path or its name on the PATH. Agents with a CLI of their own have
    /// none: the CLI may be installed for a trial.
    fn program(&self) -> Option<&str> {
        None
    }

    /// A script on this machine that it runs. Containers get a copy of the script and of the files
    /// next to it.
    fn script(&self) -> Option<&Utf8Path> {
        None
    }

    /// The required image.
    fn image(&self) -> Option<&str> {
        None
    }

    /// A file in the workspace with its own figures.
    fn sidecar(&self) -> Option<&'static str> {
        None
    }

    /// Git patterns of files that it writes to the workspace and that are not its work.
    fn litter(&self) -> &'static [&'static str] {
        &[]
    }

    /// Lines that it adds to the workspace's `.gitignore` and that are not its work.
    fn ignore_lines(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it gets the reference solution.
    fn wants_reference(&self) -> bool {
        false
    }

    /// The custom agent that takes the task.
    fn custom_agent(&self) -> Option<&str> {
        None
    }

    /// A folder of Markdown definitions (sub-agents) that is read from beside the test case
    /// and from the workspace, and handed to `launch`. From the working directory, only the
    /// definition of the [custom agent](Agent::custom_agent) is read.
    fn definitions_folder(&self) -> Option<&'static str> {
        None
    }

    /// The command, its environment, and the session that reads its output. Pure.
    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError>;
}

/// The address of the models, instead of the providers' own.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The base URL, such as `http://127.0.0.1:4000`, without a path or trailing slash.
    pub base_url: String,
    /// The key for this endpoint.
    pub key: String,
}

impl Endpoint {
    /// The variables that set the endpoint in the programs of most vendors.
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

/// The state of an agent's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// No credentials are needed.
    NotNeeded,
    /// There are credentials from this source.
    Found(String),
    /// There are none, or they are known to be invalid.
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
    /// The prompt.
    pub prompt: &'a str,
    /// The installed CLI, for agents that have one.
    pub cli: Option<&'a Installed>,
    /// The environment that every agent gets: allow-listed variables, own HOME, no telemetry.
    pub env: &'a BTreeMap<String, String>,
    /// Whether the agent runs as root.
    pub is_root: bool,
    /// The address of the socket, if `wants_socket`.
    pub socket: Option<SocketAddr>,
    /// The reference solution, if the task has one and the agent needs it.
    pub reference: Option<&'a ReferenceAt>,
    /// Definitions found in `definitions_folder`: name to Markdown text.
    pub definitions: &'a BTreeMap<String, String>,
    /// The address of the models, if not the providers' own.
    pub endpoint: Option<&'a Endpoint>,
    /// The path of the agent's [script](Agent::script), inside its environment.
    pub script: Option<&'a Utf8Path>,
    /// MCP servers of the task by name, as under `mcpServers` of Claude Code; each has one of the
    /// adapter's [types](Adapter::mcp_types).
    pub mcp_servers: &'a Map<String, Value>,
}

/// The reference solution for the oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceAt {
    /// A patch.
    Patch(Utf8PathBuf),
    /// A folder with `solve.sh`.
    Script {
        /// The folder.
        folder: Utf8PathBuf,
        /// Additional environment variables.
        env: BTreeMap<String, String>,
    },
}

/// How to start an agent.
pub struct Launch {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// Files to write before the start.
    pub files: Vec<(Utf8PathBuf, Vec<u8>)>,
    /// Files of the agent that the session reads after the end: some CLIs report their usage only
    /// there.
    pub collect: Vec<Utf8PathBuf>,
    /// The standard input.
    pub input: Input,
    /// The format of standard output.
    pub terminal: Terminal,
    /// End the agent after this time without output (in addition to the test case's own limits).
    pub message_deadline: Option<Duration>,
    /// The session that reads the output.
    pub session: Box<dyn Session>,
}

impl Launch {
    /// The names of the secrets that the agent would see.
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

    /// The same launch with every secret replaced by `key`.
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

    /// The same launch with paths below `roots`, which are folders of a container, in the
    /// container's format: agents build paths by the rules of this machine.
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
    /// Nothing; it is closed.
    Closed,
    /// These bytes; then it is closed.
    Bytes(Vec<u8>),
    /// The replies of the session.
    Session,
}

/// The format of the agent's standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// Separate pipes for standard output and error.
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
    /// The same error with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> LaunchError {
        self.hint = Some(hint.into());
        self
    }
}
