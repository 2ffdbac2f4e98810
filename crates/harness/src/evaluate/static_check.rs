//! `lint`, `build`, `typecheck`: a command that reports findings. Findings of the base are not
//! counted: they are not the agent's.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8Path;
use proctor_document::Fault;
use proctor_record::record::{self, Artifact, VerdictStatus};
use proctor_sandbox::shell;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use super::{
    EvidenceDir, Finding as Found, Judging,
    case_files::CaseFiles,
    clean_copy::{CleanCopy, Setup},
    command,
    command_line::CommandLine,
    control::End,
    protect::Protect,
    reports::{Findings, Severity},
    tests::bounded,
};
use crate::config::EvaluatorSpec;

/// The new findings.
const FINDINGS: &str = "new-findings.json";

/// `config` of `lint`, `build` and `typecheck`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The command: words or a shell command. It writes its report (SARIF, `ESLint`'s or cargo's
    /// JSON) to the file in `PROCTOR_REPORT`; otherwise its output is read.
    command: CommandLine,
    /// The minimum severity of findings that count. Default `warning`.
    level: Option<Level>,
    /// The maximum number of new findings. Default 0.
    #[serde(default)]
    max_new: usize,
    /// Patterns of files that are taken from the task in addition to linter settings, as for
    /// `command`.
    protect: Option<Vec<String>>,
    /// Files next to the test case that the command can read, as for `command`.
    #[serde(default)]
    files: Vec<String>,
    /// Additional environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The folder to run in, below the clean copy.
    working_dir: Option<String>,
    /// The time limit; 0 means none.
    timeout_ms: Option<u64>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Level {
    Note,
    Warning,
    Error,
}

/// Validated settings.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    argv: Vec<String>,
    level: Severity,
    max_new: usize,
    timeout: Option<Duration>,
    pub(super) setup: Setup,
}

impl Settings {
    pub(super) fn read(spec: &EvaluatorSpec, folder: &Utf8Path) -> Result<Settings, Fault> {
        let written: Written = spec.config.read()?;
        let usual = Protect::linters();
        let protect = Protect::read(&spec.config, written.protect.as_deref(), usual)?;
        let argv = command::program(spec, written.command)?;
        let setup = Setup {
            env: written.env,
            case_files: CaseFiles::read(spec, folder, &written.files, &argv)?,
            working_dir: command::working_dir(spec, written.working_dir)?,
            protect,
            ..Setup::default()
        };
        Ok(Settings {
            setup: setup.of_command(&argv),
            argv,
            level: match written.level.unwrap_or(Level::Warning) {
                Level::Note => Severity::Note,
                Level::Warning => Severity::Warning,
                Level::Error => Severity::Error,
            },
            max_new: written.max_new,
            timeout: command::timeout(written.timeout_ms),
        })
    }

    /// The settings for a shell command of a repo task.
    pub(super) fn of_line(line: &str, timeout: Duration) -> Settings {
        let argv = shell::line(line);
        let setup = Setup {
            protect: Protect::linters(),
            ..Setup::default()
        };
        Settings {
            setup: setup.of_command(&argv),
            argv,
            level: Severity::Warning,
            max_new: 0,
            timeout: Some(timeout),
        }
    }
}

/// The findings for one tree.
struct Said {
    end: End,
    /// A message about how the command ended.
    message: String,
    /// The findings of a valid report.
    findings: Option<Findings>,
    restored: Vec<String>,
    tampered: Vec<String>,
}

pub(super) async fn judge(
    settings: &Settings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
) -> Result<Found, String> {
    let tree = judging.change.tree.as_str();
    let said = ask(settings, judging, evidence, ("", tree)).await?;
    if said.findings.is_none() && said.end == End::Exited(0) {
        let message = said.message.clone();
        return Ok(found(evidence, &said, VerdictStatus::Passed, message));
    }
    let is_cut_short = matches!(said.end, End::TimedOut | End::Killed(_));
    if is_cut_short || (said.findings.is_none() && said.end.was_ended()) {
        let message = said.message.clone();
        return Ok(found(evidence, &said, VerdictStatus::Failed, message));
    }
    let base = judging.workspace.base_tree.as_str();
    let base = ask(settings, judging, evidence, ("-base", base)).await?;
    let (Some(now), Some(before)) = (&said.findings, &base.findings) else {
        return by_exit_code(evidence, &said, &base);
    };
    let new = now.new_since(before);
    let bad: Vec<_> = new.iter().filter(|it| it.level >= settings.level).collect();
    let path = format!("{}/{FINDINGS}", evidence.folder);
    record::write_json(&judging.artifacts.join(&path), &json!({ "new": new }))
        .map_err(|error| error.to_string())?;
    let status = if bad.len() <= settings.max_new {
        VerdictStatus::Passed
    } else {
        VerdictStatus::Failed
    };
    let first = bad.first().map_or(String::new(), |finding| {
        let file = finding.file.as_deref().unwrap_or("?");
        format!(": {file}: {}", finding.message)
    });
    let message = format!(
        "{} new findings ({} before, {} now){first}",
        bad.len(),
        before.at_least(settings.level),
        now.at_least(settings.level),
    );
    let mut found = found(evidence, &said, status, message);
    let counts = json!({
        "new": bad.len(),
        "before": before.at_least(settings.level),
        "now": now.at_least(settings.level),
    });
    found.metrics.insert("findings".to_owned(), counts);
    found.artifacts.push(Artifact {
        kind: "report".to_owned(),
        path,
        description: "the new findings".to_owned(),
    });
    Ok(found)
}

/// The verdict without a report: the command fails now and did not before.
fn by_exit_code(evidence: &EvidenceDir, said: &Said, base: &Said) -> Result<Found, String> {
    let message = said.message.clone();
    match (said.end, base.end) {
        (End::Exited(0), _) => Ok(found(evidence, said, VerdictStatus::Passed, message)),
        (_, End::Exited(0)) => Ok(found(evidence, said, VerdictStatus::Failed, message)),
        // The work removed a file that the command needs.
        (End::NotFound(_), End::Exited(_)) => {
            Ok(found(evidence, said, VerdictStatus::Failed, message))
        }
        (End::NotFound(_), _) => Err(message),
        _ => Err(format!(
            "{message}; it also fails without the agent's change, and there is no report to compare"
        )),
    }
}

fn found(evidence: &EvidenceDir, said: &Said, status: VerdictStatus, message: String) -> Found {
    Found {
        status,
        score: None,
        message,
        metrics: Map::from_iter([("exit_code".to_owned(), json!(said.end.code()))]),
        assertions: None,
        artifacts: vec![Artifact {
            kind: "log".to_owned(),
            path: format!("{}/output.log", evidence.folder),
            description: "the output of the command".to_owned(),
        }],
        restored: said.restored.clone(),
        tampered: said.tampered.clone(),
    }
}

async fn ask(
    settings: &Settings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
    which: (&str, &str),
) -> Result<Said, String> {
    let mut copy = CleanCopy::open(&settings.setup, judging, evidence, which).await?;
    let restored = copy.filled.restored.clone();
    if let Err(unbuilt) = copy.make_ready().await? {
        copy.close().await?;
        return Ok(Said {
            end: unbuilt.end,
            message: unbuilt.message,
            findings: None,
            restored,
            tampered: Vec::new(),
        });
    }
    let logs = copy.logs.clone();
    let ran = copy
        .step(&settings.argv, settings.timeout, logs.clone())
        .await?;
    let line = shell_words::join(&settings.argv);
    let end = End::of(&ran, &line)?;
    let report = copy.report_file().read()?;
    let has_report = report.is_some();
    let written = match report {
        Some(report) => report,
        None => bounded(&logs.join("stdout"))?,
    };
    let findings = match Findings::read(&written) {
        Ok(findings) => Some(findings.relative_to(copy.copy_inside().as_str())),
        // An invalid report is neither a pass nor a failure.
        Err(error) if has_report => return Err(error.to_string()),
        Err(_) => None,
    };
    let tampered = copy.tampered(&settings.argv, settings.timeout).await?;
    copy.close().await?;
    Ok(Said {
        end,
        message: end.in_words(&line, &ran.last_line),
        findings,
        restored,
        tampered,
    })
}
