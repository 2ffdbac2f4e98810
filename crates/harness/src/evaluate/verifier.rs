//! `verifier`: runs the tests of a Harbor task as Harbor does, after the agent is gone, and reads
//! the reward that they leave. The exit code of the tests says nothing.

mod container;
mod interpreters;

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use serde_json::{Map, json};

use super::{
    Artifact, Finding, Judging, Place, VerdictStatus,
    control::End,
    reward::{self, Rewards},
};
use crate::{
    fs::{
        beneath::UntrustedDir,
        dir,
        glob::{Ignore, IgnoreSyntax},
    },
    platform,
    sandbox::{
        Room,
        shell::{Ran, ShellCommand},
    },
    task::{Verifier, VerifierMode},
};

/// From this reward on a trial has passed.
const PASSING: f64 = 1.0;
/// Run as Harbor does, so that a script without a `#!` line works too.
const RUN: &str = "\"$0\"";

/// The folders of one verification.
struct Folders {
    tests: Utf8PathBuf,
    logs: Utf8PathBuf,
    home: Utf8PathBuf,
    copy: Utf8PathBuf,
}

/// Judge where the agent worked, or in a fresh place of the same kind.
pub(super) async fn judge(
    verifier: &Verifier,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Finding, String> {
    match judging.room {
        Room::Local => judge_here(verifier, judging, place).await,
        Room::Docker(room) => container::judge(verifier, judging, room, place).await,
    }
}

/// Judge without a container: the tests lie in a folder of our own, and the script gets its path.
async fn judge_here(
    verifier: &Verifier,
    judging: &Judging<'_>,
    place: &Place,
) -> Result<Finding, String> {
    let all = judging.scratch.join(format!("verifier-{}", place.number));
    let folders = Folders {
        tests: all.join("tests"),
        logs: all.join("logs"),
        home: all.join("home"),
        copy: all.join("copy"),
    };
    prepare(verifier, &folders).map_err(|error| format!("could not be prepared: {error}"))?;
    let cwd = match verifier.mode {
        VerifierMode::Shared => judging.workspace.path(),
        VerifierMode::Separate => {
            let copied = judging
                .workspace
                .clean_copy(&judging.change.tree, &folders.copy);
            let copied = copied.await;
            copied.map_err(|error| format!("could not make a clean copy: {error}"))?;
            &folders.copy
        }
    };
    let logs = judging.artifacts.join(&place.folder);
    let script = folders.tests.join("test.sh");
    let argv = ["sh", "-c", RUN, script.as_str()];
    let command = ShellCommand {
        argv: &argv.map(str::to_owned),
        env: environment(verifier, judging, &folders),
        cwd,
        timeout: Some(verifier.timeout),
        logs: logs.clone(),
    };
    let ran = command
        .run(&Room::Local, judging.host, judging.cancel)
        .await?;
    let left = folders.logs.join("verifier");
    let rewards = reward::read(&folders.logs);
    // The files that the tests left are evidence; they may have removed even the folder, or made it a link.
    if UntrustedDir::new(folders.logs.clone())
        .metadata("verifier")
        .is_ok_and(|it| it.is_dir())
    {
        dir::rename(&left, logs.join("verifier"))
            .map_err(|error| format!("what it left could not be kept: {error}"))?;
    }
    dir::remove(&all).map_err(|error| format!("could not be cleaned up: {error}"))?;
    conclude(verifier, &ran, &rewards, place)
}

/// The folders as they are before the script: fresh, so that no earlier reward is in them.
fn prepare(verifier: &Verifier, folders: &Folders) -> std::io::Result<()> {
    fs::create_dir_all(folders.home.join("tmp"))?;
    for name in ["verifier", "agent", "artifacts"] {
        fs::create_dir_all(folders.logs.join(name))?;
    }
    copy_without_ignored(&verifier.tests, &folders.tests)?;
    make_executable(&folders.tests.join("test.sh"))
}

/// Copy a folder of a task, leaving out what its `.harborignore` names.
pub(crate) fn copy_without_ignored(from: &Utf8Path, to: &Utf8Path) -> std::io::Result<()> {
    let ignore = Ignore::read(from.join(".harborignore").as_std_path(), IgnoreSyntax::Git)?;
    let keep = |path: &std::path::Path| {
        let below = path.strip_prefix(from).unwrap_or(path).to_str();
        let is_ignored = below.is_some_and(|below| ignore.has(&platform::slashed(below)));
        !is_ignored || (path.is_dir() && ignore.has_exceptions())
    };
    dir::copy_where(from.as_std_path(), to.as_std_path(), &keep)
}

/// Let a script be run.
pub(crate) fn make_executable(script: &Utf8Path) -> std::io::Result<()> {
    let mode = platform::mode(&fs::metadata(script)?);
    platform::set_mode(script.as_std_path(), mode | 0o755)
}

fn environment(
    verifier: &Verifier,
    judging: &Judging<'_>,
    folders: &Folders,
) -> BTreeMap<String, String> {
    let mut env = verifier.local_env.clone();
    // HOME and the like stay our own.
    let clean = judging.host.clean_env(&folders.home);
    for (name, value) in clean {
        if name != "PATH" || !env.contains_key("PATH") {
            env.insert(name, value);
        }
    }
    env.extend(verifier.env.clone());
    env.insert("TESTS_DIR".to_owned(), folders.tests.to_string());
    env.insert("LOGS_DIR".to_owned(), folders.logs.to_string());
    env
}

/// The verdict that follows from how the script ended and what it left.
fn conclude(
    verifier: &Verifier,
    ran: &Ran,
    rewards: &Result<Rewards, String>,
    place: &Place,
) -> Result<Finding, String> {
    let end = End::of(ran, "test.sh")?;
    let code = end.code();
    let said = match ran.last_line.as_str() {
        "" => String::new(),
        last => format!("; test.sh said: {last}"),
    };
    let (reward, message) = match (end, rewards) {
        // A reward that was written before the end is not the result of tests that did not end.
        (End::TimedOut, _) => {
            let limit = verifier.timeout.as_secs_f64();
            let message = format!("test.sh ran into its time limit of {limit} s{said}");
            (None, message)
        }
        (_, Ok(rewards)) if rewards.reward >= PASSING => {
            (Some(rewards), format!("reward {}", rewards.reward))
        }
        (_, Ok(rewards)) => {
            let message = format!("reward {}, 1 is needed{said}", rewards.reward);
            (Some(rewards), message)
        }
        (End::Killed(signal), Err(problem)) => {
            let message =
                format!("no reward: {problem} (test.sh was killed by signal {signal}{said})");
            (None, message)
        }
        (End::Exited(code) | End::NotFound(code), Err(problem)) => {
            let ended = format!("test.sh ended with exit code {code}{said}");
            return Err(format!("no reward: {problem} ({ended})"));
        }
    };
    let value = reward.map(|rewards| rewards.reward);
    Ok(Finding {
        status: if value.is_some_and(|value| value >= PASSING) {
            VerdictStatus::Passed
        } else {
            VerdictStatus::Failed
        },
        // Harbor bounds rewards neither way.
        score: Some(value.unwrap_or(0.0).clamp(0.0, 1.0)),
        message,
        metrics: Map::from_iter([
            ("reward".to_owned(), json!(value)),
            (
                "rewards".to_owned(),
                json!(reward.map(|rewards| &rewards.all)),
            ),
            ("mode".to_owned(), json!(verifier.mode.as_str())),
            ("exit_code".to_owned(), json!(code)),
        ]),
        assertions: None,
        artifacts: vec![Artifact {
            kind: "log".to_owned(),
            path: format!("{}/output.log", place.folder),
            description: "what test.sh printed".to_owned(),
        }],
        restored: Vec::new(),
        tampered: Vec::new(),
    })
}
