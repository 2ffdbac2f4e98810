//! A test case: what is asked, where, of which agent, and how it is judged. `TestCase` is the
//! file as written; `load` turns it into a `ResolvedCase`, in which limits and defaults hold.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use globset::GlobSet;
use proctor_document::{ConfigError, Fault, Node, Value};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    agent::{self, AgentAsWritten, AgentSpec},
    evaluator::{self, EvaluatorAsWritten, EvaluatorSpec, Refused},
    execution::{self, GatewaySettings},
    hooks::{self, HookAsWritten},
    repo::{self, Repo},
    settings::Settings,
    shared,
    source::Source,
};
use crate::{
    config::{History, Hooks, ProgressLimits, Reference, solution_paths},
    fs::{is_safe_name, named},
};

const DEFAULT_TIMEOUT_MS: u64 = 300_000;
const DEFAULT_TRANSCRIPT_BYTES: u64 = 10_485_760;
const DEFAULT_RAW_BYTES: u64 = 1_073_741_824;
const MAX_WORKSPACE_NAME: usize = 100;

/// A test case, as it is written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCase {
    /// The schema that an editor checks the file against.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// A short name.
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// What is tested.
    #[schemars(length(min = 1, max = 1000))]
    pub description: String,
    /// The code: an https, http, ssh or file URL, git@host:path, or a folder relative to this file.
    #[schemars(length(min = 1))]
    pub repo: String,
    /// The branch to start from.
    pub branch: Option<String>,
    /// The commit to start from; it need not be on the branch.
    pub commit: Option<String>,
    /// The commits before it that the agent sees. Default: none.
    pub history: Option<History>,
    /// What `expected` names.
    pub expected_source: Option<ExpectedSource>,
    /// The branch that holds the reference solution.
    pub expected: Option<String>,
    /// A patch file beside this one that holds the reference solution.
    pub reference: Option<String>,
    /// All source files that are not tests: patterns. Nothing else comes from the agent when commands judge.
    pub solution_paths: Option<Vec<String>>,
    /// Which agent does the task.
    #[schemars(with = "AgentAsWritten")]
    pub agent: IgnoredAny,
    /// How the work is judged.
    #[schemars(with = "Vec<EvaluatorAsWritten>", length(min = 1))]
    pub evaluators: Vec<IgnoredAny>,
    /// Scripts that are run in the workspace before the agent starts.
    #[schemars(with = "Option<Vec<HookAsWritten>>")]
    pub pre_execution: Option<Vec<IgnoredAny>>,
    /// What is done with the results.
    #[schemars(with = "Option<Vec<HookAsWritten>>")]
    pub post_evaluation: Option<Vec<IgnoredAny>>,
    /// Where the workspace is made, relative to this file.
    pub workspace_dir: Option<String>,
    /// The first part of the workspace's name.
    #[schemars(length(max = 100), regex(pattern = "^[a-zA-Z0-9][a-zA-Z0-9._-]*$"))]
    pub workspace_name: Option<String>,
    /// Time limit of the agent in milliseconds; 0 is none. Default 300000.
    pub timeout: Option<u64>,
    /// Whether the prompt says when the time is over. Default: false.
    pub tell_deadline: Option<bool>,
    /// End the agent when it has been silent for so many milliseconds; 0 is never, the default.
    pub idle_timeout: Option<u64>,
    /// End the agent when for so many milliseconds it has told of nothing new and changed no file
    /// of its workspace; 0 is never, the default.
    pub no_progress_timeout: Option<u64>,
    /// End the agent when it uses a tool with the same input, or tells of the same trouble, so many
    /// times in a row; 0 is never, the default.
    pub loop_limit: Option<u32>,
    /// How much of the agent's output is kept.
    pub output: Option<OutputAsWritten>,
    /// The gateway that the agent reaches models through.
    #[schemars(with = "Option<execution::GatewayAsWritten>")]
    pub gateway: Option<IgnoredAny>,
}

/// What `expected` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedSource {
    /// A branch of the repo.
    Branch,
}

/// How much of the agent's output is kept.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Output")]
#[expect(clippy::struct_field_names, reason = "users write the unit")]
pub struct OutputAsWritten {
    /// Bytes of the transcript; more is cut off with a marker. Default 10485760.
    #[schemars(range(min = 1))]
    pub transcript_bytes: Option<u64>,
    /// Bytes of each raw stream; more is counted, not written. Default 1073741824.
    #[schemars(range(min = 1))]
    pub raw_bytes: Option<u64>,
    /// Bytes of both streams together at which the agent is ended. Default: no limit.
    #[schemars(range(min = 1))]
    pub max_bytes: Option<u64>,
}

/// A test case that is in order.
#[derive(Clone, Debug)]
pub struct ResolvedCase {
    /// A short name.
    pub name: String,
    /// What is tested.
    pub description: String,
    /// The code.
    pub repo: Repo,
    /// The branch to start from.
    pub branch: Option<String>,
    /// The commit to start from.
    pub commit: Option<String>,
    /// The commits before it that the agent sees.
    pub history: History,
    /// The reference solution.
    pub reference: Option<Reference>,
    /// Patterns of the files that may come from the agent when commands judge; all but the task's when unset.
    pub solution_paths: Option<GlobSet>,
    /// Which agent.
    pub agent: AgentSpec,
    /// How it is judged; at least one.
    pub evaluators: Vec<EvaluatorSpec>,
    /// The hooks before the agent and after judging.
    pub hooks: Hooks,
    /// The parent of the workspace, if set.
    pub workspace_dir: Option<Utf8PathBuf>,
    /// The first part of the workspace's name.
    pub workspace_name: Option<String>,
    /// Time limit of the agent.
    pub timeout: Option<Duration>,
    /// Whether the prompt says when the time is over.
    pub tells_deadline: bool,
    /// Longest silence of the agent.
    pub idle_timeout: Option<Duration>,
    /// When the agent is ended for not getting on.
    pub progress: ProgressLimits,
    /// How much of the agent's output is kept.
    pub output: OutputLimits,
    /// The gateway that the agent reaches models through.
    pub gateway: Option<GatewaySettings>,
    /// The folder of the test case.
    pub folder: Utf8PathBuf,
    /// The sha256 of the file, in hex.
    pub config_hash: String,
    /// The file itself; complaints about the agent's section are made with it.
    pub source: Arc<Source>,
}

/// How much of the agent's output is kept.
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
                .with_hint("`proctor init` writes a test case to start from");
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

/// Read the parts of the file, each by itself, so that a fault in one does not hide the others.
fn read_parts(root: &Node, context: &evaluator::Context<'_>) -> Result<Parts, Refused> {
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
    let hooks = hooks::read(root, context.folder, &mut faults);
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
    let own_dir = written
        .workspace_dir
        .map(|dir| named::absolute(&folder.join(dir)));
    ResolvedCase {
        name: written.name,
        description: written.description,
        repo: parts.repo,
        branch: written.branch,
        commit: written.commit,
        history: written.history.unwrap_or_default(),
        reference: parts.reference,
        solution_paths: parts.solution_paths,
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

/// Milliseconds as a limit; 0 is none.
fn limit(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// Limits of single values, and values that depend on each other.
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
            checks.bad("loop_limit", "whatever is done once is no loop");
        }
        checks
    }

    fn bad(&mut self, key: &str, problem: &str) {
        let message = format!("`{key}` cannot be used: {problem}");
        self.faults.push(self.root.fault(key, message));
    }

    fn length(&mut self, key: &str, text: &str, most: usize) {
        let length = text.chars().count();
        if text.trim().is_empty() {
            self.bad(key, "it is empty");
        } else if length > most {
            self.bad(
                key,
                &format!("it has {length} characters, {most} are the most"),
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
            Fault::new(
                root.key_span_of(key),
                format!("`{key}` needs `{other}` beside it"),
            )
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
            let message = "both `reference` and `expected` are given";
            let fault = Fault::new(root.key_span_of("reference"), message);
            self.faults
                .push(fault.with_hint("a task has one reference solution; keep one"));
            return;
        }
        match named::file_in(folder, patch) {
            Ok(file) => self.reference = Some(Reference::Patch(file)),
            Err(error) => self.bad("reference", &error.to_string()),
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
