//! The commands, one file each.

pub mod baseline;
pub mod clean;
pub mod compare;
pub mod completions;
pub mod doctor;
pub mod eval;
pub mod gateway;
pub mod image;
pub mod init;
mod interrupt;
pub mod list;
pub mod log;
mod models;
pub mod new;
mod planning;
pub mod prices;
pub mod replay;
pub mod report;
pub mod rescore;
pub mod run;
pub mod schema;
pub mod sdk_server;
pub mod status;
pub mod task;
pub mod trial;
pub mod validate;
pub mod watch;

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{
    config::{Settings, results_dir_of},
    foreign,
    host::Host,
    plan::{CaseOptions, ResolvedSuite, TrialPlan},
    record,
    task::{Task, find, harbor},
};

use crate::{error::CliError, host};

/// Loads the given test cases. The error lists the faults of all of them.
fn load<'a>(
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
fn files(path: &Utf8Path, host: &Host) -> Result<Vec<Utf8PathBuf>, CliError> {
    let full = host.cwd.join(path);
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

/// Loads the task directories in a directory.
fn load_folders(
    path: &Utf8Path,
    host: &Host,
    settings: &Settings,
) -> Result<Vec<Arc<Task>>, CliError> {
    let mut tasks = Vec::new();
    let mut errors = Vec::new();
    for folder in find::task_folders(path) {
        match harbor::load(&folder, &host.env, settings) {
            Ok(task) => tasks.push(Arc::new(task)),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(tasks)
    } else {
        Err(CliError::Config(errors))
    }
}

fn settings(host: &Host) -> Result<Settings, CliError> {
    Settings::load(host.home.as_deref(), &host.cwd, &host.env)
        .map_err(|error| CliError::Config(vec![error]))
}

/// The suite in the working directory. The name of the program decides which file takes precedence.
fn default_suite(host: &Host) -> Option<Utf8PathBuf> {
    let mut names = ["proctor.yaml", "thunderdome.yaml"];
    if host::is_thunderdome() {
        names.reverse();
    }
    let found = names.into_iter().find(|name| host.cwd.join(name).is_file());
    found.map(Utf8PathBuf::from)
}

/// Notes about settings of a suite that have no effect or a limited effect.
fn notes(suite: &ResolvedSuite) -> Vec<String> {
    let path = suite.source.path();
    let notes = suite.notes.iter();
    notes.map(|note| format!("note: {path}: {note}")).collect()
}

/// The directory of runs: `.proctor` of the project, unless the settings override it.
fn runs_dir(host: &Host, settings: &Settings) -> Utf8PathBuf {
    let own = settings.workspace_dir.clone();
    own.unwrap_or_else(|| project_dir(&host.cwd).join(record::PROJECT_DIR))
}

/// The project directory: the nearest ancestor with `.proctor` or `.git`, else the working
/// directory.
fn project_dir(cwd: &Utf8Path) -> &Utf8Path {
    let marks = [record::PROJECT_DIR, ".git"];
    let is_project = |folder: &&Utf8Path| marks.iter().any(|mark| folder.join(mark).exists());
    cwd.ancestors().find(is_project).unwrap_or(cwd)
}

/// The directories to search for runs: that of the suite, and the default ones.
fn results_places(host: &Host, suite: Option<&Utf8Path>) -> Result<Vec<Utf8PathBuf>, CliError> {
    let suite = suite
        .map(Utf8Path::to_owned)
        .or_else(|| default_suite(host));
    let own = suite.and_then(|suite| results_dir_of(&host.cwd.join(suite)));
    let mut places = Vec::from_iter(own);
    for place in self::places(host)? {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// All runs in these directories, including runs made by Thunderdome; the oldest first.
fn all_runs(places: &[Utf8PathBuf]) -> Vec<Utf8PathBuf> {
    let in_place = |place: &Utf8PathBuf| [record::list::find(place), foreign::runs(place)].concat();
    let mut found: Vec<Utf8PathBuf> = places.iter().flat_map(in_place).collect();
    let started = |run: &Utf8PathBuf| {
        let name = run.file_name().unwrap_or_default();
        record::list::started_at(name).or_else(|| foreign::started_at(name))
    };
    found.sort_by_cached_key(|run| (started(run), run.clone()));
    found.dedup();
    found
}

/// The default directories to search for runs.
fn places(host: &Host) -> Result<Vec<Utf8PathBuf>, CliError> {
    let mut places = vec![
        runs_dir(host, &settings(host)?),
        // Earlier versions stored runs here.
        host.cwd.join("results"),
        host.cwd.join(record::PROJECT_DIR),
    ];
    places.dedup();
    Ok(places)
}

/// The given runs, or else the latest run.
fn named_runs(
    named: &[Utf8PathBuf],
    suite: Option<&Utf8Path>,
    host: &Host,
) -> Result<Vec<Utf8PathBuf>, CliError> {
    let places = results_places(host, suite)?;
    if !named.is_empty() {
        return named.iter().map(|run| run_in(run, &places, host)).collect();
    }
    let latest = places
        .iter()
        .find_map(|place| record::run_folder(&place.join("latest")).ok());
    let newest = latest.or_else(|| all_runs(&places).pop());
    newest.map(|run| vec![run]).ok_or(CliError::NoRuns)
}

/// The given run, or else the latest run.
fn one_run(named: Option<&Utf8Path>, host: &Host) -> Result<Utf8PathBuf, CliError> {
    let named = named.map(Utf8Path::to_owned);
    let mut runs = named_runs(named.as_slice(), None, host)?;
    runs.pop().ok_or(CliError::NoRuns)
}

/// Finds a run by directory, link or id.
fn find_run(named: &Utf8Path, host: &Host) -> Result<Utf8PathBuf, CliError> {
    run_in(named, &results_places(host, None)?, host)
}

/// Finds a run by directory or link, or by id in these directories.
fn run_in(named: &Utf8Path, places: &[Utf8PathBuf], host: &Host) -> Result<Utf8PathBuf, CliError> {
    if let Ok(folder) = record::run_folder(&host.cwd.join(named)) {
        return Ok(folder);
    }
    let is_meant = |run: &Utf8PathBuf| {
        let name = run.file_name().unwrap_or_default();
        !named.as_str().is_empty() && name.ends_with(named.as_str())
    };
    let found = all_runs(places).into_iter().find(is_meant);
    found.ok_or_else(|| CliError::NoRun {
        run: named.to_owned(),
    })
}
