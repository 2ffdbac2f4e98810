//! CLI agents with a one-shot mode, as a table. A row has the CLI's name, its settings and how it
//! is started; a `Reader` reads its output. Everything else is shared.

use std::collections::BTreeMap;

use camino::Utf8Path;
use proctor_document::Fault;
use proctor_record::{
    platform,
    record::cli::{AuthCheck, Cli},
    session::Session,
};
use serde_json::{Value, json};

use super::{
    command_line::{CommandLine, flag_value},
    mcp, model_name,
    setting::{self, Flag, Setting, Values},
    verdict::CliNames,
};
use crate::agent::{
    Adapter, Agent, AgentSection, Authentication, Input, Launch, LaunchContext, LaunchError,
    PromptSource, Terminal, resolve_prompt, slash_command,
};

/// A row of the table: one CLI.
pub struct CliAgent {
    /// The name in `agent.type`.
    pub(super) name: &'static str,
    /// The name in messages.
    pub(super) title: &'static str,
    /// The prefix of its codes in the log.
    pub(super) code: &'static str,
    pub(super) summary: &'static str,
    pub(super) provider: &'static str,
    pub(super) cli: Cli,
    pub(super) login: Login,
    /// The folder in the workspace where it looks for skills.
    pub(super) skills: Option<&'static str>,
    /// The tools of a task that it takes.
    pub(super) task_tools: TaskTools,
    pub(super) settings: &'static [Setting],
    /// Alternatives to options of other agents.
    pub(super) instead: &'static [(&'static str, &'static str)],
    pub(super) model: ModelName,
    /// The variable that names the model, for a CLI that has one.
    pub(super) model_variable: Option<&'static str>,
    pub(super) start: Start,
    pub(super) session: fn(CliNames) -> Box<dyn Session>,
}

/// The tools of a task that a CLI takes.
pub(super) struct TaskTools {
    /// The types of MCP servers that `setup` gives it.
    pub(super) mcp_types: &'static [&'static str],
    /// The folder of a user's own skills, below HOME.
    pub(super) skills: Option<&'static str>,
}

impl TaskTools {
    pub(super) const NONE: TaskTools = TaskTools {
        mcp_types: &[],
        skills: None,
    };
}

/// The variables with a key, any of which is enough.
pub(super) struct Login {
    pub(super) keys: &'static [&'static str],
    /// The state without any of them: the CLI may be logged in.
    pub(super) otherwise: Authentication,
}

/// The CLI's format of model names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelName {
    /// The provider's name.
    Plain,
    /// `maker/name`, with this name for Google. The maker must be known.
    Maker(&'static str),
    /// `maker/name`, or an alias such as `sonnet`.
    LiteLlm,
}

/// How the CLI is started. In `args`, `env` and `collect`, a leading `{home}/` or `{scratch}/` is
/// replaced by the trial's directory, and `{null}` by the null device.
pub(super) struct Start {
    pub(super) args: &'static [Arg],
    /// Words after the user's own arguments.
    pub(super) last_args: &'static [&'static str],
    pub(super) env: &'static [(&'static str, &'static str)],
    /// Files that its reader reads after the end.
    pub(super) collect: &'static [&'static str],
    pub(super) prompt: Prompt,
    /// Prompts that the CLI runs as commands.
    pub(super) commands: CommandPrompts,
    /// Adds files and variables that depend on settings and on the gateway.
    pub(super) setup:
        fn(&CliContestant, &LaunchContext<'_>, &mut Launch) -> Result<(), LaunchError>,
}

/// Prompts that a CLI runs as commands instead of sending them to the model.
#[derive(Clone, Copy)]
pub(super) enum CommandPrompts {
    /// None.
    None,
    /// Those that start with `/word`, if the repository defines that command.
    Words,
    /// Those that start with one of these characters.
    StartingWith(&'static [char]),
}

/// Arguments before those of settings.
#[derive(Clone, Copy)]
pub(super) enum Arg {
    /// Words that every version accepts.
    Always(&'static [&'static str]),
    /// A flag that is omitted if the version does not list it.
    IfListed(&'static [&'static str]),
    /// A flag that the adapter requires.
    Listed(&'static str, &'static str),
}

/// How the prompt is passed to the CLI. An argument is limited to 128 KiB.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prompt {
    /// On standard input.
    Stdin,
    /// In the file `{scratch}/prompt.md`; standard input is closed.
    File,
    /// By `setup`; standard input is closed by default.
    Setup,
}

/// The adapter of one row.
pub struct CliAdapter(pub(super) &'static CliAgent);

impl CliAdapter {
    pub(super) fn names(&self) -> CliNames {
        let CliAgent {
            title, code, cli, ..
        } = self.0;
        CliNames {
            title,
            code,
            login: cli.login_hint,
        }
    }
}

impl Adapter for CliAdapter {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn summary(&self) -> &'static str {
        self.0.summary
    }

    fn cli(&self) -> Option<&'static Cli> {
        Some(&self.0.cli)
    }

    fn provider(&self) -> &'static str {
        self.0.provider
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let schema = setting::schema(self.0.settings);
        if generator.settings().inline_subschemas {
            return schema;
        }
        let name = self.0.name.to_owned();
        let reference = schemars::Schema::new_ref(format!("#/$defs/{name}"));
        generator.definitions_mut().insert(name, schema.into());
        reference
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let CliAgent {
            title,
            settings,
            instead,
            ..
        } = *self.0;
        let refused = setting::refused(settings, instead, title, section);
        if !refused.is_empty() {
            return Err(refused);
        }
        let mut values = setting::read(settings, section)?;
        let mut faults = setting::missing(settings, &values, title, section);
        let (text, file) = (values.text("prompt"), values.text("prompt_file"));
        let prompt = resolve_prompt(text, file, section).map_err(|fault| faults.insert(0, fault));
        let model = self.0.model.resolve(title, values.text("model"), section);
        let model = model.map_err(|fault| faults.push(fault));
        let file = values.text("mcp_config").map(Utf8Path::new);
        let require = values.get("require_mcp").and_then(Value::as_bool);
        let required = mcp::required(section, file, require);
        let required_mcp_servers = required.unwrap_or_else(|fault| {
            faults.push(fault);
            Vec::new()
        });
        match (prompt, model) {
            (Ok(prompt), Ok(model)) if faults.is_empty() => {
                if let Some(model) = &model {
                    values.set("model", json!(model));
                }
                Ok(Box::new(CliContestant {
                    agent: self.0,
                    names: self.names(),
                    prompt,
                    model,
                    args: values.take("args"),
                    env: values.take("env"),
                    required_mcp_servers,
                    values,
                }))
            }
            _ => Err(faults),
        }
    }

    fn authentication(
        &self,
        env: &BTreeMap<String, String>,
        _check: Option<&AuthCheck>,
    ) -> Authentication {
        let Login { keys, otherwise } = &self.0.login;
        let found = key_in(env, keys).map(|name| Authentication::Found(name.to_owned()));
        found.unwrap_or_else(|| otherwise.clone())
    }

    fn skills_folder(&self) -> Option<&'static str> {
        self.0.skills
    }

    fn mcp_types(&self) -> &'static [&'static str] {
        self.0.task_tools.mcp_types
    }

    fn home_skills_folder(&self) -> Option<&'static str> {
        self.0.task_tools.skills
    }

    fn recorded_session(&self) -> Option<Box<dyn Session>> {
        Some((self.0.session)(self.names()))
    }
}

impl ModelName {
    /// The model in the CLI's format.
    fn resolve(
        self,
        title: &str,
        model: Option<&str>,
        section: &AgentSection<'_>,
    ) -> Result<Option<String>, Fault> {
        let Some(model) = model else {
            return Ok(None);
        };
        let fault = |message: String| {
            let inner = section.config.get("model").is_some();
            let node = if inner { section.config } else { section.node };
            Err(node.fault("model", message))
        };
        if model.is_empty() || model.starts_with('-') || model.contains(char::is_whitespace) {
            return fault(format!("invalid model name `{model}`"));
        }
        let named = match self {
            ModelName::Plain => Some(model.to_owned()),
            ModelName::Maker(google) => model_name::with_maker(model, google),
            ModelName::LiteLlm => Some(model_name::litellm(model)),
        };
        if named.is_some() {
            return Ok(named);
        }
        let hint = "write `provider/name`, such as `anthropic/claude-sonnet-4-5`";
        fault(format!("{title} cannot determine the maker of `{model}`"))
            .map_err(|fault: Fault| fault.with_hint(hint))
    }
}

/// The first of these variables that has a value.
pub(super) fn key_in<'a>(env: &BTreeMap<String, String>, names: &[&'a str]) -> Option<&'a str> {
    let has = |name: &&&str| env.get(**name).is_some_and(|value| !value.is_empty());
    names.iter().find(has).copied()
}

/// A configured CLI agent.
pub(super) struct CliContestant {
    agent: &'static CliAgent,
    pub(super) names: CliNames,
    prompt: PromptSource,
    pub(super) model: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    required_mcp_servers: Vec<String>,
    pub(super) values: Values,
}

impl Agent for CliContestant {
    fn prompt(&self) -> Option<&PromptSource> {
        Some(&self.prompt)
    }

    fn model(&self) -> Option<&str> {
        let by_flag = ["--model", "-m"]
            .into_iter()
            .find_map(|flag| flag_value(&self.args, flag));
        // As `-c model=NAME` of Codex.
        let mut args = self.args.iter();
        let by_override = args.find_map(|arg| arg.strip_prefix("model="));
        let by_override = by_override.map(|name| name.trim_matches('"'));
        let variable = self.agent.model_variable;
        let by_variable = variable.and_then(|name| self.env.get(name));
        let by_variable = by_variable.map(String::as_str);
        let model = self.model.as_deref();
        model.or(by_flag).or(by_override).or(by_variable)
    }

    fn wire_model(&self) -> Option<&str> {
        // An alias such as `sonnet` or `4o` has neither maker nor version.
        let is_alias =
            |model: &str| !model.contains('/') && (model.len() <= 8 || !model.contains('-'));
        self.model()
            .filter(|model| self.agent.model != ModelName::LiteLlm || !is_alias(model))
    }

    fn required_mcp_servers(&self) -> &[String] {
        &self.required_mcp_servers
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        let parameters = self.agent.settings.iter().filter(|row| row.is_parameter);
        parameters
            .filter_map(|row| Some((row.key.to_owned(), self.values.get(row.key)?.clone())))
            .collect()
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    fn custom_agent(&self) -> Option<&str> {
        let row = self
            .agent
            .settings
            .iter()
            .find(|row| row.definitions.is_some())?;
        self.values.text(row.key)
    }

    fn definitions_folder(&self) -> Option<&'static str> {
        self.custom_agent()?;
        self.agent.settings.iter().find_map(|row| row.definitions)
    }

    fn check(&self, prompt: &str, has_gateway: bool) -> Result<(), LaunchError> {
        self.check_prompt(prompt)?;
        if has_gateway {
            self.names.check_bypass(&self.env, &self.args)?;
        }
        Ok(())
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        let Start {
            env,
            collect,
            prompt,
            setup,
            ..
        } = &self.agent.start;
        self.check(context.prompt, context.endpoint.is_some())?;
        let asked = context.prompt.as_bytes().to_vec();
        let (input, files) = match prompt {
            Prompt::Stdin => (Input::Bytes(asked), Vec::new()),
            Prompt::File => {
                let file = context.scratch.join("prompt.md");
                (Input::Closed, vec![(file, asked)])
            }
            Prompt::Setup => (Input::Closed, Vec::new()),
        };
        let own = env.iter();
        let own = own.map(|(name, value)| ((*name).to_owned(), filled(value, context)));
        let mut launch = Launch {
            argv: self.argv(context)?,
            env: context.env.clone().into_iter().chain(own).collect(),
            files,
            collect: collect
                .iter()
                .map(|path| filled(path, context).into())
                .collect(),
            input,
            terminal: Terminal::Pipes,
            message_deadline: None,
            session: (self.agent.session)(self.names),
        };
        launch.env.extend(self.env.clone());
        setup(self, context, &mut launch)?;
        Ok(launch)
    }
}

impl CliContestant {
    fn argv(&self, context: &LaunchContext<'_>) -> Result<Vec<String>, LaunchError> {
        let mut line = CommandLine::new(context, self.names)?;
        let words = |words: &[&str]| -> Vec<String> {
            words.iter().map(|word| filled(word, context)).collect()
        };
        for arg in self.agent.start.args {
            match arg {
                Arg::Always(flags) => line.push(&words(flags)),
                Arg::IfListed(flags) => line.if_listed(&words(flags)),
                Arg::Listed(flag, value) => line.listed(flag, value)?,
            }
        }
        for row in self.agent.settings {
            let (Some(flag), Some(value)) = (row.flag, self.values.get(row.key)) else {
                continue;
            };
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            match flag {
                Flag::Value(flag) => line.listed(flag, &text)?,
                Flag::AtFile(flag) => line.listed(flag, &format!("@{text}"))?,
                Flag::List(flag) => {
                    let words = value.as_array().into_iter().flatten();
                    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
                    line.listed(flag, &words.join(","))?;
                    // The option takes any number of words, and would take those that follow.
                    if let Some(words) = line.argv.pop()
                        && let Some(flag) = line.argv.last_mut()
                    {
                        *flag = format!("{flag}={words}");
                    }
                }
                Flag::WhenFalse(flag) if value == false => line.if_listed(&[flag]),
                Flag::WhenFalse(_) => {}
            }
        }
        line.argv.extend(self.args.iter().cloned());
        line.push(&words(self.agent.start.last_args));
        Ok(line.argv)
    }

    /// Refuse a prompt that the CLI would run as a command.
    fn check_prompt(&self, prompt: &str) -> Result<(), LaunchError> {
        let title = self.agent.title;
        let command = match self.agent.start.commands {
            CommandPrompts::None => None,
            CommandPrompts::Words => slash_command(prompt).map(|word| format!("/{word}")),
            CommandPrompts::StartingWith(any) => {
                let first = prompt.chars().next().filter(|first| any.contains(first));
                first.map(String::from)
            }
        };
        let Some(start) = command else {
            return Ok(());
        };
        let message = format!("{title} would run a prompt that starts with `{start}` as a command");
        let error = self.names.invalid(message);
        Err(error.with_hint("start the prompt with another word"))
    }
}

/// The text with the trial's directories.
fn filled(text: &str, context: &LaunchContext<'_>) -> String {
    let folders = [("{home}/", context.home), ("{scratch}/", context.scratch)];
    let in_folder = folders
        .iter()
        .find_map(|(name, folder)| Some(folder.join(text.strip_prefix(name)?).into_string()));
    match in_folder {
        Some(path) => path,
        None if text == "{null}" => platform::null_device(context.workspace).to_owned(),
        None => text.to_owned(),
    }
}

/// The default description of a CLI, for struct update: codes with the prefix `$code`, a package,
/// and an installation hint.
macro_rules! cli {
    ($code:literal, $program:literal, npm $package:literal) => {
        cli!(
            $code,
            $program,
            proctor_record::record::cli::Registry::Npm($package),
            concat!("install it with: npm install -g ", $package)
        )
    };
    ($code:literal, $program:literal, $package:expr, $install:expr) => {
        proctor_record::record::cli::Cli {
            program: $program,
            package: $package,
            version_args: &["--version"],
            help_args: &["--help"],
            auth_args: &[],
            install_hint: $install,
            login_hint: "",
            credential_env: &[],
            credential_files: &[],
            shared_caches: &[],
            // Several take seconds to load, and longer on a busy machine.
            probe_limit: std::time::Duration::from_mins(1),
            not_found_code: concat!($code, "_CLI_NOT_FOUND"),
            auth_code: concat!($code, "_AUTH_FAILED"),
            timeout_code: concat!($code, "_TIMEOUT"),
            truncated_code: concat!($code, "_OUTPUT_TRUNCATED"),
        }
    };
}
pub(super) use cli;
