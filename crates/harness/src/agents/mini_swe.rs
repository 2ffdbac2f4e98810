//! mini-swe-agent: what it did is in the trajectory that it saves, tool calls and usage of each
//! answer included; its standard output is the same for human eyes. The prompt goes into a
//! config file, because as an argument it may have 128 KiB only.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8Path;
use proctor_document::Fault;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    fault::ApiFault,
    litellm,
    options::{self, CommandLine, Common},
    tokens::{self, Tokens},
    transcript::{self, Failed, Transcript, text},
    verdict::{End, Names},
};
use crate::{
    agent::{
        Adapter, Agent, AgentSection, Authentication, Input, Launch, LaunchContext, LaunchError,
        PromptSource, Terminal,
    },
    outcome::Ending,
    record::cli::{AuthCheck, Cli, Registry},
    session::{Conclusion, Role, Session, SessionEvent, SessionHost, Source},
    usage::{Usage, UsageSource},
};

/// The adapter.
pub struct MiniSwe;

static NAMES: Names = Names {
    title: "mini-swe-agent",
    code: "MINI",
    login: "Set the key of the model's maker, such as ANTHROPIC_API_KEY",
};
const INVALID: &str = "MINI_INVALID_CONFIG";
/// The largest trajectory that is read from a recorded output.
const MAX_TRAJECTORY: usize = 64 << 20;

static CLI: Cli = Cli {
    program: "mini",
    package: Registry::PyPi {
        name: "mini-swe-agent",
        with: &["mcp"],
    },
    // It has no option for the version; its banner tells it.
    version_args: &["--help"],
    help_args: &["--help"],
    auth_args: &[],
    install_hint: "install it with: pip install mini-swe-agent mcp",
    login_hint: "set the key of the model's maker, such as ANTHROPIC_API_KEY",
    credential_env: litellm::CREDENTIAL_ENV,
    credential_files: &[],
    shared_caches: &[],
    probe_limit: Duration::from_mins(1),
    not_found_code: "MINI_CLI_NOT_FOUND",
    auth_code: "MINI_AUTH_FAILED",
    timeout_code: "MINI_TIMEOUT",
    truncated_code: "MINI_OUTPUT_TRUNCATED",
};

/// `agent.config`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "MiniSweAgent")]
struct Settings {
    /// What is asked: this or `prompt_file`.
    #[schemars(length(min = 1, max = 1_000_000))]
    prompt: Option<String>,
    /// A file with what is asked, beside the test case or in the repo.
    #[schemars(length(max = 500))]
    prompt_file: Option<String>,
    /// The model as `maker/name`; the maker of `claude-…`, `gpt-…` and `gemini-…` is known.
    model: Option<String>,
    /// The most calls to the model.
    #[schemars(range(min = 1))]
    max_turns: Option<u32>,
    /// The most dollars, by its own price table; its default is 3.
    #[schemars(range(min = 0.0))]
    cost_limit: Option<f64>,
    /// Sampling temperature.
    #[schemars(range(min = 0.0, max = 2.0))]
    temperature: Option<f64>,
    /// The longest answer, in tokens.
    #[schemars(range(min = 1))]
    max_tokens: Option<u32>,
    /// More arguments for the CLI.
    args: Vec<String>,
    /// More environment for the CLI.
    env: BTreeMap<String, String>,
}

const TAKEN: &[&str] = &["max_turns", "temperature", "max_tokens"];
const INSTEAD: &[(&str, &str)] = &[
    (
        "system_prompt",
        "use `args: [-c, agent.system_template=...]`",
    ),
    ("append_system_prompt", "put it in the prompt"),
    ("allowed_tools", "leave it out: its only tool is the shell"),
];

impl Adapter for MiniSwe {
    fn name(&self) -> &'static str {
        "mini-swe-agent"
    }

    fn summary(&self) -> &'static str {
        "mini-swe-agent: a model and a shell"
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
        let settings: Settings = options::read(section, "mini-swe-agent", INSTEAD, TAKEN)?;
        let mut common = options::common(
            section,
            settings.prompt.as_deref(),
            settings.prompt_file.as_deref(),
            settings.model.as_deref(),
        )?;
        let Some(model) = &common.model else {
            let fault = Fault::new(section.node.span, "mini-swe-agent needs a `model`");
            return Err(vec![
                fault.with_hint("name one, such as `anthropic/claude-sonnet-4-5`"),
            ]);
        };
        common.model = Some(litellm::model(model));
        let faults = out_of_range(&settings, section);
        if !faults.is_empty() {
            return Err(faults);
        }
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
        Some(Box::new(MiniSession::new(Form::Trajectory)))
    }
}

fn out_of_range(settings: &Settings, section: &AgentSection<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut check = |key: &str, is_good: bool, range: &str| {
        if !is_good {
            let message = format!("`{key}` is {range}");
            faults.push(section.config.fault(key, message));
        }
    };
    let temperature = settings.temperature;
    check(
        "temperature",
        temperature.is_none_or(|value| (0.0..=2.0).contains(&value)),
        "a number from 0 to 2",
    );
    check("max_turns", settings.max_turns != Some(0), "at least 1");
    check("max_tokens", settings.max_tokens != Some(0), "at least 1");
    check(
        "cost_limit",
        settings.cost_limit.is_none_or(|value| value >= 0.0),
        "at least 0",
    );
    faults
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

    fn parameters(&self) -> BTreeMap<String, Value> {
        let temperature = self.settings.temperature.map(|value| json!(value));
        let max_tokens = self.settings.max_tokens.map(|value| json!(value));
        [("temperature", temperature), ("max_tokens", max_tokens)]
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.settings.env
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        let config = context.scratch.join("mini.yaml");
        let trajectory = context.scratch.join("trajectory.json");
        let mut line = CommandLine::new(context, &["--yolo", "--exit-immediately"], INVALID)?;
        line.push(&["-o", trajectory.as_str()]);
        // Its own defaults first, then ours: naming any config leaves the defaults out.
        line.push(&["-c", "mini.yaml", "-c", config.as_str()]);
        line.argv.extend(self.settings.args.iter().cloned());
        let mut env = context.env.clone();
        for (name, value) in [
            ("MSWEA_CONFIGURED", "true"),
            ("MSWEA_SILENT_STARTUP", "1"),
            ("MSWEA_COST_TRACKING", "ignore_errors"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
        ] {
            env.insert(name.to_owned(), value.to_owned());
        }
        if let Some(endpoint) = context.endpoint {
            env.extend(litellm::endpoint_env(self.model(), endpoint, INVALID)?);
        }
        env.extend(self.settings.env.clone());
        Ok(Launch {
            argv: line.argv,
            env,
            // JSON is YAML, and quoting is no question in it.
            files: vec![(config, self.config(context.prompt).to_string().into_bytes())],
            collect: vec![trajectory],
            input: Input::Closed,
            terminal: Terminal::Pipes,
            message_deadline: None,
            session: Box::new(MiniSession::new(Form::Screen)),
        })
    }
}

impl Contender {
    fn config(&self, prompt: &str) -> Value {
        let mut config = json!({
            "run": { "task": prompt },
            "model": { "model_name": self.common.model },
        });
        let settings = &self.settings;
        if let Some(turns) = settings.max_turns {
            config["agent"]["step_limit"] = json!(turns);
        }
        if let Some(limit) = settings.cost_limit {
            config["agent"]["cost_limit"] = json!(limit);
        }
        for (name, value) in self.parameters() {
            config["model"]["model_kwargs"][name] = value;
        }
        config
    }
}

/// What the lines of standard output are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A conversation for human eyes; the trajectory comes as a file.
    Screen,
    /// The trajectory itself, recorded earlier.
    Trajectory,
}

/// Reads the trajectory.
struct MiniSession {
    form: Form,
    transcript: Transcript,
    recorded: Vec<u8>,
    tokens: Tokens,
    answers: u64,
    usage: Option<Usage>,
}

impl MiniSession {
    fn new(form: Form) -> MiniSession {
        MiniSession {
            form,
            transcript: Transcript::new(&NAMES),
            recorded: Vec::new(),
            tokens: Tokens::default(),
            answers: 0,
            usage: None,
        }
    }
}

impl Session for MiniSession {
    fn on_line(&mut self, source: Source, line: &[u8], host: &mut dyn SessionHost) {
        match (source, self.form) {
            (Source::Stderr, _) => self.transcript.stderr(line, host),
            (_, Form::Screen) => {
                // All that is said stands in the trajectory, too: this is for who watches.
                let line = String::from_utf8_lossy(line);
                if line.starts_with("mini-swe-agent (step") {
                    host.event(SessionEvent::Note(line.trim_end_matches(':')));
                }
            }
            (_, Form::Trajectory) if self.recorded.len() + line.len() < MAX_TRAJECTORY => {
                self.recorded.extend_from_slice(line);
                self.recorded.push(b'\n');
            }
            (_, Form::Trajectory) => self.transcript.counts.oversized_lines += 1,
        }
    }

    fn on_oversized_line(&mut self, _source: Source, _bytes: u64) {
        self.transcript.counts.oversized_lines += 1;
    }

    fn on_file(&mut self, _path: &Utf8Path, bytes: &[u8], host: &mut dyn SessionHost) {
        match serde_json::from_slice::<Value>(bytes) {
            Ok(trajectory) => self.trajectory(&trajectory, host),
            Err(_) => self.transcript.counts.malformed_lines += 1,
        }
    }

    fn finish(mut self: Box<Self>, ending: &Ending, host: &mut dyn SessionHost) -> Conclusion {
        if !self.recorded.is_empty() {
            let recorded = std::mem::take(&mut self.recorded);
            self.on_file(Utf8Path::new(""), &recorded, host);
        }
        self.transcript.conclude(self.usage, ending)
    }
}

impl MiniSession {
    fn trajectory(&mut self, trajectory: &Value, host: &mut dyn SessionHost) {
        let own = |pointer: &str| text(trajectory, pointer).map(str::to_owned);
        self.transcript.version = own("/info/mini_version");
        self.transcript.model = own("/info/config/model/model_name");
        self.transcript.turns = tokens::number(trajectory, "/info/model_stats/api_calls");
        self.transcript.started(host);
        let messages = trajectory.get("messages").and_then(Value::as_array);
        for message in messages.into_iter().flatten() {
            self.message(message, host);
        }
        let said = messages.and_then(|messages| messages.last());
        let said = said.and_then(|message| text(message, "/content"));
        let status = text(trajectory, "/info/exit_status").unwrap_or_default();
        self.transcript.end = end(status, said.unwrap_or_default());
        self.tokens.cost = tokens::dollars(trajectory, "/info/model_stats/instance_cost")
            .filter(|cost| cost.nanos() > 0);
        self.usage = self.tokens.usage(UsageSource::Sidecar);
        if let Some(usage) = &mut self.usage {
            // It leaves out answers without a tool call.
            let calls = self.transcript.turns.unwrap_or_default();
            usage.lower_bound = self.answers < calls || status.is_empty();
        }
    }

    fn message(&mut self, message: &Value, host: &mut dyn SessionHost) {
        if let Some(seconds) = message.pointer("/extra/timestamp").and_then(Value::as_f64) {
            #[expect(clippy::cast_possible_truncation, reason = "milliseconds are whole")]
            self.transcript.time_ms((seconds * 1000.0) as i64);
        }
        let content = text(message, "/content").unwrap_or_default();
        let time = self.transcript.times.last.clone();
        match text(message, "/role").unwrap_or_default() {
            "assistant" => self.answer(message, content, host),
            "tool" => tool_result(message, content, host),
            "system" => transcript::say(host, Role::System, content, time.as_deref()),
            "user" => transcript::say(host, Role::User, content, time.as_deref()),
            "exit" => {}
            _ => self.transcript.counts.unknown_events += 1,
        }
    }

    fn answer(&mut self, message: &Value, content: &str, host: &mut dyn SessionHost) {
        self.transcript.said(content, host);
        let calls = message.get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            let arguments = text(call, "/function/arguments").unwrap_or_default();
            let arguments = serde_json::from_str(arguments).unwrap_or(json!(arguments));
            let name = text(call, "/function/name").unwrap_or("bash");
            transcript::call(host, text(call, "/id"), name, &arguments, None);
        }
        if let Some(usage) = message.pointer("/extra/response/usage") {
            self.answers += 1;
            self.tokens = self.tokens.plus(litellm::tokens(usage));
            let (input_tokens, output_tokens) = self.tokens.so_far();
            host.event(SessionEvent::Progress {
                input_tokens,
                output_tokens,
            });
        }
    }
}

/// What the shell answered. The call that says that all is done is never run.
fn tool_result(message: &Value, content: &str, host: &mut dyn SessionHost) {
    let code = message.pointer("/extra/returncode").and_then(Value::as_i64);
    let why = text(message, "/extra/exception_info").unwrap_or_default();
    let failed = match code {
        Some(0) => Failed::No,
        _ if why == "action was not executed" => Failed::No,
        _ => Failed::Yes,
    };
    let output = text(message, "/extra/raw_output").unwrap_or(content);
    let output = if output.is_empty() { why } else { output };
    let id = text(message, "/tool_call_id").unwrap_or_default();
    transcript::answer(host, id, output, failed);
}

/// What its exit status stands for. It exits with 0 at its own limits, too.
fn end(status: &str, said: &str) -> End {
    let gave_up = |code, why: &str| End::GaveUp {
        code,
        why: why.to_owned(),
    };
    match status {
        "Submitted" => End::Done,
        "LimitsExceeded" => gave_up("LIMIT", "reached its limit of steps or cost"),
        "TimeExceeded" => gave_up("LIMIT", "reached its limit of time"),
        "RepeatedFormatError" => gave_up(
            "NO_TOOL_CALL",
            "got no tool call from the model, again and again",
        ),
        "" => End::Open,
        status => End::Failed(ApiFault::said(format!("{status}: {said}"))),
    }
}

#[cfg(test)]
mod tests;
