//! `coverage`: the fraction of lines that the tests cover, from the report of a coverage tool
//! (lcov, Cobertura, Istanbul's summary). The fraction is the score.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8Path;
use proctor_document::Fault;
use proctor_record::{record::VerdictStatus, text::counted};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    EvidenceDir, Finding, Judging,
    case_files::CaseFiles,
    clean_copy::{CleanCopy, Setup},
    command::{self, CommandRun},
    command_line::CommandLine,
    control::End,
    protect::Protect,
    reports::Coverage,
};
use crate::config::EvaluatorSpec;

/// `config` of `coverage`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CoverageAsWritten {
    /// The command that runs the tests with coverage: words or a shell command.
    command: CommandLine,
    /// The report that it writes, relative to the clean copy. Default: the file in
    /// `PROCTOR_REPORT`.
    report: Option<String>,
    /// The minimum fraction of covered lines, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    min: f64,
    /// Patterns of files that are taken from the task in addition to runner settings, as for
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

/// Validated settings.
#[derive(Clone, Debug)]
pub(super) struct CoverageSettings {
    argv: Vec<String>,
    min: f64,
    timeout: Option<Duration>,
    pub(super) setup: Setup,
}

impl CoverageSettings {
    pub(super) fn read(spec: &EvaluatorSpec, folder: &Utf8Path) -> Result<CoverageSettings, Fault> {
        let written: CoverageAsWritten = spec.config.read()?;
        if !(0.0..=1.0).contains(&written.min) {
            return Err(spec.config.fault("min", "`min` must be from 0 to 1"));
        }
        let argv = command::program(spec, written.command)?;
        // The agent's task is often to write tests, so they are not protected.
        let usual = Protect::runners();
        let setup = Setup {
            env: written.env,
            case_files: CaseFiles::read(spec, folder, &written.files, &argv)?,
            working_dir: command::working_dir(spec, written.working_dir)?,
            report: command::below_copy(spec, "report", written.report)?,
            protect: Protect::read(&spec.config, written.protect.as_deref(), usual)?,
            ..Setup::default()
        };
        Ok(CoverageSettings {
            setup: setup.of_command(&argv),
            argv,
            min: written.min,
            timeout: command::timeout(written.timeout_ms),
        })
    }
}

/// One run of the command.
struct Measured {
    run: CommandRun,
    /// The measurement, or the reason that there is none.
    coverage: Result<Coverage, String>,
}

/// Judges the coverage. A missing measurement is the work's fault if its command was ended, or if a
/// control tree has one.
pub(super) async fn judge(
    settings: &CoverageSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
) -> Result<Finding, String> {
    let tree = judging.change.tree.as_str();
    let measured = measure(settings, judging, evidence, ("", tree)).await?;
    let run = &measured.run;
    let failed = |message| run.finding(evidence, VerdictStatus::Failed, Some(0.0), message);
    let coverage = match &measured.coverage {
        Ok(coverage) => coverage,
        Err(_) if run.end.was_ended() => return Ok(failed(run.message.clone())),
        Err(reason) => {
            let message = format!("{reason} ({})", run.message);
            let is_better = |other: &Measured| match run.end {
                End::NotFound(_) => !matches!(other.run.end, End::NotFound(_)),
                _ => other.coverage.is_ok(),
            };
            return match better_with(settings, judging, evidence, &is_better).await? {
                None => Err(message),
                Some(control) => Ok(failed(format!("{message}; it works with {control}"))),
            };
        }
    };
    let share = coverage
        .lines
        .ratio()
        .ok_or("the report contains no lines")?;
    let has_passed = run.end == End::Exited(0);
    let mut message = format!(
        "{:.1} % of {} (wanted: {:.1} %)",
        share * 100.0,
        counted(coverage.lines.total, "line"),
        settings.min * 100.0
    );
    if !has_passed {
        message = format!("{message}; {}", run.message);
    }
    let (status, score) = match (has_passed, share >= settings.min) {
        (true, true) => (VerdictStatus::Passed, share),
        (true, false) => (VerdictStatus::Failed, share),
        (false, _) => (VerdictStatus::Failed, 0.0),
    };
    let branches = coverage.branches.and_then(super::reports::Share::ratio);
    let mut found = run.finding(evidence, status, Some(score), message);
    found.metrics.insert("lines".to_owned(), json!(share));
    found.metrics.insert("branches".to_owned(), json!(branches));
    Ok(found)
}

/// A control tree with a better result than the work.
async fn better_with(
    settings: &CoverageSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
    is_better: &(dyn Fn(&Measured) -> bool + Sync),
) -> Result<Option<&'static str>, String> {
    for control in judging.controls().await {
        let which = (control.name, control.tree.as_str());
        match measure(settings, judging, evidence, which).await {
            Ok(measured) if is_better(&measured) => return Ok(Some(control.what)),
            Err(problem) if judging.cancel.is_cancelled() => return Err(problem),
            _ => {}
        }
    }
    Ok(None)
}

async fn measure(
    settings: &CoverageSettings,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
    which: (&str, &str),
) -> Result<Measured, String> {
    let mut copy = CleanCopy::open(&settings.setup, judging, evidence, which).await?;
    let report = copy.report_file();
    let logs = copy.logs.clone();
    let ran = copy
        .reporting_step(&settings.argv, settings.timeout, logs)
        .await?;
    let line = shell_words::join(&settings.argv);
    let end = End::of(&ran, &line)?;
    let written = report.read().and_then(|bytes| {
        let missing = "no report was written";
        bytes.ok_or_else(|| missing.to_owned())
    });
    let coverage =
        written.and_then(|bytes| Coverage::read(&bytes).map_err(|error| error.to_string()));
    let restored = copy.filled.restored.clone();
    let tampered = if copy.is_of(&judging.change.tree) {
        copy.tampered(&settings.argv, settings.timeout).await?
    } else {
        Vec::new()
    };
    copy.close().await?;
    let run = CommandRun {
        end,
        message: end.in_words(&line, &ran.last_line),
        restored,
        tampered,
    };
    Ok(Measured { run, coverage })
}
