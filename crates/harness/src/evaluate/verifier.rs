//! `verifier`: runs the tests of a Harbor task like Harbor, after the agent has ended, and reads
//! their reward. The exit code of the tests is ignored.

mod artifacts;
mod background;
mod container;
mod definition;
mod interpreters;

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use proctor_process::Background;
use proctor_record::{
    fs::{
        beneath::UntrustedDir,
        dir,
        glob::{Ignore, IgnoreSyntax},
    },
    platform,
    record::{Artifact, VerdictStatus},
};
use proctor_sandbox::{
    ExecEnv,
    shell::{ShellCommand, ShellResult},
};
use serde_json::{Map, json};

use super::{
    EvidenceDir, Finding, Judging,
    control::End,
    reward::{self, Rewards},
};

pub use self::definition::{Collect, CollectedArtifact, Verifier, VerifierMode};
pub(crate) use self::{
    artifacts::FOLDER as COLLECTED,
    container::{CLEARED, make_logs, use_own_home},
};

/// The minimum reward of a passed trial.
pub(crate) const PASSING: f64 = 1.0;
/// Runs the script like Harbor, so that a script without a `#!` line works.
const RUN: &str = "\"$0\"";

/// Runs the tests of a task of Terminal-Bench 1. The reward is 1 if all tests of the summary that
/// pytest prints passed.
const RUN_TESTS: &str = include_str!("verifier/run-tests-reward.sh");

/// The folders of one verification.
struct Folders {
    tests: Utf8PathBuf,
    logs: Utf8PathBuf,
    home: Utf8PathBuf,
    copy: Utf8PathBuf,
}

/// Judges in the agent's environment, or in a fresh one of the same kind.
pub(super) async fn judge(
    verifier: &Verifier,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
) -> Result<Finding, String> {
    match judging.exec_env {
        ExecEnv::Local => judge_here(verifier, judging, evidence).await,
        ExecEnv::Docker(exec_env) => container::judge(verifier, judging, exec_env, evidence).await,
    }
}

/// Judges without a container: the tests are in a directory of Proctor, and the script gets its
/// path.
async fn judge_here(
    verifier: &Verifier,
    judging: &Judging<'_>,
    evidence: &EvidenceDir,
) -> Result<Finding, String> {
    let all = judging
        .scratch
        .join(format!("verifier-{}", evidence.number));
    let folders = Folders {
        tests: all.join("tests"),
        logs: all.join("logs"),
        home: all.join("home"),
        copy: all.join("copy"),
    };
    prepare(verifier, &folders).map_err(|error| format!("cannot prepare the verifier: {error}"))?;
    let cwd = match verifier.mode {
        VerifierMode::Shared => judging.workspace.path(),
        VerifierMode::Separate => {
            let copied = judging
                .workspace
                .clean_copy(&judging.change.tree, &folders.copy);
            let copied = copied.await;
            copied.map_err(|error| format!("cannot make a clean copy: {error}"))?;
            &folders.copy
        }
    };
    let logs = judging.artifacts.join(&evidence.folder);
    let script = folders.tests.join("test.sh");
    let argv = ["sh", "-c", RUN, script.as_str()];
    let command = ShellCommand {
        argv: &argv.map(str::to_owned),
        env: environment(verifier, judging, &folders),
        cwd,
        timeout: Some(verifier.timeout),
        logs: logs.clone(),
        background: Background::End,
    };
    let ran = command
        .run(&ExecEnv::Local, judging.host, judging.cancel)
        .await?;
    let left = folders.logs.join("verifier");
    let rewards = reward::read(&folders.logs, verifier.reward_key.as_deref());
    // The files of the tests are evidence. The tests may have removed the folder or replaced it by a link.
    if UntrustedDir::new(folders.logs.clone())
        .metadata("verifier")
        .is_ok_and(|it| it.is_dir())
    {
        dir::rename(&left, logs.join("verifier"))
            .map_err(|error| format!("cannot keep the files of the verifier: {error}"))?;
    }
    dir::remove(&all).map_err(|error| format!("cannot clean up after the verifier: {error}"))?;
    conclude(verifier, &ran, &rewards, evidence)
}

/// Creates empty folders for the script, so that they contain no earlier reward.
fn prepare(verifier: &Verifier, folders: &Folders) -> std::io::Result<()> {
    fs::create_dir_all(folders.home.join("tmp"))?;
    for name in ["verifier", "agent", "artifacts"] {
        fs::create_dir_all(folders.logs.join(name))?;
    }
    lay_out_tests(verifier, &folders.tests)
}

/// Copies the files of the tests to a folder.
pub(crate) fn lay_out_tests(verifier: &Verifier, to: &Utf8Path) -> std::io::Result<()> {
    let Some(script) = &verifier.run_tests else {
        for tests in &verifier.tests {
            copy_without_ignored(tests, to)?;
        }
        return make_executable(&to.join("test.sh"));
    };
    fs::create_dir_all(to)?;
    for tests in verifier.tests.iter().filter(|tests| tests.is_dir()) {
        dir::copy_over(tests.as_std_path(), to.as_std_path())?;
    }
    fs::copy(script, to.join("run-tests.sh"))?;
    fs::write(to.join("test.sh"), RUN_TESTS)?;
    make_executable(&to.join("test.sh"))
}

/// Copies a folder of a task without files in its `.harborignore`.
pub(crate) fn copy_without_ignored(from: &Utf8Path, to: &Utf8Path) -> std::io::Result<()> {
    let ignore = Ignore::read(from.join(".harborignore").as_std_path(), IgnoreSyntax::Git)?;
    let keep = |path: &std::path::Path| {
        let below = path.strip_prefix(from).unwrap_or(path).to_str();
        let is_ignored = below.is_some_and(|below| ignore.has(&platform::slashed(below)));
        !is_ignored || (path.is_dir() && ignore.has_exceptions())
    };
    dir::copy_where(from.as_std_path(), to.as_std_path(), &keep)
}

/// Makes a script executable.
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
    // HOME and similar variables are Proctor's.
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

/// The rewards in one line; `said` is the last output of the script.
fn message_of(rewards: &Rewards, said: &str) -> String {
    let others: Vec<String> = rewards
        .all
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let others = others.join(", ");
    let all = match rewards.all.len() {
        1 => String::new(),
        _ => format!(" ({others})"),
    };
    match rewards.reward {
        Some(reward) if reward >= PASSING => format!("reward {reward}{all}"),
        Some(reward) => format!("reward {reward}, required: 1{all}{said}"),
        None => format!(
            "no key `reward` among the rewards {others}: set `reward_key` in `[metadata]` of task.toml"
        ),
    }
}

/// The verdict from the end of the script and its reward.
fn conclude(
    verifier: &Verifier,
    ran: &ShellResult,
    rewards: &Result<Rewards, String>,
    evidence: &EvidenceDir,
) -> Result<Finding, String> {
    let end = End::of(ran, "test.sh")?;
    let code = end.code();
    let said = match ran.last_line.as_str() {
        "" => String::new(),
        last => format!("; last output of test.sh: {last}"),
    };
    let (reward, message) = match (end, rewards) {
        // A reward is not valid if the tests did not end.
        (End::TimedOut, _) => {
            let limit = verifier.timeout.as_secs_f64();
            let message = format!("test.sh exceeded its time limit of {limit} s{said}");
            (None, message)
        }
        (_, Ok(rewards)) => (Some(rewards), message_of(rewards, &said)),
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
    let value = reward.and_then(|rewards| rewards.reward);
    // Several rewards of which none decides are not a score.
    let is_undecided = reward.is_some() && value.is_none();
    Ok(Finding {
        status: match value {
            _ if is_undecided => VerdictStatus::Error,
            Some(value) if value >= PASSING => VerdictStatus::Passed,
            _ => VerdictStatus::Failed,
        },
        // Harbor does not limit rewards.
        score: (!is_undecided).then(|| value.unwrap_or(0.0).clamp(0.0, 1.0)),
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
            path: format!("{}/output.log", evidence.folder),
            description: "the output of test.sh".to_owned(),
        }],
        restored: Vec::new(),
        tampered: Vec::new(),
    })
}
