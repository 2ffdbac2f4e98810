//! GitHub Copilot CLI: JSON events on standard output, tokens only in a file that it writes at
//! its end. Its first start unpacks a quarter of a gigabyte, which all trials share.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::Fault;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    fault::ApiFault,
    options::{self, CommandLine, Common},
    tokens::{self, Tokens},
    transcript::{self, Failed, Transcript, text},
    verdict::{End, Names},
};
use crate::{
    agent::{
        Adapter, Agent, AgentSection, Authentication, Endpoint, Input, Launch, LaunchContext,
        LaunchError, PromptSource, Terminal,
    },
    outcome::Ending,
    record::cli::{AuthCheck, Cli, Registry},
    session::{Conclusion, Session, SessionHost, Source},
    usage::{Usage, UsageSource},
};

/// The adapter.
pub struct Copilot;

static NAMES: Names = Names {
    title: "Copilot",
    code: "COPILOT",
    login: "Set a token in COPILOT_GITHUB_TOKEN, or log in with: copilot login",
};
const INVALID: &str = "COPILOT_INVALID_CONFIG";
/// What says where models are, or who the user is.
const KEYS: &[&str] = &[
    "COPILOT_PROVIDER_BASE_URL",
    "COPILOT_GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
];

static CLI: Cli = Cli {
    program: "copilot",
    package: Registry::Npm("@github/copilot"),
    version_args: &["--version"],
    help_args: &["--help"],
    auth_args: &[],
    install_hint: "install it with: npm install -g @github/copilot",
    login_hint: "set a token in COPILOT_GITHUB_TOKEN, or log in with: copilot login",
    credential_env: &[
        "COPILOT_GITHUB_TOKEN",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "COPILOT_GH_HOST",
        "GH_HOST",
        "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_TYPE",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BEARER_TOKEN",
        "COPILOT_PROVIDER_WIRE_API",
    ],
    credential_files: &[".copilot/config.json"],
    shared_caches: &["COPILOT_PKG_CACHE_HOME"],
    // The first start unpacks its package.
    probe_limit: Duration::from_mins(1),
    not_found_code: "COPILOT_CLI_NOT_FOUND",
    auth_code: "COPILOT_AUTH_FAILED",
    timeout_code: "COPILOT_TIMEOUT",
    truncated_code: "COPILOT_OUTPUT_TRUNCATED",
};

/// `agent.config`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CopilotCli")]
struct Settings {
    /// What is asked: this or `prompt_file`.
    #[schemars(length(min = 1, max = 1_000_000))]
    prompt: Option<String>,
    /// A file with what is asked, beside the test case or in the repo.
    #[schemars(length(max = 500))]
    prompt_file: Option<String>,
    /// The model.
    model: Option<String>,
    /// Run as this custom agent, which the repo defines in `.github/agents`.
    agent_name: Option<String>,
    /// How much the model thinks: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
    reasoning_effort: Option<String>,
    /// A file with more MCP servers, beside the test case.
    mcp_config: Option<String>,
    /// More arguments for the CLI.
    args: Vec<String>,
    /// More environment for the CLI.
    env: BTreeMap<String, String>,
}

const INSTEAD: &[(&str, &str)] = &[
    (
        "append_system_prompt",
        "put it in the repo's AGENTS.md, or in the prompt",
    ),
    (
        "allowed_tools",
        "use `args: [--deny-tool=TOOL]` for what it may not use",
    ),
    (
        "max_tokens",
        "use `env: {COPILOT_PROVIDER_MAX_OUTPUT_TOKENS: ...}` with a provider of your own",
    ),
];
const TAKEN: &[&str] = &["agent_name", "mcp_config"];

impl Adapter for Copilot {
    fn name(&self) -> &'static str {
        "copilot-cli"
    }

    fn summary(&self) -> &'static str {
        "GitHub Copilot CLI"
    }

    fn cli(&self) -> Option<&'static Cli> {
        Some(&CLI)
    }

    fn provider(&self) -> &'static str {
        "github"
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Settings>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let settings: Settings = options::read(section, "copilot-cli", INSTEAD, TAKEN)?;
        let common = options::common(
            section,
            settings.prompt.as_deref(),
            settings.prompt_file.as_deref(),
            settings.model.as_deref(),
        )?;
        let agent_name = settings.agent_name.as_deref().or(section.agent_name);
        let mcp_config = mcp_config(&settings, section).map_err(|fault| vec![fault])?;
        Ok(Box::new(Contender {
            common,
            agent_name: agent_name.map(str::to_owned),
            mcp_config,
            settings,
        }))
    }

    fn authentication(
        &self,
        env: &BTreeMap<String, String>,
        _check: Option<&AuthCheck>,
    ) -> Authentication {
        options::authentication(env, KEYS, Authentication::Unknown)
    }

    fn recorded_session(&self) -> Option<Box<dyn Session>> {
        Some(Box::new(CopilotSession::default()))
    }
}

fn mcp_config(
    settings: &Settings,
    section: &AgentSection<'_>,
) -> Result<Option<Utf8PathBuf>, Fault> {
    let Some(path) = settings.mcp_config.as_deref() else {
        return Ok(None);
    };
    let path = section.folder.join(path);
    if path.is_file() {
        return Ok(Some(path));
    }
    let fault = section
        .config
        .fault("mcp_config", format!("there is no file {path}"));
    Err(fault.with_hint("the path is relative to the test case"))
}

struct Contender {
    common: Common,
    agent_name: Option<String>,
    mcp_config: Option<Utf8PathBuf>,
    settings: Settings,
}

impl Agent for Contender {
    fn prompt(&self) -> Option<&PromptSource> {
        Some(&self.common.prompt)
    }

    fn model(&self) -> Option<&str> {
        self.common.model.as_deref()
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.settings.env
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        let usage = context.scratch.join("copilot-usage.json");
        let mut env = context.env.clone();
        env.insert("COPILOT_AUTO_UPDATE".to_owned(), "false".to_owned());
        env.insert(
            "COPILOT_HOME".to_owned(),
            context.home.join(".copilot").into_string(),
        );
        if let Some(endpoint) = context.endpoint {
            env.extend(provider(self.common.model.as_deref(), endpoint)?);
        }
        env.extend(self.settings.env.clone());
        Ok(Launch {
            argv: self.arguments(context, &usage)?,
            env,
            files: Vec::new(),
            collect: vec![usage],
            input: Input::Bytes(context.prompt.as_bytes().to_vec()),
            terminal: Terminal::Pipes,
            message_deadline: None,
            session: Box::new(CopilotSession::default()),
        })
    }
}

impl Contender {
    fn arguments(
        &self,
        context: &LaunchContext<'_>,
        usage: &Utf8Path,
    ) -> Result<Vec<String>, LaunchError> {
        // Without `-p` the prompt is what comes on standard input, of any length.
        let mut line = CommandLine::new(context, &["--output-format", "json"], INVALID)?;
        line.push(&["--allow-all-tools"]);
        line.if_listed(&["--allow-all-paths"]);
        line.if_listed(&["--allow-all-urls"]);
        line.if_listed(&["--trust-folder"]);
        line.if_listed(&["--no-ask-user"]);
        line.if_listed(&["--no-color"]);
        line.if_listed(&["--no-auto-update"]);
        line.if_listed(&["--disable-client-telemetry"]);
        line.if_listed(&["--usage-output-file", usage.as_str()]);
        if let Some(model) = &self.common.model {
            line.listed("--model", model)?;
        }
        if let Some(name) = &self.agent_name {
            line.listed("--agent", name)?;
        }
        if let Some(effort) = &self.settings.reasoning_effort {
            line.listed("--reasoning-effort", effort)?;
        }
        if let Some(path) = &self.mcp_config {
            line.listed("--additional-mcp-config", &format!("@{path}"))?;
        }
        line.argv.extend(self.settings.args.iter().cloned());
        Ok(line.argv)
    }
}

/// The variables that lead it to an endpoint, without any login.
fn provider(
    model: Option<&str>,
    endpoint: &Endpoint,
) -> Result<BTreeMap<String, String>, LaunchError> {
    let model = model.ok_or_else(|| LaunchError {
        message: "copilot-cli behind the gateway needs a `model`".to_owned(),
        hint: Some("name one, such as `claude-sonnet-4-5`".to_owned()),
        code: INVALID,
    })?;
    let base = &endpoint.base_url;
    let (kind, url) = if model.starts_with("claude") {
        ("anthropic", base.clone())
    } else {
        ("openai", format!("{base}/v1"))
    };
    let mut env = vec![
        ("COPILOT_OFFLINE", "true".to_owned()),
        ("COPILOT_PROVIDER_TYPE", kind.to_owned()),
        ("COPILOT_PROVIDER_BASE_URL", url),
        ("COPILOT_PROVIDER_API_KEY", endpoint.key.clone()),
        ("COPILOT_MODEL", model.to_owned()),
    ];
    if model.starts_with("gpt-5") {
        env.push(("COPILOT_PROVIDER_WIRE_API", "responses".to_owned()));
    }
    let named = |(name, value): (&str, String)| (name.to_owned(), value);
    Ok(env.into_iter().map(named).collect())
}

/// Reads the events, and the figures in the file.
struct CopilotSession {
    transcript: Transcript,
    usage: Option<Usage>,
    is_introduced: bool,
    /// It was told to stop. Its result says exit code 0 all the same.
    is_aborted: bool,
}

impl Default for CopilotSession {
    fn default() -> CopilotSession {
        CopilotSession {
            transcript: Transcript::new(&NAMES),
            usage: None,
            is_introduced: false,
            is_aborted: false,
        }
    }
}

impl Session for CopilotSession {
    fn on_line(&mut self, source: Source, line: &[u8], host: &mut dyn SessionHost) {
        if source == Source::Stderr {
            return self.transcript.stderr(line, host);
        }
        if let Some(event) = self.transcript.object(line) {
            self.event(&event, host);
        }
    }

    fn on_oversized_line(&mut self, _source: Source, _bytes: u64) {
        self.transcript.counts.oversized_lines += 1;
    }

    fn on_file(&mut self, _path: &Utf8Path, bytes: &[u8], _host: &mut dyn SessionHost) {
        if let Ok(account) = serde_json::from_slice::<Value>(bytes) {
            self.usage = usage(&account);
        }
    }

    fn finish(mut self: Box<Self>, ending: &Ending, _host: &mut dyn SessionHost) -> Conclusion {
        let is_done = self.transcript.end == End::Done;
        if let Some(usage) = &mut self.usage {
            // What was under way when it was ended is not in the account.
            usage.lower_bound = !is_done;
        }
        self.transcript.conclude(self.usage, ending)
    }
}

impl CopilotSession {
    fn event(&mut self, event: &Value, host: &mut dyn SessionHost) {
        if let Some(time) = text(event, "/timestamp") {
            self.transcript.time(time);
        }
        let data = event.get("data").unwrap_or(&Value::Null);
        match text(event, "/type").unwrap_or_default() {
            "session.tools_updated" | "model.call_start" => self.introduce(data, host),
            "assistant.message" => self.message(data, host),
            "assistant.turn_start" => *self.transcript.turns.get_or_insert_default() += 1,
            "assistant.turn_retry" => {
                let why = text(data, "/reason").unwrap_or("unknown");
                self.transcript
                    .retry(&format!("the API call is tried again: {why}"), host);
            }
            "tool.execution_start" => {
                let arguments = data.get("arguments").unwrap_or(&Value::Null);
                let name = text(data, "/toolName").unwrap_or("unknown");
                let parent = text(data, "/parentToolCallId");
                transcript::call(host, text(data, "/toolCallId"), name, arguments, parent);
                self.transcript.counts.subagent_tool_calls += u64::from(parent.is_some());
            }
            "tool.execution_complete" => self.tool_result(data, host),
            "model.call_failure" => self.transcript.end = End::Retrying(failure(data)),
            "session.error" => self.transcript.end = End::Failed(session_error(data)),
            "session.compaction_complete" => self.transcript.counts.compactions += 1,
            "abort" => self.is_aborted = true,
            "result" => self.result(event),
            kind if is_known_without_effect(kind) => {}
            _ => self.transcript.counts.unknown_events += 1,
        }
    }

    fn introduce(&mut self, data: &Value, host: &mut dyn SessionHost) {
        if self.is_introduced {
            return;
        }
        if let Some(model) = text(data, "/model") {
            self.is_introduced = true;
            self.transcript.model = Some(model.to_owned());
            self.transcript.started(host);
        }
    }

    fn message(&mut self, data: &Value, host: &mut dyn SessionHost) {
        self.transcript.end = End::Open;
        if let Some(model) = text(data, "/model") {
            self.transcript.model = Some(model.to_owned());
        }
        if let Some(thought) = text(data, "/reasoningText") {
            transcript::think(host, thought, self.transcript.times.last.as_deref());
        }
        let said = text(data, "/content").unwrap_or_default();
        self.transcript.said(said, host);
    }

    fn tool_result(&mut self, data: &Value, host: &mut dyn SessionHost) {
        let is_good = data.get("success").and_then(Value::as_bool) == Some(true);
        let (content, failed) = if is_good {
            (text(data, "/result/content"), Failed::No)
        } else {
            (text(data, "/error/message"), Failed::Yes)
        };
        if text(data, "/error/code") == Some("denied") {
            self.transcript.counts.permission_denials += 1;
        }
        let id = text(data, "/toolCallId").unwrap_or_default();
        transcript::answer(host, id, content.unwrap_or_default().trim(), failed);
    }

    fn result(&mut self, event: &Value) {
        self.transcript.session_id = text(event, "/sessionId").map(str::to_owned);
        self.transcript.times.duration_ms = tokens::number(event, "/usage/sessionDurationMs");
        let is_good = event.get("exitCode").and_then(Value::as_i64) == Some(0);
        if is_good && !self.is_aborted && self.transcript.end == End::Open {
            self.transcript.end = End::Done;
        }
    }
}

/// The account in the file. Its input includes what was read from and written to the cache;
/// what it calls cost is a count of requests, not money.
fn usage(account: &Value) -> Option<Usage> {
    let models = account.get("modelMetrics")?.as_object()?;
    let of = |(name, metrics): (&String, &Value)| {
        let tokens = Tokens {
            input: tokens::number(metrics, "/usage/inputTokens"),
            output: tokens::number(metrics, "/usage/outputTokens"),
            cache_read: tokens::number(metrics, "/usage/cacheReadTokens"),
            cache_write: tokens::number(metrics, "/usage/cacheWriteTokens"),
            cost: None,
        };
        (name.clone(), tokens.without_cached_input())
    };
    tokens::by_model(models.iter().map(of), UsageSource::Sidecar)
}

fn failure(data: &Value) -> ApiFault {
    let kind = match text(data, "/failureKind") {
        Some("transport") => "the connection broke off: ",
        _ => "",
    };
    let message = text(data, "/errorMessage").unwrap_or_default();
    ApiFault {
        status: tokens::number(data, "/statusCode"),
        message: format!("{kind}{message}"),
    }
}

/// The error that ends a session: its type says what it is where there is no status.
fn session_error(data: &Value) -> ApiFault {
    let kind = text(data, "/errorType").unwrap_or_default();
    let message = text(data, "/message").unwrap_or_default();
    let status = tokens::number(data, "/statusCode");
    // All its retries got no answer that could be used.
    let is_network = message.contains("Failed to get response from the AI model");
    let what = match kind {
        _ if status.is_some() => "",
        "authentication" | "authorization" => "authentication failed: ",
        "rate_limit" => "rate limit: ",
        _ if is_network => "the connection failed: ",
        _ => "",
    };
    ApiFault {
        status,
        message: format!("{what}{message}"),
    }
}

fn is_known_without_effect(kind: &str) -> bool {
    const FAMILIES: &[&str] = &[
        "session.",
        "assistant.",
        "model.",
        "tool.",
        "user.",
        "system.",
        "hook.",
        "skill.",
        "subagent.",
        "permission.",
        "agent.",
        "mcp.",
    ];
    FAMILIES.iter().any(|family| kind.starts_with(family))
}

#[cfg(test)]
mod tests;
