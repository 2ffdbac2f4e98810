//! `command`: run a command in a clean copy of the result; its exit code decides.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};

use super::{
    Artifact, Finding, Judging, Place, VerdictStatus,
    shell::{self, Ran, ShellCommand},
};
use crate::{
    config::{EvaluatorSpec, Fault},
    sandbox::{Access, Room, View},
};

/// Names the folder of the test case.
const CASE_DIR: &str = "PROCTOR_CASE_DIR";
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
                Ok(shell::line(line))
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
    /// The folder of the test case, which the command is told.
    case_dir: Option<Utf8PathBuf>,
    working_dir: Utf8PathBuf,
    timeout: Option<Duration>,
    /// Run in the clean copy first.
    pub(super) before: Vec<Before>,
    /// A revision of the repo whose files are laid over the clean copy.
    pub(super) hidden_tests: Option<String>,
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
        let timeout_ms = written.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
        let timeout = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
        Ok(Settings {
            argv,
            env: written.env,
            case_dir: Some(folder.to_owned()),
            working_dir,
            timeout,
            before: Vec::new(),
            hidden_tests: None,
        })
    }
}

/// What is run in the clean copy before the command that judges.
#[derive(Clone, Debug)]
pub(super) struct Before {
    /// A line for the shell.
    pub(super) line: String,
    /// How long it may take.
    pub(super) timeout: Option<Duration>,
    /// What it means when it fails.
    pub(super) failure: Failure,
}

/// What a failed preparation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nothing about the agent: there is no verdict.
    IsNoVerdict,
    /// The work cannot be built.
    IsTheAgents,
}

impl Settings {
    /// What a container that judges sees of this machine.
    fn view(&self, copy: &Utf8Path, home: &Utf8Path) -> Vec<View> {
        let view = |host: &Utf8Path, inside: &str, access| View {
            host: host.to_owned(),
            inside: inside.into(),
            access,
        };
        let mut all = vec![
            view(copy, "/workspace", Access::Write),
            view(home, "/proctor/home", Access::Write),
        ];
        let case = self.case_dir.as_deref();
        all.extend(case.map(|folder| view(folder, "/proctor/case", Access::Read)));
        all
    }

    /// A line for the shell of a repo's task.
    pub(super) fn of_line(line: &str, timeout: Duration) -> Settings {
        Settings {
            argv: shell::line(line),
            env: BTreeMap::new(),
            case_dir: None,
            working_dir: Utf8PathBuf::new(),
            timeout: Some(timeout),
            before: Vec::new(),
            hidden_tests: None,
        }
    }
}

pub(super) async fn judge(
    settings: &Settings,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Finding, String> {
    let copy = judging.scratch.join(format!("judge-{}", place.number));
    let home = judging.scratch.join(format!("judge-home-{}", place.number));
    let prepared = async {
        let workspace = judging.workspace;
        workspace.clean_copy(&judging.change.tree, &copy).await?;
        if let Some(revision) = &settings.hidden_tests {
            workspace.lay_over(revision, &copy).await?;
        }
        fs_err::create_dir_all(home.join("tmp"))?;
        Ok::<(), crate::workspace::WorkspaceError>(())
    };
    prepared
        .await
        .map_err(|error| format!("could not make a clean copy: {error}"))?;
    let room = judging
        .fresh_room(settings.view(&copy, &home))
        .await
        .map_err(|error| error.to_string())?;
    let bench = Bench {
        settings,
        judging,
        room,
        copy: &copy,
        home: &home,
        place,
    };
    let found = bench.run().await?;
    let left = bench.room.leave().await;
    left.map_err(|error| error.to_string())?;
    let removed = crate::tree::remove(&copy).and_then(|()| crate::tree::remove(&home));
    removed.map_err(|error| format!("could not remove the clean copy: {error}"))?;
    Ok(found)
}

/// A clean copy and what is run in it.
struct Bench<'a> {
    settings: &'a Settings,
    judging: &'a Judging<'a>,
    room: Room,
    copy: &'a Utf8Path,
    home: &'a Utf8Path,
    place: &'a Place,
}

impl Bench<'_> {
    async fn run(&self) -> Result<Finding, String> {
        let settings = self.settings;
        for (number, before) in settings.before.iter().enumerate() {
            let logs = self.logs().join(format!("before-{}", number + 1));
            let argv = shell::line(&before.line);
            let ran = self.step(&argv, before.timeout, logs).await?;
            let code = ran.code(&before.line)?;
            let message = format!(
                "`{}` exited with code {code}: {}",
                before.line, ran.last_line
            );
            match (code, before.failure) {
                (0, _) => {}
                (_, Failure::IsNoVerdict) => return Err(message),
                (code, Failure::IsTheAgents) => return Ok(self.finding(code, message)),
            }
        }
        let ran = self
            .step(&settings.argv, settings.timeout, self.logs())
            .await?;
        let line = shell_words::join(&settings.argv);
        let code = ran.code(&line)?;
        // The shell's words for "not executable" and "no such program": nothing was checked.
        if matches!(code, 126 | 127) {
            return Err(format!("`{line}` could not be run (exit code {code})"));
        }
        let message = match (code, ran.last_line.as_str()) {
            (0, _) => format!("`{line}` passed"),
            (code, "") => format!("`{line}` exited with code {code}"),
            (code, last) => format!("`{line}` exited with code {code}: {last}"),
        };
        Ok(self.finding(code, message))
    }

    fn logs(&self) -> Utf8PathBuf {
        self.judging.artifacts.join(&self.place.folder)
    }

    async fn step(
        &self,
        argv: &[String],
        timeout: Option<Duration>,
        logs: Utf8PathBuf,
    ) -> Result<Ran, String> {
        let mut env = self.room.env(self.judging.host, self.home);
        env.extend(self.settings.env.clone());
        if let Some(folder) = &self.settings.case_dir {
            env.insert(CASE_DIR.to_owned(), self.room.inside(folder).into_string());
        }
        let command = ShellCommand {
            argv,
            env,
            cwd: &self
                .room
                .inside(&self.copy.join(&self.settings.working_dir)),
            timeout,
            logs,
        };
        command
            .run(&self.room, self.judging.host, self.judging.cancel)
            .await
    }

    fn finding(&self, code: i32, message: String) -> Finding {
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
                path: format!("{}/output.log", self.place.folder),
                description: "what the command printed".to_owned(),
            }],
        }
    }
}
