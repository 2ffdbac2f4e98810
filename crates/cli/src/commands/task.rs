//! `proctor task`.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    config::{Settings, SuiteFile},
    plan::resolve_suite,
    run::check::{TaskCheck, check as prove},
    task::{Task, case, find},
};
use proctor_record::record::TrialStatus;
use proctor_sandbox::host::Host;
use tokio_util::sync::CancellationToken;

use super::run::until_done;
use crate::{
    args::{CheckArgs, ProgressStyle},
    error::{CliError, Exit},
    host, ui,
};

pub fn check(args: &CheckArgs) -> Result<Exit, CliError> {
    let host = host::host()?;
    let settings = super::settings(&host)?;
    let progress = ui::Progress::new(ProgressStyle::Quiet, &host);
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
    let is_broken = checks.iter().any(|check| !check.problems.is_empty());
    let is_checked = checks.iter().all(|check| check.infrastructure.is_empty());
    Ok(match (is_broken, is_checked) {
        (true, _) => Exit::Failed,
        (false, false) => Exit::Infrastructure,
        (false, true) => Exit::Success,
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
    if !check.infrastructure.is_empty() {
        let reasons = check.infrastructure.join("\n  ");
        return format!(
            "{}: not checked (infrastructure failure)\n  {reasons}\n",
            check.task
        );
    }
    let verdict = if check.problems.is_empty() {
        "ok"
    } else {
        "broken"
    };
    let reference = match check.ceiling.len() {
        0 => "no reference solution was tried".to_owned(),
        all => format!(
            "the reference solution passed {} of {all}",
            count(&check.ceiling, TrialStatus::Passed)
        ),
    };
    let mut text = format!(
        "{}: {verdict} (the null agent failed {} of {}, {reference})\n",
        check.task,
        count(&check.floor, TrialStatus::Failed),
        check.floor.len(),
    );
    for problem in &check.problems {
        text.extend(["  ", problem, "\n"]);
    }
    text
}
