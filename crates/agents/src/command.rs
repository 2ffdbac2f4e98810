//! The `command` agent: any program as an agent, without code. The prompt is on standard input, in
//! a file or an argument. The output is text, JSON lines, or the format of another agent; the usage
//! is read from the output or a file.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_record::{platform, session::Session};
use schemars::JsonSchema;
use serde::Deserialize;

use self::{
    output::{CommandSession, OutputKind},
    usage::{UsagePaths, UsageReader},
};
use super::{plain::PlainSession, verdict::CliNames};
use crate::agent::{
    Adapter, Agent, AgentSection, Input, Launch, LaunchContext, LaunchError, PromptSource,
    Terminal, resolve_prompt,
};
use proctor_document::Fault;

mod output;
#[cfg(test)]
mod tests;
mod usage;

/// The kernel's limit on the length of an argument, including the terminator.
const MAX_ARGUMENT: usize = 128 << 10;
const PLACEHOLDERS: &[&str] = &[
    "prompt",
    "prompt_file",
    "model",
    "workspace",
    "home",
    "scratch",
];

/// How messages and codes name the program.
const NAMES: CliNames = CliNames {
    title: "the program",
    code: "COMMAND",
    login: "",
};

pub struct Command;

/// `agent.config`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Command")]
struct CommandSettings {
    /// The prompt: this or `prompt_file`.
    prompt: Option<String>,
    /// A file with the prompt.
    prompt_file: Option<String>,
    /// The program and its arguments. A program with a slash in its name is relative to the test
    /// case, and so is an argument such as `./agent.sh` that is a file there: containers get a copy
    /// of it. The placeholders `{prompt}`, `{prompt_file}`, `{model}`, `{workspace}`, `{home}` and
    /// `{scratch}` are replaced.
    #[schemars(length(min = 1))]
    command: Vec<String>,
    /// How the prompt is passed. Default `stdin`.
    prompt_by: Option<PromptBy>,
    /// The output format. Default `text`.
    output: Option<OutputKind>,
    /// With `output: ndjson`: the path of the model's text in a line, such as `message.content`.
    message: Option<String>,
    /// Where the program reports its usage.
    usage: Option<UsagePaths>,
    /// Additional environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// How the prompt is passed to the program. It is always in the file of `PROCTOR_PROMPT_FILE`, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PromptBy {
    /// On standard input.
    #[default]
    Stdin,
    /// In a file; standard input is closed.
    File,
    /// As the argument that contains `{prompt}`, up to 128 KiB; standard input is closed.
    Argument,
}

impl Adapter for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn summary(&self) -> &'static str {
        "any program, with the prompt on its standard input"
    }

    fn schema(&self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<CommandSettings>()
    }

    fn configure(&self, section: &AgentSection<'_>) -> Result<Box<dyn Agent>, Vec<Fault>> {
        let mut settings: CommandSettings = section.config.read().map_err(|fault| vec![fault])?;
        let mut faults = check(&settings, section);
        let prompt = resolve_prompt(
            settings.prompt.as_deref(),
            settings.prompt_file.as_deref(),
            section,
        )
        .map_err(|fault| faults.push(fault));
        let prompt = match prompt {
            Ok(prompt) if faults.is_empty() => prompt,
            _ => return Err(faults),
        };
        let script =
            CommandScript::find(&settings.command, section).map_err(|fault| vec![fault])?;
        if let Some(script) = &script {
            settings.command[script.word] = script.path.to_string();
        }
        Ok(Box::new(CommandAgent {
            prompt,
            model: section.model.map(str::to_owned),
            settings,
            script,
        }))
    }
}

/// A file next to the test case that the command runs.
struct CommandScript {
    /// The index of its word in the command.
    word: usize,
    path: Utf8PathBuf,
}

impl CommandScript {
    /// The program if it is a relative path, or the script argument of an interpreter.
    fn find(
        command: &[String],
        section: &AgentSection<'_>,
    ) -> Result<Option<CommandScript>, Fault> {
        let is_relative = |word: &str| {
            word.contains('/') && !word.contains('{') && !Utf8Path::new(word).is_absolute()
        };
        let program = command.first().map(String::as_str).unwrap_or_default();
        if is_relative(program) {
            let path = section.folder.join(program);
            check_program(&path, section)?;
            return Ok(Some(CommandScript { word: 0, path }));
        }
        let starts_here = |word: &str| word.starts_with("./") || word.starts_with("../");
        let found = command.iter().enumerate().skip(1).find_map(|(word, text)| {
            let path = section.folder.join(text);
            (starts_here(text) && path.is_file()).then_some(CommandScript { word, path })
        });
        Ok(found)
    }
}

/// Checks the program before any trial starts.
fn check_program(path: &Utf8Path, section: &AgentSection<'_>) -> Result<(), Fault> {
    let fault = |message: String| section.config.fault("command", message);
    if !path.is_file() {
        let hint = "a path with a slash is relative to the file that names it";
        return Err(fault(format!("program not found: {path}")).with_hint(hint));
    }
    if !platform::is_executable(path.as_std_path()) {
        let hint = format!("make it executable: chmod +x {path}");
        return Err(fault(format!("{path} is not executable")).with_hint(hint));
    }
    Ok(())
}

/// All faults of the settings other than the prompt.
fn check(settings: &CommandSettings, section: &AgentSection<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let config = section.config;
    if settings.command.first().is_none_or(String::is_empty) {
        faults.push(config.fault("command", "`command` has no program"));
    }
    let by = settings.prompt_by.unwrap_or_default();
    match (by, uses(&settings.command, "prompt")) {
        (PromptBy::Argument, false) => faults.push(
            config
                .fault("prompt_by", "no argument contains the prompt")
                .with_hint("add `{prompt}` to `command`"),
        ),
        (PromptBy::Stdin | PromptBy::File, true) => faults.push(
            config
                .fault("command", "`{prompt}` requires `prompt_by: argument`")
                .with_hint("add `prompt_by: argument`, or use `{prompt_file}`"),
        ),
        _ => {}
    }
    if let Some(word) = settings.command.iter().find_map(|word| unknown(word)) {
        let known: Vec<_> = PLACEHOLDERS
            .iter()
            .map(|name| format!("`{{{name}}}`"))
            .collect();
        let message = format!("unknown placeholder `{{{word}}}`");
        let hint = format!("known: {}", known.join(", "));
        faults.push(config.fault("command", message).with_hint(hint));
    }
    match (section.model, uses(&settings.command, "model")) {
        (Some(_), false) => faults.push(
            section
                .node
                .fault("model", "`model` has no effect")
                .with_hint("add `{model}` to `command`, or remove it"),
        ),
        (None, true) => faults.push(
            config
                .fault("command", "`{model}` requires `agent.model`")
                .with_hint("add `model` next to `type`"),
        ),
        _ => {}
    }
    if settings.message.is_some() && settings.output != Some(OutputKind::Ndjson) {
        let fault = config.fault("message", "`message` has no effect with this output");
        faults.push(fault.with_hint("add `output: ndjson`"));
    }
    if let Some(paths) = &settings.usage {
        faults.extend(usage::check(paths, settings.output, config));
    }
    faults
}

fn uses(command: &[String], placeholder: &str) -> bool {
    let placeholder = format!("{{{placeholder}}}");
    command.iter().any(|word| word.contains(&placeholder))
}

/// An unknown name in braces. `${NAME}` and JSON are not placeholders.
fn unknown(word: &str) -> Option<&str> {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    word.match_indices('{').find_map(|(at, _)| {
        let (name, _) = word[at + 1..].split_once('}')?;
        let is_shell = word[..at].ends_with('$');
        (is_name(name) && !is_shell && !PLACEHOLDERS.contains(&name)).then_some(name)
    })
}

struct CommandAgent {
    prompt: PromptSource,
    model: Option<String>,
    settings: CommandSettings,
    script: Option<CommandScript>,
}

impl Agent for CommandAgent {
    fn prompt(&self) -> Option<&PromptSource> {
        Some(&self.prompt)
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.settings.env
    }

    fn program(&self) -> Option<&str> {
        let is_known = !self.settings.env.contains_key("PATH");
        let program = self.settings.command.first().filter(|_| is_known)?;
        (!program.contains('{')).then_some(program.as_str())
    }

    fn script(&self) -> Option<&Utf8Path> {
        self.script.as_ref().map(|script| script.path.as_path())
    }

    fn check(&self, _prompt: &str, has_gateway: bool) -> Result<(), LaunchError> {
        if has_gateway {
            NAMES.check_bypass(&self.settings.env, &[])?;
        }
        Ok(())
    }

    fn launch(&self, context: &LaunchContext<'_>) -> Result<Launch, LaunchError> {
        self.check(context.prompt, context.endpoint.is_some())?;
        let file = context.scratch.join("prompt.md");
        let mut env = context.env.clone();
        env.insert("PROCTOR_PROMPT_FILE".to_owned(), file.to_string());
        if let Some(endpoint) = context.endpoint {
            env.extend(endpoint.env());
        }
        env.extend(self.settings.env.clone());
        let by = self.settings.prompt_by.unwrap_or_default();
        let usage_file = self.usage_file(context);
        Ok(Launch {
            argv: self.argv(context, file.as_str())?,
            env,
            files: vec![(file, context.prompt.as_bytes().to_vec())],
            session: self.session(usage_file.as_ref()),
            collect: usage_file.into_iter().collect(),
            input: match by {
                PromptBy::Stdin => Input::Bytes(context.prompt.as_bytes().to_vec()),
                PromptBy::File | PromptBy::Argument => Input::Closed,
            },
            terminal: Terminal::Pipes,
            message_deadline: None,
        })
    }
}

impl CommandAgent {
    fn argv(&self, context: &LaunchContext<'_>, file: &str) -> Result<Vec<String>, LaunchError> {
        let values = [
            ("{prompt_file}", file),
            ("{model}", self.model.as_deref().unwrap_or_default()),
            ("{workspace}", context.workspace.as_str()),
            ("{home}", context.home.as_str()),
            ("{scratch}", context.scratch.as_str()),
            // Last, so that placeholders in the prompt are not replaced.
            ("{prompt}", context.prompt),
        ];
        let filled = |word: &String| {
            values.iter().fold(word.clone(), |word, (name, value)| {
                word.replace(name, value)
            })
        };
        let mut argv: Vec<String> = self.settings.command.iter().map(filled).collect();
        if let (Some(script), Some(path)) = (&self.script, context.script) {
            argv[script.word] = path.to_string();
        }
        match argv.iter().find(|word| word.len() >= MAX_ARGUMENT) {
            None => Ok(argv),
            Some(word) => {
                let message = format!(
                    "the argument with the prompt has {} bytes, the maximum is {}",
                    word.len(),
                    MAX_ARGUMENT - 1
                );
                let hint = "use `prompt_by: stdin` or `prompt_by: file`";
                Err(NAMES.invalid(message).with_hint(hint))
            }
        }
    }

    fn usage_file(&self, context: &LaunchContext<'_>) -> Option<Utf8PathBuf> {
        let file = self.settings.usage.as_ref()?.file.as_ref()?;
        let file = file.replace("{scratch}", context.scratch.as_str());
        let file = file.replace("{home}", context.home.as_str());
        Some(context.workspace.join(file))
    }

    fn session(&self, usage_file: Option<&Utf8PathBuf>) -> Box<dyn Session> {
        let settings = &self.settings;
        let output = settings.output.unwrap_or_default();
        let reader = settings.usage.clone().map(UsageReader::new);
        if output == OutputKind::Text && reader.is_none() {
            return Box::new(PlainSession::default());
        }
        Box::new(CommandSession::new(
            output,
            settings.message.clone(),
            reader,
            usage_file.cloned(),
        ))
    }
}
