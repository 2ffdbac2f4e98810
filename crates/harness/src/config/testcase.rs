//! A test case: a prompt, a repository, an agent and evaluators. `TestCase` is the file as written;
//! `load` turns it into a `ResolvedCase`, with limits checked and defaults applied.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use globset::GlobSet;
use proctor_document::{ConfigError, Fault, Node, Value};
use proctor_record::fs::{is_safe_name, named};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    agent::{self, AgentAsWritten, AgentSpec},
    evaluator::{self, EvaluatorAsWritten, EvaluatorSpec, Refused},
    execution::{self, GatewaySettings},
    hooks::{self, HookAsWritten},
    patch,
    repo::{self, Repo},
    settings::Settings,
    shared,
    source::Source,
};
use crate::config::{History, Hooks, ProgressLimits, Reference, solution_paths};

const DEFAULT_TIMEOUT_MS: u64 = 300_000;
const DEFAULT_TRANSCRIPT_BYTES: u64 = 10_485_760;
const DEFAULT_RAW_BYTES: u64 = 1_073_741_824;
const MAX_WORKSPACE_NAME: usize = 100;

/// A test case as written in the file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCase {
    /// The JSON Schema that editors use to check the file.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// A short name.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// A description of the test case.
    #[schemars(length(min = 1, max = 1000))]
    pub description: String,
    /// The code: an https, http, ssh or file URL, git@host:path, or a directory relative to this
    /// file.
    #[schemars(length(min = 1))]
    pub repo: String,
    /// The branch to start from.
    pub branch: Option<String>,
    /// The commit to start from, on any branch.
    pub commit: Option<String>,
    /// The commits before it that the agent can see. Default: none.
    pub history: Option<History>,
    /// The kind of `expected`.
    pub expected_source: Option<ExpectedSource>,
    /// The branch that holds the reference solution.
    pub expected: Option<String>,
    /// A patch file with the reference solution, relative to this file.
    pub reference: Option<String>,
    /// Patterns of all source files that are not tests. Judging commands take only these files from
    /// the agent.
    pub solution_paths: Option<Vec<String>>,
    /// Scripts to run in the workspace before the agent starts.
    #[schemars(with = "Option<Vec<HookAsWritten>>")]
    pub pre_execution: Option<Vec<IgnoredAny>>,
    /// The hooks that process the results.
    #[schemars(with = "Option<Vec<HookAsWritten>>")]
    pub post_evaluation: Option<Vec<IgnoredAny>>,
    /// The agent that works on the task.
    #[schemars(with = "AgentAsWritten")]
    pub agent: IgnoredAny,
    /// The evaluators.
    #[schemars(with = "Vec<EvaluatorAsWritten>", length(min = 1))]
    pub evaluators: Vec<IgnoredAny>,
    /// The parent directory of the workspace, relative to this file.
    pub workspace_dir: Option<String>,
    /// The prefix of the workspace's name.
    #[schemars(length(max = 100), regex(pattern = "^[a-zA-Z0-9][a-zA-Z0-9._-]*$"))]
    pub workspace_name: Option<String>,
    /// Time limit of the agent in milliseconds; 0 means no limit. Default 300000.
    pub timeout: Option<u64>,
    /// Whether the prompt contains the deadline. Default: false.
    pub tell_deadline: Option<bool>,
    /// End the agent after this many milliseconds without output. Default 0: never.
    pub idle_timeout: Option<u64>,
    /// End the agent after this many milliseconds without a new event and without a changed file in
    /// its workspace. Default 0: never.
    pub no_progress_timeout: Option<u64>,
    /// End the agent when it repeats a tool call with the same input, or the same error, this many
    /// times in a row. Default 0: never.
    pub loop_limit: Option<u32>,
    /// Limits on the agent's output.
    pub output: Option<OutputAsWritten>,
    /// The gateway for model requests.
    #[schemars(with = "Option<execution::GatewayAsWritten>")]
    pub gateway: Option<IgnoredAny>,
}

/// The kind of `expected`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedSource {
    /// A branch of the repo.
    Branch,
}

/// Limits on the agent's output.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Output")]
#[expect(clippy::struct_field_names, reason = "users write the unit")]
pub struct OutputAsWritten {
    /// Maximum bytes of the transcript; the rest is replaced by a marker. Default 10485760.
    #[schemars(range(min = 1))]
    pub transcript_bytes: Option<u64>,
    /// Maximum bytes of each raw stream; the rest is counted, not written. Default 1073741824.
    #[schemars(range(min = 1))]
    pub raw_bytes: Option<u64>,
    /// Bytes of both streams together at which the agent is ended. Default: no limit.
    #[schemars(range(min = 1))]
    pub max_bytes: Option<u64>,
}

/// A validated test case.
#[derive(Clone, Debug)]
pub struct ResolvedCase {
    /// A short name.
    pub name: String,
    /// A description of the test case.
    pub description: String,
    /// The code.
    pub repo: Repo,
    /// The branch to start from.
    pub branch: Option<String>,
    /// The commit to start from.
    pub commit: Option<String>,
    /// The commits before it that the agent can see.
    pub history: History,
    /// The reference solution.
    pub reference: Option<Reference>,
    /// Patterns of the files that judging commands take from the agent; all but the task's files
    /// when unset.
    pub solution_paths: Option<GlobSet>,
    /// The same as written.
    pub solution_patterns: Vec<String>,
    /// The agent.
    pub agent: AgentSpec,
    /// The evaluators; at least one.
    pub evaluators: Vec<EvaluatorSpec>,
    /// The hooks before the agent and after judging.
    pub hooks: Hooks,
    /// The parent of the workspace, if set.
    pub workspace_dir: Option<Utf8PathBuf>,
    /// The prefix of the workspace's name.
    pub workspace_name: Option<String>,
    /// Time limit of the agent.
    pub timeout: Option<Duration>,
    /// Whether the prompt contains the deadline.
    pub tells_deadline: bool,
    /// The maximum time without output of the agent.
    pub idle_timeout: Option<Duration>,
    /// When the agent is ended for making no progress.
    pub progress: ProgressLimits,
    /// Limits on the agent's output.
    pub output: OutputLimits,
    /// The gateway for model requests.
    pub gateway: Option<GatewaySettings>,
    /// The directory of the test case.
    pub folder: Utf8PathBuf,
    /// The sha256 of the file, in hex.
    pub config_hash: String,
    /// The test case file, for error messages about the agent's section.
    pub source: Arc<Source>,
}

/// Limits on the agent's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Bytes of the transcript.
    pub transcript_bytes: u64,
    /// Bytes of each raw stream.
    pub raw_bytes: u64,
    /// Bytes of both streams together at which the agent is ended.
    pub max_bytes: Option<u64>,
}

/// Reads a test case. The error contains all faults at once.
pub fn load(
    path: &Utf8Path,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ResolvedCase, ConfigError> {
    shared::open(path, env, settings, |root, context| {
        if root.value == Value::Null {
            let fault = Fault::new(root.span, "the file is empty")
                .with_hint("`proctor init` writes an example test case");
            return Err(Refused::Here(vec![fault]));
        }
        let mut parts = read_parts(root, context)?;
        parts.agent.complete(settings);
        let source = Arc::clone(context.source);
        Ok(resolve(parts, settings, context.folder.to_owned(), source))
    })
}

/// The validated content of the file.
struct Parts {
    written: TestCase,
    repo: Repo,
    reference: Option<Reference>,
    solution_paths: Option<GlobSet>,
    agent: AgentSpec,
    evaluators: Vec<EvaluatorSpec>,
    gateway: Option<GatewaySettings>,
    hooks: Hooks,
}

/// Reads each part of the file separately, so that a fault in one does not hide the others.
fn read_parts(root: &Node, context: &evaluator::EvaluatorContext<'_>) -> Result<Parts, Refused> {
    let mut faults = Vec::new();
    let agent = root.get("agent").and_then(|node| {
        agent::read(node, root.key_span_of("agent"))
            .map_err(|more| faults.extend(more))
            .ok()
    });
    let checked = match root.read::<TestCase>() {
        Ok(written) => {
            let mut checks = Checks::run(&written, root, context.folder);
            faults.append(&mut checks.faults);
            let solution = solution_paths(root, written.solution_paths.as_deref());
            let solution = solution.unwrap_or_else(|fault| {
                faults.push(fault);
                None
            });
            checks
                .repo
                .map(|repo| (written, repo, checks.reference, solution))
        }
        Err(fault) => {
            faults.push(fault);
            None
        }
    };
    let hooks = hooks::read(root, context, &mut faults);
    let evaluators = shared::evaluators(root, context, &mut faults)?;
    let gateway = root
        .get("gateway")
        .map(|node| execution::gateway_without_suite(node, context.folder))
        .transpose()
        .unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
    match (agent, checked) {
        (Some(agent), Some((written, repo, reference, solution_paths))) if faults.is_empty() => {
            Ok(Parts {
                written,
                repo,
                reference,
                solution_paths,
                agent,
                evaluators,
                gateway,
                hooks,
            })
        }
        _ => Err(Refused::Here(faults)),
    }
}

impl Default for OutputLimits {
    fn default() -> OutputLimits {
        OutputLimits {
            transcript_bytes: DEFAULT_TRANSCRIPT_BYTES,
            raw_bytes: DEFAULT_RAW_BYTES,
            max_bytes: None,
        }
    }
}

fn resolve(
    parts: Parts,
    settings: &Settings,
    folder: Utf8PathBuf,
    source: Arc<Source>,
) -> ResolvedCase {
    let written = parts.written;
    let timeout = written.timeout.or(settings.timeout_ms);
    let output = written.output.unwrap_or_default();
    let own_dir = written.workspace_dir;
    let own_dir = own_dir.map(|dir| settings.relative_to.place(&folder, dir));
    ResolvedCase {
        name: written.name,
        description: written.description,
        repo: parts.repo,
        branch: written.branch,
        commit: written.commit,
        history: written.history.unwrap_or_default(),
        reference: parts.reference,
        solution_paths: parts.solution_paths,
        solution_patterns: written.solution_paths.unwrap_or_default(),
        agent: parts.agent,
        evaluators: parts.evaluators,
        hooks: parts.hooks,
        workspace_dir: own_dir.or_else(|| settings.workspace_dir.clone()),
        workspace_name: written.workspace_name,
        timeout: limit(timeout.unwrap_or(DEFAULT_TIMEOUT_MS)),
        tells_deadline: written.tell_deadline.unwrap_or(false),
        idle_timeout: limit(written.idle_timeout.unwrap_or(0)),
        progress: ProgressLimits {
            quiet: limit(written.no_progress_timeout.unwrap_or(0)),
            repeats: written.loop_limit.filter(|times| *times > 0),
        },
        output: OutputLimits {
            transcript_bytes: output.transcript_bytes.unwrap_or(DEFAULT_TRANSCRIPT_BYTES),
            raw_bytes: output.raw_bytes.unwrap_or(DEFAULT_RAW_BYTES),
            max_bytes: output.max_bytes,
        },
        gateway: parts.gateway,
        folder,
        config_hash: source.hash(),
        source,
    }
}

/// Milliseconds as a limit; 0 means none.
fn limit(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// Checks of single values and of values that depend on each other.
struct Checks<'a> {
    root: &'a Node,
    faults: Vec<Fault>,
    repo: Option<Repo>,
    reference: Option<Reference>,
}

impl<'a> Checks<'a> {
    fn run(written: &TestCase, root: &'a Node, folder: &Utf8Path) -> Checks<'a> {
        let mut checks = Checks {
            root,
            faults: Vec::new(),
            repo: None,
            reference: None,
        };
        checks.length("name", &written.name, 200);
        checks.length("description", &written.description, 1000);
        match Repo::parse(&written.repo, folder) {
            Ok(repo) => checks.repo = Some(repo),
            Err(problem) => checks.bad("repo", &problem),
        }
        checks.revision("branch", written.branch.as_deref());
        checks.revision("commit", written.commit.as_deref());
        checks.revision("expected", written.expected.as_deref());
        checks.reference(written, folder);
        checks.workspace(written);
        checks.output(written.output.as_ref());
        if written.loop_limit == Some(1) {
            checks.bad("loop_limit", "it must be 0 (off) or at least 2");
        }
        checks
    }

    fn bad(&mut self, key: &str, problem: &str) {
        let message = format!("invalid `{key}`: {problem}");
        self.faults.push(self.root.fault(key, message));
    }

    fn length(&mut self, key: &str, text: &str, most: usize) {
        let length = text.chars().count();
        if text.trim().is_empty() {
            self.bad(key, "it is empty");
        } else if length > most {
            self.bad(
                key,
                &format!("it has {length} characters, the maximum is {most}"),
            );
        }
    }

    fn revision(&mut self, key: &str, value: Option<&str>) {
        if let Some(problem) = value.and_then(repo::revision_problem) {
            self.bad(key, problem);
        }
    }

    fn reference(&mut self, written: &TestCase, folder: &Utf8Path) {
        let root = self.root;
        let together = |key: &str, other: &str| {
            Fault::new(root.key_span_of(key), format!("`{key}` requires `{other}`"))
        };
        match (written.expected_source, &written.expected) {
            (Some(_), None) => self.faults.push(together("expected_source", "expected")),
            (None, Some(_)) => self.faults.push(
                together("expected", "expected_source").with_hint("add `expected_source: branch`"),
            ),
            (Some(ExpectedSource::Branch), Some(branch)) => {
                self.reference = Some(Reference::Branch(branch.clone()));
            }
            (None, None) => {}
        }
        let Some(patch) = &written.reference else {
            return;
        };
        if written.expected.is_some() {
            let message = "`reference` and `expected` cannot be combined";
            let fault = Fault::new(root.key_span_of("reference"), message);
            self.faults
                .push(fault.with_hint("a task has one reference solution; remove one of them"));
            return;
        }
        match named::file_in(folder, patch) {
            Ok(file) => self.patch(patch, file),
            Err(error) => self.bad("reference", &error.to_string()),
        }
    }

    fn patch(&mut self, written: &str, file: Utf8PathBuf) {
        match fs_err::read(&file) {
            Err(error) => self.bad("reference", &error.to_string()),
            Ok(bytes) => match patch::check(&bytes) {
                Err(error) => self.bad("reference", &format!("{written}, {error}")),
                Ok(()) => self.reference = Some(Reference::Patch(file)),
            },
        }
    }

    fn workspace(&mut self, written: &TestCase) {
        match written.workspace_dir.as_deref() {
            Some("") => self.bad("workspace_dir", "it is empty"),
            Some(dir) if dir.starts_with("~/") => {
                self.bad("workspace_dir", "`~` is not expanded; write `${HOME}`");
            }
            _ => {}
        }
        let Some(name) = written.workspace_name.as_deref() else {
            return;
        };
        if name.chars().count() > MAX_WORKSPACE_NAME {
            self.bad("workspace_name", "it has more than 100 characters");
        } else if !is_safe_name(name) {
            self.bad(
                "workspace_name",
                "it must start with a letter or digit and hold only letters, digits, `.`, `_` and `-`",
            );
        }
    }

    fn output(&mut self, output: Option<&OutputAsWritten>) {
        let Some(output) = output else { return };
        let Some(node) = self.root.get("output") else {
            return;
        };
        for (key, value) in [
            ("transcript_bytes", output.transcript_bytes),
            ("raw_bytes", output.raw_bytes),
            ("max_bytes", output.max_bytes),
        ] {
            if value == Some(0) {
                let message = format!("`{key}` must be at least 1");
                self.faults.push(node.fault(key, message));
            }
        }
    }
}
