//! `proctor self check`: does this installation work? It runs a trial of the quickstart with its
//! scripted model, offline, with this same program.

use std::time::{Duration, Instant};

use camino::Utf8Path;
use fs_err as fs;
use proctor_process::quick::{self, QuickCommand};
use proctor_record::VERSION;
use proctor_report::millis;
use proctor_sandbox::{availability, host::Host};
use serde::Serialize;

use super::doctor;
use crate::{
    args::SelfCheckArgs,
    error::{CliError, Exit},
    host, ui,
};

/// The files of the trial, from the quickstart.
const FILES: [(&str, &str); 6] = [
    ("proctor.yaml", SUITE),
    (
        "agent.sh",
        include_str!("../../../../examples/quickstart/agent.sh"),
    ),
    (
        "model.json",
        include_str!("../../../../examples/quickstart/model.json"),
    ),
    (
        "cases/sum.yaml",
        include_str!("../../../../examples/quickstart/cases/sum.yaml"),
    ),
    (
        "repo/sum.sh",
        include_str!("../../../../examples/quickstart/repo/sum.sh"),
    ),
    (
        "repo/test.sh",
        include_str!("../../../../examples/quickstart/repo/test.sh"),
    ),
];

const SUITE: &str = r#"agents:
  - name: scripted
    type: command
    model: claude-sonnet-4-5
    config: {command: [bash, ./agent.sh, "{model}"]}
tasks:
  - testcase: cases/sum.yaml
gateway: {script: model.json}
results: {dir: results}
"#;

/// Time limit of the trial.
const TRIAL: Duration = Duration::from_mins(2);

/// The state of one part of the installation.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    state: State,
    detail: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// It is required, and does not work.
    Failed,
    /// It is optional.
    Optional,
}

pub fn self_check(args: &SelfCheckArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let checks = runtime.block_on(checks(&host))?;
    if args.json {
        ui::print_json(&checks)?;
    } else {
        for check in &checks {
            let state = match check.state {
                State::Ok => "ok",
                State::Failed => "FAILED",
                State::Optional => "-",
            };
            let Check { name, detail, .. } = check;
            ui::print(&format!("{state:<8}{name:<12}{detail}\n"))?;
        }
    }
    let works = checks.iter().all(|check| check.state != State::Failed);
    Ok(if works {
        Exit::Success
    } else {
        Exit::Infrastructure
    })
}

async fn checks(host: &Host) -> Result<Vec<Check>, CliError> {
    let program = Check {
        name: "program",
        state: State::Ok,
        detail: format!("proctor {VERSION} at {}", host.binary),
    };
    let git = match availability::git(host).await {
        Some(git) => Check {
            name: "git",
            state: State::Ok,
            detail: format!("{} at {}", git.version.unwrap_or_default(), git.path),
        },
        None => Check {
            name: "git",
            state: State::Failed,
            detail: "not installed: it is required to create workspaces".to_owned(),
        },
    };
    let trial = match git.state {
        State::Ok => trial(host).await?,
        _ => Check {
            name: "trial",
            state: State::Failed,
            detail: "not started: it needs git".to_owned(),
        },
    };
    let (engine, state) = doctor::containers(host).await;
    let containers = Check {
        name: "containers",
        state: State::Optional,
        detail: format!("{engine}: {state}"),
    };
    Ok(vec![program, git, trial, containers])
}

/// Runs the trial: gateway, scripted model, sandbox, supervisor, clean copy and record.
async fn trial(host: &Host) -> Result<Check, CliError> {
    let check = |state, detail: String| Check {
        name: "trial",
        state,
        detail,
    };
    if host.find_program("bash").is_none() {
        let why = "not checked: its agent needs bash".to_owned();
        return Ok(check(State::Optional, why));
    }
    let folder = tempfile::Builder::new()
        .prefix("proctor-self-check-")
        .tempdir_in(&host.temp)?;
    let place = Utf8Path::from_path(folder.path()).unwrap_or(&host.temp);
    for (name, text) in FILES {
        let path = place.join(name);
        fs::create_dir_all(path.parent().unwrap_or(place))?;
        fs::write(path, text)?;
    }
    let started = Instant::now();
    let command = QuickCommand::new(host.binary.as_str())
        .args(["run", "proctor.yaml", "--json", "--progress", "quiet"])
        .envs(host.helper_env(&[]))
        .cwd(place);
    Ok(match quick::output(command, TRIAL).await {
        Ok(done) if done.success() => {
            let time = millis(started.elapsed().as_secs_f64() * 1000.0);
            check(
                State::Ok,
                format!("a scripted trial ran and passed in {time}"),
            )
        }
        Ok(done) => check(State::Failed, failure(&done.stdout, &done.stderr)),
        Err(error) => check(State::Failed, error.to_string()),
    })
}

/// Why the trial failed: the reason in its summary, else the output.
fn failure(summary: &[u8], messages: &[u8]) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(summary).ok();
    let reason = json
        .as_ref()
        .and_then(|json| json["trials"][0]["reason"].as_str());
    let messages = String::from_utf8_lossy(messages);
    let text = match reason {
        Some(reason) => format!("{reason}\n{messages}"),
        None => format!("{messages}{}", String::from_utf8_lossy(summary)),
    };
    text.trim().chars().take(2000).collect()
}
