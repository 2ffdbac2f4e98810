//! aider: it edits by what the model writes, has no tools and prints plain text. It exits with 0
//! after every failure of the API; whether its last call was answered, and what each call used,
//! stands only in its analytics log, which is kept on this machine.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8Path;
use proctor_document::Fault;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    litellm,
    options::{self, CommandLine, Common},
    verdict::Names,
};
use crate::{
    agent::{
        Adapter, Agent, AgentSection, Authentication, Input, Launch, LaunchContext, LaunchError,
        PromptSource, Terminal,
    },
    platform,
    record::cli::{AuthCheck, Cli, Registry},
    session::Session,
};

mod session;
#[cfg(test)]
mod tests;

/// The adapter.
pub struct Aider;

static NAMES: Names = Names {
    title: "aider",
    code: "AIDER",
    login: "Set the key of the model's maker, such as ANTHROPIC_API_KEY",
};
const INVALID: &str = "AIDER_INVALID_CONFIG";

static CLI: Cli = Cli {
    program: "aider",
    package: Registry::PyPi {
        name: "aider-chat",
        with: &[],
    },
    version_args: &["--version"],
    help_args: &["--help"],
    auth_args: &[],
    install_hint: "install it with: python3 -m pip install aider-chat",
    login_hint: "set the key of the model's maker, such as ANTHROPIC_API_KEY",
    credential_env: litellm::CREDENTIAL_ENV,
    credential_files: &[],
    shared_caches: &[],
    probe_limit: Duration::from_mins(1),
    not_found_code: "AIDER_CLI_NOT_FOUND",
    auth_code: "AIDER_AUTH_FAILED",
    timeout_code: "AIDER_TIMEOUT",
    truncated_code: "AIDER_OUTPUT_TRUNCATED",
};

/// `agent.config`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Aider")]
struct Settings {
    /// What is asked: this or `prompt_file`.
    #[schemars(length(min = 1, max = 1_000_000))]
    prompt: Option<String>,
    /// A file with what is asked, beside the test case or in the repo.
    #[schemars(length(max = 500))]
    prompt_file: Option<String>,
    /// The model as `maker/name` or an alias of aider such as `sonnet`.
    model: Option<String>,
    /// The model for commit messages.
    weak_model: Option<String>,
    /// How the model writes its edits: `diff`, `whole`, `udiff` and others.
    edit_format: Option<String>,
    /// `false` leaves its edits uncommitted, and asks no model for a commit message.
    auto_commits: Option<bool>,
    /// More arguments for the CLI.
    args: Vec<String>,
    /// More environment for the CLI.
    env: BTreeMap<String, String>,
}

const INSTEAD: &[(&str, &str)] = &[
    (
        "append_system_prompt",
        "put it in a file of the repo, and use `args: [--read, FILE]`",
    ),
    ("allowed_tools", "leave it out: aider has no tools"),
    (
        "max_tokens",
        "put `extra_params` into a file for `args: [--model-settings-file, FILE]`",
    ),
    (
        "temperature",
        "put `use_temperature` into a file for `args: [--model-settings-file, FILE]`",
    ),
];

impl Adapter for Aider {
    fn name(&self) -> &'static str {
        "aider"
    }

    fn summary(&self) -> &'static str {
        "aider: edits from the model's text, no tools"
    }

    fn cli(&self) -> Option<&'static Cli> {
        Some(&CLI)
    }

    fn provider(&self) -> &'static str {
        "various"
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Settings>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let settings: Settings = options::read(section, "aider", INSTEAD, &[])?;
        let mut common = options::common(
            section,
            settings.prompt.as_deref(),
            settings.prompt_file.as_deref(),
            settings.model.as_deref(),
        )?;
        common.model = common.model.as_deref().map(litellm::model);
        Ok(Box::new(Contender { common, settings }))
    }

    fn authentication(
        &self,
        env: &BTreeMap<String, String>,
        _check: Option<&AuthCheck>,
    ) -> Authentication {
        options::authentication(env, litellm::KEYS, Authentication::Unknown)
    }

    fn recorded_session(&self) -> Option<Box<dyn Session>> {
        Some(Box::new(session::AiderSession::default()))
    }
}

struct Contender {
    common: Common,
    settings: Settings,
}

impl Agent for Contender {
    fn prompt(&self) -> Option<&PromptSource> {
        Some(&self.common.prompt)
    }

    fn model(&self) -> Option<&str> {
        self.common.model.as_deref()
    }

    fn wire_model(&self) -> Option<&str> {
        // Its own nicknames, such as `sonnet` and `4o`, name neither maker nor version.
        self.model()
            .filter(|model| model.contains('/') || (model.len() > 8 && model.contains('-')))
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.settings.env
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        let prompt = context.scratch.join("prompt.md");
        let analytics = context.scratch.join("aider-analytics.jsonl");
        let argv = self.arguments(context, &prompt, &analytics)?;
        let mut env = context.env.clone();
        env.insert("LITELLM_LOCAL_MODEL_COST_MAP".to_owned(), "True".to_owned());
        if let Some(endpoint) = context.endpoint {
            env.extend(litellm::endpoint_env(self.model(), endpoint, INVALID)?);
        }
        env.extend(self.settings.env.clone());
        let mut files = vec![
            // As an argument it may have 128 KiB only, and each line of standard input would
            // be a message of its own.
            (prompt, context.prompt.as_bytes().to_vec()),
            (
                context.home.join(".aider/analytics.json"),
                br#"{"permanently_disable": true, "asked_opt_in": true, "uuid": "00000000-0000-4000-8000-000000000000"}"#.to_vec(),
            ),
        ];
        // Its cache lies in the repo, where it would be part of the change.
        for cache in [".aider.tags.cache.v3", ".aider.tags.cache.v4"] {
            let ignore = context.workspace.join(cache).join(".gitignore");
            files.push((ignore, b"*\n".to_vec()));
        }
        Ok(Launch {
            argv,
            env,
            files,
            collect: vec![analytics],
            input: Input::Closed,
            terminal: Terminal::Pipes,
            message_deadline: None,
            session: Box::new(session::AiderSession::default()),
        })
    }
}

impl Contender {
    fn arguments(
        &self,
        context: &LaunchContext<'_>,
        prompt: &Utf8Path,
        analytics: &Utf8Path,
    ) -> Result<Vec<String>, LaunchError> {
        let mut line = CommandLine::new(context, &["--yes-always"], INVALID)?;
        // Without streaming, the tokens are the API's and not an estimate.
        for flag in [
            "--no-stream",
            "--no-pretty",
            "--no-fancy-input",
            "--no-check-update",
            "--no-show-release-notes",
            "--no-show-model-warnings",
            "--no-detect-urls",
            "--no-suggest-shell-commands",
            "--no-gitignore",
        ] {
            line.if_listed(&[flag]);
        }
        let nowhere = platform::null_device(context.workspace);
        line.push(&["--chat-history-file", nowhere]);
        line.push(&["--input-history-file", nowhere]);
        line.if_listed(&["--analytics-log", analytics.as_str()]);
        if let Some(model) = &self.common.model {
            line.listed("--model", model)?;
        }
        if let Some(model) = &self.settings.weak_model {
            line.listed("--weak-model", &litellm::model(model))?;
        }
        if let Some(format) = &self.settings.edit_format {
            line.listed("--edit-format", format)?;
        }
        if self.settings.auto_commits == Some(false) {
            line.if_listed(&["--no-auto-commits"]);
        }
        line.argv.extend(self.settings.args.iter().cloned());
        line.push(&["--message-file", prompt.as_str()]);
        Ok(line.argv)
    }
}
