//! OpenCode: `opencode run` with JSON events. It has no event for the end: the last step says
//! whether it was done, and the steps' figures are summed. The prompt comes on standard input,
//! because an argument reaches the model in quotes.

use std::{collections::BTreeMap, time::Duration};

use proctor_document::Fault;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

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
    session::{Conclusion, Session, SessionEvent, SessionHost, Source},
    usage::UsageSource,
};

/// The adapter.
pub struct OpenCode;

static NAMES: Names = Names {
    title: "OpenCode",
    code: "OPENCODE",
    login: "Set the key of the model's maker, such as ANTHROPIC_API_KEY, or log in with: opencode auth login",
};
const INVALID: &str = "OPENCODE_INVALID_CONFIG";
const KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "OPENROUTER_API_KEY",
    "OPENCODE_API_KEY",
];
/// The variable that holds the endpoint's key: the config file only names it.
const ENDPOINT_KEY: &str = "PROCTOR_MODEL_KEY";
/// So many steps in a row without an answer, and it will go on like that for ever.
const MAX_EMPTY_STEPS: u32 = 5;

static CLI: Cli = Cli {
    program: "opencode",
    package: Registry::Npm("opencode-ai"),
    version_args: &["--version"],
    help_args: &["run", "--help"],
    auth_args: &[],
    install_hint: "install it with: npm install -g opencode-ai",
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
    shared_caches: &[],
    probe_limit: Duration::from_mins(1),
    not_found_code: "OPENCODE_CLI_NOT_FOUND",
    auth_code: "OPENCODE_AUTH_FAILED",
    timeout_code: "OPENCODE_TIMEOUT",
    truncated_code: "OPENCODE_OUTPUT_TRUNCATED",
};

/// `agent.config`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "OpenCode")]
struct Settings {
    /// What is asked: this or `prompt_file`.
    #[schemars(length(min = 1, max = 1_000_000))]
    prompt: Option<String>,
    /// A file with what is asked, beside the test case or in the repo.
    #[schemars(length(max = 500))]
    prompt_file: Option<String>,
    /// The model as `provider/name`; the maker of `claude-…`, `gpt-…` and `gemini-…` is known.
    model: Option<String>,
    /// The model's variant, such as `high`: how much it thinks.
    variant: Option<String>,
    /// More arguments for the CLI.
    args: Vec<String>,
    /// More environment for the CLI.
    env: BTreeMap<String, String>,
}

const INSTEAD: &[(&str, &str)] = &[
    (
        "agent_name",
        "use `args: [--agent, NAME]` with an agent that the repo defines",
    ),
    (
        "append_system_prompt",
        "put it in the repo's AGENTS.md, or in the prompt",
    ),
    (
        "max_turns",
        "set `agent.build.steps` in the repo's opencode.json, or use the test case's `timeout`",
    ),
    (
        "mcp_config",
        "put the servers under `mcp` in the repo's opencode.json",
    ),
    (
        "temperature",
        "set `agent.build.temperature` in the repo's opencode.json",
    ),
    (
        "allowed_tools",
        "set `permission` in the repo's opencode.json",
    ),
];

impl Adapter for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn summary(&self) -> &'static str {
        "OpenCode, with models of any maker"
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
        let settings: Settings = options::read(section, "opencode", INSTEAD, &[])?;
        let mut common = options::common(
            section,
            settings.prompt.as_deref(),
            settings.prompt_file.as_deref(),
            settings.model.as_deref(),
        )?;
        if let Some(model) = &common.model {
            let Some(qualified) = options::qualified(model, "google") else {
                let message = format!("opencode cannot tell who makes `{model}`");
                return Err(vec![options::model_fault(section, message).with_hint(
                    "write `provider/name`, such as `anthropic/claude-sonnet-4-5`",
                )]);
            };
            common.model = Some(qualified);
        }
        Ok(Box::new(Contender { common, settings }))
    }

    fn authentication(
        &self,
        env: &BTreeMap<String, String>,
        _check: Option<&AuthCheck>,
    ) -> Authentication {
        options::authentication(env, KEYS, Authentication::Unknown)
    }

    fn recorded_session(&self) -> Option<Box<dyn Session>> {
        Some(Box::new(OpenCodeSession::default()))
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

    fn env(&self) -> &BTreeMap<String, String> {
        &self.settings.env
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        let mut line = CommandLine::new(context, &["run", "--format", "json"], INVALID)?;
        // With a title it asks no model for one: a call that its own figures leave out.
        line.if_listed(&["--title", "proctor"]);
        line.if_listed(&["--auto"]);
        line.if_listed(&["--thinking"]);
        if let Some(model) = &self.common.model {
            line.listed("--model", model)?;
        }
        if let Some(variant) = &self.settings.variant {
            line.listed("--variant", variant)?;
        }
        line.argv.extend(self.settings.args.iter().cloned());
        let config = context.scratch.join("opencode.json");
        let json = configuration(self.common.model.as_deref(), context.endpoint)?;
        Ok(Launch {
            argv: line.argv,
            env: self.environment(context, config.as_str()),
            files: vec![
                (config, json.to_string().into_bytes()),
                // It installs a package of a hundred megabytes here that only plug-ins need.
                (
                    context.home.join(".config/opencode/.npmrc"),
                    b"offline=true\n".to_vec(),
                ),
            ],
            collect: Vec::new(),
            input: Input::Bytes(context.prompt.as_bytes().to_vec()),
            terminal: Terminal::Pipes,
            message_deadline: None,
            session: Box::new(OpenCodeSession::default()),
        })
    }
}

impl Contender {
    fn environment(&self, context: &LaunchContext<'_>, config: &str) -> BTreeMap<String, String> {
        let mut env = context.env.clone();
        let mut set = |name: &str, value: &str| {
            env.insert(name.to_owned(), value.to_owned());
        };
        for name in [
            "OPENCODE_DISABLE_AUTOUPDATE",
            "OPENCODE_DISABLE_MODELS_FETCH",
            "OPENCODE_DISABLE_LSP_DOWNLOAD",
            "OPENCODE_DISABLE_SHARE",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        ] {
            set(name, "1");
        }
        set("OPENCODE_CONFIG", config);
        if let Some(endpoint) = context.endpoint {
            set(ENDPOINT_KEY, &endpoint.key);
        }
        env.extend(self.settings.env.clone());
        env
    }
}

/// The config file: nothing is shared or updated, and models are where the endpoint is.
fn configuration(model: Option<&str>, endpoint: Option<&Endpoint>) -> Result<Value, LaunchError> {
    let mut config = json!({ "autoupdate": false, "share": "disabled" });
    let Some(endpoint) = endpoint else {
        return Ok(config);
    };
    let Some((provider, name)) = model.and_then(|model| model.split_once('/')) else {
        return Err(LaunchError {
            message: "opencode behind the gateway needs a `model`".to_owned(),
            hint: Some("name one, such as `anthropic/claude-sonnet-4-5`".to_owned()),
            code: INVALID,
        });
    };
    let path = if provider == "google" { "v1beta" } else { "v1" };
    config["provider"][provider] = json!({
        "options": {
            "baseURL": format!("{}/{path}", endpoint.base_url),
            "apiKey": format!("{{env:{ENDPOINT_KEY}}}"),
        },
        // A model that its table does not know is refused unless it stands here.
        "models": { name: {} },
    });
    if !matches!(provider, "anthropic" | "openai" | "google") {
        config["provider"][provider]["npm"] = json!("@ai-sdk/openai-compatible");
    }
    Ok(config)
}

/// Reads the events.
struct OpenCodeSession {
    transcript: Transcript,
    tokens: Tokens,
    has_answered: bool,
    empty_steps: u32,
}

impl Default for OpenCodeSession {
    fn default() -> OpenCodeSession {
        OpenCodeSession {
            transcript: Transcript::new(&NAMES),
            tokens: Tokens::default(),
            has_answered: false,
            empty_steps: 0,
        }
    }
}

impl Session for OpenCodeSession {
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

    fn finish(self: Box<Self>, ending: &Ending, _host: &mut dyn SessionHost) -> Conclusion {
        let mut usage = self.tokens.usage(UsageSource::Messages);
        if let Some(usage) = &mut usage {
            usage.lower_bound = self.transcript.end != End::Done;
        }
        self.transcript.conclude(usage, ending)
    }
}

impl OpenCodeSession {
    fn event(&mut self, event: &Value, host: &mut dyn SessionHost) {
        if let Some(millis) = event.get("timestamp").and_then(Value::as_i64) {
            self.transcript.time_ms(millis);
        }
        self.introduce(event, host);
        let part = event.get("part").unwrap_or(&Value::Null);
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
            // A model that its table has no price for costs 0 by its account.
            cost: tokens::dollars(part, "/cost").filter(|cost| cost.nanos() > 0),
        };
        let reason = text(part, "/reason").unwrap_or_default();
        if used.is_nothing() && reason == "unknown" {
            return self.empty_step(host);
        }
        self.empty_steps = 0;
        self.tokens = self.tokens.plus(used);
        *self.transcript.turns.get_or_insert_default() += 1;
        let (input_tokens, output_tokens) = self.tokens.so_far();
        host.event(SessionEvent::Progress {
            input_tokens,
            output_tokens,
        });
        self.transcript.end = match reason {
            "stop" if self.has_answered => End::Done,
            "length" => End::GaveUp {
                code: "OUTPUT_TOKENS",
                why: "stopped: an answer reached the model's output limit".to_owned(),
            },
            "content-filter" => End::Failed(ApiFault {
                status: Some(400),
                message: "the API's content filter refused to answer".to_owned(),
            }),
            _ => End::Open,
        };
    }

    /// A stream that broke off, or an answer that is no stream: it asks again at once, without
    /// an end, so it has to be ended.
    fn empty_step(&mut self, host: &mut dyn SessionHost) {
        self.empty_steps += 1;
        let fault = ApiFault::said("the connection broke off, or the answer was no event stream");
        self.transcript
            .retry("no answer from the API; asking again", host);
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
