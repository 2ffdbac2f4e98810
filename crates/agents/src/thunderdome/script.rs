//! The `adapter` agent: a shell script that drives an agent, under Thunderdome's contract. It gets
//! the workspace and the task in variables, reports its result by exit code (0 completed, 2 gave
//! up, 124 timeout), and may write figures to `.thunderdome-metrics.json`.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::Fault;
use proctor_record::record::metrics_file::METRICS_FILE;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    agent::{
        Adapter, Agent, AgentSection, Input, Launch, LaunchContext, LaunchError, PromptSource,
        Terminal, resolve_prompt,
    },
    plain::PlainSession,
    verdict::CliNames,
};

/// How messages and codes name the script.
const NAMES: CliNames = CliNames {
    title: "the adapter script",
    code: "ADAPTER",
    login: "",
};

/// Scripts are for bash; without bash a script runs with `sh`.
const RUN: &str =
    "if command -v bash >/dev/null 2>&1; then exec bash \"$0\"; else exec sh \"$0\"; fi";
/// Files that adapters and their agents write to the workspace and that are not their work.
const LITTER: &[&str] = &[
    "/.thunderdome-*",
    "/.gemini-output.json",
    "/.amplifier-stdout.log",
    "/.aider*",
];

/// Lines that aider adds to `.gitignore`.
const IGNORE_LINES: &[&str] = &[".aider*", ".env"];

pub struct AdapterScript;

/// `agent.config`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AdapterScript")]
struct ScriptSettings {
    /// The prompt: this or `prompt_file`.
    prompt: Option<String>,
    /// A file with the prompt.
    prompt_file: Option<String>,
    /// The script, relative to this file.
    #[schemars(length(min = 1))]
    adapter: String,
    /// The image of its containers.
    image: Option<String>,
    /// Additional environment variables.
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
            let message = format!("adapter script not found: {path}");
            return Err(vec![config.fault("adapter", message)]);
        }
        let prompt = resolve_prompt(
            settings.prompt.as_deref(),
            settings.prompt_file.as_deref(),
            section,
        )
        .map_err(|fault| vec![fault])?;
        Ok(Box::new(ScriptAgent {
            prompt,
            path,
            image: settings.image,
            env: settings.env,
        }))
    }
}

struct ScriptAgent {
    prompt: PromptSource,
    path: Utf8PathBuf,
    image: Option<String>,
    env: BTreeMap<String, String>,
}

impl Agent for ScriptAgent {
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

    fn check(&self, _prompt: &str, has_gateway: bool) -> Result<(), LaunchError> {
        if has_gateway {
            NAMES.check_bypass(&self.env, &[])?;
        }
        Ok(())
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        self.check(context.prompt, context.endpoint.is_some())?;
        let task = context.scratch.join("task.md");
        let script = context.script.unwrap_or(&self.path);
        let mut env = context.env.clone();
        env.insert("TASK_DIR".to_owned(), context.workspace.to_string());
        env.insert("TASK_DESCRIPTION".to_owned(), task.to_string());
        // Scripts with `set -u` require the variable; empty means no proxy.
        let proxy = context.endpoint.map(|endpoint| endpoint.base_url.clone());
        env.insert("PROXY_URL".to_owned(), proxy.unwrap_or_default());
        // Many scripts rely on their CLI to find the proxy.
        if let Some(endpoint) = context.endpoint {
            env.extend(endpoint.env());
        }
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
