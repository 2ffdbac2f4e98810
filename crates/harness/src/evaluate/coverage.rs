//! `coverage`: how much of the code the tests reach, by the report of a coverage tool (lcov,
//! Cobertura, Istanbul's summary). The share of lines is the score.

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
    command,
    command_line::CommandLine,
    control::End,
    protect::Protect,
    reports::Coverage,
};
use crate::config::EvaluatorSpec;

/// `config` of `coverage`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Words, or a line for the shell, that runs the tests and measures.
    command: CommandLine,
    /// The report that it writes, below the clean copy; `PROCTOR_REPORT` names another place.
    report: Option<String>,
    /// The share of lines that is enough, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    min: f64,
    /// Files that are the task's besides the settings of runners: patterns, as for `command`.
    protect: Option<Vec<String>>,
    /// Files beside the test case that the command may see, as for `command`.
    #[serde(default)]
    files: Vec<String>,
    /// More environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The folder to run in, below the clean copy.
    working_dir: Option<String>,
    /// The time limit; 0 means none.
    timeout_ms: Option<u64>,
}

/// Settings that cannot be wrong any more.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    argv: Vec<String>,
    report: Option<Utf8PathBuf>,
    min: f64,
    timeout: Option<Duration>,
    pub(super) setup: Setup,
}

impl Settings {
    pub(super) fn read(spec: &EvaluatorSpec, folder: &Utf8Path) -> Result<Settings, Fault> {
        let written: Written = spec.config.read()?;
        if !(0.0..=1.0).contains(&written.min) {
            return Err(spec.config.fault("min", "`min` is a number from 0 to 1"));
        }
        let report = written.report.map(Utf8PathBuf::from);
        let leaves = |path: &Utf8PathBuf| {
            crate::platform::is_rooted(path.as_str())
                || path.components().any(|part| part.as_str() == "..")
        };
        if let Some(path) = report.as_ref().filter(|path| leaves(path)) {
            let message = format!("`{path}` leaves the clean copy");
            return Err(spec.config.fault("report", message));
        }
        let argv = command::program(spec, written.command)?;
        // The tests are often what is asked for.
        let usual = Protect::runners();
        let setup = Setup {
            env: written.env,
            case_files: CaseFiles::read(spec, folder, &written.files, &argv)?,
            working_dir: command::working_dir(spec, written.working_dir)?,
            protect: Protect::read(&spec.config, written.protect.as_deref(), usual)?,
            ..Setup::default()
        };
        Ok(Settings {
            setup: setup.of_command(&argv),
            argv,
            report,
            min: written.min,
            timeout: command::timeout(written.timeout_ms),
        })
    }
}

/// One run of the command.
struct Measured {
    end: End,
    /// How it ended, in words.
    ended: String,
    /// The measurement, or why there is none.
    coverage: Result<Coverage, String>,
    restored: Vec<String>,
    tampered: Vec<String>,
}

/// No measurement is the work's doing when its command was ended, and when there is one without the work or with
/// the reference solution.
pub(super) async fn judge(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Finding, String> {
    let tree = judging.change.tree.as_str();
    let measured = measure(settings, judging, place, ("", tree)).await?;
    let coverage = match &measured.coverage {
        Ok(coverage) => coverage,
        Err(_) if measured.end.was_ended() => {
            let message = measured.ended.clone();
            return Ok(finding(
                &measured,
                place,
                VerdictStatus::Failed,
                (0.0, message),
            ));
        }
        Err(reason) => {
            let message = format!("{reason} ({})", measured.ended);
            let is_better = |other: &Measured| match measured.end {
                End::NotFound(_) => !matches!(other.end, End::NotFound(_)),
                _ => other.coverage.is_ok(),
            };
            return match better_with(settings, judging, place, &is_better).await? {
                None => Err(message),
                Some(control) => {
                    let message = format!("{message}; not so with {control}");
                    Ok(finding(
                        &measured,
                        place,
                        VerdictStatus::Failed,
                        (0.0, message),
                    ))
                }
            };
        }
    };
    let share = coverage.lines.ratio().ok_or("no line was measured")?;
    let has_passed = measured.end == End::Exited(0);
    let mut message = format!(
        "{:.1} % of {} lines (wanted: {:.1} %)",
        share * 100.0,
        coverage.lines.total,
        settings.min * 100.0
    );
    if !has_passed {
        message = format!("{message}; {}", measured.ended);
    }
    let (status, score) = match (has_passed, share >= settings.min) {
        (true, true) => (VerdictStatus::Passed, share),
        (true, false) => (VerdictStatus::Failed, share),
        (false, _) => (VerdictStatus::Failed, 0.0),
    };
    let branches = coverage.branches.and_then(super::reports::Share::ratio);
    let mut found = finding(&measured, place, status, (score, message));
    found.metrics.insert("lines".to_owned(), json!(share));
    found.metrics.insert("branches".to_owned(), json!(branches));
    Ok(found)
}

/// A control tree with which the command does better than with the work.
async fn better_with(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
    is_better: &(dyn Fn(&Measured) -> bool + Sync),
) -> Result<Option<&'static str>, String> {
    for control in judging.controls().await {
        let which = (control.name, control.tree.as_str());
        match measure(settings, judging, place, which).await {
            Ok(measured) if is_better(&measured) => return Ok(Some(control.what)),
            Err(problem) if judging.cancel.is_cancelled() => return Err(problem),
            _ => {}
        }
    }
    Ok(None)
}

async fn measure(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
    which: (&str, &str),
) -> Result<Measured, String> {
    let copy = CleanCopy::open(&settings.setup, judging, place, which).await?;
    let report = copy.report_file(settings.report.as_deref());
    report.remove();
    let logs = copy.logs.clone();
    let ran = copy.step(&settings.argv, settings.timeout, logs).await?;
    let line = shell_words::join(&settings.argv);
    let end = End::of(&ran, &line)?;
    let written = report.read().and_then(|bytes| {
        let missing = "the report cannot be read: there is none";
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
    Ok(Measured {
        end,
        ended: end.in_words(&line, &ran.last_line),
        coverage,
        restored,
        tampered,
    })
}

fn finding(
    measured: &Measured,
    place: &Place,
    status: VerdictStatus,
    (score, message): (f64, String),
) -> Finding {
    Finding {
        status,
        score: Some(score),
        message,
        metrics: Map::from_iter([("exit_code".to_owned(), json!(measured.end.code()))]),
        assertions: None,
        artifacts: vec![Artifact {
            kind: "log".to_owned(),
            path: format!("{}/output.log", place.folder),
            description: "what the command printed".to_owned(),
        }],
        restored: measured.restored.clone(),
        tampered: measured.tampered.clone(),
    }
}
