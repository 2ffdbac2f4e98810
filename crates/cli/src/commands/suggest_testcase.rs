//! `proctor suggest-testcase`: starts an agent on the user's terminal that suggests a test case for
//! finished work.

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
};

use camino::Utf8Path;
use proctor_sandbox::host::Host;

use crate::{
    args::SuggestTestcaseArgs,
    error::{CliError, Exit},
    host, ui,
};

const INSTRUCTIONS: &str = include_str!("../../templates/suggest-testcase.md");
/// The file with the project's own instructions.
const OWN_INSTRUCTIONS: &str = "agents/suggest-testcase.agent.md";

/// An agent that can be started on a terminal: its type, its program, and the option before the
/// first prompt.
type Interactive = (&'static str, &'static str, Option<&'static str>);

const AGENTS: [Interactive; 3] = [
    ("copilot-cli", "copilot", Some("--interactive")),
    ("claude-code", "claude", None),
    ("aider", "aider", Some("--message")),
];

pub fn suggest_testcase(args: &SuggestTestcaseArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let directory = host.cwd.join(&args.output_dir);
    if !directory.is_dir() {
        return Err(CliError::NoDirectory { path: directory });
    }
    let agent = args.agent.clone().or(settings.agent_type);
    let agent = agent.unwrap_or_else(|| AGENTS[0].0.to_owned());
    let (_, program, option) = find(&agent)?;
    let path = host
        .find_program(program)
        .ok_or_else(|| CliError::NotInstalled {
            agent: agent.clone(),
            program,
        })?;
    let prompt = format!(
        "{}\n\nThe finished work is in {directory}. Write the test case to {}.\n",
        instructions(args, &host)?,
        host.cwd.join("suggested-testcase.yaml"),
    );
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(CliError::NoInteraction { agent });
    }
    ui::note(&format!("starting {agent} in {directory}"));
    let words = option.map(OsString::from).into_iter();
    let words: Vec<OsString> = words.chain([prompt.into()]).collect();
    let env = host.env.iter();
    let env = env.map(|(name, value)| (name.into(), value.into()));
    let code = proctor_process::run_interactive(
        path.as_std_path(),
        &words,
        directory.as_std_path(),
        &env.collect(),
    )?;
    Ok(if code == Some(0) {
        Exit::Success
    } else {
        Exit::Failed
    })
}

fn find(agent: &str) -> Result<Interactive, CliError> {
    let found = AGENTS.into_iter().find(|(name, ..)| *name == agent);
    found.ok_or_else(|| CliError::NotInteractive {
        agent: agent.to_owned(),
        known: AGENTS.iter().map(|(name, ..)| *name).collect(),
    })
}

/// The instructions: of the given file, of the project, or the built-in ones.
fn instructions(args: &SuggestTestcaseArgs, host: &Host) -> Result<String, CliError> {
    let given = args.agent_file.as_deref();
    let path = host
        .cwd
        .join(given.unwrap_or(Utf8Path::new(OWN_INSTRUCTIONS)));
    match (given, path.is_file()) {
        (_, true) => Ok(fs_err::read_to_string(path)?),
        (None, false) => Ok(INSTRUCTIONS.to_owned()),
        (Some(_), false) => Err(CliError::NoAgentFile { path }),
    }
}
