//! The command line and environment of Claude Code for the installed version.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8PathBuf;
use proctor_record::record::cli::Installed;

use super::{
    control::{ControlSession, PromptPolicy},
    definitions,
    settings::{PermissionPolicy, PromptDelivery, Resolved, Transport},
    stream::{AfterResult, ClaudeSession, StreamFormat},
    verdict::NAMES,
};
use crate::{
    AGENTIC_JUDGE, AGENTIC_JUDGE_NAME,
    agent::{Input, Launch, LaunchContext, LaunchError, Terminal, slash_command},
    bypass,
    command_line::CommandLine,
    mcp,
};

const BASE_URL: &str = "ANTHROPIC_BASE_URL";
/// The number of characters above which old versions lose standard input.
const LARGE_PROMPT: usize = 7_000;
/// The first version that was seen to ask for permission in the control protocol.
const FIRST_CONTROL: [u32; 3] = [1, 0, 60];
/// The first version with `--sdk-url`.
const FIRST_SOCKET: [u32; 3] = [2, 0, 0];
/// The first version that refuses it for all hosts except Anthropic's own.
const SOCKET_CLOSED: [u32; 3] = [2, 1, 197];
/// The first version that was seen to report that it tries a call again.
const FIRST_RETRY_EVENT: [u32; 3] = [2, 1, 80];
const MAX_RETRIES: &str = "CLAUDE_CODE_MAX_RETRIES";
/// How often a CLI that does not report it tries a failed call again: for a quarter of a minute instead of three.
const SILENT_RETRIES: &str = "5";
/// How long the WebSocket server waits for a message of the CLI.
const MESSAGE_DEADLINE: Duration = Duration::from_mins(5);

pub(super) fn launch(
    config: &Resolved,
    context: &LaunchContext<'_>,
) -> Result<Launch, LaunchError> {
    check(config, context.prompt, context.endpoint.is_some())?;
    let transport = transport(config, context);
    let mut command = CommandLine::new(context, NAMES)?;
    transport_flags(&mut command, transport, config, context)?;
    permission_flags(&mut command, transport, config)?;
    option_flags(&mut command, config)?;
    agent_flags(&mut command, config, context.definitions)?;
    command.argv.extend(config.settings.args.iter().cloned());
    let (prompt, mut files) = deliver(config, context)?;
    if let Some((path, file)) = mcp::task_file(context) {
        let args = ["--mcp-config", path.as_str(), "--strict-mcp-config"];
        command.argv.extend(args.map(str::to_owned));
        files.push((path, file));
    }
    let is_control = matches!(transport, Transport::Control | Transport::Websocket);
    let form = if transport == Transport::Text {
        StreamFormat::Text
    } else {
        StreamFormat::StreamJson
    };
    let after_result = if is_control {
        AfterResult::KeepOpen
    } else {
        AfterResult::EndSoon
    };
    let session = ClaudeSession::new(form, after_result);
    let deadline = config.settings.message_timeout;
    let deadline = deadline.map_or(MESSAGE_DEADLINE, Duration::from_millis);
    Ok(Launch {
        env: environment(config, context, transport),
        files,
        collect: Vec::new(),
        input: match transport {
            Transport::Control => Input::Session,
            Transport::Websocket => Input::Closed,
            _ => Input::Bytes(prompt.clone().into_bytes()),
        },
        terminal: if transport == Transport::Pty {
            Terminal::Pty
        } else {
            Terminal::Pipes
        },
        message_deadline: (transport == Transport::Websocket).then_some(deadline),
        session: if is_control {
            Box::new(ControlSession::new(session, prompt, policy(config)))
        } else {
            Box::new(session)
        },
        argv: command.argv,
    })
}

/// The transport of `auto`: pipes, unless the agent runs as root and the version refuses to skip
/// permissions for root (`IS_SANDBOX` exists since 2.0); then permission requests are answered.
pub(super) fn transport(config: &Resolved, context: &LaunchContext<'_>) -> Transport {
    match config.transport {
        Transport::Auto
            if context.is_root && skips_permissions(config) && is_before_2(context.cli) =>
        {
            Transport::Control
        }
        Transport::Auto => Transport::Print,
        chosen => chosen,
    }
}

fn is_before_2(cli: Option<&Installed>) -> bool {
    version(cli).is_some_and(|version| version < [2, 0, 0])
}

/// The first three numbers of the version.
fn version(cli: Option<&Installed>) -> Option<[u32; 3]> {
    let numbers = cli?.version.as_deref()?.split(['.', '-', '+']);
    let mut numbers = numbers.map_while(|number| number.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

fn skips_permissions(config: &Resolved) -> bool {
    config.settings.permission_mode.is_none() && config.settings.allowed_tools.is_none()
}

fn policy(config: &Resolved) -> PromptPolicy {
    match config.settings.permission_policy {
        // The CLI allows listed tools by itself; requests are therefore for tools that are not
        // listed.
        Some(PermissionPolicy::Deny | PermissionPolicy::AllowListed) => PromptPolicy::Deny,
        None if config.settings.allowed_tools.is_some() => PromptPolicy::Deny,
        Some(PermissionPolicy::AllowAll) | None => PromptPolicy::Allow,
    }
}

fn transport_flags(
    line: &mut CommandLine<'_>,
    transport: Transport,
    config: &Resolved,
    context: &LaunchContext<'_>,
) -> Result<(), LaunchError> {
    if transport == Transport::Websocket {
        let socket = context
            .socket
            .ok_or_else(|| NAMES.invalid("the socket is missing"))?;
        let version = version(Some(line.cli));
        if version.is_some_and(|version| version < FIRST_SOCKET || version >= SOCKET_CLOSED) {
            let error = NAMES
                .invalid("this version of claude does not support a WebSocket on this machine");
            return Err(error.with_hint("use `transport: control`, or install claude 2.1.30"));
        }
        // The option is not in the help, so it cannot be checked.
        line.push(&["--sdk-url", &format!("ws://{socket}")]);
    }
    line.push(&["-p"]);
    match transport {
        Transport::Text => line.push(&["--output-format", "text"]),
        // The CLI refuses stream-json without --verbose.
        _ => line.push(&["--output-format", "stream-json", "--verbose"]),
    }
    if matches!(transport, Transport::Control | Transport::Websocket) {
        line.push(&["--input-format", "stream-json"]);
    }
    if transport == Transport::Control {
        if version(Some(line.cli)).is_some_and(|version| version < FIRST_CONTROL) {
            let message = "this version of claude has no control protocol, and does not let root skip permissions";
            let hint = "install claude 2, run as another user with `transport: print`, or set `allowed_tools` with it";
            return Err(NAMES.invalid(message).with_hint(hint));
        }
        // Without it the CLI denies requests by itself. The option is not in the help.
        line.push(&["--permission-prompt-tool", "stdio"]);
    }
    if config.settings.include_partial_messages == Some(true) {
        line.push(&["--include-partial-messages"]);
    }
    Ok(())
}

fn permission_flags(
    line: &mut CommandLine<'_>,
    transport: Transport,
    config: &Resolved,
) -> Result<(), LaunchError> {
    let is_control = matches!(transport, Transport::Control | Transport::Websocket);
    if skips_permissions(config) && !is_control {
        line.push(&["--dangerously-skip-permissions"]);
    }
    if let Some(mode) = config.settings.permission_mode {
        let mode = mode.flag();
        if !line.cli.help.is_empty()
            && mode != "default"
            && !line.cli.help.contains(&format!("\"{mode}\""))
        {
            let message = format!("this version of claude has no permission mode `{mode}`");
            return Err(NAMES.invalid(message));
        }
        line.listed("--permission-mode", mode)?;
    }
    if let Some(tools) = &config.settings.tools {
        line.listed("--tools", &tools.join(","))?;
    }
    if let Some(tools) = &config.settings.allowed_tools {
        // One argument: the option is variadic and would consume the following words.
        line.listed("--allowedTools", &tools.join(","))?;
    }
    Ok(())
}

fn option_flags(line: &mut CommandLine<'_>, config: &Resolved) -> Result<(), LaunchError> {
    let settings = &config.settings;
    if let Some(model) = &config.model {
        line.listed("--model", model)?;
    }
    if let Some(text) = &settings.system_prompt {
        line.listed("--system-prompt", text)?;
    }
    if let Some(text) = &settings.append_system_prompt {
        line.listed("--append-system-prompt", text)?;
    }
    if let Some(turns) = settings.max_turns {
        // The option is not in the help.
        line.push(&["--max-turns", &turns.to_string()]);
    }
    if let Some(path) = &config.mcp_config {
        line.listed("--mcp-config", path.as_str())?;
        line.push(&["--strict-mcp-config"]);
    }
    Ok(())
}

/// Passes the definitions with `--agents` and the name with `--agent`. The CLI silently ignores a
/// name after `--agents`.
fn agent_flags(
    line: &mut CommandLine<'_>,
    config: &Resolved,
    found: &BTreeMap<String, String>,
) -> Result<(), LaunchError> {
    let mut found = found.clone();
    if config.agent_name.as_deref() == Some(AGENTIC_JUDGE_NAME) {
        let built_in = || AGENTIC_JUDGE.to_owned();
        found
            .entry(AGENTIC_JUDGE_NAME.to_owned())
            .or_insert_with(built_in);
    }
    let agents = definitions::collect(&config.settings.agents, &found)?;
    if !config.settings.agents.is_empty() || config.agent_name.is_some() {
        let json = serde_json::to_string(&agents).expect("definitions can be serialized");
        line.listed("--agents", &json)?;
    }
    let Some(name) = &config.agent_name else {
        return Ok(());
    };
    if !agents.contains_key(name) {
        return Err(definitions::unknown(name, &agents));
    }
    line.listed("--agent", name)
}

/// The text to send, and files to write for it.
type Delivery = (String, Vec<(Utf8PathBuf, Vec<u8>)>);

/// The text to send, and the file of a prompt that is sent by file.
fn deliver(config: &Resolved, context: &LaunchContext<'_>) -> Result<Delivery, LaunchError> {
    let by_file = match config.settings.prompt_delivery.unwrap_or_default() {
        PromptDelivery::Auto => is_before_2(context.cli),
        PromptDelivery::Stdin => false,
        PromptDelivery::File => true,
    };
    if by_file && context.prompt.chars().count() > LARGE_PROMPT {
        let file = context.scratch.join("prompt.md");
        let prompt =
            format!("Read the file {file} first: it holds your task. Then do what it says.");
        return Ok((prompt, vec![(file, context.prompt.as_bytes().to_vec())]));
    }
    check_prompt(context.prompt)?;
    Ok((context.prompt.to_owned(), Vec::new()))
}

/// Refuses input that no version can be launched with.
pub(super) fn check(config: &Resolved, prompt: &str, has_gateway: bool) -> Result<(), LaunchError> {
    let by_file = config.settings.prompt_delivery != Some(PromptDelivery::Stdin);
    if !(by_file && prompt.chars().count() > LARGE_PROMPT) {
        check_prompt(prompt)?;
    }
    if !has_gateway {
        return Ok(());
    }
    NAMES.check_bypass(&config.settings.env, &config.settings.args)?;
    match config.settings_file.as_deref().and_then(bypass::in_text) {
        None => Ok(()),
        Some(part) => Err(NAMES.bypass(&format!("`{part}` in the file of `--settings`"))),
    }
}

/// Refuses a prompt that the CLI would run as a command. `--disable-slash-commands` has no effect on this.
fn check_prompt(prompt: &str) -> Result<(), LaunchError> {
    let Some(command) = slash_command(prompt) else {
        return Ok(());
    };
    let message = format!(
        "Claude Code would run the prompt as the command `/{command}` and send nothing to the model"
    );
    let error = NAMES.invalid(message);
    Err(error.with_hint("start the prompt with another word"))
}

fn environment(
    config: &Resolved,
    context: &LaunchContext<'_>,
    transport: Transport,
) -> BTreeMap<String, String> {
    let mut env = context.env.clone();
    let mut set = |name: &str, value: &str| {
        env.insert(name.to_owned(), value.to_owned());
    };
    for name in [
        "DISABLE_TELEMETRY",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    ] {
        set(name, "1");
    }
    if !config.inherits_user() {
        set("CLAUDE_CONFIG_DIR", context.home.join(".claude").as_str());
    }
    if context.is_root {
        // Root can skip permissions only in a sandbox; here the workspace is the boundary.
        set("IS_SANDBOX", "1");
    }
    if let Some(tokens) = config.settings.max_tokens {
        // The CLI has no --max-tokens.
        set("CLAUDE_CODE_MAX_OUTPUT_TOKENS", &tokens.to_string());
    }
    // Refused credentials would use up the trial's time, and look like a timeout.
    let is_silent = version(context.cli).is_some_and(|version| version < FIRST_RETRY_EVENT);
    if transport == Transport::Text || is_silent {
        set(MAX_RETRIES, SILENT_RETRIES);
    }
    env.extend(config.settings.env.clone());
    if let Some(endpoint) = context.endpoint {
        env.insert(BASE_URL.to_owned(), endpoint.base_url.clone());
        env.insert("ANTHROPIC_API_KEY".to_owned(), endpoint.key.clone());
    }
    env
}
