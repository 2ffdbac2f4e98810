//! `command`: run a command in a clean copy of the result; its exit code decides.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::Fault;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use super::{
    Artifact, Finding, Judging, Place, VerdictStatus,
    case_files::CaseFiles,
    clean_copy::{CleanCopy, Setup},
    command_line::CommandLine,
    control::End,
    protect::Protect,
};
use crate::{config::EvaluatorSpec, sandbox::shell};

const DEFAULT_TIMEOUT_MS: u64 = 300_000;

/// `config` of `command`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The program and its arguments, or one string for `sh -c`.
    command: CommandLine,
    /// More environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The folder to run in, below the clean copy.
    working_dir: Option<String>,
    /// The time limit; 0 means none.
    timeout_ms: Option<u64>,
    /// Files that are the task's besides tests and the settings of runners: patterns. One that begins with `!`
    /// names files that are the agent's; an empty list leaves everything to the agent.
    protect: Option<Vec<String>>,
    /// Files and folders beside the test case that the command may see, below `PROCTOR_CASE_DIR`. A path that
    /// `command` names, such as `$PROCTOR_CASE_DIR/check.sh`, need not be listed.
    #[serde(default)]
    files: Vec<String>,
}

/// Settings that cannot be wrong any more.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    argv: Vec<String>,
    timeout: Option<Duration>,
    pub(super) setup: Setup,
}

impl Settings {
    pub(super) fn read(spec: &EvaluatorSpec, folder: &Utf8Path) -> Result<Settings, Fault> {
        let written: Written = spec.config.read()?;
        let config = &spec.config;
        let argv = program(spec, written.command)?;
        let usual = Protect::tests();
        let setup = Setup {
            env: written.env,
            case_files: CaseFiles::read(spec, folder, &written.files, &argv)?,
            working_dir: working_dir(spec, written.working_dir)?,
            protect: Protect::read(config, written.protect.as_deref(), usual)?,
            ..Setup::default()
        };
        Ok(Settings {
            setup: setup.of_command(&argv),
            argv,
            timeout: timeout(written.timeout_ms),
        })
    }

    /// A line for the shell of a repo's task.
    pub(super) fn of_line(line: &str, timeout: Duration) -> Settings {
        let argv = shell::line(line);
        Settings {
            setup: Setup::default().of_command(&argv),
            argv,
            timeout: Some(timeout),
        }
    }
}

/// The words of `command`, of which the first is a program.
pub(super) fn program(spec: &EvaluatorSpec, words: CommandLine) -> Result<Vec<String>, Fault> {
    if words.is_empty() {
        return Err(fault(spec, "command", "`command` names no program"));
    }
    Ok(words.0)
}

/// A folder below the clean copy.
pub(super) fn working_dir(
    spec: &EvaluatorSpec,
    written: Option<String>,
) -> Result<Utf8PathBuf, Fault> {
    let path = Utf8PathBuf::from(written.unwrap_or_default());
    if crate::platform::is_rooted(path.as_str())
        || path.components().any(|part| part.as_str() == "..")
    {
        let message = format!("`{path}` leaves the clean copy");
        return Err(fault(spec, "working_dir", &message));
    }
    Ok(path)
}

/// A time limit as it is written: 0 is none.
pub(super) fn timeout(written: Option<u64>) -> Option<Duration> {
    let limit = written.unwrap_or(DEFAULT_TIMEOUT_MS);
    (limit > 0).then(|| Duration::from_millis(limit))
}

/// A complaint about a key, or about the whole entry when it is not there.
fn fault(spec: &EvaluatorSpec, key: &str, message: &str) -> Fault {
    let span = spec.config.get(key).map_or(spec.span, |node| node.span);
    Fault::new(span, message)
}

/// One run of the command.
struct Judged {
    end: End,
    message: String,
    restored: Vec<String>,
    tampered: Vec<String>,
    shell: Option<&'static str>,
}

/// The end of the command is the work's result. One that is not found is the task's mistake, unless
/// it is found without the work or with the reference solution.
pub(super) async fn judge(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Finding, String> {
    let tree = judging.change.tree.as_str();
    let mut judged = run(settings, judging, place, ("", tree)).await?;
    if let End::NotFound(_) = judged.end {
        let Some(control) = found_with(settings, judging, place).await? else {
            return Err(judged.message);
        };
        judged.message = format!("{}; with {control} it runs", judged.message);
    }
    let mut found = finding(&judged, place);
    if let Some(shell) = judged.shell {
        found.metrics.insert("shell".to_owned(), json!(shell));
    }
    Ok(found)
}

/// A control tree with which the command is found.
async fn found_with(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Option<&'static str>, String> {
    for control in judging.controls().await {
        let which = (control.name, control.tree.as_str());
        match run(settings, judging, place, which).await {
            Ok(judged) if !matches!(judged.end, End::NotFound(_)) => return Ok(Some(control.what)),
            Err(problem) if judging.cancel.is_cancelled() => return Err(problem),
            _ => {}
        }
    }
    Ok(None)
}

async fn run(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
    which: (&str, &str),
) -> Result<Judged, String> {
    let copy = CleanCopy::open(&settings.setup, judging, place, which).await?;
    let restored = copy.filled.restored.clone();
    let judged = if let Err(unbuilt) = copy.make_ready().await? {
        Judged {
            end: unbuilt.end,
            message: unbuilt.message,
            restored,
            tampered: Vec::new(),
            shell: None,
        }
    } else {
        let logs = copy.logs.clone();
        let ran = copy.step(&settings.argv, settings.timeout, logs).await?;
        let line = shell_words::join(&settings.argv);
        let end = End::of(&ran, &line)?;
        Judged {
            end,
            message: end.in_words(&line, &ran.last_line),
            restored,
            tampered: if copy.is_of(&judging.change.tree) {
                copy.tampered(&settings.argv, settings.timeout).await?
            } else {
                Vec::new()
            },
            shell: ran.shell,
        }
    };
    copy.close().await?;
    Ok(judged)
}

fn finding(judged: &Judged, place: &Place) -> Finding {
    Finding {
        status: if judged.end == End::Exited(0) {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        },
        score: None,
        message: judged.message.clone(),
        metrics: Map::from_iter([("exit_code".to_owned(), json!(judged.end.code()))]),
        assertions: None,
        artifacts: vec![Artifact {
            kind: "log".to_owned(),
            path: format!("{}/output.log", place.folder),
            description: "what the command printed".to_owned(),
        }],
        restored: judged.restored.clone(),
        tampered: judged.tampered.clone(),
    }
}
