//! `lint`, `build`, `typecheck`: a command that finds fault with code. Only what the base does not
//! have already counts: an old warning is not the agent's.

use std::{collections::BTreeMap, time::Duration};

use camino::Utf8Path;
use proctor_document::Fault;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use super::{
    Artifact, Finding as Found, Judging, Place, VerdictStatus,
    case_files::CaseFiles,
    clean_copy::{CleanCopy, Setup},
    command,
    command_line::CommandLine,
    control::End,
    protect::Protect,
    reports::{Findings, Severity},
    tests::bounded,
};
use crate::{config::EvaluatorSpec, record, sandbox::shell};

/// The new findings.
const FINDINGS: &str = "new-findings.json";

/// `config` of `lint`, `build` and `typecheck`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Words, or a line for the shell. `PROCTOR_REPORT` names the file that its report goes to
    /// (SARIF, `ESLint`'s or cargo's JSON); what it prints is read when it writes none.
    command: CommandLine,
    /// How bad a finding has to be to count. Default `warning`.
    level: Option<Level>,
    /// How many new findings are still good. Default 0.
    #[serde(default)]
    max_new: usize,
    /// Files that are the task's besides the settings of linters: patterns, as for `command`.
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

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Level {
    Note,
    Warning,
    Error,
}

/// Settings that cannot be wrong any more.
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

    /// A line for the shell of a repo's task.
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

/// The command's findings for one state of the code.
struct Said {
    end: End,
    /// How it ended, in words.
    message: String,
    /// When it wrote a report that could be read.
    findings: Option<Findings>,
    restored: Vec<String>,
    tampered: Vec<String>,
}

pub(super) async fn judge(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Found, String> {
    let tree = judging.change.tree.as_str();
    let said = ask(settings, judging, place, ("", tree)).await?;
    if said.findings.is_none() && said.end == End::Exited(0) {
        let message = said.message.clone();
        return Ok(found(place, &said, VerdictStatus::Passed, message));
    }
    let is_cut_short = matches!(said.end, End::TimedOut | End::Killed(_));
    if is_cut_short || (said.findings.is_none() && said.end.was_ended()) {
        let message = said.message.clone();
        return Ok(found(place, &said, VerdictStatus::Failed, message));
    }
    let base = judging.workspace.base_tree.as_str();
    let base = ask(settings, judging, place, ("-base", base)).await?;
    let (Some(now), Some(before)) = (&said.findings, &base.findings) else {
        return by_exit_code(place, &said, &base);
    };
    let new = now.new_since(before);
    let bad: Vec<_> = new.iter().filter(|it| it.level >= settings.level).collect();
    let path = format!("{}/{FINDINGS}", place.folder);
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
    let mut found = found(place, &said, status, message);
    let counts = json!({
        "new": bad.len(),
        "before": before.at_least(settings.level),
        "now": now.at_least(settings.level),
    });
    found.metrics.insert("findings".to_owned(), counts);
    found.artifacts.push(Artifact {
        kind: "report".to_owned(),
        path,
        description: "what the base does not have".to_owned(),
    });
    Ok(found)
}

/// The verdict when there is no report to compare: the command fails now and did not before.
fn by_exit_code(place: &Place, said: &Said, base: &Said) -> Result<Found, String> {
    let message = said.message.clone();
    match (said.end, base.end) {
        (End::Exited(0), _) => Ok(found(place, said, VerdictStatus::Passed, message)),
        (_, End::Exited(0)) => Ok(found(place, said, VerdictStatus::Failed, message)),
        // The work took away what the command needs.
        (End::NotFound(_), End::Exited(_)) => {
            Ok(found(place, said, VerdictStatus::Failed, message))
        }
        (End::NotFound(_), _) => Err(message),
        _ => Err(format!(
            "{message}; it fails without the agent's change too, and no report tells what is new"
        )),
    }
}

fn found(place: &Place, said: &Said, status: VerdictStatus, message: String) -> Found {
    Found {
        status,
        score: None,
        message,
        metrics: Map::from_iter([("exit_code".to_owned(), json!(said.end.code()))]),
        assertions: None,
        artifacts: vec![Artifact {
            kind: "log".to_owned(),
            path: format!("{}/output.log", place.folder),
            description: "what the command printed".to_owned(),
        }],
        restored: said.restored.clone(),
        tampered: said.tampered.clone(),
    }
}

async fn ask(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
    which: (&str, &str),
) -> Result<Said, String> {
    let copy = CleanCopy::open(&settings.setup, judging, place, which).await?;
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
    let report = copy.report_file(None).read()?;
    let has_report = report.is_some();
    let written = match report {
        Some(report) => report,
        None => bounded(&logs.join("stdout"))?,
    };
    let findings = match Findings::read(&written) {
        Ok(findings) => Some(findings.relative_to(copy.copy_inside().as_str())),
        // A report that is there and cannot be read says nothing either way.
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
