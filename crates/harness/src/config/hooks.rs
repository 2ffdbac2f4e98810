//! `pre_execution` and `post_evaluation` of a test case.

use std::{collections::BTreeMap, fmt, sync::Arc};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::{Fault, Node, Value, unknown_name};
use proctor_gateway::Client;
use proctor_record::platform;
use schemars::JsonSchema;
use serde::Deserialize;

use super::evaluator::EvaluatorContext;

const METHODS: [&str; 3] = ["POST", "PUT", "PATCH"];

/// The keys of hooks.
pub(super) const KEYS: [&str; 2] = ["pre_execution", "post_evaluation"];
/// Variables of scripts. `${NAME}` of such a variable is left for the script.
pub(super) const VARIABLES: [&str; 8] = [
    "WORKSPACE_DIR",
    "REPO_DIR",
    "ARTIFACTS_DIR",
    "TEST_CASE_NAME",
    "REPO_URL",
    "BRANCH",
    "RESULTS_PATH",
    "OVERALL_STATUS",
];

/// A hook.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Hook")]
pub(super) struct HookAsWritten {
    /// `script`; in `post_evaluation` also `webhook` and `database`.
    name: String,
    /// Settings of this kind of hook.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    config: Node,
}

/// The hooks of a task.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// Run in the workspace before the agent starts. The agent does not start if one fails.
    pub pre_execution: Arc<[Hook]>,
    /// Run when the results are written. They cannot change a verdict.
    pub post_evaluation: Arc<[Hook]>,
}

/// One hook.
#[derive(Clone, Debug)]
pub enum Hook {
    /// Runs a program.
    Script(ScriptHook),
    /// Sends the results to a URL.
    Webhook(WebhookHook),
    /// Adds the results to a file.
    Database(DatabaseHook),
}

/// A program to run.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptHook {
    /// The program, or a shell command line if there are no `args`.
    pub command: String,
    /// The arguments. `${NAME}` of a hook variable is replaced.
    pub args: Option<Vec<String>>,
    /// Additional environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The timeout in milliseconds.
    #[serde(default = "script_timeout")]
    pub timeout_ms: u64,
    /// The working directory. Default: the workspace or the artifacts directory.
    pub working_dir: Option<Utf8PathBuf>,
}

/// Omits the environment, which may hold secrets.
impl fmt::Debug for ScriptHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptHook")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

/// A URL that the results are sent to.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::unsafe_derive_deserialize,
    reason = "`tokio::select!` in a method of it expands to unsafe code"
)]
pub struct WebhookHook {
    /// The URL.
    pub url: String,
    /// The HTTP method.
    #[serde(default = "webhook_method")]
    pub method: String,
    /// Additional headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether to send the patch and the files of the evaluators, too.
    #[serde(default)]
    pub include_artifacts: bool,
    /// Whether to retry after a failure.
    #[serde(default = "yes")]
    pub retry_on_failure: bool,
    /// The timeout of one attempt in milliseconds.
    #[serde(default = "webhook_timeout")]
    pub timeout_ms: u64,
    /// The key that signs the body.
    pub secret: Option<String>,
}

/// Omits the URL and the headers, which may hold secrets.
impl fmt::Debug for WebhookHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookHook")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// A file of results.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseHook {
    /// The format of the file.
    #[serde(rename = "type")]
    pub kind: DatabaseKind,
    /// The file.
    pub output_path: Utf8PathBuf,
    /// Whether an entry holds the whole results instead of a summary.
    #[serde(default = "yes")]
    pub include_full_bundle: bool,
    /// Whether earlier entries are kept.
    #[serde(default = "yes")]
    pub append: bool,
}

/// The format of a file of results.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DatabaseKind {
    /// A JSON list.
    JsonFile,
}

fn script_timeout() -> u64 {
    30_000
}

fn webhook_timeout() -> u64 {
    5_000
}

fn webhook_method() -> String {
    METHODS[0].to_owned()
}

fn yes() -> bool {
    true
}

/// Reads both lists. Adds faults to `faults`.
pub(super) fn read(root: &Node, context: &EvaluatorContext<'_>, faults: &mut Vec<Fault>) -> Hooks {
    let mut list = |key: &str, kinds: &[&str]| -> Vec<Hook> {
        let items = match root.get(key).map(|node| &node.value) {
            Some(Value::List(items)) => items.as_slice(),
            // Reading the whole file reports a list that is missing or has a wrong type.
            _ => return Vec::new(),
        };
        let read = items.iter().map(|item| hook(item, kinds, context));
        read.filter_map(|read| read.map_err(|fault| faults.push(fault)).ok())
            .collect()
    };
    Hooks {
        pre_execution: list(KEYS[0], &["script"]).into(),
        post_evaluation: list(KEYS[1], &["script", "webhook", "database"]).into(),
    }
}

fn hook(item: &Node, kinds: &[&str], context: &EvaluatorContext<'_>) -> Result<Hook, Fault> {
    let written: HookAsWritten = item.read()?;
    let (name, config) = (written.name.as_str(), &written.config);
    match (kinds.contains(&name), name) {
        (true, "script") => script(config, context).map(Hook::Script),
        (true, "webhook") => webhook(config).map(Hook::Webhook),
        (true, "database") => database(config, context).map(Hook::Database),
        _ => Err(unknown_name(item.span_of("name"), "hook", name, kinds)),
    }
}

fn check_timeout(config: &Node, timeout_ms: u64) -> Result<(), Fault> {
    match timeout_ms {
        0 => Err(config.fault("timeout_ms", "`timeout_ms` must be at least 1")),
        _ => Ok(()),
    }
}

fn script(config: &Node, context: &EvaluatorContext<'_>) -> Result<ScriptHook, Fault> {
    let mut hook: ScriptHook = config.read()?;
    if hook.command.trim().is_empty() {
        return Err(config.fault("command", "`command` is empty"));
    }
    check_timeout(config, hook.timeout_ms)?;
    let relative_to = context.relative_to;
    // A program beside the test case. A shell command line stays unchanged.
    if hook.args.is_some() && hook.command.starts_with("./") {
        let program = relative_to.existing(context.folder, &hook.command);
        check_program(&program, config)?;
        hook.command = program.into_string();
    }
    let working_dir = hook.working_dir;
    hook.working_dir = working_dir.map(|dir| {
        if dir.as_str().starts_with("${") {
            // A directory of the trial.
            return dir;
        }
        relative_to.place(context.folder, dir)
    });
    Ok(hook)
}

/// Checks the program of a hook before any trial starts.
fn check_program(program: &Utf8Path, config: &Node) -> Result<(), Fault> {
    if !program.is_file() {
        let fault = config.fault("command", format!("program not found: {program}"));
        return Err(fault.with_hint("`./` is the directory of the file that names it"));
    }
    if !platform::is_executable(program.as_std_path()) {
        let fault = config.fault("command", format!("{program} is not executable"));
        return Err(fault.with_hint(format!("make it executable: chmod +x {program}")));
    }
    Ok(())
}

fn webhook(config: &Node) -> Result<WebhookHook, Fault> {
    let hook: WebhookHook = config.read()?;
    if let Some(problem) = Client::problem_of(&hook.url) {
        return Err(config.fault("url", format!("invalid `url`: {problem}")));
    }
    let method = hook.method.as_str();
    if !METHODS.contains(&method) {
        let span = config.span_of("method");
        return Err(unknown_name(span, "method", method, &METHODS));
    }
    if hook.secret.as_deref() == Some("") {
        return Err(config.fault("secret", "`secret` is empty"));
    }
    check_timeout(config, hook.timeout_ms)?;
    Ok(hook)
}

fn database(config: &Node, context: &EvaluatorContext<'_>) -> Result<DatabaseHook, Fault> {
    let mut hook: DatabaseHook = config.read()?;
    if hook.output_path.as_str().is_empty() {
        return Err(config.fault("output_path", "`output_path` is empty"));
    }
    let relative_to = context.relative_to;
    hook.output_path = relative_to.place(context.folder, &hook.output_path);
    Ok(hook)
}
