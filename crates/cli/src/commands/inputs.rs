//! The files and folders that commands take, read into tasks and suites.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::ConfigError;
use proctor_harness::{
    config::{GitSource, LogLevel, Settings, SuiteFile},
    plan::{
        CaseOptions, DatasetError, ResolvedSuite, TrialPlan, fetch_datasets, pin_source,
        resolve_suite, suite_of_folders,
    },
    task::{Task, find},
};
use proctor_sandbox::host::Host;
use tokio_util::sync::CancellationToken;

use super::run::until_done;
use crate::{args::ProgressStyle, error::CliError, personality::Personality, ui};

/// Loads the given test cases. The error lists the faults of all of them.
pub(super) fn load<'a>(
    paths: impl IntoIterator<Item = &'a Utf8PathBuf>,
    host: &Host,
    settings: &Settings,
    options: &CaseOptions,
) -> Result<Vec<TrialPlan>, CliError> {
    let mut plans = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        for file in files(path, host)? {
            match TrialPlan::load(&file, host, settings, options) {
                Ok(loaded) => plans.extend(loaded),
                Err(error) => errors.push(error),
            }
        }
    }
    if errors.is_empty() {
        Ok(plans)
    } else {
        Err(CliError::Config(errors))
    }
}

/// The test case files of a path: the file itself, or those in a directory.
pub(super) fn files(path: &Utf8Path, host: &Host) -> Result<Vec<Utf8PathBuf>, CliError> {
    let full = host.cwd.join(path);
    let is_its_file = full.file_name() == Some(find::TERMINAL_BENCH_FILE);
    if is_its_file && full.parent().is_some_and(find::is_terminal_bench) {
        return Err(CliError::TerminalBench {
            path: path.to_owned(),
        });
    }
    if !full.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let found = find::case_files(&full);
    if found.is_empty() {
        return Err(CliError::NoTestCases {
            folder: path.to_owned(),
        });
    }
    // Relative to the path given by the user.
    let shown = |file: Utf8PathBuf| match file.strip_prefix(&full) {
        Ok(below) => path.join(below),
        Err(_) => file,
    };
    Ok(found.into_iter().map(shown).collect())
}

/// Whether an argument has tasks that need no suite: task directories, or instances of SWE-bench.
pub(super) fn is_dataset(path: &Utf8Path, host: &Host) -> bool {
    let full = host.cwd.join(path);
    is_git(path) || find::is_dataset(&full) || find::is_instances(&full)
}

fn is_git(path: &Utf8Path) -> bool {
    GitSource::parse(path.as_str()).is_some()
}

/// The arguments, with datasets from git fetched and pinned to their commits.
pub(super) fn pinned(
    paths: impl IntoIterator<Item = Utf8PathBuf>,
    host: &Host,
    settings: &Settings,
) -> Result<Vec<Utf8PathBuf>, CliError> {
    let pin = |path: Utf8PathBuf| match GitSource::parse(path.as_str()) {
        Some(source) => finished(pin_source(&source, host, settings), host),
        None => Ok(path),
    };
    paths.into_iter().map(pin).collect()
}

/// The place of a dataset that is named on the command line.
pub(super) fn dataset_path(path: &Utf8Path, host: &Host) -> Utf8PathBuf {
    if is_git(path) {
        path.to_owned()
    } else {
        host.cwd.join(path)
    }
}

/// Loads the task directories in a directory or the instances of a file, with the errors of those
/// that cannot be run. One that is given alone must be valid.
pub(super) fn load_folders(
    path: &Utf8Path,
    host: &Host,
    settings: &Settings,
) -> Result<(Vec<Arc<Task>>, Vec<ConfigError>), CliError> {
    // The agent does not matter.
    let kinds = ["null".to_owned()];
    let suite = suite_of_folders(&[dataset_path(path, host)], &kinds, &host.env, settings);
    let suite = suite.map_err(CliError::Config)?;
    let refused = suite.refused.into_iter().map(|it| it.error);
    Ok((suite.tasks, refused.collect()))
}

/// Reports the task directories that cannot be run, next to those that can.
pub(super) fn show_refused(errors: &[ConfigError]) {
    for error in errors {
        ui::error(&CliError::Config(vec![error.clone()]));
    }
    if !errors.is_empty() {
        let tasks = ui::counted(errors.len(), "task");
        ui::note(&format!(
            "note: cannot run {tasks}; the others are not affected"
        ));
    }
}

/// Resolves a suite. Its datasets from git are fetched first.
pub(super) fn resolve(
    file: SuiteFile,
    host: &Host,
    settings: &Settings,
) -> Result<ResolvedSuite, CliError> {
    finished(fetch_datasets(&file, host, settings), host)?;
    resolve_suite(file, &host.env, settings).map_err(CliError::Config)
}

/// Waits for work with datasets. A signal ends it at once.
pub(super) fn finished<T>(
    work: impl Future<Output = Result<T, DatasetError>>,
    host: &Host,
) -> Result<T, CliError> {
    let progress = ui::Progress::new(ProgressStyle::Quiet, host);
    let cancel = CancellationToken::new();
    let work = async {
        tokio::select! {
            done = work => done,
            () = cancel.cancelled() => Err(DatasetError::Interrupted),
        }
    };
    let done = async {
        work.await.map_err(|error| match error {
            DatasetError::Config(errors) => CliError::Config(errors),
            other => CliError::Dataset(other),
        })
    };
    until_done(done, &progress, &cancel)
}

pub(super) fn settings(host: &Host) -> Result<Settings, CliError> {
    let settings = Settings::load(host.home.as_deref(), &host.cwd, &host.env);
    let mut settings = settings.map_err(|error| CliError::Config(vec![error]))?;
    settings.relative_to = Personality::current().relative_to;
    settings.datasets = host.datasets();
    Ok(settings)
}

/// The suite in the working directory. The name of the program decides which file takes precedence.
pub(super) fn default_suite(host: &Host) -> Option<Utf8PathBuf> {
    let names = Personality::current().suites;
    let found = names.into_iter().find(|name| host.cwd.join(name).is_file());
    found.map(Utf8PathBuf::from)
}

/// How progress is shown: the option, else the level of the settings.
pub(super) fn wanted_progress(asked: ProgressStyle, level: Option<LogLevel>) -> ProgressStyle {
    match (asked, level) {
        (ProgressStyle::Auto, Some(LogLevel::Debug)) => ProgressStyle::Plain,
        (ProgressStyle::Auto, Some(LogLevel::Warn | LogLevel::Error)) => ProgressStyle::Quiet,
        (asked, _) => asked,
    }
}

/// Notes about settings of a suite that have no effect or a limited effect.
pub(super) fn notes(suite: &ResolvedSuite) -> Vec<String> {
    let path = suite.source.path();
    let notes = suite.notes.iter();
    notes.map(|note| format!("note: {path}: {note}")).collect()
}
