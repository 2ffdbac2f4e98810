//! mini-swe-agent: the saved trajectory has its tool calls and the usage of each answer; standard
//! output has the same in readable form.

use proctor_record::{
    outcome::Ending,
    record::cli::{Cli, Registry},
    session::{Role, SessionEvent, SessionHost},
    usage::{Usage, UsageSource},
};
use serde_json::{Value, json};

use super::{
    cli::{
        Arg, CliAdapter, CliAgent, CliContestant, CommandPrompts, ModelName, Prompt, Start,
        TaskTools, cli,
    },
    fault::ApiFault,
    litellm,
    reader::{CliSession, Reader},
    setting::{Setting, SettingKind},
    tokens::{self, Tokens},
    transcript::{self, Failed, Transcript, text},
    verdict::End,
};
use crate::agent::{Agent, Launch, LaunchContext, LaunchError};

/// The maximum size of a trajectory in recorded output.
const MAX_TRAJECTORY: usize = 64 << 20;
const PACKAGE: Registry = Registry::PyPi {
    name: "mini-swe-agent",
    with: &["mcp"],
};
const CONFIG: &str = "{scratch}/mini.yaml";
const TRAJECTORY: &str = "{scratch}/trajectory.json";

pub(super) static MINI: CliAdapter = CliAdapter(&CliAgent {
    name: "mini-swe-agent",
    title: "mini-swe-agent",
    code: "MINI",
    summary: "mini-swe-agent: a model and a shell",
    provider: "various",
    cli: Cli {
        // It has no version option; its banner contains the version.
        version_args: &["--help"],
        login_hint: litellm::LOGIN_HINT,
        credential_env: litellm::CREDENTIAL_ENV,
        ..cli!(
            "MINI",
            "mini",
            PACKAGE,
            "install it with: pip install mini-swe-agent mcp"
        )
    },
    login: litellm::LOGIN,
    skills: None,
    task_tools: TaskTools::NONE,
    settings: &[
        Setting::new(
            "model",
            SettingKind::Text,
            "The model as `maker/name`; the provider of `claude-…`, `gpt-…` and `gemini-…` is optional.",
        )
        .required("anthropic/claude-sonnet-4-5"),
        Setting::new(
            "max_turns",
            SettingKind::Count,
            "The maximum number of model calls.",
        ),
        Setting::new(
            "cost_limit",
            SettingKind::Number(None),
            "The maximum cost in dollars, by its own price table. Default 3.",
        ),
        Setting::new(
            "temperature",
            SettingKind::Number(Some(2.0)),
            "Sampling temperature.",
        )
        .parameter(),
        Setting::new(
            "max_tokens",
            SettingKind::Count,
            "The maximum length of an answer, in tokens.",
        )
        .parameter(),
    ],
    instead: &[
        (
            "system_prompt",
            "use `args: [-c, agent.system_template=...]`",
        ),
        ("append_system_prompt", "add it to the prompt"),
        ("allowed_tools", "remove it: its only tool is the shell"),
    ],
    model: ModelName::LiteLlm,
    model_variable: Some("MSWEA_MODEL_NAME"),
    start: Start {
        args: &[
            Arg::Always(&["--yolo", "--exit-immediately", "-o", TRAJECTORY]),
            // Its own defaults first, then ours: with any config option the defaults are not loaded.
            Arg::Always(&["-c", "mini.yaml", "-c", CONFIG]),
        ],
        last_args: &[],
        env: &[
            ("MSWEA_CONFIGURED", "true"),
            ("MSWEA_SILENT_STARTUP", "1"),
            ("MSWEA_COST_TRACKING", "ignore_errors"),
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
        ],
        collect: &[TRAJECTORY],
        prompt: Prompt::Setup,
        commands: CommandPrompts::None,
        setup,
    },
    session: CliSession::<MiniReader>::start,
});

/// Configures the gateway, and writes a config file with the prompt and the settings.
fn setup(
    agent: &CliContestant,
    context: &LaunchContext<'_>,
    launch: &mut Launch,
) -> Result<(), LaunchError> {
    litellm::lead_to_gateway(agent, context, launch)?;
    let mut config = json!({
        "run": { "task": context.prompt },
        "model": { "model_name": agent.model },
    });
    for (key, name) in [("max_turns", "step_limit"), ("cost_limit", "cost_limit")] {
        if let Some(limit) = agent.values.get(key) {
            config["agent"][name] = limit.clone();
        }
    }
    for (name, value) in agent.parameters() {
        config["model"]["model_kwargs"][name] = value;
    }
    // JSON is valid YAML, without quoting problems.
    let file = context.scratch.join("mini.yaml");
    launch.files.push((file, config.to_string().into_bytes()));
    Ok(())
}

/// The format of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StdoutFormat {
    /// Readable text; the trajectory is in a file.
    Screen,
    /// The recorded trajectory itself.
    Trajectory,
}

/// Reads the trajectory.
#[derive(Default)]
struct MiniReader {
    /// Determined by the first line.
    form: Option<StdoutFormat>,
    transcript: Transcript,
    recorded: Vec<u8>,
    tokens: Tokens,
    answers: u64,
    usage: Option<Usage>,
}

impl Reader for MiniReader {
    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    fn line(&mut self, line: &[u8], host: &mut dyn SessionHost) {
        let form = *self.form.get_or_insert(match line.first() {
            Some(b'{') => StdoutFormat::Trajectory,
            _ => StdoutFormat::Screen,
        });
        if form == StdoutFormat::Screen {
            // The trajectory has all messages; this is for the live view.
            let line = String::from_utf8_lossy(line);
            if line.starts_with("mini-swe-agent (step") {
                host.event(SessionEvent::Note(line.trim_end_matches(':')));
            }
        } else if self.recorded.len() + line.len() < MAX_TRAJECTORY {
            self.recorded.extend_from_slice(line);
            self.recorded.push(b'\n');
        } else {
            self.transcript.counts.oversized_lines += 1;
        }
    }

    fn file(&mut self, bytes: &[u8], host: &mut dyn SessionHost) {
        match serde_json::from_slice::<Value>(bytes) {
            Ok(trajectory) => self.trajectory(&trajectory, host),
            Err(_) => self.transcript.counts.malformed_lines += 1,
        }
    }

    fn finish(&mut self, _ending: &Ending, host: &mut dyn SessionHost) -> Option<Usage> {
        if !self.recorded.is_empty() {
            let recorded = std::mem::take(&mut self.recorded);
            self.file(&recorded, host);
        }
        self.usage.take()
    }
}

impl MiniReader {
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
            // The trajectory omits answers without a tool call.
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
            self.tokens.report(host);
        }
    }
}

/// Reports the output of the shell. The final call is never run.
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

/// The meaning of its exit status. It also exits with 0 at its own limits.
fn end(status: &str, said: &str) -> End {
    match status {
        "Submitted" => End::Done,
        "LimitsExceeded" => End::gave_up("LIMIT", "reached its limit of steps or cost"),
        "TimeExceeded" => End::gave_up("LIMIT", "reached its limit of time"),
        "RepeatedFormatError" => {
            End::gave_up("NO_TOOL_CALL", "got repeated answers without a tool call")
        }
        "" => End::Open,
        status => End::Failed(ApiFault::said(format!("{status}: {said}"))),
    }
}

#[cfg(test)]
mod tests;
