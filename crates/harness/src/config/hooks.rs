//! `pre_execution` and `post_evaluation` of a test case.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8Path;
use proctor_document::{Fault, Node, Value, unknown_name};
use proctor_gateway::Client;
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    fs::named,
    hook::{Database, Earlier, Entry, Hook, Hooks, Retries, Script, Webhook, WithArtifacts},
};

const SCRIPT_TIMEOUT_MS: u64 = 30_000;
const WEBHOOK_TIMEOUT_MS: u64 = 5_000;
const METHODS: [&str; 3] = ["POST", "PUT", "PATCH"];

/// The keys of hooks.
pub(super) const KEYS: [&str; 2] = ["pre_execution", "post_evaluation"];
/// What scripts are told: such a `${NAME}` in a hook stays for the script.
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
    /// `script`; after the judging also `webhook` and `database`.
    name: String,
    /// What only this kind of hook knows.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    #[expect(dead_code, reason = "read from the tree, with its places")]
    config: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptAsWritten {
    command: String,
    args: Option<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    timeout_ms: Option<u64>,
    working_dir: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookAsWritten {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    include_artifacts: Option<bool>,
    retry_on_failure: Option<bool>,
    timeout_ms: Option<u64>,
    secret: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DatabaseAsWritten {
    #[serde(rename = "type")]
    kind: DatabaseKind,
    output_path: String,
    include_full_bundle: Option<bool>,
    append: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DatabaseKind {
    JsonFile,
}

/// Read both lists; what is wrong is added to `faults`.
pub(super) fn read(root: &Node, folder: &Utf8Path, faults: &mut Vec<Fault>) -> Hooks {
    let mut list = |key: &str, kinds: &[&str]| -> Vec<Hook> {
        let items = match root.get(key).map(|node| &node.value) {
            Some(Value::List(items)) => items.as_slice(),
            // Left out or no list at all: reading the whole file says so.
            _ => return Vec::new(),
        };
        let read = items.iter().map(|item| hook(item, kinds, folder));
        read.filter_map(|read| read.map_err(|fault| faults.push(fault)).ok())
            .collect()
    };
    Hooks {
        pre_execution: list(KEYS[0], &["script"]).into(),
        post_evaluation: list(KEYS[1], &["script", "webhook", "database"]).into(),
    }
}

fn hook(item: &Node, kinds: &[&str], folder: &Utf8Path) -> Result<Hook, Fault> {
    let written: HookAsWritten = item.read()?;
    let Some(config) = item.get("config") else {
        return Err(Fault::new(item.span, "missing key `config`"));
    };
    let name = written.name.as_str();
    match (kinds.contains(&name), name) {
        (true, "script") => script(config, folder).map(Hook::Script),
        (true, "webhook") => webhook(config).map(Hook::Webhook),
        (true, "database") => database(config, folder).map(Hook::Database),
        _ => Err(unknown_name(item.span_of("name"), "hook", name, kinds)),
    }
}

fn limit(config: &Node, written: Option<u64>, usual: u64) -> Result<Duration, Fault> {
    match written.unwrap_or(usual) {
        0 => Err(config.fault("timeout_ms", "`timeout_ms` must be above 0")),
        ms => Ok(Duration::from_millis(ms)),
    }
}

fn script(config: &Node, folder: &Utf8Path) -> Result<Script, Fault> {
    let written: ScriptAsWritten = config.read()?;
    if written.command.trim().is_empty() {
        return Err(config.fault("command", "`command` names no program"));
    }
    let mut command = written.command;
    // A program beside the test case; a line for the shell stays as it is.
    if written.args.is_some() && command.starts_with("./") {
        command = named::absolute(&folder.join(&command)).into_string();
    }
    Ok(Script {
        command,
        args: written.args,
        env: written.env,
        timeout: limit(config, written.timeout_ms, SCRIPT_TIMEOUT_MS)?,
        working_dir: written
            .working_dir
            .map(|dir| named::absolute(&folder.join(dir))),
    })
}

fn webhook(config: &Node) -> Result<Webhook, Fault> {
    let written: WebhookAsWritten = config.read()?;
    if let Some(problem) = Client::problem_of(&written.url) {
        return Err(config.fault("url", format!("`url` cannot be used: {problem}")));
    }
    let method = written.method.unwrap_or_else(|| METHODS[0].to_owned());
    if !METHODS.contains(&method.as_str()) {
        return Err(unknown_name(
            config.span_of("method"),
            "method",
            &method,
            &METHODS,
        ));
    }
    if written.secret.as_deref() == Some("") {
        return Err(config.fault("secret", "`secret` is empty"));
    }
    Ok(Webhook {
        url: written.url,
        method,
        headers: written.headers,
        artifacts: match written.include_artifacts {
            Some(true) => WithArtifacts::Yes,
            _ => WithArtifacts::No,
        },
        retries: match written.retry_on_failure {
            Some(false) => Retries::None,
            _ => Retries::Some,
        },
        secret: written.secret,
        timeout: limit(config, written.timeout_ms, WEBHOOK_TIMEOUT_MS)?,
    })
}

fn database(config: &Node, folder: &Utf8Path) -> Result<Database, Fault> {
    let written: DatabaseAsWritten = config.read()?;
    let DatabaseKind::JsonFile = written.kind;
    if written.output_path.is_empty() {
        return Err(config.fault("output_path", "`output_path` is empty"));
    }
    Ok(Database {
        path: named::absolute(&folder.join(&written.output_path)),
        entry: match written.include_full_bundle {
            Some(false) => Entry::Summary,
            _ => Entry::Bundle,
        },
        earlier: match written.append {
            Some(false) => Earlier::Go,
            _ => Earlier::Stay,
        },
    })
}
