//! The commands, one file each.

pub mod clean;
pub mod completions;
pub mod doctor;
pub mod init;
pub mod list;
pub mod log;
pub mod replay;
pub mod run;
pub mod schema;
pub mod sdk_server;
pub mod status;
mod suite;
pub mod task;
pub mod validate;
pub mod watch;

use camino::{Utf8Path, Utf8PathBuf};
use proctor_harness::{config::Settings, host::Host, plan::TrialPlan, runs};

use crate::error::CliError;

/// The test cases that were named, loaded; all that is wrong with any of them is told at once.
fn load<'a>(
    paths: impl IntoIterator<Item = &'a Utf8PathBuf>,
    host: &Host,
    settings: &Settings,
) -> Result<Vec<TrialPlan>, CliError> {
    let mut plans = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        for file in files(&host.cwd.join(path), path)? {
            match TrialPlan::load(&file, host, settings) {
                Ok(plan) => plans.push(plan),
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

/// A file is itself; a folder is the test cases in it.
fn files(path: &Utf8Path, shown: &Utf8Path) -> Result<Vec<Utf8PathBuf>, CliError> {
    if !path.is_dir() {
        return Ok(vec![shown.to_owned()]);
    }
    let mut found: Vec<Utf8PathBuf> = path
        .read_dir_utf8()?
        .filter_map(|entry| Some(shown.join(entry.ok()?.file_name())))
        .filter(|file| matches!(file.extension(), Some("yaml" | "yml" | "json")))
        .filter(|file| !file.file_name().is_some_and(|name| name.starts_with('.')))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(CliError::NoTestCases {
            folder: shown.to_owned(),
        });
    }
    Ok(found)
}

fn settings(host: &Host) -> Result<Settings, CliError> {
    Settings::load(host.home.as_deref(), &host.cwd, &host.env)
        .map_err(|error| CliError::Config(vec![error]))
}

/// The folders in which runs are looked for when none is named.
fn places(host: &Host) -> Result<Vec<Utf8PathBuf>, CliError> {
    let workspaces = settings(host)?
        .workspace_dir
        .unwrap_or_else(|| host.cwd.join(run::DEFAULT_WORKSPACE_DIR));
    Ok(vec![host.cwd.join("results"), workspaces])
}

/// The run of this folder, link or id.
fn find_run(named: &Utf8Path, host: &Host) -> Result<Utf8PathBuf, CliError> {
    if let Ok(folder) = host.cwd.join(named).canonicalize_utf8() {
        return Ok(folder);
    }
    let places = places(host)?;
    let mut runs = places.iter().flat_map(|place| runs::find(place));
    let is_meant = |run: &Utf8PathBuf| {
        let name = run.file_name().unwrap_or_default();
        !named.as_str().is_empty() && name.ends_with(named.as_str())
    };
    runs.find(is_meant).ok_or_else(|| CliError::NoRun {
        run: named.to_owned(),
    })
}
