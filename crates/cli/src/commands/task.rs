//! `proctor task`.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::ConfigError;
use proctor_harness::{
    config::{Execution, Settings, SuiteFile},
    run::check::{self, TaskCheck},
    task::{Task, case},
};
use proctor_record::record::TrialStatus;
use proctor_sandbox::{SandboxKind, host::Host};
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
    let mut refused = Vec::new();
    for path in super::pinned(args.paths.iter().cloned(), &host, &settings)? {
        let mut found = tasks(&path, &host, &settings)?;
        choose(&mut found.execution, args);
        let wanted = found.execution;
        refused.append(&mut found.refused);
        for task in found.tasks {
            if let Err(error) = task.check_variables() {
                refused.push(error);
                continue;
            }
            let execution = check::execution(&task, &wanted);
            if let Some(setting) = idle_option(args, &execution) {
                return Err(CliError::NeedsContainers { setting });
            }
            let checking = check::check(&task, (&host, &execution), args.times, &cancel);
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
    super::show_refused(&refused);
    if !refused.is_empty() {
        return Ok(Exit::Usage);
    }
    let is_broken = checks.iter().any(|check| !check.problems.is_empty());
    let is_checked = checks.iter().all(|check| check.infrastructure.is_empty());
    Ok(match (is_broken, is_checked) {
        (true, _) => Exit::Failed,
        (false, false) => Exit::Infrastructure,
        (false, true) => Exit::Success,
    })
}

/// Applies the options that say where trials run.
fn choose(wanted: &mut Execution, args: &CheckArgs) {
    if let Some(kind) = args.sandbox {
        wanted.choose_sandbox(kind.into());
    }
    wanted.image = args.image.clone().or(wanted.image.take());
    wanted.network = args.network.clone().or(wanted.network.take());
}

/// An option that has no effect without containers.
fn idle_option(args: &CheckArgs, execution: &Execution) -> Option<&'static str> {
    match execution.sandbox {
        SandboxKind::Docker => None,
        SandboxKind::Local if args.image.is_some() => Some("--image"),
        SandboxKind::Local => args.network.as_ref().map(|_| "--network"),
    }
}

/// The tasks of a path.
#[derive(Default)]
struct FoundTasks {
    tasks: Vec<Arc<Task>>,
    /// The errors of task folders that cannot be run, next to those that can.
    refused: Vec<ConfigError>,
    /// Where they run; only a suite says so.
    execution: Execution,
}

/// The tasks that a path names: of a suite, of task folders, or of test cases.
fn tasks(path: &Utf8Path, host: &Host, settings: &Settings) -> Result<FoundTasks, CliError> {
    if let Some(file) = SuiteFile::open(path) {
        let suite = super::resolve(file, host, settings)?;
        return Ok(FoundTasks {
            tasks: suite.tasks,
            refused: suite.refused.into_iter().map(|it| it.error).collect(),
            execution: suite.execution,
        });
    }
    if super::is_dataset(path, host) {
        let (tasks, refused) = super::load_folders(path, host, settings)?;
        return Ok(FoundTasks {
            tasks,
            refused,
            ..FoundTasks::default()
        });
    }
    let load = |file: &Utf8PathBuf| case::load(file, &host.env, settings).map(Arc::new);
    let files = super::files(path, host)?;
    let loaded: Result<Vec<_>, _> = files.iter().map(load).collect();
    Ok(FoundTasks {
        tasks: loaded.map_err(|error| CliError::Config(vec![error]))?,
        ..FoundTasks::default()
    })
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
