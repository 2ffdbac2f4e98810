//! OpenCode: `opencode run` with JSON events. It has no event for the end: the last step shows
//! whether it was done, and the figures of all steps are added.

use std::time::Duration;

use proctor_record::{
    outcome::Ending,
    record::cli::Cli,
    session::SessionHost,
    usage::{Usage, UsageSource},
};
use serde_json::{Value, json};

use super::{
    cli::{
        Arg, CliAdapter, CliAgent, CliContestant, CommandPrompts, Login, ModelName, Prompt, Start,
        TaskTools, cli,
    },
    fault::ApiFault,
    reader::{CliSession, Reader},
    setting::{Setting, SettingKind},
    tokens::{self, Tokens},
    transcript::{self, Failed, Transcript, text},
    verdict::End,
};
use crate::agent::{Authentication, Launch, LaunchContext, LaunchError};

/// The variable with the endpoint's key, which the config file refers to.
const ENDPOINT_KEY: &str = "PROCTOR_MODEL_KEY";
/// The number of consecutive steps without an answer after which it is ended.
const MAX_EMPTY_STEPS: u32 = 5;

pub(super) static OPENCODE: CliAdapter = CliAdapter(&CliAgent {
    name: "opencode",
    title: "OpenCode",
    code: "OPENCODE",
    summary: "OpenCode, with models of any maker",
    provider: "various",
    cli: Cli {
        help_args: &["run", "--help"],
        login_hint: "set the key of the model's maker, such as ANTHROPIC_API_KEY, or log in with: opencode auth login",
        credential_env: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "GEMINI_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "OPENROUTER_API_KEY",
            "OPENCODE_API_KEY",
        ],
        credential_files: &[".local/share/opencode/auth.json"],
        ..cli!("OPENCODE", "opencode", npm "opencode-ai")
    },
    login: Login {
        keys: &[
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "OPENROUTER_API_KEY",
            "OPENCODE_API_KEY",
        ],
        otherwise: Authentication::Unknown,
    },
    skills: Some(".opencode/skills"),
    task_tools: TaskTools {
        mcp_types: &["stdio", "http", "sse"],
        skills: Some(".config/opencode/skills"),
    },
    settings: &[
        Setting::new(
            "model",
            SettingKind::Text,
            "The model as `provider/name`; the provider of `claude-…`, `gpt-…` and `gemini-…` is optional.",
        )
        .flag("--model"),
        Setting::new(
            "variant",
            SettingKind::Text,
            "The model's variant, such as `high`: its reasoning effort.",
        )
        .flag("--variant"),
    ],
    instead: &[
        (
            "agent_name",
            "use `args: [--agent, NAME]` with an agent that the repo defines",
        ),
        (
            "append_system_prompt",
            "add it to the repo's AGENTS.md, or to the prompt",
        ),
        (
            "max_turns",
            "set `agent.build.steps` in the repo's opencode.json, or use the test case's `timeout`",
        ),
        (
            "mcp_config",
            "add the servers under `mcp` in the repo's opencode.json",
        ),
        (
            "temperature",
            "set `agent.build.temperature` in the repo's opencode.json",
        ),
        (
            "allowed_tools",
            "set `permission` in the repo's opencode.json",
        ),
    ],
    model: ModelName::Maker("google"),
    model_variable: None,
    start: Start {
        args: &[
            Arg::Always(&["run", "--format", "json"]),
            // With a title it makes no model call for one, which its figures would omit.
            Arg::IfListed(&["--title", "proctor"]),
            Arg::IfListed(&["--auto"]),
            Arg::IfListed(&["--thinking"]),
        ],
        last_args: &[],
        env: &[
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
            ("OPENCODE_DISABLE_SHARE", "1"),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
            ("OPENCODE_CONFIG", "{scratch}/opencode.json"),
        ],
        collect: &[],
        // As an argument it would be sent to the model in quotes.
        prompt: Prompt::Stdin,
        commands: CommandPrompts::None,
        setup,
    },
    session: CliSession::<OpenCodeReader>::start,
});

/// Writes the config file: nothing is shared or updated, and models use the endpoint.
fn setup(
    agent: &CliContestant,
    context: &LaunchContext<'_>,
    launch: &mut Launch,
) -> Result<(), LaunchError> {
    let mut config = json!({ "autoupdate": false, "share": "disabled" });
    if let Some(endpoint) = context.endpoint {
        let model = agent.model.as_deref();
        let Some((provider, name)) = model.and_then(|model| model.split_once('/')) else {
            return Err(agent.names.needs_model("anthropic/claude-sonnet-4-5"));
        };
        launch
            .env
            .insert(ENDPOINT_KEY.to_owned(), endpoint.key.clone());
        let path = if provider == "google" { "v1beta" } else { "v1" };
        config["provider"][provider] = json!({
            "options": {
                "baseURL": format!("{}/{path}", endpoint.base_url),
                "apiKey": format!("{{env:{ENDPOINT_KEY}}}"),
            },
            // A model that is not in its table has to be listed here.
            "models": { name: {} },
        });
        if !matches!(provider, "anthropic" | "openai" | "google") {
            config["provider"][provider]["npm"] = json!("@ai-sdk/openai-compatible");
        }
    }
    for (name, server) in context.mcp_servers {
        config["mcp"][name] = mcp_server(server);
    }
    let file = context.scratch.join("opencode.json");
    launch.files.push((file, config.to_string().into_bytes()));
    // It would install a package of a hundred megabytes here that only plug-ins need.
    let npmrc = context.home.join(".config/opencode/.npmrc");
    launch.files.push((npmrc, b"offline=true\n".to_vec()));
    Ok(())
}

/// An MCP server in the format of the config file. It finds out the transport of a URL itself.
fn mcp_server(server: &Value) -> Value {
    if let Some(url) = server.get("url") {
        return json!({ "type": "remote", "url": url, "headers": server["headers"] });
    }
    let args = server["args"].as_array().into_iter().flatten();
    let command: Vec<&Value> = server.get("command").into_iter().chain(args).collect();
    json!({ "type": "local", "command": command })
}

/// Reads the events.
#[derive(Default)]
struct OpenCodeReader {
    transcript: Transcript,
    tokens: Tokens,
    has_answered: bool,
    empty_steps: u32,
}

impl Reader for OpenCodeReader {
    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    fn event(&mut self, event: &Value, host: &mut dyn SessionHost) {
        if let Some(millis) = event.get("timestamp").and_then(Value::as_i64) {
            self.transcript.time_ms(millis);
        }
        self.introduce(event, host);
        self.part(event, event.get("part").unwrap_or(&Value::Null), host);
    }

    fn finish(&mut self, _ending: &Ending, _host: &mut dyn SessionHost) -> Option<Usage> {
        let mut usage = self.tokens.usage(UsageSource::Messages)?;
        usage.lower_bound = self.transcript.end != End::Done;
        Some(usage)
    }
}

impl OpenCodeReader {
    fn part(&mut self, event: &Value, part: &Value, host: &mut dyn SessionHost) {
        match text(event, "/type").unwrap_or_default() {
            "text" => {
                let said = text(part, "/text").unwrap_or_default();
                self.has_answered |= !said.trim().is_empty();
                self.transcript.said(said, host);
            }
            "reasoning" => {
                let thought = text(part, "/text").unwrap_or_default();
                transcript::think(host, thought, self.transcript.times.last.as_deref());
            }
            "tool_use" => {
                self.has_answered = true;
                tool(part, host);
            }
            "step_start" if self.empty_steps > 0 => {}
            "step_start" => self.transcript.end = End::Open,
            "step_finish" => self.step(part, host),
            "error" => {
                let data = event.get("error").unwrap_or(&Value::Null);
                self.transcript.end = End::Failed(fault(data));
            }
            _ => self.transcript.counts.unknown_events += 1,
        }
    }

    fn introduce(&mut self, event: &Value, host: &mut dyn SessionHost) {
        if self.transcript.session_id.is_none()
            && let Some(id) = text(event, "/sessionID")
        {
            self.transcript.session_id = Some(id.to_owned());
            self.transcript.started(host);
        }
    }

    fn step(&mut self, part: &Value, host: &mut dyn SessionHost) {
        let reasoning = tokens::number(part, "/tokens/reasoning").unwrap_or_default();
        let used = Tokens {
            input: tokens::number(part, "/tokens/input"),
            output: tokens::number(part, "/tokens/output").map(|output| output + reasoning),
            cache_read: tokens::number(part, "/tokens/cache/read"),
            cache_write: tokens::number(part, "/tokens/cache/write"),
            // The CLI reports a cost of 0 for a model without a price.
            cost: tokens::dollars(part, "/cost").filter(|cost| cost.nanos() > 0),
        };
        let reason = text(part, "/reason").unwrap_or_default();
        if used.is_nothing() && reason == "unknown" {
            return self.empty_step(host);
        }
        self.empty_steps = 0;
        self.tokens = self.tokens.plus(used);
        *self.transcript.turns.get_or_insert_default() += 1;
        self.tokens.report(host);
        self.transcript.end = match reason {
            "stop" if self.has_answered => End::Done,
            "length" => End::gave_up(
                "OUTPUT_TOKENS",
                "stopped: an answer reached the model's output limit",
            ),
            "content-filter" => End::Failed(ApiFault {
                status: Some(400),
                message: "the API's content filter blocked the answer".to_owned(),
            }),
            _ => End::Open,
        };
    }

    /// Counts empty steps: after a closed stream, or a response that is not a stream, it retries at
    /// once and without limit.
    fn empty_step(&mut self, host: &mut dyn SessionHost) {
        self.empty_steps += 1;
        let fault =
            ApiFault::said("the connection was closed, or the answer was not an event stream");
        self.transcript
            .retry("no answer from the API; retrying", host);
        if self.empty_steps < MAX_EMPTY_STEPS {
            self.transcript.end = End::Retrying(fault);
            return;
        }
        self.transcript.end = End::Failed(fault);
        host.end_within(Duration::ZERO);
    }
}

fn tool(part: &Value, host: &mut dyn SessionHost) {
    let id = text(part, "/callID").unwrap_or_default();
    let state = part.get("state").unwrap_or(&Value::Null);
    let arguments = state.get("input").unwrap_or(&Value::Null);
    let name = text(part, "/tool").unwrap_or("unknown");
    transcript::call(host, Some(id), name, arguments, None);
    let (output, failed) = match text(state, "/status") {
        Some("error") => (text(state, "/error"), Failed::Yes),
        _ => (text(state, "/output"), Failed::No),
    };
    transcript::answer(host, id, output.unwrap_or_default(), failed);
}

fn fault(error: &Value) -> ApiFault {
    let name = text(error, "/name").unwrap_or("error");
    let message = text(error, "/data/message").or(text(error, "/message"));
    ApiFault {
        status: tokens::number(error, "/data/statusCode"),
        message: format!("{name}: {}", message.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests;
