//! `command`: runs a command in a clean copy of the result; the exit code is the verdict.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::Fault;
use proctor_record::record::{Artifact, VerdictStatus};
use proctor_sandbox::shell;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use super::{
    EvidenceDir, Finding, Judging,
    case_files::CaseFiles,
    clean_copy::{CleanCopy, Setup},
    command_line::CommandLine,
    control::End,
    protect::Protect,
};
use crate::config::EvaluatorSpec;

const DEFAULT_TIMEOUT_MS: u64 = 300_000;

/// `config` of `command`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CommandEvaluatorAsWritten {
    /// The program and its arguments, or one string for `sh -c`.
    command: CommandLine,
    /// Additional environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The folder to run in, below the clean copy.
    working_dir: Option<String>,
    /// The time limit; 0 means none.
    timeout_ms: Option<u64>,
    /// Patterns of files that are taken from the task, in addition to tests and runner settings. A
    /// pattern with `!` names files of the agent; an empty list protects nothing.
    protect: Option<Vec<String>>,
    /// Files and folders next to the test case that the command can read, below `PROCTOR_CASE_DIR`.
    /// A path that `command` names, such as `$PROCTOR_CASE_DIR/check.sh`, need not be listed.
    #[serde(default)]
    files: Vec<String>,
}

/// Validated settings.
#[derive(Clone, Debug)]
pub(super) struct CommandEvaluatorSettings {
    argv: Vec<String>,
    timeout: Option<Duration>,
    pub(super) setup: Setup,
}

impl CommandEvaluatorSettings {
    pub(super) fn read(
        spec: &EvaluatorSpec,
        folder: &Utf8Path,
    ) -> Result<CommandEvaluatorSettings, Fault> {
        let written: CommandEvaluatorAsWritten = spec.config.read()?;
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
        Ok(CommandEvaluatorSettings {
            setup: setup.of_command(&argv),
            argv,
            timeout: timeout(written.timeout_ms),
        })
    }

    /// The settings for a shell command of a repo task.
    pub(super) fn of_line(line: &str, timeout: Duration) -> CommandEvaluatorSettings {
        let argv = shell::line(line);
        CommandEvaluatorSettings {
            setup: Setup::default().of_command(&argv),
            argv,
            timeout: Some(timeout),
        }
    }
}

/// The words of `command`, which must start with a program.
pub(super) fn program(spec: &EvaluatorSpec, words: CommandLine) -> Result<Vec<String>, Fault> {
    if words.is_empty() {
        return Err(fault(spec, "command", "`command` has no program"));
    }
    Ok(words.0)
}

/// Checks a folder below the clean copy.
pub(super) fn working_dir(
    spec: &EvaluatorSpec,
    written: Option<String>,
) -> Result<Utf8PathBuf, Fault> {
    Ok(below_copy(spec, "working_dir", written)?.unwrap_or_default())
}

/// The value of a key that is a path below the clean copy.
pub(super) fn below_copy(
    spec: &EvaluatorSpec,
    key: &str,
    written: Option<String>,
) -> Result<Option<Utf8PathBuf>, Fault> {
    let path = written.map(Utf8PathBuf::from);
    let leaves = |path: &&Utf8PathBuf| {
        let is_rooted = proctor_record::platform::is_rooted(path.as_str());
        is_rooted || path.components().any(|part| part.as_str() == "..")
    };
    if let Some(path) = path.as_ref().filter(leaves) {
        let message = format!("`{path}` is outside of the clean copy");
        return Err(fault(spec, key, &message));
    }
    Ok(path)
}

/// A time limit in milliseconds; 0 means none.
pub(super) fn timeout(written: Option<u64>) -> Option<Duration> {
    let limit = written.unwrap_or(DEFAULT_TIMEOUT_MS);
    (limit > 0).then(|| Duration::from_millis(limit))
}

/// A fault at a key, or at the whole entry if the key is missing.
fn fault(spec: &EvaluatorSpec, key: &str, message: &str) -> Fault {
    let span = spec.config.get(key).map_or(spec.span, |node| node.span);
    Fault::new(span, message)
}

/// One run of a judged command.
pub(super) struct CommandRun {
    pub(super) end: End,
    /// How the command ended.
    pub(super) message: String,
    pub(super) restored: Vec<String>,
    pub(super) tampered: Vec<String>,
}

impl CommandRun {
    /// The finding of an evaluator that ran a command.
    pub(super) fn finding(
        &self,
        evidence: &EvidenceDir,
        status: VerdictStatus,
        score: Option<f64>,
        message: String,
    ) -> Finding {
        Finding {
            status,
            score,
            message,
            metrics: Map::from_iter([("exit_code".to_owned(), json!(self.end.code()))]),
            assertions: None,
            artifacts: vec![Artifact {
                kind: "log".to_owned(),
                path: format!("{}/output.log", evidence.folder),
                description: "the output of the command".to_owned(),
            }],
            restored: self.restored.clone(),
            tampered: self.tampered.clone(),
        }
    }
}

/// Judges by the end of the command. A command that is not found is the task's fault, unless it is
/// found in a control tree.
pub(super) async fn judge(
    settings: &CommandEvaluatorSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
) -> Result<Finding, String> {
    let tree = judging.change.tree.as_str();
    let (mut judged, shell) = run(settings, judging, evidence, ("", tree)).await?;
    if let End::NotFound(_) = judged.end {
        let Some(control) = found_with(settings, judging, evidence).await? else {
            return Err(judged.message);
        };
        judged.message = format!("{}; it runs with {control}", judged.message);
    }
    let status = if judged.end == End::Exited(0) {
        VerdictStatus::Passed
    } else {
        VerdictStatus::Failed
    };
    let mut found = judged.finding(evidence, status, None, judged.message.clone());
    if let Some(shell) = shell {
        found.metrics.insert("shell".to_owned(), json!(shell));
    }
    Ok(found)
}

/// A control tree in which the command is found.
async fn found_with(
    settings: &CommandEvaluatorSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
) -> Result<Option<&'static str>, String> {
    for control in judging.controls().await {
        let which = (control.name, control.tree.as_str());
        match run(settings, judging, evidence, which).await {
            Ok((judged, _)) if !matches!(judged.end, End::NotFound(_)) => {
                return Ok(Some(control.what));
            }
            Err(problem) if judging.cancel.is_cancelled() => return Err(problem),
            _ => {}
        }
    }
    Ok(None)
}

/// Runs the command in a clean copy. Returns the shell that ran it as well.
async fn run(
    settings: &CommandEvaluatorSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
    which: (&str, &str),
) -> Result<(CommandRun, Option<&'static str>), String> {
    let mut copy = CleanCopy::open(&settings.setup, judging, evidence, which).await?;
    let restored = copy.filled.restored.clone();
    let judged = if let Err(unbuilt) = copy.make_ready().await? {
        let judged = CommandRun {
            end: unbuilt.end,
            message: unbuilt.message,
            restored,
            tampered: Vec::new(),
        };
        (judged, None)
    } else {
        let logs = copy.logs.clone();
        let ran = copy.step(&settings.argv, settings.timeout, logs).await?;
        let line = shell_words::join(&settings.argv);
        let end = End::of(&ran, &line)?;
        let judged = CommandRun {
            end,
            message: end.in_words(&line, &ran.last_line),
            restored,
            tampered: if copy.is_of(&judging.change.tree) {
                copy.tampered(&settings.argv, settings.timeout).await?
            } else {
                Vec::new()
            },
        };
        (judged, ran.shell)
    };
    copy.close().await?;
    Ok(judged)
}
