//! The command line and environment of Claude Code, fitted to the installed version.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8PathBuf;
use proctor_record::record::cli::Installed;

use super::{
    control::{Control, Policy},
    definitions,
    settings::{PermissionPolicy, PromptDelivery, Resolved, Transport},
    stream::{AfterResult, ClaudeSession, Form},
    verdict::NAMES,
};
use crate::{
    agent::{Input, Launch, LaunchContext, LaunchError, Terminal},
    command_line::CommandLine,
};

const BASE_URL: &str = "ANTHROPIC_BASE_URL";
/// Above this many characters old versions lost what came on standard input.
const LARGE_PROMPT: usize = 7_000;
/// The first version with `--sdk-url`.
const FIRST_SOCKET: [u32; 3] = [2, 0, 0];
/// The first version that was seen to refuse it for every host but Anthropic's own.
const SOCKET_CLOSED: [u32; 3] = [2, 1, 197];
/// The WebSocket side gives up on a CLI that says nothing for so long.
const MESSAGE_DEADLINE: Duration = Duration::from_mins(5);

pub(super) fn launch(
    config: &Resolved,
    context: &LaunchContext<'_>,
) -> Result<Launch, LaunchError> {
    let transport = transport(config, context);
    let mut command = CommandLine::new(context, NAMES)?;
    transport_flags(&mut command, transport, config, context)?;
    permission_flags(&mut command, transport, config)?;
    option_flags(&mut command, config)?;
    agent_flags(&mut command, config, context.definitions)?;
    command.argv.extend(config.settings.args.iter().cloned());
    let (prompt, files) = deliver(config, context)?;
    let is_control = matches!(transport, Transport::Control | Transport::Websocket);
    let form = if transport == Transport::Text {
        Form::Text
    } else {
        Form::StreamJson
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
        env: environment(config, context)?,
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
            Box::new(Control::new(session, prompt, policy(config)))
        } else {
            Box::new(session)
        },
        argv: command.argv,
    })
}

/// The transport that `auto` means here: pipes, unless we are root and the version refuses to
/// skip permissions for root (`IS_SANDBOX` is known since 2.0); then permissions are answered.
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

fn policy(config: &Resolved) -> Policy {
    match config.settings.permission_policy {
        // The CLI allows listed tools by itself; requests are therefore for tools that are not
        // listed.
        Some(PermissionPolicy::Deny | PermissionPolicy::AllowListed) => Policy::Deny,
        None if config.settings.allowed_tools.is_some() => Policy::Deny,
        Some(PermissionPolicy::AllowAll) | None => Policy::Allow,
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
            .ok_or_else(|| NAMES.invalid("no socket was opened"))?;
        let version = version(Some(line.cli));
        if version.is_some_and(|version| version < FIRST_SOCKET || version >= SOCKET_CLOSED) {
            let error =
                NAMES.invalid("this version of claude does not accept a WebSocket on this machine");
            return Err(error.with_hint("use `transport: control`, or install claude 2.1.30"));
        }
        // Hidden from the help, so it cannot be looked up there.
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
        // Without it the CLI denies instead of asking. Hidden from the help.
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
    if let Some(tools) = &config.settings.allowed_tools {
        // One argument: the option is variadic and would swallow what follows.
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
        // Hidden from the help.
        line.push(&["--max-turns", &turns.to_string()]);
    }
    if let Some(path) = &config.mcp_config {
        line.listed("--mcp-config", path.as_str())?;
        line.push(&["--strict-mcp-config"]);
    }
    Ok(())
}

/// A bare name after `--agents` is silently ignored by the CLI: it takes definitions there,
/// and the name after `--agent`.
fn agent_flags(
    line: &mut CommandLine<'_>,
    config: &Resolved,
    found: &BTreeMap<String, String>,
) -> Result<(), LaunchError> {
    let agents = definitions::collect(&config.settings.agents, found)?;
    if !config.settings.agents.is_empty() || config.agent_name.is_some() {
        let json = serde_json::to_string(&agents).expect("definitions are plain strings");
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

/// The prompt as it is sent, and files to write for it.
type Delivery = (String, Vec<(Utf8PathBuf, Vec<u8>)>);

/// The prompt as it is sent, and the file it lies in when it is sent by file.
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
    match slash_command(context.prompt) {
        None => Ok((context.prompt.to_owned(), Vec::new())),
        Some(command) => {
            let message = format!(
                "Claude Code would run the start of the prompt, `/{command}`, as a command and send nothing to the model"
            );
            Err(NAMES
                .invalid(message)
                .with_hint("let the prompt begin with another word"))
        }
    }
}

/// The command that the CLI takes a prompt for, in print mode and in the control protocol alike. A path
/// such as `/usr/bin/env` is not one, and `--disable-slash-commands` does not change it.
fn slash_command(prompt: &str) -> Option<&str> {
    let command = prompt
        .strip_prefix('/')?
        .split(char::is_whitespace)
        .next()?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.');
    (!command.is_empty() && command.chars().all(is_name)).then_some(command)
}

fn environment(
    config: &Resolved,
    context: &LaunchContext<'_>,
) -> Result<BTreeMap<String, String>, LaunchError> {
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
        // Root may skip permissions only in a sandbox; the workspace is the boundary here.
        set("IS_SANDBOX", "1");
    }
    if let Some(tokens) = config.settings.max_tokens {
        // The CLI has no --max-tokens.
        set("CLAUDE_CODE_MAX_OUTPUT_TOKENS", &tokens.to_string());
    }
    env.extend(config.settings.env.clone());
    if let Some(endpoint) = context.endpoint {
        if config.settings.env.contains_key(BASE_URL) {
            return Err(NAMES.bypass(BASE_URL));
        }
        env.insert(BASE_URL.to_owned(), endpoint.base_url.clone());
        env.insert("ANTHROPIC_API_KEY".to_owned(), endpoint.key.clone());
    }
    Ok(env)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_the_cli_would_run_as_a_command_is_recognized() {
        for (prompt, command) in [
            ("/clear everything", Some("clear")),
            ("/clear", Some("clear")),
            ("/my-plugin:review\nnow", Some("my-plugin:review")),
            ("/usr/bin/env is missing", None),
            ("/ is the root", None),
            ("/clear, then go on", None),
            (" /clear everything", None),
            ("Fix /clear", None),
        ] {
            assert_eq!(slash_command(prompt), command, "{prompt}");
        }
    }
}
