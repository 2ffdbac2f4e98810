//! The command line and environment of Claude Code, fitted to the installed version.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8PathBuf;
use proctor_record::record::cli::Installed;

use super::{
    control::{Control, Policy},
    definitions,
    settings::{PermissionPolicy, PromptDelivery, Resolved, Transport},
    stream::{AfterResult, ClaudeSession, Form},
};
use crate::agent::{Input, Launch, LaunchContext, LaunchError, Terminal};

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
    let cli = context
        .cli
        .ok_or_else(|| invalid("the claude program was not found", None))?;
    let transport = transport(config, context);
    let mut command = CommandLine {
        cli,
        argv: vec![cli.path.to_string()],
    };
    command.transport(transport, config, context)?;
    command.permissions(transport, config)?;
    command.options(config)?;
    command.agent(config, context.definitions)?;
    command.argv.extend(config.settings.args.iter().cloned());
    let (prompt, files) = deliver(config, context, cli);
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
        env: environment(config, context),
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
        // What is on the list the CLI allows by itself; what it still asks about is not on it.
        Some(PermissionPolicy::Deny | PermissionPolicy::AllowListed) => Policy::Deny,
        None if config.settings.allowed_tools.is_some() => Policy::Deny,
        Some(PermissionPolicy::AllowAll) | None => Policy::Allow,
    }
}

struct CommandLine<'a> {
    cli: &'a Installed,
    argv: Vec<String>,
}

impl CommandLine<'_> {
    fn push(&mut self, words: &[&str]) {
        self.argv
            .extend(words.iter().map(|word| (*word).to_owned()));
    }

    /// Add a flag that the help of this version lists, or say that it does not.
    fn listed(&mut self, flag: &str, value: &str) -> Result<(), LaunchError> {
        if !self.cli.help.is_empty() && !self.cli.has_flag(flag) {
            let version = self.cli.version.as_deref().unwrap_or("this version");
            return Err(invalid(
                &format!("claude {version} has no option {flag}"),
                Some("install a newer version: npm install -g @anthropic-ai/claude-code"),
            ));
        }
        self.push(&[flag, value]);
        Ok(())
    }

    fn transport(
        &mut self,
        transport: Transport,
        config: &Resolved,
        context: &LaunchContext<'_>,
    ) -> Result<(), LaunchError> {
        if transport == Transport::Websocket {
            let socket = context
                .socket
                .ok_or_else(|| invalid("no socket was opened", None))?;
            let version = version(Some(self.cli));
            if version.is_some_and(|version| version < FIRST_SOCKET || version >= SOCKET_CLOSED) {
                return Err(invalid(
                    "this version of claude does not take a WebSocket on this machine",
                    Some("use `transport: control`, or install claude 2.1.30"),
                ));
            }
            // Hidden from the help, so it cannot be looked up there.
            self.push(&["--sdk-url", &format!("ws://{socket}")]);
        }
        self.push(&["-p"]);
        match transport {
            Transport::Text => self.push(&["--output-format", "text"]),
            // The CLI refuses stream-json without --verbose.
            _ => self.push(&["--output-format", "stream-json", "--verbose"]),
        }
        if matches!(transport, Transport::Control | Transport::Websocket) {
            self.push(&["--input-format", "stream-json"]);
        }
        if transport == Transport::Control {
            // Without it the CLI denies instead of asking. Hidden from the help.
            self.push(&["--permission-prompt-tool", "stdio"]);
        }
        if config.settings.include_partial_messages == Some(true) {
            self.push(&["--include-partial-messages"]);
        }
        Ok(())
    }

    fn permissions(&mut self, transport: Transport, config: &Resolved) -> Result<(), LaunchError> {
        let is_control = matches!(transport, Transport::Control | Transport::Websocket);
        if skips_permissions(config) && !is_control {
            self.push(&["--dangerously-skip-permissions"]);
        }
        if let Some(mode) = config.settings.permission_mode {
            let mode = mode.flag();
            if !self.cli.help.is_empty()
                && mode != "default"
                && !self.cli.help.contains(&format!("\"{mode}\""))
            {
                return Err(invalid(
                    &format!("this version of claude has no permission mode `{mode}`"),
                    None,
                ));
            }
            self.listed("--permission-mode", mode)?;
        }
        if let Some(tools) = &config.settings.allowed_tools {
            // One argument: the option is variadic and would swallow what follows.
            self.listed("--allowedTools", &tools.join(","))?;
        }
        Ok(())
    }

    fn options(&mut self, config: &Resolved) -> Result<(), LaunchError> {
        let settings = &config.settings;
        if let Some(model) = &config.model {
            self.listed("--model", model)?;
        }
        if let Some(text) = &settings.system_prompt {
            self.listed("--system-prompt", text)?;
        }
        if let Some(text) = &settings.append_system_prompt {
            self.listed("--append-system-prompt", text)?;
        }
        if let Some(turns) = settings.max_turns {
            // Hidden from the help.
            self.push(&["--max-turns", &turns.to_string()]);
        }
        if let Some(path) = &config.mcp_config {
            self.listed("--mcp-config", path.as_str())?;
            self.push(&["--strict-mcp-config"]);
        }
        Ok(())
    }

    /// A bare name after `--agents` is silently ignored by the CLI: it takes definitions there,
    /// and the name after `--agent`.
    fn agent(
        &mut self,
        config: &Resolved,
        found: &BTreeMap<String, String>,
    ) -> Result<(), LaunchError> {
        let agents = definitions::collect(&config.settings.agents, found)?;
        if !config.settings.agents.is_empty() || config.agent_name.is_some() {
            let json = serde_json::to_string(&agents).expect("definitions are plain strings");
            self.listed("--agents", &json)?;
        }
        let Some(name) = &config.agent_name else {
            return Ok(());
        };
        if !agents.contains_key(name) {
            return Err(definitions::unknown(name, &agents));
        }
        self.listed("--agent", name)
    }
}

/// The prompt as it is sent, and the file it lies in when it is sent by file.
fn deliver(
    config: &Resolved,
    context: &LaunchContext<'_>,
    cli: &Installed,
) -> (String, Vec<(Utf8PathBuf, Vec<u8>)>) {
    let by_file = match config.settings.prompt_delivery.unwrap_or_default() {
        PromptDelivery::Auto => is_before_2(Some(cli)),
        PromptDelivery::Stdin => false,
        PromptDelivery::File => true,
    };
    if !by_file || context.prompt.chars().count() <= LARGE_PROMPT {
        return (context.prompt.to_owned(), Vec::new());
    }
    let file = context.scratch.join("prompt.md");
    let prompt = format!("Read the file {file} first: it holds your task. Then do what it says.");
    (prompt, vec![(file, context.prompt.as_bytes().to_vec())])
}

fn environment(config: &Resolved, context: &LaunchContext<'_>) -> BTreeMap<String, String> {
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
    if !super::inherits_user(config) {
        set("CLAUDE_CONFIG_DIR", context.home.join(".claude").as_str());
    }
    if context.is_root {
        // Root may skip permissions only in a sandbox; the workspace is the boundary here.
        set("IS_SANDBOX", "1");
    }
    if let Some(endpoint) = context.endpoint {
        set("ANTHROPIC_BASE_URL", &endpoint.base_url);
        set("ANTHROPIC_API_KEY", &endpoint.key);
    }
    if let Some(tokens) = config.settings.max_tokens {
        // The CLI has no --max-tokens.
        set("CLAUDE_CODE_MAX_OUTPUT_TOKENS", &tokens.to_string());
    }
    env.extend(config.settings.env.clone());
    env
}

pub(super) fn invalid(message: &str, hint: Option<&str>) -> LaunchError {
    LaunchError {
        message: message.to_owned(),
        hint: hint.map(str::to_owned),
        code: "CLAUDE_INVALID_CONFIG".to_owned(),
    }
}
