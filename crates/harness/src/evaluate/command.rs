//! `command`: run a command in a clean copy of the result; its exit code decides.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use super::{
    Artifact, Finding, Judging, Place, VerdictStatus,
    bench::{Bench, Setup},
    protect::Protect,
    shell,
    words::CommandWords,
};
use crate::{
    config::{EvaluatorSpec, Fault},
    outcome::exit_in_words,
};

const DEFAULT_TIMEOUT_MS: u64 = 300_000;

/// `config` of `command`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The program and its arguments, or one string for `sh -c`.
    command: CommandWords,
    /// More environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The folder to run in, below the clean copy.
    working_dir: Option<String>,
    /// How long it may take; 0 is no limit.
    timeout_ms: Option<u64>,
    /// Files that are as the task has them, whatever the agent made of them: patterns.
    protect: Option<Vec<String>>,
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
        let usual = Protect::default();
        let setup = Setup {
            env: written.env,
            case_dir: Some(folder.to_owned()),
            working_dir: working_dir(spec, written.working_dir)?,
            protect: Protect::read(config, written.protect.as_deref(), usual)?,
            ..Setup::default()
        };
        Ok(Settings {
            argv: program(spec, written.command)?,
            timeout: timeout(written.timeout_ms),
            setup,
        })
    }

    /// A line for the shell of a repo's task.
    pub(super) fn of_line(line: &str, timeout: Duration) -> Settings {
        Settings {
            argv: shell::line(line),
            timeout: Some(timeout),
            setup: Setup::default(),
        }
    }
}

/// The words of `command`, of which the first is a program.
pub(super) fn program(spec: &EvaluatorSpec, words: CommandWords) -> Result<Vec<String>, Fault> {
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

pub(super) async fn judge(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Finding, String> {
    let tree = judging.change.tree.as_str();
    let bench = Bench::open(&settings.setup, judging, place, ("", tree)).await?;
    let found = run(settings, &bench, place).await?;
    bench.close().await?;
    Ok(found)
}

async fn run(settings: &Settings, bench: &Bench<'_>, place: &Place) -> Result<Finding, String> {
    if let Err(unbuilt) = bench.make_ready().await? {
        return Ok(finding(bench, unbuilt.code, unbuilt.message, place));
    }
    let logs = bench.logs.clone();
    let ran = bench.step(&settings.argv, settings.timeout, logs).await?;
    let line = shell_words::join(&settings.argv);
    let code = ran.judged(&line)?;
    let message = match (code, ran.last_line.as_str()) {
        (0, _) => format!("`{line}` passed"),
        (code, "") => format!("`{line}` {}", exit_in_words(code)),
        (code, last) => format!("`{line}` {}: {last}", exit_in_words(code)),
    };
    let mut found = finding(bench, code, message, place);
    if let Some(shell) = ran.shell {
        found.metrics.insert("shell".to_owned(), json!(shell));
    }
    Ok(found)
}

fn finding(bench: &Bench<'_>, code: i32, message: String, place: &Place) -> Finding {
    Finding {
        status: if code == 0 {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        },
        score: None,
        message,
        metrics: Map::from_iter([("exit_code".to_owned(), json!(code))]),
        assertions: None,
        artifacts: vec![Artifact {
            kind: "log".to_owned(),
            path: format!("{}/output.log", place.folder),
            description: "what the command printed".to_owned(),
        }],
        restored: bench.restored.clone(),
    }
}
