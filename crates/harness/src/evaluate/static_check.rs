//! `lint`, `build`, `typecheck`: a command that reports findings. Findings of the base are not
//! counted: they are not the agent's.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8Path;
use proctor_document::Fault;
use proctor_record::record::{self, Artifact, VerdictStatus};
use proctor_sandbox::shell;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    EvidenceDir, Finding as Found, Judging,
    case_files::CaseFiles,
    clean_copy::{CleanCopy, Setup},
    command::{self, CommandRun},
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
struct StaticCheckAsWritten {
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
pub(super) struct StaticCheckSettings {
    argv: Vec<String>,
    level: Severity,
    max_new: usize,
    timeout: Option<Duration>,
    pub(super) setup: Setup,
}

impl StaticCheckSettings {
    pub(super) fn read(
        spec: &EvaluatorSpec,
        folder: &Utf8Path,
    ) -> Result<StaticCheckSettings, Fault> {
        let written: StaticCheckAsWritten = spec.config.read()?;
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
        Ok(StaticCheckSettings {
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
    pub(super) fn of_line(line: &str, timeout: Duration) -> StaticCheckSettings {
        let argv = shell::line(line);
        let setup = Setup {
            protect: Protect::linters(),
            ..Setup::default()
        };
        StaticCheckSettings {
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
    run: CommandRun,
    /// The findings of a valid report.
    findings: Option<Findings>,
}

pub(super) async fn judge(
    settings: &StaticCheckSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
) -> Result<Found, String> {
    let tree = judging.change.tree.as_str();
    let said = ask(settings, judging, evidence, ("", tree)).await?;
    let run = &said.run;
    let by_end = |status| run.finding(evidence, status, None, run.message.clone());
    if said.findings.is_none() && run.end == End::Exited(0) {
        return Ok(by_end(VerdictStatus::Passed));
    }
    let is_cut_short = matches!(run.end, End::TimedOut | End::Killed(_));
    if is_cut_short || (said.findings.is_none() && run.end.was_ended()) {
        return Ok(by_end(VerdictStatus::Failed));
    }
    let base = judging.workspace.base_tree.as_str();
    let base = ask(settings, judging, evidence, ("-base", base)).await?;
    let (Some(now), Some(before)) = (&said.findings, &base.findings) else {
        return by_exit_code(evidence, run, &base.run);
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
    let mut found = run.finding(evidence, status, None, message);
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
fn by_exit_code(
    evidence: &EvidenceDir,
    run: &CommandRun,
    base: &CommandRun,
) -> Result<Found, String> {
    let message = run.message.clone();
    let status = match (run.end, base.end) {
        (End::Exited(0), _) => VerdictStatus::Passed,
        // The command also fails if the work removed a file that it needs.
        (_, End::Exited(0)) | (End::NotFound(_), End::Exited(_)) => VerdictStatus::Failed,
        (End::NotFound(_), _) => return Err(message),
        _ => {
            return Err(format!(
                "{message}; it also fails without the agent's change, and there is no report to compare"
            ));
        }
    };
    Ok(run.finding(evidence, status, None, message))
}

async fn ask(
    settings: &StaticCheckSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
    which: (&str, &str),
) -> Result<Said, String> {
    let mut copy = CleanCopy::open(&settings.setup, judging, evidence, which).await?;
    let restored = copy.filled.restored.clone();
    if let Err(unbuilt) = copy.make_ready().await? {
        copy.close().await?;
        let run = CommandRun {
            end: unbuilt.end,
            message: unbuilt.message,
            restored,
            tampered: Vec::new(),
        };
        return Ok(Said {
            run,
            findings: None,
        });
    }
    let logs = copy.logs.clone();
    let ran = copy
        .reporting_step(&settings.argv, settings.timeout, logs.clone())
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
    let run = CommandRun {
        end,
        message: end.in_words(&line, &ran.last_line),
        restored,
        tampered,
    };
    Ok(Said { run, findings })
}
