//! `coverage`: how much of the code the tests reach, by the report of a coverage tool (lcov,
//! Cobertura, Istanbul's summary). The share of lines is the score.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use super::{
    Artifact, Finding, Judging, Place, VerdictStatus,
    bench::{Bench, Setup},
    command,
    protect::Protect,
    reports::Coverage,
    tests::bounded,
    words::CommandWords,
};
use crate::config::{EvaluatorSpec, Fault};

/// `config` of `coverage`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Words, or a line for the shell, that runs the tests and measures.
    command: CommandWords,
    /// The report that it writes, below the clean copy; `PROCTOR_REPORT` names another place.
    report: Option<String>,
    /// The share of lines that is enough, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    min: f64,
    /// Files that are as the task has them.
    protect: Option<Vec<String>>,
    /// More environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The folder to run in, below the clean copy.
    working_dir: Option<String>,
    /// How long it may take; 0 is no limit.
    timeout_ms: Option<u64>,
}

/// Settings that cannot be wrong any more.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    argv: Vec<String>,
    report: Option<Utf8PathBuf>,
    min: f64,
    timeout: Option<Duration>,
    setup: Setup,
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
        let usual = Protect::default();
        Ok(Settings {
            argv: command::program(spec, written.command)?,
            report,
            min: written.min,
            timeout: command::timeout(written.timeout_ms),
            setup: Setup {
                env: written.env,
                case_dir: Some(folder.to_owned()),
                working_dir: command::working_dir(spec, written.working_dir)?,
                protect: Protect::read(&spec.config, written.protect.as_deref(), usual)?,
                ..Setup::default()
            },
        })
    }
}

pub(super) async fn judge(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Finding, String> {
    let tree = judging.change.tree.as_str();
    let bench = Bench::open(&settings.setup, judging, place, ("", tree)).await?;
    let report = match &settings.report {
        Some(path) => bench.copy.join(path),
        None => bench.report(),
    };
    // A report that came with the work is not one of this run.
    let _ = fs_err::remove_file(&report);
    let logs = bench.logs.clone();
    let ran = bench.step(&settings.argv, settings.timeout, logs).await?;
    let line = shell_words::join(&settings.argv);
    let code = ran.judged(&line)?;
    let read = bounded(&report)
        .and_then(|bytes| Coverage::read(&bytes).map_err(|error| error.to_string()));
    let coverage = read.map_err(|reason| format!("{reason} (`{line}` exited with code {code})"))?;
    let restored = bench.restored.clone();
    bench.close().await?;
    let share = coverage.lines.ratio().ok_or("no line was measured")?;
    let is_enough = share >= settings.min && code == 0;
    let mut message = format!(
        "{:.1} % of {} lines (wanted: {:.1} %)",
        share * 100.0,
        coverage.lines.total,
        settings.min * 100.0
    );
    if code != 0 {
        message = format!("{message}; `{line}` exited with code {code}");
    }
    let branches = coverage.branches.and_then(super::reports::Share::ratio);
    Ok(Finding {
        status: if is_enough {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        },
        score: Some(if code == 0 { share } else { 0.0 }),
        message,
        metrics: Map::from_iter([
            ("lines".to_owned(), json!(share)),
            ("branches".to_owned(), json!(branches)),
            ("exit_code".to_owned(), json!(code)),
        ]),
        assertions: None,
        artifacts: vec![Artifact {
            kind: "log".to_owned(),
            path: format!("{}/output.log", place.folder),
            description: "what the command printed".to_owned(),
        }],
        restored,
    })
}
