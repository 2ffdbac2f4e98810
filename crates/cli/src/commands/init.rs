//! `proctor init`: writes a first suite and its task. Agent and test command are detected, and asked
//! for on a terminal.

use std::io::{BufRead, IsTerminal as _, Write};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_agents::{ADAPTERS, agent::Adapter};
use proctor_harness::{config::schema_for_config, plan::auto_order};
use proctor_mine::{SUITE_FILE, TestCommand, detect_test_command};
use proctor_record::record;
use proctor_sandbox::host::Host;

use super::{install_agents::install_agents, report::pretty};
use crate::{
    args::{InitArgs, InstallAgentsArgs},
    error::{CliError, Exit},
    host,
    personality::{Personality, Style},
    ui,
};

const TEMPLATE: &str = include_str!("../../templates/testcase.yaml");
const SUITE: &str = include_str!("../../templates/suite.yaml");
const WORKFLOW: &str = include_str!("../../templates/workflow.yml");
const WORKFLOW_FILE: &str = ".github/workflows/proctor.yml";
/// The command of the workflow that installs the agent.
const DEFAULT_INSTALL: &str = "npm install -g @anthropic-ai/claude-code";
/// Keys that the gateway takes, and of which the workflow names the first that the agent takes, too.
const PROVIDER_KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];
/// The task of the suite.
const CASE_FILE: &str = "testcase.yaml";
/// The agent of the templates.
const DEFAULT_AGENT: &str = "claude-code";
/// The schema for editors, in the project's directory of runs.
const SCHEMA_FILE: &str = "schema.json";

pub fn init(args: &InitArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let project = super::project_dir(&host.cwd).to_owned();
    let personality = Personality::current();
    let mut choices = Choices::given(args, &host)?;
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let asks = is_terminal && !args.yes && args.mine.is_none();
    if asks && personality.style != Style::YouBencha {
        let (mut input, mut output) = (std::io::stdin().lock(), std::io::stderr());
        choices.ask(&mut input, &mut output)?;
    }
    // A suite that exists only lacks the workflow.
    let is_new = args.path.is_some() || args.mine.is_some();
    let keeps_suite = choices.ci && !args.force && !is_new && Utf8Path::new(SUITE_FILE).exists();
    let files = if keeps_suite {
        Vec::new()
    } else {
        files(args, &choices, &host, &project)?
    };
    let workflow = choices.ci.then(|| project.join(WORKFLOW_FILE));
    let mut paths = files.iter().map(|(path, _)| path).chain(&workflow);
    if let Some(path) = paths.find(|path| path.exists() && !args.force) {
        return Err(CliError::Exists { path: path.clone() });
    }
    if let Some(path) = &workflow {
        write(path, &choices.workflow())?;
        ui::print(&format!(
            "wrote {WORKFLOW_FILE}; replace OWNER by the owner of the action's repository, and commit the recordings of: proctor run --record-models recordings\n"
        ))?;
    }
    if keeps_suite {
        return Ok(Exit::Success);
    }
    if let (Some(count), [(suite, _)]) = (args.mine, files.as_slice()) {
        return super::mine::init(suite, count);
    }
    for (path, text) in &files {
        write(path, text)?;
    }
    if personality.style == Style::YouBencha {
        install_agents(&InstallAgentsArgs { force: args.force })?;
    }
    ui::print(&summary(&files, &choices, personality, &host))?;
    if project.join(".git").exists() && personality.style != Style::YouBencha {
        ui::print(
            "to make tasks from the history of this repository: proctor init --mine 5 --force\n",
        )?;
    }
    Ok(Exit::Success)
}

fn write(path: &Utf8Path, text: &str) -> Result<(), CliError> {
    let folder = path.parent();
    if let Some(folder) = folder.filter(|folder| !folder.as_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(path, text)?)
}

/// The files to write, with their texts; the suite of mined tasks has none yet.
fn files(
    args: &InitArgs,
    choices: &Choices,
    host: &Host,
    project: &Utf8Path,
) -> Result<Vec<(Utf8PathBuf, String)>, CliError> {
    let personality = Personality::current();
    if args.mine.is_some() {
        let path = args.path.clone().unwrap_or_else(|| SUITE_FILE.into());
        return Ok(vec![(path, String::new())]);
    }
    let case = args.path.clone().unwrap_or_else(|| CASE_FILE.into());
    let template = personality.in_own_name(TEMPLATE);
    if personality.style == Style::YouBencha {
        return Ok(vec![(case, template)]);
    }
    let schema = schema_path(project, &host.cwd.join(&case));
    let line = format!("# yaml-language-server: $schema={schema}\n");
    let mut files = vec![(case, line + &choices.applied(&template) + &choices.tests())];
    if args.path.is_none() {
        let schema = schema_path(project, &host.cwd.join(SUITE_FILE));
        let line = format!("# yaml-language-server: $schema={schema}\n");
        files.push((SUITE_FILE.into(), line + &choices.applied(SUITE)));
    }
    write_schema(project)?;
    Ok(files)
}

/// The values of a new suite.
#[derive(Debug, PartialEq, Eq)]
struct Choices {
    /// The type of agent.
    agent: String,
    /// The test command; `None` if there is none.
    test_cmd: Option<String>,
    /// Whether to write a workflow.
    ci: bool,
}

impl Choices {
    /// The values of the command line, else detected ones.
    fn given(args: &InitArgs, host: &Host) -> Result<Choices, CliError> {
        let order = super::settings(host)?.order;
        let installed = auto_order(&order).into_iter().find(|it| finds(*it, host));
        let agent = match &args.agent {
            Some(agent) => known_agent(agent)?.name(),
            None => installed.map_or(DEFAULT_AGENT, |it| it.name()),
        };
        let test_cmd = match &args.test_cmd {
            Some(line) if line.trim().is_empty() => None,
            Some(line) => Some(TestCommand::of_line(line)),
            None if args.mine.is_some() => None,
            None => {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(detect_test_command(&host.cwd, host))
            }
        };
        Ok(Choices {
            agent: agent.to_owned(),
            test_cmd: test_cmd.map(|it| match it.install_cmd {
                Some(install) => format!("{install} && {}", it.test_cmd),
                None => it.test_cmd,
            }),
            ci: args.ci,
        })
    }

    /// Asks for each value; an empty line keeps it.
    fn ask(&mut self, input: &mut impl BufRead, output: &mut impl Write) -> std::io::Result<()> {
        let mut answer = |question: &str, default: &str| -> std::io::Result<String> {
            write!(output, "{question} [{default}]: ")?;
            output.flush()?;
            let mut line = String::new();
            input.read_line(&mut line)?;
            Ok(line.trim().to_owned())
        };
        loop {
            let agent = answer("agent", &self.agent)?;
            if agent.is_empty() {
                break;
            }
            if let Ok(known) = known_agent(&agent) {
                known.name().clone_into(&mut self.agent);
                break;
            }
        }
        let shown = first_line(self.test_cmd.as_deref().unwrap_or("none"));
        let line = answer("test command, or `none`", &shown)?;
        if line == "none" {
            self.test_cmd = None;
        } else if !line.is_empty() {
            self.test_cmd = Some(TestCommand::of_line(&line).test_cmd);
        }
        if !self.ci {
            let line = answer("workflow for GitHub Actions, y or n", "n")?;
            self.ci = line.eq_ignore_ascii_case("y") || line.eq_ignore_ascii_case("yes");
        }
        Ok(())
    }

    fn applied(&self, template: &str) -> String {
        let agent = format!("type: {}", self.agent);
        template.replace(&format!("type: {DEFAULT_AGENT}"), &agent)
    }

    /// The workflow, which installs the agent and has its key.
    fn workflow(&self) -> String {
        let Some(cli) = known_agent(&self.agent).ok().and_then(Adapter::cli) else {
            return WORKFLOW.to_owned();
        };
        let hint = cli.install_hint.trim_start_matches("install it with: ");
        let install = hint.split(" (").next().unwrap_or(hint);
        let mut keys = PROVIDER_KEYS.iter().chain(cli.credential_env);
        let key = keys.find(|key| cli.credential_env.contains(key));
        WORKFLOW
            .replace(DEFAULT_INSTALL, install)
            .replace(PROVIDER_KEYS[0], key.unwrap_or(&PROVIDER_KEYS[0]))
    }

    /// The evaluator that runs the test command.
    fn tests(&self) -> String {
        let Some(line) = &self.test_cmd else {
            return String::new();
        };
        let mut text = String::from(
            "  # The tests of this repository must pass, too.\n  - name: tests\n    config:\n      command: |\n",
        );
        for line in line.lines() {
            let indent = if line.is_empty() { "" } else { "        " };
            text.extend([indent, line, "\n"]);
        }
        text
    }
}

fn known_agent(name: &str) -> Result<&'static dyn Adapter, CliError> {
    let with_cli = || ADAPTERS.iter().copied().filter(|it| it.cli().is_some());
    let found = with_cli().find(|it| it.name() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = with_cli().map(Adapter::name).collect();
        let message = format!("`{name}` is not an agent with a CLI");
        CliError::input(message, format!("use one of: {}", names.join(", ")))
    })
}

fn finds(adapter: &dyn Adapter, host: &Host) -> bool {
    let mut cli = adapter.cli().into_iter();
    cli.any(|cli| host.find_program(cli.program).is_some())
}

/// The first line of a command; `…` stands for the others.
fn first_line(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let more = if first.len() < text.trim_end().len() {
        "…"
    } else {
        ""
    };
    format!("{first}{more}")
}

fn summary(
    files: &[(Utf8PathBuf, String)],
    choices: &Choices,
    personality: &Personality,
    host: &Host,
) -> String {
    let program = personality.program;
    let (case, _) = &files[0];
    let [_, (suite, _)] = files else {
        return format!("wrote {case}; run it with: {program} run -c {case}\n");
    };
    let adapter = known_agent(&choices.agent).ok();
    let is_installed = adapter.is_some_and(|adapter| finds(adapter, host));
    let agent = if is_installed {
        ""
    } else {
        " (not installed; see `proctor doctor`)"
    };
    let tests = choices.test_cmd.as_deref();
    let tests = tests.map_or("none detected; see --test-cmd".to_owned(), first_line);
    format!(
        "wrote {suite}, a suite, and {case}, its task\nagent: {}{agent}\ntests: {tests}\nrun it with: {program} run\n",
        choices.agent
    )
}

/// Writes the schema of this version for editors.
fn write_schema(project: &Utf8Path) -> Result<(), CliError> {
    let path = project.join(record::PROJECT_DIR).join(SCHEMA_FILE);
    write(&path, &pretty(&schema_for_config(ADAPTERS))?)
}

/// The path of the schema as seen from a file.
fn schema_path(project: &Utf8Path, file: &Utf8Path) -> Utf8PathBuf {
    let path = Utf8Path::new(record::PROJECT_DIR).join(SCHEMA_FILE);
    let below = file.strip_prefix(project).ok().and_then(Utf8Path::parent);
    match below {
        Some(below) => format!("{}{path}", "../".repeat(below.components().count())).into(),
        None => project.join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices() -> Choices {
        Choices {
            agent: "codex".to_owned(),
            test_cmd: Some("make test".to_owned()),
            ci: false,
        }
    }

    fn asked(input: &str) -> (Choices, String) {
        let (mut choices, mut output) = (choices(), Vec::new());
        choices.ask(&mut input.as_bytes(), &mut output).unwrap();
        (choices, String::from_utf8(output).unwrap())
    }

    #[test]
    fn empty_answers_keep_the_detected_values() {
        for input in ["\n\n\n", ""] {
            let (kept, questions) = asked(input);
            assert_eq!(kept, choices());
            assert!(questions.starts_with("agent [codex]: "), "{questions}");
            assert!(questions.contains("[make test]"), "{questions}");
        }
    }

    #[test]
    fn answers_replace_the_detected_values() {
        let (changed, questions) = asked("claud\nclaude-code\nnone\ny\n");
        let expected = Choices {
            agent: "claude-code".to_owned(),
            test_cmd: None,
            ci: true,
        };
        assert_eq!(changed, expected);
        assert_eq!(questions.matches("agent [").count(), 2, "{questions}");
        let (changed, _) = asked("\necho ${HOME}\n\n");
        assert_eq!(changed.test_cmd.as_deref(), Some("echo $${HOME}"));
    }

    #[test]
    fn workflow_installs_the_agent_and_names_its_key() {
        let workflow = choices().workflow();
        assert!(
            workflow.contains("- run: npm install -g @openai/codex\n"),
            "{workflow}"
        );
        assert!(
            workflow.contains("OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}"),
            "{workflow}"
        );
        for word in ["claude", "ANTHROPIC"] {
            assert!(!workflow.contains(word), "{workflow}");
        }
        for adapter in ADAPTERS.iter().filter(|it| it.cli().is_some()) {
            let agent = adapter.name().to_owned();
            let workflow = Choices { agent, ..choices() }.workflow();
            assert!(!workflow.contains("(requires"), "{workflow}");
        }
    }

    #[test]
    fn script_of_several_lines_is_one_value() {
        let choices = Choices {
            test_cmd: Some("python3 -c '\nimport sys\n\nx'".to_owned()),
            ..choices()
        };
        let expected = "        python3 -c '\n        import sys\n\n        x'\n";
        assert!(choices.tests().ends_with(expected), "{}", choices.tests());
        assert_eq!(
            first_line(choices.test_cmd.as_deref().unwrap()),
            "python3 -c '…"
        );
    }
}
