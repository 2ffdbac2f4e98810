//! `command`: run a command in a clean copy of the result; its exit code decides.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::{
    Capture, CaptureLimits, CapturePaths, Command, EndReason, Event, Exit, Limits, Output, Process,
    Status, Stdin,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use super::{Artifact, Finding, Judging, VerdictStatus, copy_folder};
use crate::config::{EvaluatorSpec, Fault};

const DEFAULT_TIMEOUT_MS: u64 = 300_000;
/// How much of the end of the output a failed verdict quotes.
const QUOTED_BYTES: usize = 400;

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
}

/// A list of words, or a line for the shell.
#[derive(Clone, Debug)]
struct CommandWords(Vec<String>);

impl<'de> Deserialize<'de> for CommandWords {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> serde::de::Visitor<'de> for Words {
            type Value = Vec<String>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of words or a line for the shell")
            }
            fn visit_str<E: serde::de::Error>(self, line: &str) -> Result<Vec<String>, E> {
                Ok(["sh", "-c", line].map(str::to_owned).into())
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<Vec<String>, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                Ok(words)
            }
        }
        deserializer.deserialize_any(Words).map(CommandWords)
    }
}

impl JsonSchema for CommandWords {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Command".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "oneOf": [
                { "type": "string", "minLength": 1, "description": "a line for the shell" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            ]
        })
    }
}

/// Settings that cannot be wrong any more.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    working_dir: Utf8PathBuf,
    timeout: Option<Duration>,
}

impl Settings {
    pub(super) fn read(spec: &EvaluatorSpec, folder: &Utf8Path) -> Result<Settings, Fault> {
        let written: Written = spec.config.read()?;
        let fault = |key: &str, message: String| Fault {
            span: spec.config.get(key).map_or(spec.span, |node| node.span),
            message,
            hint: None,
        };
        let CommandWords(argv) = written.command;
        if argv.first().is_none_or(String::is_empty) {
            return Err(fault("command", "`command` names no program".to_owned()));
        }
        let working_dir = Utf8PathBuf::from(written.working_dir.unwrap_or_default());
        if working_dir.is_absolute() || working_dir.components().any(|part| part.as_str() == "..") {
            return Err(fault(
                "working_dir",
                format!("`{working_dir}` leaves the clean copy"),
            ));
        }
        let mut env = written.env;
        env.insert("PROCTOR_CASE_DIR".to_owned(), folder.to_string());
        let timeout_ms = written.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
        let timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
        Ok(Settings {
            argv,
            env,
            working_dir,
            timeout,
        })
    }
}

pub(super) async fn judge(
    settings: &Settings,
    judging: &Judging<'_>,
    number: usize,
) -> Result<Finding, String> {
    let copy = copy_folder(judging, number);
    let home = judging.scratch.join(format!("judge-home-{number}"));
    let log = format!("evaluators/command-{number}/output.log");
    let prepared = async {
        judging
            .workspace
            .clean_copy(&judging.change.tree, &copy)
            .await
            .map_err(|error| error.to_string())?;
        fs_err::create_dir_all(home.join("tmp")).map_err(|error| error.to_string())?;
        let folder = judging
            .artifacts
            .join(format!("evaluators/command-{number}"));
        fs_err::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let paths = CapturePaths {
            stdout: folder.join("stdout").into(),
            stderr: folder.join("stderr").into(),
            transcript: folder.join("output.log").into(),
        };
        Capture::create(paths, CaptureLimits::default()).map_err(|error| error.to_string())
    };
    let mut capture = prepared
        .await
        .map_err(|error| format!("could not make a clean copy: {error}"))?;
    let (exit, tail) = run(settings, judging, &copy, &home, &mut capture).await?;
    let removed = crate::tree::remove(&copy).and_then(|()| crate::tree::remove(&home));
    removed.map_err(|error| format!("could not remove the clean copy: {error}"))?;
    finding(settings, exit, &tail, log)
}

/// Run the command; give how it ended and the end of what it said.
async fn run(
    settings: &Settings,
    judging: &Judging<'_>,
    copy: &Utf8Path,
    home: &Utf8Path,
    capture: &mut Capture,
) -> Result<(Exit, Vec<u8>), String> {
    let mut env = judging.host.clean_env(home);
    env.extend(settings.env.clone());
    let command = Command {
        program: settings.argv[0].clone().into(),
        args: settings.argv[1..].iter().map(Into::into).collect(),
        env: env
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        cwd: copy.join(&settings.working_dir).into(),
        stdin: Stdin::Null,
        output: Output::Pipes,
        limits: Limits {
            wall: settings.timeout,
            ..Limits::default()
        },
    };
    let mut process = Process::spawn(command, &judging.host.supervisor)
        .await
        .map_err(|error| error.to_string())?;
    let mut tail = Vec::new();
    let mut cancelled = false;
    loop {
        tokio::select! {
            event = process.next() => match event {
                Event::Output { stream, bytes } => {
                    capture.write(stream, bytes).map_err(|error| error.to_string())?;
                    tail.extend_from_slice(&bytes[bytes.len().saturating_sub(QUOTED_BYTES)..]);
                    tail.drain(..tail.len().saturating_sub(QUOTED_BYTES));
                }
                Event::Ended(report) => return Ok((report.exit, tail)),
            },
            () = judging.cancel.cancelled(), if !cancelled => {
                cancelled = true;
                process.end(EndReason::Cancelled);
            }
        }
    }
}

fn finding(settings: &Settings, exit: Exit, tail: &[u8], log: String) -> Result<Finding, String> {
    let line = shell_words::join(&settings.argv);
    let code = match (exit.ended_by, exit.status) {
        (None, Some(Status::Code(code))) => code,
        (None, Some(Status::Signal(signal))) => {
            return Err(format!("`{line}` was killed by signal {signal}"));
        }
        (Some(EndReason::TimedOut), _) => return Err(format!("`{line}` ran into its time limit")),
        (Some(EndReason::Cancelled), _) => return Err(format!("`{line}` was interrupted")),
        _ => return Err(format!("`{line}` ended in an unknown way")),
    };
    // The shell's words for "not executable" and "no such program": nothing was checked.
    if matches!(code, 126 | 127) {
        return Err(format!("`{line}` could not be run (exit code {code})"));
    }
    let said = String::from_utf8_lossy(tail);
    let last = said
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim();
    let message = match (code, last) {
        (0, _) => format!("`{line}` passed"),
        (code, "") => format!("`{line}` exited with code {code}"),
        (code, last) => format!("`{line}` exited with code {code}: {last}"),
    };
    Ok(Finding {
        status: if code == 0 {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        },
        message,
        metrics: Map::from_iter([("exit_code".to_owned(), json!(code))]),
        assertions: None,
        artifacts: vec![Artifact {
            kind: "log".to_owned(),
            path: log,
            description: "what the command printed".to_owned(),
        }],
    })
}
