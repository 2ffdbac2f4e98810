//! GitHub Copilot CLI: JSON events on standard output, tokens only in a file at its end. Its first
//! start unpacks a quarter of a gigabyte, which all trials share.

use proctor_record::{
    outcome::Ending,
    record::cli::Cli,
    session::SessionHost,
    usage::{Usage, UsageSource},
};
use serde_json::Value;

use super::{
    cli::{
        Arg, CliAdapter, CliAgent, CliContestant, CommandPrompts, Login, ModelName, Prompt, Start,
        TaskTools, cli,
    },
    fault::ApiFault,
    mcp,
    reader::{CliSession, Reader},
    setting::{Flag, Setting, SettingKind},
    tokens::{self, Tokens},
    transcript::{self, Failed, Transcript, text},
    verdict::End,
};
use crate::{
    AGENTIC_JUDGE, AGENTIC_JUDGE_NAME,
    agent::{Authentication, Launch, LaunchContext, LaunchError},
};

const USAGE_FILE: &str = "{scratch}/copilot-usage.json";

pub(super) static COPILOT: CliAdapter = CliAdapter(&CliAgent {
    name: "copilot-cli",
    title: "Copilot",
    code: "COPILOT",
    summary: "GitHub Copilot CLI",
    provider: "github",
    cli: Cli {
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
        ..cli!("COPILOT", "copilot", npm "@github/copilot")
    },
    login: Login {
        keys: &[
            "COPILOT_PROVIDER_BASE_URL",
            "COPILOT_GITHUB_TOKEN",
            "GH_TOKEN",
            "GITHUB_TOKEN",
        ],
        otherwise: Authentication::Unknown,
    },
    skills: Some(".github/skills"),
    task_tools: TaskTools {
        mcp_types: &["stdio", "http", "sse"],
        skills: Some(".copilot/skills"),
    },
    settings: &[
        Setting::new("model", SettingKind::Text, "The model.").flag("--model"),
        Setting::new(
            "agent_name",
            SettingKind::Text,
            "Run as this custom agent, defined in `.github/agents` of the repo, beside the test case or in the working directory.",
        )
        .flag("--agent")
        .defined_in(".github/agents"),
        Setting::new(
            "tools",
            SettingKind::Words,
            "The tools that the model has; all when left out.",
        )
        .passed(Flag::List("--available-tools")),
        Setting::new(
            "reasoning_effort",
            SettingKind::Text,
            "The reasoning effort: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.",
        )
        .flag("--reasoning-effort"),
        Setting::new(
            "mcp_config",
            SettingKind::File,
            "A file with additional MCP servers, next to the test case.",
        )
        .passed(Flag::AtFile("--additional-mcp-config")),
        Setting::new(
            "require_mcp",
            SettingKind::Switch,
            "Whether a server of `mcp_config` that does not connect ends the trial, as `sandbox`. Default `true`.",
        ),
    ],
    instead: &[
        (
            "append_system_prompt",
            "add it to the repo's AGENTS.md, or to the prompt",
        ),
        (
            "allowed_tools",
            "use `args: [--deny-tool=TOOL]` to forbid tools",
        ),
        (
            "max_tokens",
            "use `env: {COPILOT_PROVIDER_MAX_OUTPUT_TOKENS: ...}` with your own provider",
        ),
    ],
    model: ModelName::Plain,
    model_variable: Some("COPILOT_MODEL"),
    start: Start {
        args: &[
            Arg::Always(&["--output-format", "json", "--allow-all-tools"]),
            Arg::IfListed(&["--allow-all-paths"]),
            Arg::IfListed(&["--allow-all-urls"]),
            Arg::IfListed(&["--trust-folder"]),
            Arg::IfListed(&["--no-ask-user"]),
            Arg::IfListed(&["--no-color"]),
            Arg::IfListed(&["--no-auto-update"]),
            Arg::IfListed(&["--disable-client-telemetry"]),
            Arg::IfListed(&["--usage-output-file", USAGE_FILE]),
        ],
        last_args: &[],
        env: &[
            ("COPILOT_AUTO_UPDATE", "false"),
            ("COPILOT_HOME", "{home}/.copilot"),
        ],
        collect: &[USAGE_FILE],
        // Without `-p` the prompt is read from standard input, with any length.
        prompt: Prompt::Stdin,
        commands: CommandPrompts::None,
        setup,
    },
    session: CliSession::<CopilotReader>::start,
});

/// Adds the variables of an endpoint, without any login.
fn setup(
    agent: &CliContestant,
    context: &LaunchContext<'_>,
    launch: &mut Launch,
) -> Result<(), LaunchError> {
    if let Some(name) = agent.values.text("agent_name") {
        let built_in = (name == AGENTIC_JUDGE_NAME).then_some(AGENTIC_JUDGE);
        let found = context.definitions.get(name).map(String::as_str);
        // A name that is not found here may be one of the CLI's own.
        if let Some(markdown) = found.or(built_in) {
            let file = context
                .home
                .join(format!(".copilot/agents/{name}.agent.md"));
            launch.files.push((file, markdown.as_bytes().to_vec()));
        }
    }
    if let Some((path, file)) = mcp::task_file(context) {
        let args = ["--additional-mcp-config".to_owned(), format!("@{path}")];
        launch.argv.extend(args);
        launch.files.push((path, file));
    }
    let Some(endpoint) = context.endpoint else {
        return Ok(());
    };
    let Some(model) = agent.model.as_deref() else {
        return Err(agent.names.needs_model("claude-sonnet-4-5"));
    };
    let base = &endpoint.base_url;
    let (kind, url) = if model.starts_with("claude") {
        ("anthropic", base.clone())
    } else {
        ("openai", format!("{base}/v1"))
    };
    for (name, value) in [
        ("COPILOT_OFFLINE", "true".to_owned()),
        ("COPILOT_PROVIDER_BASE_URL", url),
        ("COPILOT_PROVIDER_API_KEY", endpoint.key.clone()),
        ("COPILOT_MODEL", model.to_owned()),
    ] {
        launch.env.insert(name.to_owned(), value);
    }
    // The user's settings for the model's API take precedence.
    let mut usual = |name: &str, value: &str| {
        let variable = launch.env.entry(name.to_owned());
        variable.or_insert_with(|| value.to_owned());
    };
    usual("COPILOT_PROVIDER_TYPE", kind);
    if model.starts_with("gpt-5") {
        usual("COPILOT_PROVIDER_WIRE_API", "responses");
    }
    Ok(())
}

/// Reads the events, and the figures of the file.
#[derive(Default)]
struct CopilotReader {
    transcript: Transcript,
    usage: Option<Usage>,
    is_introduced: bool,
    /// Whether it got SIGTERM. Its result has exit code 0 nevertheless.
    is_aborted: bool,
}

impl Reader for CopilotReader {
    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    fn file(&mut self, bytes: &[u8], _host: &mut dyn SessionHost) {
        if let Ok(account) = serde_json::from_slice::<Value>(bytes) {
            self.usage = usage(&account);
        }
    }

    fn finish(&mut self, _ending: &Ending, _host: &mut dyn SessionHost) -> Option<Usage> {
        let mut usage = self.usage.take()?;
        // The account does not include a call in progress at its end.
        usage.lower_bound = self.transcript.end != End::Done;
        Some(usage)
    }

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
                    .retry(&format!("API call retried: {why}"), host);
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
            "session.mcp_servers_loaded" => mcp::report(&data["servers"], host),
            "abort" => self.is_aborted = true,
            "result" => self.result(event),
            kind if is_known_without_effect(kind) => {}
            _ => self.transcript.counts.unknown_events += 1,
        }
    }
}

impl CopilotReader {
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

/// The account in the file. Its input includes cached tokens; its cost is a number of requests, not
/// money.
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
        Some("transport") => "the connection was closed: ",
        _ => "",
    };
    let message = text(data, "/errorMessage").unwrap_or_default();
    ApiFault {
        status: tokens::number(data, "/statusCode"),
        message: format!("{kind}{message}"),
    }
}

/// The error that ends a session, classified by its type if there is no status.
fn session_error(data: &Value) -> ApiFault {
    let kind = text(data, "/errorType").unwrap_or_default();
    let message = text(data, "/message").unwrap_or_default();
    let status = tokens::number(data, "/statusCode");
    // No retry got a usable answer.
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
