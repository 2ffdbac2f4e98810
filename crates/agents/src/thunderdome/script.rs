//! The `adapter` agent: a shell script that drives an agent, under Thunderdome's contract. It gets
//! the workspace and the task in variables, reports its result by exit code (0 completed, 2 gave
//! up, 124 timeout), and may write figures to `.thunderdome-metrics.json`.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::Fault;
use proctor_record::record::metrics_file::METRICS_FILE;
use schemars::JsonSchema;
use serde::Deserialize;

use super::super::plain::PlainSession;
use crate::agent::{
    Adapter, Agent, AgentSection, Endpoint, Input, Launch, LaunchContext, LaunchError,
    PromptSource, Terminal, resolve_prompt,
};

/// Scripts are for bash; where there is none a script that needs no more than `sh` still runs.
const RUN: &str =
    "if command -v bash >/dev/null 2>&1; then exec bash \"$0\"; else exec sh \"$0\"; fi";
/// Files that adapters and the agents behind them leave in the workspace and that are not their work.
const LITTER: &[&str] = &[
    "/.thunderdome-*",
    "/.gemini-output.json",
    "/.amplifier-stdout.log",
    "/.aider*",
];

/// Lines that aider adds to `.gitignore`.
const IGNORE_LINES: &[&str] = &[".aider*", ".env"];

/// The adapter.
pub struct AdapterScript;

/// `agent.config`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AdapterScript")]
struct ScriptSettings {
    /// What is asked: this or `prompt_file`.
    prompt: Option<String>,
    /// A file with what is asked.
    prompt_file: Option<String>,
    /// The script, relative to the file that names it.
    #[schemars(length(min = 1))]
    adapter: String,
    /// The image that it runs in.
    image: Option<String>,
    /// More environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
}

impl Adapter for AdapterScript {
    fn name(&self) -> &'static str {
        "adapter"
    }

    fn summary(&self) -> &'static str {
        "a shell script that drives an agent, as in Thunderdome"
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<ScriptSettings>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let config = section.config;
        let settings: ScriptSettings = config.read().map_err(|fault| vec![fault])?;
        let path = section.folder.join(&settings.adapter);
        if !path.is_file() {
            let message = format!("there is no adapter script {path}");
            return Err(vec![config.fault("adapter", message)]);
        }
        let prompt = resolve_prompt(
            settings.prompt.as_deref(),
            settings.prompt_file.as_deref(),
            section,
        )
        .map_err(|fault| vec![fault])?;
        Ok(Box::new(Script {
            prompt,
            path,
            image: settings.image,
            env: settings.env,
        }))
    }
}

struct Script {
    prompt: PromptSource,
    path: Utf8PathBuf,
    image: Option<String>,
    env: BTreeMap<String, String>,
}

impl Agent for Script {
    fn prompt(&self) -> Option<&PromptSource> {
        Some(&self.prompt)
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    fn script(&self) -> Option<&Utf8Path> {
        Some(&self.path)
    }

    fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }

    fn sidecar(&self) -> Option<&'static str> {
        Some(METRICS_FILE)
    }

    fn litter(&self) -> &'static [&'static str] {
        LITTER
    }

    fn ignore_lines(&self) -> &'static [&'static str] {
        IGNORE_LINES
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        let task = context.scratch.join("task.md");
        let script = context.script.unwrap_or(&self.path);
        let mut env = context.env.clone();
        env.insert("TASK_DIR".to_owned(), context.workspace.to_string());
        env.insert("TASK_DESCRIPTION".to_owned(), task.to_string());
        // Scripts read it under `set -u`; empty means no proxy.
        let proxy = context.endpoint.map(|endpoint| endpoint.base_url.clone());
        env.insert("PROXY_URL".to_owned(), proxy.unwrap_or_default());
        // Many scripts leave it to their CLI to find the proxy.
        env.extend(context.endpoint.map(Endpoint::env).unwrap_or_default());
        env.extend(self.env.clone());
        Ok(Launch {
            argv: ["sh", "-c", RUN, script.as_str()].map(str::to_owned).into(),
            env,
            files: vec![(task, context.prompt.as_bytes().to_vec())],
            collect: Vec::new(),
            input: Input::Closed,
            terminal: Terminal::Pipes,
            message_deadline: None,
            session: Box::new(PlainSession::default()),
        })
    }
}
