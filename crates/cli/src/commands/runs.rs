//! Finds the runs that commands name.

use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use proctor_harness::config::{Settings, results_dir_of};
use proctor_record::{platform, record};
use proctor_report::foreign;
use proctor_sandbox::host::Host;

use super::{default_suite, settings};
use crate::{error::CliError, personality::Personality};

/// The name of the newest run.
const LATEST: &str = "latest";

/// The directory of suites' runs in earlier versions, and in Thunderdome.
const EARLIER: &str = "results";

/// The directory of runs: `.proctor` of the project, unless the settings or the name of the program
/// override it.
pub(super) fn runs_dir(host: &Host, settings: &Settings) -> Utf8PathBuf {
    let own = settings.workspace_dir.clone();
    let by_name = || Some(host.cwd.join(Personality::current().runs_dir?));
    own.or_else(by_name)
        .unwrap_or_else(|| project_dir(&host.cwd).join(record::PROJECT_DIR))
}

/// The project directory: the nearest ancestor with `.proctor` or `.git`, else the working
/// directory. A directory in which all users may write, such as `/tmp`, is not a project: another user could
/// capture the runs of everything below it.
pub(super) fn project_dir(cwd: &Utf8Path) -> &Utf8Path {
    let marks = [record::PROJECT_DIR, ".git"];
    let is_project = |folder: &&Utf8Path| {
        marks.iter().any(|mark| folder.join(mark).exists()) && !is_writable_by_all(folder)
    };
    cwd.ancestors().find(is_project).unwrap_or(cwd)
}

fn is_writable_by_all(folder: &Utf8Path) -> bool {
    fs_err::metadata(folder).is_ok_and(|about| platform::mode(&about) & 0o002 != 0)
}

/// The directories to search for runs: that of the suite, and the default ones.
pub(super) fn results_places(
    host: &Host,
    suite: Option<&Utf8Path>,
) -> Result<Vec<Utf8PathBuf>, CliError> {
    let suite = suite
        .map(Utf8Path::to_owned)
        .or_else(|| default_suite(host));
    let suite = suite.map(|suite| host.cwd.join(suite));
    let own = suite.as_ref().and_then(|suite| results_dir_of(suite));
    let mut places = Vec::from_iter(own);
    // Earlier versions stored runs beside their suite.
    let beside = suite.and_then(|suite| Some(suite.parent()?.join(EARLIER)));
    for place in self::places(host)?.into_iter().chain(beside) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// All runs in these directories, including runs made by Thunderdome; the oldest first.
pub(super) fn all_runs(places: &[Utf8PathBuf]) -> Vec<Utf8PathBuf> {
    let in_place = |place: &Utf8PathBuf| [record::list::find(place), foreign::runs(place)].concat();
    let mut found: Vec<Utf8PathBuf> = places.iter().flat_map(in_place).collect();
    sort_by_start(&mut found);
    found.dedup();
    found
}

/// Sorts runs by the time of their start.
pub(super) fn sort_by_start(runs: &mut [Utf8PathBuf]) {
    runs.sort_by_cached_key(|run| (started_at(run), run.clone()));
}

/// The start time of a run, from its name.
fn started_at(run: &Utf8PathBuf) -> Option<Timestamp> {
    let name = run.file_name().unwrap_or_default();
    record::list::started_at(name).or_else(|| foreign::started_at(name))
}

/// The default directories to search for runs.
pub(super) fn places(host: &Host) -> Result<Vec<Utf8PathBuf>, CliError> {
    let mut places = vec![runs_dir(host, &settings(host)?)];
    // Earlier versions stored runs here.
    for place in [
        host.cwd.join(EARLIER),
        host.cwd.join(record::PROJECT_DIR),
        project_dir(&host.cwd).join(EARLIER),
    ] {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// The given runs, or else the latest run: that of the suite, if one is given.
pub(super) fn named_runs(
    named: &[Utf8PathBuf],
    suite: Option<&Utf8Path>,
    host: &Host,
) -> Result<Vec<Utf8PathBuf>, CliError> {
    let places = results_places(host, suite)?;
    if !named.is_empty() {
        return named.iter().map(|run| run_in(run, &places, host)).collect();
    }
    let own = suite.and_then(|suite| newest_in(&results_dir_of(&host.cwd.join(suite))?));
    let run = own.or_else(|| newest(&places));
    run.map(|run| vec![run]).ok_or(CliError::NoRuns)
}

/// The newest run of all directories. The first directory wins among runs of the same second.
fn newest(places: &[Utf8PathBuf]) -> Option<Utf8PathBuf> {
    let runs = places.iter().rev().filter_map(newest_in);
    runs.max_by_key(started_at)
}

/// The run that `latest` links to, or else the newest run: names have the time in seconds only.
fn newest_in(place: &Utf8PathBuf) -> Option<Utf8PathBuf> {
    let latest = record::run_folder(&place.join(LATEST)).ok();
    latest.or_else(|| all_runs(std::slice::from_ref(place)).pop())
}

/// The given run, or else the latest run.
pub(super) fn one_run(named: Option<&Utf8Path>, host: &Host) -> Result<Utf8PathBuf, CliError> {
    let named = named.map(Utf8Path::to_owned);
    let mut runs = named_runs(named.as_slice(), None, host)?;
    runs.pop().ok_or(CliError::NoRuns)
}

/// Finds a run by directory, link or id.
pub(super) fn find_run(named: &Utf8Path, host: &Host) -> Result<Utf8PathBuf, CliError> {
    run_in(named, &results_places(host, None)?, host)
}

/// Whether a run is meant by its name or by the last whole parts of it: `run-DAY-TIME-DIGITS` is also
/// `DAY-TIME-DIGITS` and `DIGITS`. A single letter must not name some run.
fn is_named(name: &str, wanted: &str) -> bool {
    let before = name.strip_suffix(wanted);
    !wanted.is_empty() && before.is_some_and(|before| before.is_empty() || before.ends_with('-'))
}

/// Finds a run by directory or link, or by id in these directories. `latest` is the newest one.
pub(super) fn run_in(
    named: &Utf8Path,
    places: &[Utf8PathBuf],
    host: &Host,
) -> Result<Utf8PathBuf, CliError> {
    if let Ok(folder) = record::run_folder(&host.cwd.join(named)) {
        return Ok(folder);
    }
    let is_meant =
        |run: &Utf8PathBuf| is_named(run.file_name().unwrap_or_default(), named.as_str());
    let found = match named.as_str() {
        LATEST => newest(places),
        _ => all_runs(places).into_iter().find(is_meant),
    };
    found.ok_or_else(|| CliError::NoRun {
        run: named.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn shared_directory_is_not_a_project() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(dir.path()).unwrap();
        let cwd = root.join("project/src");
        fs_err::create_dir_all(&cwd).unwrap();
        fs_err::create_dir(root.join(record::PROJECT_DIR)).unwrap();
        assert_eq!(project_dir(&cwd), root);
        platform::set_mode(root.as_std_path(), 0o1777).unwrap();
        assert_eq!(project_dir(&cwd), cwd);
        fs_err::create_dir(root.join("project/.git")).unwrap();
        assert_eq!(project_dir(&cwd), root.join("project"));
    }

    #[test]
    fn run_is_named_by_whole_parts_of_its_name() {
        let name = "run-20261118-173753-6c8e09ba";
        for wanted in [
            name,
            "20261118-173753-6c8e09ba",
            "173753-6c8e09ba",
            "6c8e09ba",
        ] {
            assert!(is_named(name, wanted), "{wanted}");
        }
        for wanted in ["", "a", "09ba", "-6c8e09ba", "run"] {
            assert!(!is_named(name, wanted), "{wanted}");
        }
    }
}
