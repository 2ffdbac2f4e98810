//! `proctor task`.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    config::{Settings, SuiteFile},
    host::Host,
    plan::resolve_suite,
    record::TrialStatus,
    run::check::{TaskCheck, check as prove},
    task::{Task, case, find},
};
use tokio_util::sync::CancellationToken;

use super::run::until_done;
use crate::{
    args::{CheckArgs, Progress},
    error::{CliError, Exit},
    host, ui,
};

pub fn check(args: &CheckArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let progress = ui::Progress::new(Progress::Quiet, &host);
    let cancel = CancellationToken::new();
    let mut checks = Vec::new();
    for path in &args.paths {
        for task in tasks(path, &host, &settings)? {
            let checking = prove(&task, &host, args.times, &cancel);
            let checked = until_done(checking, &progress, &cancel)?;
            if cancel.is_cancelled() {
                return Ok(Exit::Interrupted);
            }
            if !args.json {
                ui::print(&shown(&checked))?;
            }
            checks.push(checked);
        }
    }
    if args.json {
        ui::print_json(&checks)?;
    }
    let is_proved = checks.iter().all(|check| check.problems.is_empty());
    Ok(if is_proved {
        Exit::Success
    } else {
        Exit::Failed
    })
}

/// The tasks that a path names: of a suite, of task folders, or of test cases.
fn tasks(path: &Utf8Path, host: &Host, settings: &Settings) -> Result<Vec<Arc<Task>>, CliError> {
    let full = host.cwd.join(path);
    if let Some(file) = SuiteFile::open(path) {
        let suite = resolve_suite(file, &host.env, settings).map_err(CliError::Config)?;
        return Ok(suite.tasks);
    }
    if find::is_dataset(&full) {
        return super::load_folders(path, host, settings);
    }
    let load = |file: &Utf8PathBuf| case::load(file, &host.env, settings).map(Arc::new);
    let files = super::files(path, host)?;
    let loaded: Result<Vec<_>, _> = files.iter().map(load).collect();
    loaded.map_err(|error| CliError::Config(vec![error]))
}

fn shown(check: &TaskCheck) -> String {
    let count =
        |list: &[TrialStatus], wanted| list.iter().filter(|status| **status == wanted).count();
    let verdict = if check.problems.is_empty() {
        "ok"
    } else {
        "broken"
    };
    let mut text = format!(
        "{}: {verdict} (the null agent failed {} of {}, the reference solution passed {} of {})\n",
        check.task,
        count(&check.floor, TrialStatus::Failed),
        check.floor.len(),
        count(&check.ceiling, TrialStatus::Passed),
        check.ceiling.len(),
    );
    for problem in &check.problems {
        text.extend(["  ", problem, "\n"]);
    }
    text
}
